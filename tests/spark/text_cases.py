"""Conditions that Spark and other SQL dialects read differently, random conditions, and rows on which to compare
them."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from typing import Any

__all__ = ["COLUMNS", "OF_DELETE", "SETTINGS", "TEXTS", "TYPES", "VALUES", "random_text", "rows"]

COLUMNS = "id bigint, t string, A string, d date, at timestamp, n timestamp_ntz, x double, m decimal(9,2), b binary"
TYPES = {
    "id": "BIGINT", "t": "STRING", "A": "STRING", "d": "DATE", "at": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "n": "TIMESTAMP(6)", "x": "DOUBLE", "m": "DECIMAL(9, 2)", "b": "BYTES",
}  # fmt: skip
"""The types of the columns in a Paimon table."""
SETTINGS = {
    "spark.sql.ansi.enabled": ("true", "false"),
    "spark.sql.ansi.doubleQuotedIdentifiers": ("false", "true"),
    "spark.sql.parser.escapedStringLiterals": ("false", "true"),
    "spark.sql.caseSensitive": ("false", "true"),
    "spark.sql.session.timeZone": ("UTC", "America/New_York", "Asia/Kolkata"),
}
"""Settings and their values. Most tests use the first value."""

VALUES = [
    "a\\b", "a\\\\b", "x\ny", "x\\ny", "a_b", "axb", "a\\_b", "A", "a", "it's", 'say "A"', "5", "05", " 5", "%", "a%b",
    "a\\%b", "t", "é", None, "", "A.b", "a.b", "\t", "\\", "ab", "aab", "x", "1", "a'b",
]  # fmt: skip


def rows() -> list[tuple[Any, ...]]:
    """Returns a row for each of ``VALUES``. The other columns have nulls, old dates and unusual numbers."""
    floats = [0.0, -0.0, 1.0, 1.5, float("nan"), float("inf"), None, -2.5, 4.0, 5.0]
    days = [dt.date(2020, 1 + n, 1) for n in range(6)] + [dt.date(1500, 3, 1), dt.date(1969, 12, 31), None]
    moments = [dt.timedelta(hours=n, microseconds=n * 500_000) for n in range(-6, 8)]
    moments += [dt.timedelta(microseconds=1), dt.timedelta(days=67, hours=7), dt.timedelta(days=-20_000)]
    first = dt.datetime(2020, 1, 1)
    found = []
    for n, value in enumerate(VALUES):
        wall = None if n % 11 == 7 else first + moments[n % len(moments)]
        instant = None if wall is None else wall.replace(tzinfo=dt.UTC)
        number = None if n % 7 == 3 else decimal.Decimal(n * 50 - 150).scaleb(-2)
        blob = None if n % 5 == 2 else bytes([n % 8])
        found.append((n, value, "xy"[n % 2], days[n % 9], instant, wall, floats[n % 10], number, blob))
    return found


OF_DELETE = (
    r"t = 'a\\b'",
    r"t LIKE 'a\\_b'",
    r"t = 'x\ny'",
    't = "A"',
    "t = r'a\\b'",
    't = R"x\\ny"',
    "t = 'it''s'",
    r"t = 'it\'s'",
    "t = 'a' 'b'",
    r"t = '\u0041'",
    r"NOT (t = 'a\\b') AND id <> 4",
    r"t IN ('a\\b', '\t', null)",
    "t LIKE 'a%'",
    "id = '5'",
    "id > 1.5 -- 'it'",
    "t <=> null",
)
"""Conditions that a delete of orcidx supports completely."""
TEXTS = (
    *OF_DELETE[:3],
    "upper(t) = 'A'",
    *OF_DELETE[3:],
    "t LIKE 'a#%b' ESCAPE '#'",
    "t RLIKE 'a.b'",
    r"t RLIKE 'a\\.b'",
    "t ILIKE 'A%'",
    "t REGEXP '^[0-9]+$'",
    "trim(t) = '5'",
    "t || 'x' = 'ax'",
    "t LIKE ANY ('a%', 'x%')",
    "try_cast(t AS int) = 5",
    "id DIV 3 = 1",
    "id % 7 = 2 AND t IS NOT NULL",
    "substr(t, 0, 1) = 'a'",
    "t = 'a' AND rand() < 2",
    "id IN (SELECT 3)",
)

_TYPED_LEAVES = (
    "d = '2020-0{w}-01'", "d >= DATE'1969-12-{p}'", "d < date_add(DATE'2020-01-01', {n})", "year(d) = 2020",
    "d <> '1500-03-01'", "d IN ('2020-01-01', DATE'1970-01-0{w}', null)", "at > '2020-01-01 0{w}:00:00'",
    "at <= TIMESTAMP'2020-01-01 05:30:00.5'", "at BETWEEN '2019-12-31' AND '2020-01-02'", "hour(at) = {w}",
    "at = TIMESTAMP'2020-01-01 00:00:00.000001Z'", "n < TIMESTAMP_NTZ'2020-01-01 0{w}:00:00'",
    "n > '2020-01-01 00:00:0{w}'", "n >= TIMESTAMP'2020-01-01 0{w}:00:00'", "n <=> null",
    "at < TIMESTAMP_NTZ'2020-03-08 02:30:00'", "x > {n}", "x <= {n}.5", "x = 'NaN'", "isnan(x)", "NOT isnan(x)",
    "x IN (0.0D, 1.0D)", "x < double('Infinity')", "m = {w}.50", "m > {n}", "m < 1.555", "-m > {n}",
    "b = X'0{w}'", "b > X'05'", "b IS NULL",
    "CAST(x AS INT) = {w}", "x + 1 > m", "ID = {n}", "x = t", "m = x", "id < x", "current_date() > d",
    "at < now()", "if(id > {n}, t = {q}, x > {w})", "t = {q} IS TRUE", "(t = {q}) <=> (id = {n})",
    "CASE WHEN t = {q} THEN id > {n} END", "nullif(t, {q}) IS NULL", "id BETWEEN {n} AND {n}", "t > 5", "d > 5",
    "nosuch = 1", "true", "NULL", "t NOT IN ({q}, {q})", "id NOT BETWEEN 3 AND {n}", "x <> {w}",
    "NOT (x = {w} OR t = {q})",
)  # fmt: skip
_TEXT_LEAVES = (
    "t = {q}", "t <> {q}", "t < {q}", "t >= {q}", "t IN ({q}, {q}, null)", "t LIKE {l}", "NOT t LIKE {l}",
    "t RLIKE {r}",
    "t ILIKE {l}", "startswith(t, {q})", "endswith(t, {q})", "contains(t, {q})", "upper(t) = upper({q})", "t <=> {q}",
    "concat(t, {q}) = {q}", "t BETWEEN {q} AND {q}", "length(t) = {n}", "id = {n}", "id < {n}", "id IN ({n}, {n})",
    "t IS NULL", "id = '{n}'", "coalesce(t, {q}) = {q}", "locate({q}, t) > 0", "A = \"x\"", "id + 1 > {n}",
)  # fmt: skip


def _quoted(dice: random.Random, value: str) -> str:
    """Returns a string literal for ``value``. It is quoted in a random way that Spark SQL allows."""
    kind = dice.randrange(4)
    if kind == 0 and "'" not in value:
        return f"r'{value}'"
    if kind == 1 and '"' not in value:
        return '"' + value.replace("\\", "\\\\") + '"'
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
    return "'" + escaped.replace("'", "\\'" if kind == 2 else "''") + "'"


def random_text(dice: random.Random, depth: int = 2) -> str:
    """Returns a random condition on the columns ``id``, ``t`` and ``A``."""
    if depth and dice.random() < 0.5:
        parts = [random_text(dice, depth - 1) for _ in range(2)]
        joined = dice.choice([" AND ", " OR "]).join(f"({part})" for part in parts)
        return f"NOT ({joined})" if dice.random() < 0.15 else joined
    text = dice.choice(_TEXT_LEAVES if dice.random() < 0.5 else _TYPED_LEAVES)
    while "{" in text:
        value = dice.choice([one for one in VALUES if one is not None])
        at = text.index("{")
        word = {
            "q": lambda value=value: _quoted(dice, value),
            "l": lambda: _quoted(dice, dice.choice(["a%", "%b", "a_b", "a\\_b", "a\\%b", "_", "%", "a\\\\b", "%\n%"])),
            "r": lambda: _quoted(dice, dice.choice(["a.b", "a\\.b", "^a", "[0-9]+", "\\\\", "^$"])),
            "w": lambda: str(dice.randrange(1, 7)),
            "p": lambda: str(dice.randrange(10, 32)),
            "n": lambda: str(dice.randrange(-1, 32)),
        }[text[at + 1]]()
        if "{" in word or "}" in word:
            continue
        text = text[:at] + word + text[at + 3 :]
    return text
