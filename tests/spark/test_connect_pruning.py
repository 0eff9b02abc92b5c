"""Over Spark Connect, files are skipped only by conditions whose meaning in Spark does not depend on later settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orcidx import col
from orcidx.orc.timezones import load_zone
from orcidx.predicate import Constant, parse
from orcidx.predicate.exact_time import ExactTime
from orcidx.spark.choosing.connect_pruning import certain_predicate, listing_of_client
from orcidx.spark.conditions.analysed_conditions import _with_collations, condition_of_json
from orcidx.spark.query.read_query import Query
from orcidx.spark.types.spark_types import collated
from orcidx.storage import list_sources

types = pytest.importorskip("pyspark.sql.types")

SCHEMA = types.StructType(
    [
        types.StructField("Id", types.LongType()),
        types.StructField("text", types.StringType()),
        types.StructField("real", types.DoubleType()),
        types.StructField("dec", types.DecimalType(6, 2)),
        types.StructField("day", types.DateType()),
        types.StructField("at", types.TimestampType()),
        types.StructField("padded", types.StringType(), metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}),
    ]
)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("id = 5", "Id = 5"),
        ("id = 5 AND upper(text) = 'X' AND text >= 'a'", "Id = 5 AND text >= 'a'"),
        ("id = 5 OR text = 5", None),
        ("id IN (1, 2) OR text IS NULL", "Id IN (1, 2) OR text IS NULL"),
        ("NOT (id = 5 OR text = 'a')", "Id <> 5 AND text <> 'a'"),
        ("id = '5'", None),
        ("id = 5.0", None),
        ("text = 5", None),
        ("text = 'it''s'", None),  # Spark 3.5 reads this as two adjacent texts
        (r"text = 'a\n'", None),  # if ``escapedStringLiterals`` is set, \n is not an escape
        ("\"text\" = 'a'", None),  # if ``doubleQuotedIdentifiers`` is set, "text" is a column
        ("text LIKE 'a%'", None),
        ("padded = 'a'", None),
        ("real > 1.5", None),
        ("real > 15e-1", "real > 15e-1"),
        ("dec = 3.25", "dec = 3.25"),
        ("dec = 3.255", None),
        ("dec = 33333.5", None),
        ("day >= DATE '2024-01-01'", "day >= DATE '2024-01-01'"),
        ("day >= DATE '1600-01-01'", None),
        ("day = '2024-01-01'", None),
        ("ide = 5", None),
        ("rand() > 2", None),
        (col("id") > 4, "Id > 4"),
        ([("id", "in", [1, 2])], "Id IN (1, 2)"),
        (None, None),
    ],
)
def test_what_proves_something(where: Any, expected: str | None) -> None:
    found = certain_predicate(Query(path="p", where=where), SCHEMA)
    wanted = Constant(True) if expected is None else parse(expected)
    assert found == wanted


def test_times_are_of_any_clock() -> None:
    """A condition on times is moved by eighteen hours so that it keeps more rows, because the session's zone can change
    before the action."""
    (found,) = certain_predicate(Query(path="p", where="at >= TIMESTAMP '2024-05-02 12:00:00'"), SCHEMA).literals
    assert found == ExactTime(1_714_586_400 * 1_000_000_000, "UTC")  # 2024-05-01 18:00:00
    assert certain_predicate(Query(path="p", where="at < TIMESTAMP '1800-05-02 12:00:00'"), SCHEMA) == Constant(True)


def test_text_with_a_collation_proves_nothing() -> None:
    """With some collations, 'A' equals 'a'. Bounds and indexes do not know collations, so they are not used. In
    Catalyst's JSON, such a column has the type string."""
    pytest.importorskip("pyspark", minversion="4.0")
    schema = types.StructType([types.StructField("s", types.StringType("UTF8_LCASE"))])
    assert collated(schema) == {"s"}
    assert collated(SCHEMA) == frozenset()
    assert certain_predicate(Query(path="p", where="s = 'T'"), schema) == Constant(True)
    text = (
        '[{"class":"a.EqualTo","num-children":2},'
        '{"class":"a.AttributeReference","num-children":0,"name":"s","dataType":"string","metadata":{}},'
        '{"class":"a.Literal","num-children":0,"value":"T","dataType":"string"}]'
    )
    assert condition_of_json(_with_collations(json.loads(text), frozenset()), load_zone("UTC")) == parse("s = 'T'")
    assert condition_of_json(_with_collations(json.loads(text), collated(schema)), load_zone("UTC")) == Constant(True)


def test_the_client_lists_its_own_files(tmp_path: Path) -> None:
    (tmp_path / "a b.orc").write_bytes(b"ORC")
    found = listing_of_client(list_sources(str(tmp_path)))
    assert found.names == (f"file:{tmp_path}/a b.orc",)
    assert found.sizes.tolist() == [3]
    assert found.times.tolist() == [(tmp_path / "a b.orc").stat().st_mtime_ns // 1_000_000]
