"""Texts that Spark reads otherwise than orcidx's SQL never go to that: they are Spark's, or refused."""

from __future__ import annotations

import pytest

from orcidx.errors import InvalidQuery
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
    with pytest.raises(InvalidQuery, match=r"by rules of its own"):
        parse_text(text)


@pytest.mark.parametrize("text", ALIKE)
def test_other_texts_are_read(text: str) -> None:
    assert not may_mean_otherwise(text)
    parse_text(text)


def test_predicates_may_hold_anything() -> None:
    assert parse_text(col("t") == "a\\b") is not None
