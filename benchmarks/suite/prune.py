"""How fast are 10,000 row groups pruned, and how much is left to read?"""

import orcidx
from benchmarks.columns import DATA
from benchmarks.suite_files import many_row_groups
from orcidx import col

QUERIES = {
    "clustered key": col("clustered") == 777_777,
    "clustered range": col("clustered").between(500_000, 501_000),
    "scattered key, bloom": col("scattered") == 777_777,
    "absent word, bloom": col("word") == "w5001",
    "two keys or one word": col("clustered").is_in([5, 900_000]) | (col("word") == "w17"),
    "keep everything": col("clustered") >= 0,
    "100,000 absent keys": col("scattered").is_in(range(2_000_000_001, 2_000_200_001, 2)),
}


class Prune:
    params = (list(QUERIES),)
    param_names = ("query",)

    def setup(self, query: str) -> None:
        self.path = str(many_row_groups(DATA))
        self.where = QUERIES[query]

    def time_explain(self, query: str) -> None:
        with orcidx.open(self.path) as file:
            file.scan(where=self.where).explain()

    def time_read(self, query: str) -> None:
        with orcidx.open(self.path) as file:
            file.read(where=self.where, use_threads=False)

    def track_bytes_read(self, query: str) -> int:
        with orcidx.open(self.path) as file:
            batches = file.scan(where=self.where).to_batches()
            for _ in batches:
                pass
            return int(batches.metrics.bytes_read)

    track_bytes_read.unit = "bytes"  # type: ignore[attr-defined]
