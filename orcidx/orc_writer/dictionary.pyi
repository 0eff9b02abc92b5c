class Dictionary:
    count: int
