"""Every index body that Paimon's Java library wrote is read, and the predicates that Java evaluated are evaluated
again. The body is also built again from its values.

Where an answer differs from Java's on purpose, ``deviates`` says why. All answers are also checked against an oracle.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from goldens import GOLDEN_PAIMON, roots
from paimon_goldens import KINDS, Golden, goldens, matches
from paimon_oracle import holds
from pyroaring import BitMap

from orcidx import paimon
from orcidx.errors import InvalidQuery, Unsupported, ValueOutOfRange
from orcidx.paimon.data_types import parse_type

BODY_ORDER_ONLY = "bitmap"
"""The kind of index whose entries Java writes in the order of a HashMap, and orcidx writes sorted. The bodies have the
same size and content."""


@pytest.fixture(params=list(KINDS))
def folder(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize("root", roots("paimon", GOLDEN_PAIMON))
def test_bodies_are_read_and_built_again(root: Path, folder: str) -> None:
    seen = 0
    for golden in goldens(root, folder):
        body = golden.body
        if body is None:
            continue
        index = paimon.read_index(golden.kind, body, golden.sidecar["type"])
        index.check()
        assert index.to_bytes() == body
        assert index.rows == (None if golden.kind == "bloom-filter" else golden.rows)
        built = paimon.build_index(golden.kind, golden.array, golden.sidecar["type"], golden.sidecar["options"])
        if golden.kind == BODY_ORDER_ONLY:
            assert len(built.to_bytes()) == len(body), golden.path.stem
            assert by_key(built) == by_key(index), golden.path.stem
        else:
            assert built.to_bytes() == body, golden.path.stem
            assert built == index
        seen += 1
    assert seen >= 5


def by_key(index: Any) -> Any:
    contents = index.contents()
    return index.version, contents.rows, contents.nulls, dict(zip(contents.keys, contents.bitmaps))


REFUSALS = {"longmin_bigint": ValueOutOfRange, "blocksize_13b_int": InvalidQuery}


@pytest.mark.parametrize("root", roots("paimon", GOLDEN_PAIMON))
def test_what_java_refuses_to_write_is_refused(root: Path) -> None:
    refused = {golden.path.stem: golden for golden in goldens(root) if golden.body is None}
    assert refused.keys() == REFUSALS.keys()
    for name, golden in refused.items():
        with pytest.raises(REFUSALS[name]):
            paimon.build_index(golden.kind, golden.array, golden.sidecar["type"], golden.sidecar["options"])


@pytest.mark.parametrize("root", roots("paimon", GOLDEN_PAIMON))
def test_types_are_those_of_java(root: Path, folder: str) -> None:
    record = json.loads((root / folder / "_types.json").read_text())
    kind = KINDS[folder]
    for text in record["supported"]:
        data_type = parse_type(text)
        built = paimon.build_index(kind, pa_nulls(data_type), data_type)
        assert paimon.read_index(kind, built.to_bytes(), text) == built
    for text in record["unsupported_with_message"]:
        with pytest.raises(Unsupported):
            paimon.build_index(kind, pa_nulls(parse_type("INT")), text)
        with pytest.raises(Unsupported):
            paimon.read_index(kind, bytes(100), text)


def pa_nulls(data_type: Any) -> Any:
    import pyarrow as pa

    return pa.nulls(3, data_type.arrow_type)


# ---------------------------------------------------------------------- answers


def deviates(golden: Golden, op: str, literals: list[Any]) -> str | None:
    """Returns the reason why orcidx's answer to a predicate differs from Java's, or None."""
    root, kind = golden.data_type.root, golden.kind
    if None in literals:
        return "a comparison with SQL's null matches no row"
    if kind == "bitmap" and op in ("neq", "notin"):
        return "Java keeps null rows"
    if root in ("FLOAT", "DOUBLE") and any(is_zero(value) for value in literals):
        return "Java tells -0.0 from 0.0"
    if root.startswith("TIMESTAMP") and golden.data_type.precision > 6 and kind in ("bitmap", "bsi"):
        return "keys of microseconds do not tell nanoseconds apart"
    return None


def is_zero(text: str) -> bool:
    return text[0] in "08" and not text[1:].strip("0")


@pytest.mark.parametrize("root", roots("paimon", GOLDEN_PAIMON))
def test_answers(root: Path, folder: str) -> None:
    asked = deviations = 0
    for golden in goldens(root, folder):
        if golden.body is None:
            continue
        index = paimon.read_index(golden.kind, golden.body, golden.sidecar["type"])
        for record in golden.sidecar["predicates"]:
            literals = [golden.literal(value) for value in record["literals"]]
            verdict = index.evaluate(record["op"], literals)
            where = f"{golden.path.stem}: {record['op']} {record['literals']}"
            asked += 1
            if deviates(golden, record["op"], record["literals"]):
                deviations += 1
                check_soundness(golden, record, verdict, where)
            elif record["result"] == "ROWS":
                assert matches(verdict.rows, record, golden.rows), where
                assert verdict.exact == record["exact"], where
            else:
                assert verdict.kind == record["result"].lower(), where
    assert asked >= 60
    assert deviations < 0.6 * asked  # most of them concern null rows in answers of bitmaps to <> and NOT IN


def check_soundness(golden: Golden, record: dict[str, Any], verdict: Any, where: str) -> None:
    literals = plain(golden, record["literals"])
    rows = golden.values if len(golden.values) <= 2000 else None
    if verdict.kind == "remain":
        assert golden.data_type.precision > 6 or record["result"] == "REMAIN", where
        return
    if rows is None:
        assert None in literals or verdict.exact, where
        return
    values = plain(golden, golden.values)
    true = BitMap([row for row, value in enumerate(values) if holds(record["op"], value, literals)])
    assert true <= verdict.rows, where
    assert not verdict.exact or true == verdict.rows, where


def plain(golden: Golden, values: list[Any]) -> list[Any]:
    """Converts values to forms that Python compares."""
    if golden.data_type.root in ("FLOAT", "DOUBLE"):
        return [None if value is None else golden.literal(value).as_py() for value in values]
    if golden.data_type.root == "DECIMAL":
        return [None if value is None else int(value) for value in values]
    return [tuple(value) if isinstance(value, list) else value for value in values]


@pytest.mark.parametrize("root", roots("paimon", GOLDEN_PAIMON))
def test_top_rows(root: Path) -> None:
    asked = 0
    for golden in goldens(root, "range"):
        index = paimon.read_index(golden.kind, golden.body, golden.sidecar["type"])
        for record in golden.sidecar["topn"]:
            odd = record["selection"] is not None
            selection = BitMap(range(1, golden.rows, 2)) if odd else None
            found = index.top_k(
                record["k"],
                descending=record["direction"] == "DESCENDING",
                nulls_first=record["nulls"] == "NULLS_FIRST",
                selection=selection,
                strict=record["strict"],
            )
            asked += 1
            if odd and not index.cardinality:
                # If all values are null, Java ignores the selection.
                assert found == selection
            else:
                assert matches(found, record, golden.rows), (golden.path.stem, record)
    assert asked >= 200
