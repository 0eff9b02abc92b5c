"""Paimon's type texts and JSON objects."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from columns.column_encoder import node

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.orc.kinds import TypeKind
from orcidx.paimon.data_types import DataType, parse_field, parse_type
from orcidx.planner.index_evidence import paimon_types


@pytest.mark.parametrize(
    ("text", "canonical", "arrow"),
    [
        ("INT", "INT", pa.int32()),
        ("integer not null", "INT NOT NULL", pa.int32()),
        ("DECIMAL", "DECIMAL(10, 0)", pa.decimal128(10, 0)),
        ("NUMERIC(5)", "DECIMAL(5, 0)", pa.decimal128(5, 0)),
        ("DEC( 20 ,3 )", "DECIMAL(20, 3)", pa.decimal128(20, 3)),
        ("TIME", "TIME(0)", pa.time32("ms")),
        ("TIMESTAMP", "TIMESTAMP(6)", pa.timestamp("us")),
        ("TIMESTAMP(0) WITHOUT TIME ZONE", "TIMESTAMP(0)", pa.timestamp("s")),
        ("TIMESTAMP(1)", "TIMESTAMP(1)", pa.timestamp("ms")),
        ("TIMESTAMP(7)", "TIMESTAMP(7)", pa.timestamp("ns")),
        (
            "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL",
            "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL",
            pa.timestamp("ms", "UTC"),
        ),
        ("TIMESTAMP_LTZ(9)", "TIMESTAMP(9) WITH LOCAL TIME ZONE", pa.timestamp("ns", "UTC")),
        ("CHAR", "CHAR(1)", pa.string()),
        ("VARCHAR(2147483647)", "STRING", pa.string()),
        ("BYTES NULL", "BYTES", pa.binary()),
        ("DOUBLE PRECISION", "DOUBLE", pa.float64()),
        ("ARRAY<INT NOT NULL>", "ARRAY<INT NOT NULL>", pa.list_(pa.field("item", pa.int32(), False))),
        ("MULTISET<STRING>", "MULTISET<STRING>", pa.map_(pa.string(), pa.field("value", pa.int32(), False))),
        (
            "MAP<STRING NOT NULL, ROW<a INT, `b ``c` STRING>>",
            "MAP<STRING NOT NULL, ROW<`a` INT, `b ``c` STRING>>",
            pa.map_(pa.string(), pa.struct([("a", pa.int32()), ("b `c", pa.string())])),
        ),
        ({"type": "ARRAY NOT NULL", "element": "INT"}, "ARRAY<INT> NOT NULL", pa.list_(pa.int32())),
        ({"type": "MAP", "key": "INT", "value": {"type": "ARRAY", "element": "DATE"}}, "MAP<INT, ARRAY<DATE>>", None),
    ],
)
def test_texts(text: Any, canonical: str, arrow: pa.DataType | None) -> None:
    parsed = parse_type(text)
    assert str(parsed) == canonical
    assert parse_type(canonical) == parsed
    if arrow is not None:
        assert parsed.arrow_type == arrow


def test_row_fields_keep_their_ids() -> None:
    field = parse_field(
        {"id": 7, "name": "r", "type": {"type": "ROW NOT NULL", "fields": [{"id": 9, "name": "x", "type": "INT"}]}}
    )
    assert field.id == 7
    assert not field.type.nullable
    assert [(inner.id, inner.name, inner.type) for inner in field.type.fields] == [(9, "x", DataType("INT"))]


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "INTT", "INT(3)", "DECIMAL(39)", "DECIMAL(3, 4)", "DECIMAL(0)", "VARCHAR(0)", "TIMESTAMP(10)"),
        *("VARCHAR(99999999999)", "ARRAY<INT", "ARRAY<>", "INT NOT", "INT;", "ROW<INT>", "MAP<INT>", "`INT`"),
        *("É", "(", "ARRAY<" * 200 + "INT" + ">" * 200, {"type": "X"}, {"type": ""}, {"type": "ROW"}, {"type": 3}, {}),
        *(5, None, "INT INT", {"type": "ROW", "fields": [3]}),
        {"type": "ROW", "fields": [{"id": "1", "name": "a", "type": "INT"}]},
    ],
)
def test_what_is_no_type(text: Any) -> None:
    with pytest.raises(InvalidQuery):
        parse_type(text)


def test_types_without_an_arrow_form() -> None:
    for text in ("VARIANT", "BLOB", "ARRAY<VARIANT>"):
        with pytest.raises(Unsupported, match=r"VARIANT|BLOB"):
            _ = parse_type(text).arrow_type


def test_columns_of_an_orc_file_that_have_one_type_of_paimon() -> None:
    columns = {
        "n": node(TypeKind.INT),
        "d": node(TypeKind.DECIMAL, precision=9, scale=2),
        "old": node(TypeKind.DECIMAL),  # Hive 0.11 wrote no precision
        "c": node(TypeKind.CHAR, max_length=3),
        "v": node(TypeKind.VARCHAR, max_length=5),
        "any": node(TypeKind.CHAR),
        "t": node(TypeKind.TIMESTAMP),
        "l": node(TypeKind.LIST, node(TypeKind.INT)),
    }
    assert paimon_types(columns, columns.values()) == {
        "n": "INT",
        "d": "DECIMAL(9, 2)",
        "c": "CHAR(3)",
        "v": "VARCHAR(5)",
    }
