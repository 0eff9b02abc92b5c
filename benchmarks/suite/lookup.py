"""How long does a lookup of complete rows take, and how much time does a predicate take that keeps all rows?

This suite is a small version of ``python -m benchmarks.lookups``, which also measures other readers and has goals.
"""

import orcidx
from benchmarks import lineitem
from benchmarks.lookups import LOOKUPS, by_orcidx, choose_keys
from orcidx import col

SCALE = 0.05


class Lookup:
    params = (list(LOOKUPS), [True, False])
    param_names = ("column", "forget metadata")

    def setup(self, name: str, forget: bool) -> None:
        self.path = lineitem.orc(SCALE, "zstd", spark=False, blooms=True)
        self.keys = choose_keys(self.path, name, 10)

    def time_ten_keys(self, name: str, forget: bool) -> None:
        for key in self.keys:
            by_orcidx(self.path, name, key, forget=forget)


class KeepAll:
    params = (["none", "proved", "not proved"],)
    param_names = ("predicate",)
    wheres = {"none": None, "proved": col("l_orderkey") != -1, "not proved": col("l_comment") != "m"}  # noqa: RUF012

    def setup(self, predicate: str) -> None:
        self.path = str(lineitem.orc(SCALE, "zstd", spark=False, blooms=True))

    def time_read(self, predicate: str) -> None:
        with orcidx.open(self.path) as file:
            file.read(where=self.wheres[predicate])
