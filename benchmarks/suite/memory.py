"""How much memory does a scan hold at its peak, in addition to the imports?"""

import pyarrow as pa
import pyarrow.parquet

import orcidx
from benchmarks import lineitem


class Memory:
    def setup_cache(self) -> str:
        return str(lineitem.orc(0.05, "zstd", spark=False))

    def peakmem_imports(self, path: str) -> None:
        orcidx.open(path).close()

    def peakmem_scan(self, path: str) -> None:
        with orcidx.open(path) as file:
            for _ in file.scan(use_threads=False):
                pass

    def track_arrow_bytes_held(self, path: str) -> int:
        pool = pa.default_memory_pool()
        most = 0
        before = pool.bytes_allocated()
        with orcidx.open(path) as file:
            for _ in file.scan(use_threads=False):
                most = max(most, pool.bytes_allocated() - before)
        return most

    track_arrow_bytes_held.unit = "bytes"  # type: ignore[attr-defined]
