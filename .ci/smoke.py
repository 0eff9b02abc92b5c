"""What an installed orcidx has to do before anybody gets it: write, explain, read, and print its version."""

import tempfile
from pathlib import Path

import pyarrow as pa

import orcidx
from orcidx import col

assert "site-packages" in orcidx.__file__, f"{orcidx.__file__} is not what was installed"
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "a.orc")
    orcidx.write_table(pa.table({"id": range(30_000), "name": ["a", "b", None] * 10_000}), path)
    scan = orcidx.scan(path, where=(col("id") == 20017) & ~col("name").is_null())  # SQL text needs an extra
    assert scan.to_table().to_pydict() == {"id": [20017], "name": ["b"]}
    assert "row-group statistics" in str(scan.explain())
print("orcidx", orcidx.__version__, "works")
