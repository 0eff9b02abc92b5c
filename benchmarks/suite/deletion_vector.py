"""How long does it take to read and to write a deletion vector, and to scan a file with it?"""

import numpy as np

import orcidx
from benchmarks.columns import file_of
from orcidx import paimon

ROWS = 500_000
SHARES = {"1 %": 0.01, "50 %": 0.5}


class DeletionVector:
    params = (list(SHARES), [False, True])
    param_names = ("deleted", "bitmap64")

    def setup(self, deleted: str, bitmap64: bool) -> None:
        gone = np.flatnonzero(np.random.default_rng(9).random(ROWS) < SHARES[deleted])
        self.vector = paimon.DeletionVector(gone.tolist(), bitmap64=bitmap64)
        self.body = self.vector.to_bytes()
        self.path = str(file_of("int64 random 62-bit", "none", ROWS))

    def time_write(self, deleted: str, bitmap64: bool) -> None:
        self.vector.to_bytes()

    def time_parse(self, deleted: str, bitmap64: bool) -> None:
        paimon.DeletionVector.from_bytes(self.body)

    def time_scan(self, deleted: str, bitmap64: bool) -> None:
        with orcidx.open(self.path) as file:
            file.read(deletion_vector=self.vector, use_threads=False)
