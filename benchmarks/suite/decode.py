"""How fast is each type decoded with each codec, on one thread?"""

import orcidx
from benchmarks.columns import CODECS, COLUMNS, file_of

ROWS = 500_000


class Decode:
    params = (list(COLUMNS), list(CODECS))
    param_names = ("column", "codec")

    def setup(self, column: str, codec: str) -> None:
        self.path = str(file_of(column, codec, ROWS))

    def time_read(self, column: str, codec: str) -> None:
        with orcidx.open(self.path) as file:
            file.read(use_threads=False)


class Skip:
    """Reads every tenth row group. Skipping a row group must take much less time than decoding it."""

    params = (list(COLUMNS), ("none", "zstd"))
    param_names = ("column", "codec")

    def setup(self, column: str, codec: str) -> None:
        self.path = str(file_of(column, codec, ROWS))
        self.runs = [(start, start + 10_000) for start in range(0, ROWS, 100_000)]

    def time_read_a_tenth(self, column: str, codec: str) -> None:
        with orcidx.open(self.path) as file:
            for start, stop in self.runs:
                file.read(row_range=(start, stop), use_threads=False)
