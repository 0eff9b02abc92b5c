"""Texts of conditions that Spark and other dialects of SQL read otherwise, and random ones; a long run, by hand.

PYTHONPATH=.:tests python tests/spark/text_cases.py --count 300 --seed 1
"""

from __future__ import annotations

import random

__all__ = ["OF_DELETE", "TEXTS", "VALUES", "random_text"]

VALUES = [
    "a\\b", "a\\\\b", "x\ny", "x\\ny", "a_b", "axb", "a\\_b", "A", "a", "it's", 'say "A"', "5", "05", " 5", "%", "a%b",
    "a\\%b", "t", "é", None, "", "A.b", "a.b", "\t", "\\", "ab", "aab", "x", "1", "a'b",
]  # fmt: skip
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
"""What orcidx carries whole."""
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

_TEXT_LEAVES = (
    "t = {q}", "t <> {q}", "t < {q}", "t >= {q}", "t IN ({q}, {q}, null)", "t LIKE {l}", "NOT t LIKE {l}",
    "t RLIKE {r}",
    "t ILIKE {l}", "startswith(t, {q})", "endswith(t, {q})", "contains(t, {q})", "upper(t) = upper({q})", "t <=> {q}",
    "concat(t, {q}) = {q}", "t BETWEEN {q} AND {q}", "length(t) = {n}", "id = {n}", "id < {n}", "id IN ({n}, {n})",
    "t IS NULL", "id = '{n}'", "coalesce(t, {q}) = {q}", "locate({q}, t) > 0", "A = \"x\"", "id + 1 > {n}",
)  # fmt: skip


def _quoted(dice: random.Random, value: str) -> str:
    """A literal of a text in one of Spark's spellings."""
    kind = dice.randrange(4)
    if kind == 0 and "'" not in value:
        return f"r'{value}'"
    if kind == 1 and '"' not in value:
        return '"' + value.replace("\\", "\\\\") + '"'
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
    return "'" + escaped.replace("'", "\\'" if kind == 2 else "''") + "'"


def random_text(dice: random.Random, depth: int = 2) -> str:
    """A condition over the columns ``id``, ``t`` and ``A``."""
    if depth and dice.random() < 0.5:
        parts = [random_text(dice, depth - 1) for _ in range(2)]
        joined = dice.choice([" AND ", " OR "]).join(f"({part})" for part in parts)
        return f"NOT ({joined})" if dice.random() < 0.15 else joined
    text = dice.choice(_TEXT_LEAVES)
    while "{" in text:
        value = dice.choice([one for one in VALUES if one is not None])
        at = text.index("{")
        word = {
            "q": lambda value=value: _quoted(dice, value),
            "l": lambda: _quoted(dice, dice.choice(["a%", "%b", "a_b", "a\\_b", "a\\%b", "_", "%", "a\\\\b", "%\n%"])),
            "r": lambda: _quoted(dice, dice.choice(["a.b", "a\\.b", "^a", "[0-9]+", "\\\\", "^$"])),
            "n": lambda: str(dice.randrange(-1, 32)),
        }[text[at + 1]]()
        if "{" in word or "}" in word:
            continue
        text = text[:at] + word + text[at + 3 :]
    return text
