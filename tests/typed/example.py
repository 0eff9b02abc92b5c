"""The types of orcidx for a type checker. ``mypy --strict tests/typed`` must pass with the installed package.

``--strict`` refuses an ignore that is not needed, so each ``type: ignore`` checks that the line is an error.
"""

from __future__ import annotations

import pyarrow as pa

import orcidx
from orcidx import Scan, col


def rows(path: str) -> pa.Table:
    with orcidx.open(path) as file:
        scan: Scan = file.scan(["a"], col("a") > 3, limit=10, batch_size=1000, strings="view")
        for batch in scan:
            print(batch.num_rows)
        file.scan(batchsize=3)  # type: ignore[call-arg]
        file.scan(strings="utf8")  # type: ignore[arg-type]
        file.read(columns=["a"], use_threds=False)  # type: ignore[call-arg]
        file.splits(1 << 20, limt=3)  # type: ignore[call-arg]
    orcidx.scan([path], file_path=True, filepath=True)  # type: ignore[call-arg]
    orcidx.dataset(path, row_number=True)  # type: ignore[call-arg]
    orcidx.scan_polars(path, nan="biggest")  # type: ignore[arg-type]
    orcidx.paimon.open_table(path).scan(batch_rows=3)  # type: ignore[call-arg]
    orcidx.ReadOptions(batch_size="x")  # type: ignore[arg-type]
    orcidx.write_table(pa.table({}), path, compresion="zstd")  # type: ignore[call-arg]
    orcidx.nonsense(3)  # type: ignore[attr-defined]
    orcidx.paimon.open_tabel(path)  # type: ignore[attr-defined]
    orcidx.spark.nonsense(3)  # type: ignore[attr-defined]
    orcidx.dataset(path).to_table(colums=["a"])  # type: ignore[call-arg]
    orcidx.write_table(pa.table({}), path, compression="zstd", row_index_stride="x")  # type: ignore[arg-type]
    orcidx.write_dataset(pa.table({}), path, stripe_sise=3)  # type: ignore[call-arg]
    orcidx.rewrite(path, path, codec="zlib")  # type: ignore[call-arg]
    orcidx.paimon.open_table(path).append(pa.table({}), user="me")  # type: ignore[call-arg]
    count: int = orcidx.read_metadata(path).num_rows
    names: list[str] = orcidx.read_schema(path).names
    assert count >= 0
    assert names
    return orcidx.read_table(path, ["a"], "a > 3", nan="largest")
