"""The functions that the fuzzer calls with damaged bytes. They read the bytes in all ways that users have, up to a
number of rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import orcidx
from orcidx import paimon
from orcidx.errors import CorruptFile
from orcidx.paimon.registry import FORMATS

MOST_ROWS = 1_000_000
"""A file of twenty bytes can legally claim billions of rows. A case stops after this many rows."""


def read_orc(data: bytes, facts: Mapping[str, Any]) -> None:
    with orcidx.open(data) as file:
        file.user_metadata  # noqa: B018
        file.statistics_table("file")
        file.statistics_table("row_group")
        rows = 0
        for batch in file.scan(use_threads=False):
            batch.validate(full=True)
            rows += batch.num_rows
            if rows > MOST_ROWS:
                break
    # The data is read again as a local file, because local files are read by different code. All workers can use this
    # name, because each worker has its own working directory.
    path = Path("damaged.orc")
    path.write_bytes(data)
    with orcidx.open(path) as file:
        for predicate in _predicates(file.schema):
            scan = file.scan(where=predicate, use_threads=False)
            str(scan.explain())
            for batch in itertools.islice(scan, 16):
                batch.validate()


def _predicates(schema: pa.Schema) -> list[Any]:
    """Returns a point lookup and a null test for each of the first columns that can be compared with a literal."""
    predicates = []
    for column in schema:
        if pa.types.is_integer(column.type):
            predicates.append(orcidx.col(column.name) == 5)
        elif pa.types.is_string(column.type):
            predicates.append(orcidx.col(column.name) == "word-5")
        elif pa.types.is_floating(column.type):
            predicates.append(orcidx.col(column.name) > 0.5)
    return predicates[:3]


def read_index(data: bytes, facts: Mapping[str, Any]) -> None:
    index = paimon.read_index(facts["kind"], data, facts["type"])
    literal = _literal(facts["type"])
    for op, literals in (("eq", [literal]), ("in", [literal, literal]), ("isnull", []), ("isnotnull", [])):
        index.evaluate(op, literals)
    if facts["kind"] in ("bsi", "range-bitmap"):
        index.evaluate("lt", [literal])
        index.evaluate("between", [literal, literal])
    index.to_bytes()


def _literal(data_type: str) -> Any:
    import datetime
    import decimal

    name = data_type.split("(")[0].split()[0]
    known = {
        "BOOLEAN": True,
        "FLOAT": 1.5,
        "DOUBLE": 1.5,
        "DECIMAL": decimal.Decimal(1),
        "DATE": datetime.date(2020, 1, 1),
        "TIME": datetime.time(1, 2, 3),
        "TIMESTAMP": datetime.datetime(2020, 1, 1),
        "CHAR": "s1",
        "VARCHAR": "s1",
        "STRING": "s1",
        "BINARY": b"s1",
        "VARBINARY": b"s1",
        "BYTES": b"s1",
    }
    if name == "TIMESTAMP_LTZ" or "LOCAL TIME ZONE" in data_type:
        return datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    return known.get(name, 1)


def read_container(data: bytes, facts: Mapping[str, Any]) -> None:
    for column, data_type in facts["types"].items():
        asked = orcidx.col(column)
        literal = None if data_type.startswith("MAP") else _literal(data_type)
        for where in (asked.is_null(), *([] if literal is None else [asked == literal, asked < literal])):
            index = paimon.read_file_index(data, types=facts["types"])
            index.evaluate(where)
            damaged = [note for note in index.notes if note.split(" index of ")[0] in FORMATS]
            index.to_bytes()
            strict = paimon.read_file_index(data, types=facts["types"], strict=True)
            try:
                strict.evaluate(where)
            except CorruptFile:
                continue
            assert not damaged, f"strict reading accepts {damaged}"


def read_deletion_vectors(data: bytes, facts: Mapping[str, Any]) -> None:
    path = Path("deletion-vectors")
    path.write_bytes(data)
    for offset, vector in paimon.read_deletion_vectors(str(path)):
        assert offset >= 0
        vector.to_bytes()


def read_hash_index(data: bytes, facts: Mapping[str, Any]) -> None:
    paimon.HashIndex.from_bytes(data).to_bytes()


TARGETS: dict[str, Callable[[bytes, Mapping[str, Any]], None]] = {
    "orc": read_orc,
    "index": read_index,
    "container": read_container,
    "deletion-vector": read_deletion_vectors,
    "hash": read_hash_index,
}
