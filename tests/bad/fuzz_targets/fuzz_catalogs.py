"""Fuzzes the reader of an index directory's catalog. The input is the ORC file, or the content of its metadata."""

import json

from bad.fuzz_targets.harness import Reader, fuzz, instrumented

with instrumented():
    import numpy as np
    import pyarrow as pa

    from orcidx.errors import OrcidxError
    from orcidx.index_directory.catalog import FILE_FIELDS, Catalog, statistics_column
    from orcidx.index_directory.catalog_file import CatalogFile
    from orcidx.orc_writer.writer import write_table

FILES = pa.table(
    {field.name: pa.array([None if field.type != pa.string() else "a.orc"] * 2, field.type) for field in FILE_FIELDS}
)
NUMBERS = pa.array([{"count": 1, "flags": 3, "low": 5, "high": 9, "sum": 9}, None])


def one(data: bytes) -> None:
    told = Reader(data)
    if told.below(2):
        source = told.rest()
    else:
        sink = pa.BufferOutputStream()
        write_table(FILES.append_column("s0", NUMBERS), sink, metadata={"orcidx.rollup": told.rest()})
        source = sink.getvalue().to_pybytes()
    try:
        catalog = Catalog.read(CatalogFile(source))
        for key, kept in catalog.statistics.items():
            statistics_column(key, kept, np.zeros(len(catalog), np.int64))
        catalog.latest().to_bytes()
    except OrcidxError:
        pass


def seeds() -> list[bytes]:
    described = {"version": 2, "spec": {}, "spec_key": "k", "statistics": [{"column": "a", "type": "bigint"}]}
    return [b"\0" + json.dumps(described).encode(), b"\1" + Catalog(FILES, {}).to_bytes()]


if __name__ == "__main__":
    fuzz(one)
