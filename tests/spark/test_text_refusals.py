"""Conditions that Spark's SQL and orcidx's SQL read differently. orcidx's parser never gets them. Spark evaluates them,
or they are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import orcidx
from orcidx import spark as orcidx_spark
from orcidx.errors import InvalidQuery, Unsupported
from orcidx.predicate import col
from orcidx.spark.conditions.query_text import may_mean_otherwise, parse_text

OTHERWISE = [
    r"t = 'a\\b'",
    r"t = 'x\ny'",
    r"t LIKE 'a\\_b'",
    't = "A"',
    "t = 'it''s'",
    "t = 'a' 'b'",
    "t = ''''",
    "t = '' 'b'",
    "t = r'a.b'",
    "t = N'a'",
    "a = 1 -- and b = 2",
    "t = '${x}'",
    "a = ${spark:some.setting}",
    "a = /* 1 */ 2",
]
ALIKE = [
    "t = 'a'",
    "t IN ('a', 'b')",
    "d = DATE'2026-01-02'",
    "b = X'1f'",
    "`a b` = 1",
    "a = -1",
    "t LIKE 'a%'",
    "t = ''",
    "t = '$x {y}'",
]


@pytest.mark.parametrize("text", OTHERWISE)
def test_texts_of_spark_alone_are_refused(text: str) -> None:
    assert may_mean_otherwise(text)
    with pytest.raises(InvalidQuery, match=r"has its own rules"):
        parse_text(text)


@pytest.mark.parametrize("text", ALIKE)
def test_other_texts_are_read(text: str) -> None:
    assert not may_mean_otherwise(text)
    parse_text(text)


def test_predicates_may_hold_anything() -> None:
    assert parse_text(col("t") == "a\\b") is not None


@pytest.mark.parametrize("where", ["length(input_file_name()) > 0", "id >= 0 AND input_file_block_start() >= 0"])
def test_the_file_that_spark_reads_is_asked_of_its_own_reader(spark: Any, tmp_path: Path, where: str) -> None:
    """Conditions on the file that Spark reads, for example by ``input_file_name()``. orcidx's tasks do not know this
    file. So Spark's reader evaluates the condition, or the condition is refused."""
    orcidx.write_table(pa.table({"id": range(5)}), tmp_path / "a.orc")
    path = str(tmp_path)
    assert spark.read.orc(path).where(where).count() == orcidx_spark.read(spark, path, where=where).count() == 5
    for more in ({"engine": "orcidx"}, {"limit": 3}, {"top": ["id"], "limit": 3}):
        with pytest.raises(Unsupported, match="works only if Spark's reader reads the files"):
            orcidx_spark.read(spark, path, where=where, **more).collect()
    assert orcidx_spark.read(spark, path, where="'input_file_name()' <> '' AND id > 2", engine="orcidx").count() == 2
