"""The catalog of an index directory. Input: the Parquet file, or what its key-value metadata says."""

import io
import json

from bad.fuzz_targets.harness import Reader, fuzz, instrumented

with instrumented():
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    from orcidx.errors import OrcidxError
    from orcidx.index_directory.catalog import FILE_FIELDS, Catalog, statistics_column

FILES = pa.table(
    {field.name: pa.array([None if field.type != pa.string() else "a.orc"] * 2, field.type) for field in FILE_FIELDS}
)
NUMBERS = pa.array([{"count": 1, "flags": 3, "low": 5, "high": 9}, None])


def one(data: bytes) -> None:
    told = Reader(data)
    if told.below(2):
        source = told.rest()
    else:
        table = FILES.append_column("s0", NUMBERS).replace_schema_metadata({b"orcidx.rollup": told.rest()})
        sink = io.BytesIO()
        parquet.write_table(table, sink)
        source = sink.getvalue()
    try:
        catalog = Catalog.read(pa.BufferReader(source))
        for key, kept in catalog.statistics.items():
            statistics_column(key, kept, np.zeros(len(catalog), np.int64))
        catalog.latest().to_bytes()
    except OrcidxError:
        pass


def seeds() -> list[bytes]:
    described = {"version": 1, "spec": {}, "spec_key": "k", "statistics": [{"column": "a", "type": "bigint"}]}
    return [b"\0" + json.dumps(described).encode(), b"\1" + Catalog(FILES, {}).to_bytes()]


if __name__ == "__main__":
    fuzz(one)
