"""Checks an installed orcidx before it is released: it writes, prunes, explains and reads files with each codec."""

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import orcidx
from orcidx import col

assert "site-packages" in orcidx.__file__, f"{orcidx.__file__} is not the installed package"

ROWS = 30_000
TABLE = pa.table(
    {
        "id": range(ROWS),
        "key": [row * 7919 % 1_000_003 for row in range(ROWS)],
        "name": ["a", "b", None] * (ROWS // 3),
        "price": [row / 8 for row in range(ROWS)],
    }
)


def prune(path: Path, column: str, value: object, means: str) -> None:
    """Checks that a scan finds one row, and that the explanation names the index that ruled out row groups."""
    scan = orcidx.scan(path, where=col(column) == value)
    assert scan.to_table().equals(TABLE.filter(pc.field(column) == value)), column
    assert means in str(scan.explain()), str(scan.explain())


with tempfile.TemporaryDirectory() as folder:
    for compression in ("none", "zlib", "snappy", "lz4", "zstd"):
        path = Path(folder, f"{compression}.orc")
        orcidx.write_table(TABLE, path, compression=compression, bloom_filter_columns=["key"])
        assert orcidx.read_table(path).equals(TABLE), compression
        prune(path, "id", 20_017, "row-group statistics")
        prune(path, "key", TABLE["key"][20_017].as_py(), "bloom filter")
        both = (col("id") == 20_017) & ~col("name").is_null()  # not as SQL text, which needs an extra
        assert orcidx.scan(path, where=both).to_table()["name"].to_pylist() == ["b"]
print("orcidx", orcidx.__version__, "works")
