MOST_TEXT: int
PLAIN_ROWS: int

class Allowance:
    arrays: int
    held: int
    def __init__(self, arrays: int, *, held: int) -> None: ...
