"""The file index container: bytes, options, map keys, damage, and predicates over several indexes at once."""

from __future__ import annotations

import datetime
import decimal
import functools
import json
import math
import operator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from goldens import GOLDEN_PAIMON, roots
from hypothesis import given, settings
from hypothesis import strategies as st
from paimon_goldens import matches
from pyroaring import BitMap

import orcidx
from orcidx import paimon
from orcidx.errors import CorruptFile, InvalidQuery, Unsupported
from orcidx.paimon.body import Body
from orcidx.paimon.container import (
    Container,
    Entry,
    decode_modified_utf8,
    encode_modified_utf8,
    read_container,
    write_container,
)
from orcidx.planner.index_evidence import IndexEvidence
from orcidx.predicate import Constant, Leaf, Op, bind, col
from orcidx.pruning.selection import RowSelection

TYPES = {"f0": "INT", "f1": "STRING", "f2": "BIGINT", "m": "MAP<VARCHAR(20), INT>", "noidx": "INT"}
ODD_NAME = "n\0ul-é-中-😀"
ODD_TYPES = {ODD_NAME: "INT", "e": "STRING"}


def leaf(op: str, column: str, *literals: Any) -> Any:
    c = col(column)
    if op == "in":
        return c.is_in(literals)
    if op == "notin":
        return ~c.is_in(literals)
    make = {
        "eq": lambda v: c == v,
        "neq": lambda v: c != v,
        "lt": lambda v: c < v,
        "lte": lambda v: c <= v,
        "gt": lambda v: c > v,
        "gte": lambda v: c >= v,
        "between": c.between,
        "notbetween": lambda low, high: ~c.between(low, high),
        "isnull": c.is_null,
        "isnotnull": c.is_not_null,
        "startswith": c.starts_with,
        "endswith": c.ends_with,
        "contains": c.contains,
    }
    return make[op](*literals)


def predicate(text: list[Any]) -> Any:
    if text[0] in ("and", "or"):
        return functools.reduce(operator.and_ if text[0] == "and" else operator.or_, map(predicate, text[1:]))
    return leaf(*text)


def containers(root: Path) -> list[tuple[dict[str, Any], bytes]]:
    found = [json.loads(path.read_text()) for path in sorted((root / "container").glob("[!_]*.json"))]
    return [(sidecar, (root / "container" / sidecar["file"]).read_bytes()) for sidecar in found]


def opened(sidecar: dict[str, Any], data: bytes, **options: Any) -> paimon.FileIndex:
    types = dict(ODD_TYPES, e="INT") if sidecar["name"].startswith("modified") else TYPES
    return paimon.read_file_index(data, types=types, **options)


def table(sidecar: dict[str, Any]) -> pa.Table:
    names = [text.split()[0] for text in sidecar["columns"]]
    columns = list(zip(*sidecar["rows"])) or [()] * len(names)
    kinds = [pa.int32(), pa.string(), pa.int64(), pa.map_(pa.string(), pa.int32()), pa.int32()]
    maps = [None if m is None else [tuple(item) for item in m] for m in columns[3]]
    columns[3] = maps
    arrays = [pa.array(list(values), kind) for values, kind in zip(columns, kinds)]
    return pa.table(dict(zip(names, arrays)))


# ---------------------------------------------------------------------- golden containers


@pytest.mark.parametrize("root", roots("paimon", GOLDEN_PAIMON))
def test_containers_come_back(root: Path) -> None:
    for sidecar, data in containers(root):
        index = opened(sidecar, data, strict=True)
        assert index.to_bytes() == data
        index.check()
        header = [(h["column"], h["index"], h["start"], h["length"]) for h in sidecar["header_in_file_order"]]
        assert [(e.column, e.kind, e.start, e.length) for e in index.entries] == header


def sharper(sidecar: dict[str, Any], text: list[Any]) -> bool:
    """Whether orcidx's answer is more precise than Java's. orcidx excludes null rows for <> and NOT IN of a bitmap, and
    uses ranges for prefixes."""
    if text[0] in ("and", "or"):
        return any(sharper(sidecar, child) for child in text[1:])
    options = " ".join(sidecar.get("table_options", []))
    return (text[0] in ("neq", "notin") and "bitmap.columns" in options) or (
        text[0] == "startswith" and "range-bitmap" in options
    )


@pytest.mark.parametrize("root", roots("paimon", GOLDEN_PAIMON))
def test_container_answers(root: Path) -> None:
    for sidecar, data in containers(root):
        index = opened(sidecar, data)
        for record in sidecar["predicates"]:
            text = record["predicate"]
            if text and text[0] == "startswith" and sidecar["name"].startswith("modified"):
                continue  # not compared, because the predicate tests an INT column for a prefix
            verdict = index.evaluate(predicate(text) if text else None)
            if text and sharper(sidecar, text):
                if record["result"] == "ROWS" and verdict.rows is not None and "rows" in record:
                    assert verdict.rows <= BitMap(record["rows"])
                if sidecar.get("rows"):
                    check_against_rows(sidecar, text, verdict)
            elif record["result"] == "ROWS":
                assert matches(verdict.rows, record, sidecar["row_count"]), (sidecar["name"], text)
            elif record["result"] == "SKIP":
                assert verdict.is_empty, (sidecar["name"], text)
            else:
                assert verdict.kind == "remain", (sidecar["name"], text)


def check_against_rows(sidecar: dict[str, Any], text: list[Any], verdict: Any) -> None:
    data = table(sidecar).combine_chunks()
    batch = data.to_batches()[0]
    true = BitMap(np.flatnonzero(bind(predicate(text), data.schema).evaluate(batch)).astype(np.uint32))
    assert verdict.rows is None or true <= verdict.rows, text
    assert not verdict.exact or true == verdict.rows, text


@pytest.mark.parametrize("root", roots("paimon", GOLDEN_PAIMON))
def test_container_top_rows(root: Path) -> None:
    inputs = {"ALL rows selection": BitMap(range(500)), "first 50 rows selection": BitMap(range(50)), "REMAIN": None}
    sidecar, data = next(c for c in containers(root) if c[0]["name"] == "topn")
    index = opened(sidecar, data)
    for record in sidecar["topn"]:
        order = {
            "descending": record["direction"] == "DESCENDING",
            "nulls_first": record["nulls"] == "NULLS_FIRST",
        }
        verdict = index.top_k(record["column"], record["k"], selection=inputs[record["input"]], **order)
        if record["result"] == "ROWS":
            assert matches(verdict.rows, record, 500), record
        else:
            assert verdict.kind == "remain"


SPECS: dict[str, dict[str, Any]] = {
    "everything": {
        "bloom-filter": {c: {"items": 100} for c in ("f0", "f1", "f2", "m[a]", "m[zzz]")},
        "bitmap": dict.fromkeys(("f0", "f1", "m[a]", "m[zzz]")),
        "range-bitmap": dict.fromkeys(("f0", "f1", "f2")),
        "bsi": dict.fromkeys(("f0", "f2")),
    }
}


@pytest.mark.parametrize("root", roots("paimon", GOLDEN_PAIMON))
@pytest.mark.parametrize("name", ["everything", "everything_norows"])
def test_containers_are_built_again(root: Path, name: str) -> None:
    """The indexes are the same as Java's. Only their order differs, because Java's order is that of its hash maps."""
    sidecar, data = next(c for c in containers(root) if c[0]["name"] == name)
    golden = opened(sidecar, data)
    options = paimon.FileIndexOptions.parse(dict(text.split("=", 1) for text in sidecar["table_options"]))
    rows = table(sidecar) if sidecar.get("rows") else table({**next(iter(containers(root)))[0], "rows": []})
    built = paimon.build_file_index(rows, options, types=TYPES)
    assert {c: sorted(kinds) for c, kinds in built.columns.items()} == {
        c: sorted(kinds) for c, kinds in golden.columns.items()
    }
    for column, kinds in golden.columns.items():
        for kind in kinds:
            ours, java = built.index(column, kind), golden.index(column, kind)
            assert ours is not None
            assert java is not None
            if kind == "bitmap" and java.rows is not None:
                assert len(ours.to_bytes()) == len(java.to_bytes())
            else:
                assert ours == java, (column, kind)
    assert paimon.read_file_index(built.to_bytes(), types=TYPES).to_bytes() == built.to_bytes()


@pytest.mark.parametrize("root", roots("paimon", GOLDEN_PAIMON))
def test_errors(root: Path) -> None:
    cases = {case["case"]: case for case in json.loads((root / "container" / "_errors.json").read_text())["cases"]}
    where = leaf("eq", ODD_NAME, 3)
    for name, case in cases.items():
        data = bytes.fromhex(case["bytes_hex"])
        if name == "unknown index type on the asked column":
            index = paimon.read_file_index(data, types=ODD_TYPES, strict=True)
            assert index.evaluate(where).kind == "remain"
            assert "bitmaq" in index.notes[0]
            assert index.to_bytes() == data
            with pytest.raises(Unsupported, match="bitmaq"):
                index.index(ODD_NAME, "bitmaq")
        elif "error" in case:
            with pytest.raises(CorruptFile):
                paimon.read_file_index(data, types=ODD_TYPES)
    cut = bytes.fromhex(cases["cut in body"]["bytes_hex"])
    index = paimon.read_file_index(cut[:200], types=ODD_TYPES)
    assert index.evaluate(where).kind == "remain"
    assert "cut off" in index.notes[0]
    assert index.evaluate(leaf("eq", "e", "1")).kind == "skip"
    with pytest.raises(CorruptFile, match="cut off") as caught:
        paimon.read_file_index(cut[:200], types=ODD_TYPES, strict=True).evaluate(where)
    assert caught.value.column == ODD_NAME
    with pytest.raises(CorruptFile, match="cut off"):
        index.to_bytes()


# ---------------------------------------------------------------------- bytes


@given(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\0é中😀"), max_size=30))
def test_modified_utf8(text: str) -> None:
    data = encode_modified_utf8(text)
    assert decode_modified_utf8(data) == text
    assert b"\0" not in data
    assert len(data) == sum(2 if c == "\0" else 6 if ord(c) > 0xFFFF else len(c.encode()) for c in text)


@pytest.mark.parametrize("data", [b"\xf0\x9f\x98\x80", b"\xff", b"\xc0\x81", b"\xed\xa0\x80", b"\xe4\xb8"])
def test_names_that_are_not_modified_utf8(data: bytes) -> None:
    with pytest.raises(CorruptFile):
        decode_modified_utf8(data)


def test_names_have_65535_bytes_at_most() -> None:
    assert len(encode_modified_utf8("中" * 21845)) == 65535
    with pytest.raises(InvalidQuery, match="65535"):
        encode_modified_utf8("中" * 21846)


@given(
    st.dictionaries(
        st.tuples(st.text(max_size=5), st.sampled_from(["bitmap", "bsi", "later"])), st.none() | st.binary(max_size=9)
    ),
    st.binary(max_size=5),
)
def test_containers_of_anything_come_back(entries: dict[tuple[str, str], bytes | None], redundant: bytes) -> None:
    columns = list(dict.fromkeys(column for column, _ in entries))
    ordered = sorted(entries.items(), key=lambda item: columns.index(item[0][0]))
    made = [Entry(column, kind, None if data is None else Body.of(data)) for (column, kind), data in ordered]
    data = write_container(Container(tuple(made), redundant))
    again = read_container(Body.of(data))
    assert [(e.column, e.kind, e.payload and bytes(e.payload.all())) for e in again.entries] == [
        (e.column, e.kind, e.payload and bytes(e.payload.all())) for e in made
    ]
    assert again.redundant == redundant
    assert write_container(again) == data


def test_sources(tmp_path: Path) -> None:
    rows = pa.table({"a": pa.array(range(1000), pa.int32())})
    data = paimon.build_file_index(rows, {"bitmap": {"a": {}}}).to_bytes()
    path = tmp_path / "data-0.orc.index"
    path.write_bytes(data)
    for source in (data, bytearray(data), memoryview(data), path, str(path), path.as_uri()):
        with paimon.read_file_index(source, types={"a": "INT"}) as index:
            assert list(index.evaluate("a = 7").rows) == [7]
            assert index.to_bytes() == data
    with pytest.raises(FileNotFoundError):
        paimon.read_file_index(tmp_path / "missing.index", types={})
    path.write_bytes(b"")
    with pytest.raises(CorruptFile) as caught:
        paimon.read_file_index(path, types={})
    assert caught.value.file == str(path)


def test_a_file_of_another_size_is_not_trusted() -> None:
    rows = pa.table({"a": pa.array([1, 2, 3], pa.int32())})
    data = paimon.build_file_index(rows, {"bitmap": {"a": {}}, "bloom-filter": {"a": {"items": 10}}}).to_bytes()
    index = paimon.read_file_index(data, types={"a": "INT"}, rows=4)
    assert index.evaluate(col("a") == 1).kind == "remain"
    assert "3 rows, but the data file has 4" in index.notes[0]
    # The bloom filter does not depend on the number of rows, so it is used. It excludes 9.
    assert index.evaluate(col("a") == 9).kind == "skip"
    with pytest.raises(CorruptFile, match="the data file has 4"):
        paimon.read_file_index(data, types={"a": "INT"}, rows=4, strict=True).evaluate(col("a") == 1)


def test_unknown_columns() -> None:
    data = paimon.build_file_index(pa.table({"a": [1]}), {"bitmap": {"a": {}}}).to_bytes()
    index = paimon.read_file_index(data, types={"a": "BIGINT", "b": "INT"})
    assert index.index("b", "bitmap") is None
    assert index.index("a", "bsi") is None
    assert index.evaluate(col("b") == 1).kind == "remain"
    with pytest.raises(InvalidQuery, match="did you mean"):
        index.evaluate(col("A") == 1)
    untyped = paimon.read_file_index(data, types={})
    with pytest.raises(InvalidQuery, match="types= has no type for"):
        untyped.index("a", "bitmap")


# ---------------------------------------------------------------------- several indexes, whole predicates


NOW = datetime.datetime(2026, 1, 1)
MIXED = pa.table(
    {
        "i": pa.array([1, 2, None, 2, 5, -3, 2, None], pa.int32()),
        "d": pa.array([0.0, -0.0, math.nan, None, 1.5, -math.inf, math.inf, 2.5], pa.float64()),
        "s": pa.array(["a", "ab", None, "abc", "b", "", "ab", "á"], pa.string()),
        "c": pa.array(["a", "ab  ", None, "ab", "b\t", "    ", "a b", "b"], pa.string()),
        "n": pa.array([decimal.Decimal(x).scaleb(-2) for x in (1, 2, 150, -7, 0, 0, 2, 99)], pa.decimal128(9, 2)),
        "t": pa.array([NOW + datetime.timedelta(milliseconds=x) for x in (0, 1, 2, 3, 3, 2, -1, -1)]),
        "b": pa.array([True, False, None, True, True, False, None, True]),
    }
)
MIXED_TYPES = {
    "i": "INT",
    "d": "DOUBLE",
    "s": "STRING",
    "c": "CHAR(4)",
    "n": "DECIMAL(9, 2)",
    "t": "TIMESTAMP(3)",
    "b": "BOOLEAN",
}
CHARS = {("c",): 4}
LITERALS: dict[str, st.SearchStrategy[Any]] = {
    "i": st.sampled_from([1, 2, 3, -3, 1.5, 2**40, -math.inf, decimal.Decimal("2.0"), None]),
    "d": st.sampled_from([0.0, -0.0, 1.5, 2, math.nan, math.inf, -math.inf, 10**400, None]),
    "s": st.sampled_from(["a", "ab", "", "abcd", "b", "á", None]),
    "c": st.sampled_from(["a", "ab", "ab ", "", "b", "b\t", "a b", None]),
    "n": st.sampled_from([decimal.Decimal("0.02"), decimal.Decimal("0.015"), 0, 1.5, None]),
    "t": st.sampled_from([NOW, NOW + datetime.timedelta(microseconds=1500), datetime.date(2026, 1, 1), None]),
    "b": st.sampled_from([True, False, None]),
}
COUNTS = {Op.IN: (0, 4), Op.BETWEEN: (2, 2), Op.IS_NULL: (0, 0), Op.IS_NAN: (0, 0)}
TEXT_OPS = (Op.STARTS_WITH, Op.ENDS_WITH, Op.CONTAINS, Op.LIKE)


@st.composite
def leaves(draw: st.DrawFn) -> Leaf:
    column = draw(st.sampled_from(list(MIXED_TYPES)))
    ops = [op for op in Op if (op not in TEXT_OPS or column in "sc") and (op is not Op.IS_NAN or column in "id")]
    op = draw(st.sampled_from(ops))
    low, high = COUNTS.get(op, (1, 1))
    literals = draw(st.lists(LITERALS[column], min_size=low, max_size=high))
    if op is Op.LIKE:
        literals = [draw(st.sampled_from(["a%", "%b", "a_", "%", "ab", "_%"])), "\\"]
    return Leaf((column,), op, tuple(literals), draw(st.booleans()))


trees = st.recursive(
    leaves() | st.sampled_from([Constant(True), Constant(False)]),
    lambda inner: st.builds(operator.and_, inner, inner) | st.builds(operator.or_, inner, inner),
    max_leaves=5,
)
KINDS_OF = {
    "bitmap": ("i", "d", "s", "c", "t", "b"),
    "range-bitmap": tuple(MIXED_TYPES),
    "bsi": ("i", "n", "t"),
    "bloom-filter": ("i", "d", "s", "c", "t"),
}


@functools.cache
def mixed_index(kinds: tuple[str, ...]) -> paimon.FileIndex:
    spec = {kind: {column: {"items": 20} if kind[1] == "l" else {} for column in KINDS_OF[kind]} for kind in kinds}
    built = paimon.build_file_index(MIXED, spec, types=MIXED_TYPES)
    return paimon.read_file_index(built.to_bytes(), types=MIXED_TYPES, strict=True, rows=MIXED.num_rows)


@settings(max_examples=300)
@given(trees, st.sampled_from(["ieee", "largest"]), st.sets(st.sampled_from(list(KINDS_OF)), min_size=1))
def test_predicates(where: Any, nan: str, kinds: set[str]) -> None:
    index = mixed_index(tuple(sorted(kinds)))
    bound = bind(where, MIXED.schema, nan=nan, char_lengths=CHARS)
    true = BitMap(np.flatnonzero(bound.evaluate(MIXED.to_batches()[0])).astype(np.uint32))
    verdict = index.evaluate(where, nan=nan)
    if verdict.rows is not None:
        assert true <= verdict.rows
        assert not verdict.exact or true == verdict.rows
    assert not index.notes


@pytest.mark.parametrize(
    "where",
    [
        "s LIKE 'ab%'",
        "NOT (i BETWEEN 2 AND 4)",
        "i = 2 AND s = 'ab' OR d >= 2.5",
        "d <> 0 AND n <= 0.02",
        "t IN (TIMESTAMP '2026-01-01 00:00:00.003', TIMESTAMP '2026-01-01 00:00:00.001')",
        "i IS NULL OR b",
    ],
)
def test_predicates_are_answered_exactly(where: str) -> None:
    from orcidx.predicate import parse

    index = mixed_index(("bitmap", "range-bitmap"))
    bound = bind(parse(where), MIXED.schema, char_lengths=CHARS)
    verdict = index.evaluate(where)
    assert list(verdict.rows) == np.flatnonzero(bound.evaluate(MIXED.to_batches()[0])).tolist()
    assert verdict.exact


def test_a_leaf_tells_which_index_said_what() -> None:
    index = mixed_index(("bitmap", "bloom-filter", "range-bitmap"))
    bound = bind(col("i") > 2, MIXED.schema).root
    answer = index.test(bound)
    assert [kind for kind, _ in answer.parts] == ["bitmap", "range-bitmap"]
    assert answer.parts[0][1].kind == "remain"
    assert answer.verdict.exact
    assert list(answer.verdict.rows) == [4]


def test_an_index_is_asked_about_its_own_columns() -> None:
    index, every = mixed_index(("bitmap",)), RowSelection.all(MIXED.num_rows)
    leaf: Any = bind(col("i") == 2, MIXED.schema).root
    evidence = IndexEvidence(index, "bitmap", MIXED.num_rows, orcidx.ReadOptions())
    found = evidence.test(leaf, every)
    assert found is not None
    assert found.may.positions().tolist() == np.flatnonzero(MIXED["i"].to_numpy(zero_copy_only=False) == 2).tolist()
    assert evidence.test(replace(leaf, path=("other",)), every) is None
    assert evidence.test(replace(leaf, path=("i", "x")), every) is None


def test_top_rows_with_a_filter() -> None:
    index = mixed_index(("range-bitmap",))
    alive = index.evaluate(col("i") == 2).rows
    found = index.top_k("n", 1, descending=True, nulls_first=False, selection=alive)
    assert found.exact
    assert list(found.rows) == [6]  # two rows have 0.02, and the higher row number is kept
    loose = index.top_k("n", 1, descending=True, nulls_first=False, selection=alive, strict=False)
    assert (list(loose.rows), loose.exact) == ([1, 6], False)
    assert mixed_index(("bsi",)).top_k("n", 1, descending=True, nulls_first=False).kind == "remain"


# ---------------------------------------------------------------------- map keys, EMPTY


def test_map_keys() -> None:
    maps = [[("a", 1), ("b", 2)], None, [], [("a", None)], [("b", 1)], [("a", 1)]]
    column = pa.array([[("x", 9)], *maps, None], pa.map_(pa.string(), pa.int32())).slice(1, 6)
    rows = pa.table({"m": column})
    spec = {"bitmap": {"m[a]": {}, "m[b]": {}, "m[zz]": {}}, "bloom-filter": {"m[a]": {"items": 5}}}
    built = paimon.build_file_index(rows, spec)
    index = paimon.read_file_index(built.to_bytes(), types={"m": "MAP<STRING, INT>"}, strict=True, rows=6)
    assert dict(index.columns) == {"m[a]": ("bitmap", "bloom-filter"), "m[b]": ("bitmap",), "m[zz]": ("bitmap",)}
    assert list(index.evaluate(col("m[a]") == 1).rows) == [0, 5]
    assert list(index.evaluate(col("m[b]").is_null()).rows) == [1, 2, 3, 5]
    assert list(index.evaluate(col("m[a]").is_not_null()).rows) == [0, 5]
    assert len(index.evaluate(col("m[zz]").is_null()).rows) == 6
    with pytest.raises(InvalidQuery, match="not a map with text keys"):
        paimon.build_file_index(pa.table({"m": [1]}), {"bitmap": {"m[a]": {}}})


def test_empty_indexes_answer_as_java() -> None:
    index = paimon.build_file_index(
        pa.table({"m": pa.array([], pa.map_(pa.string(), pa.string()))}), {"bitmap": {"m[a]": {}}}
    )
    empty = index.index("m[a]", "bitmap")
    assert empty is not None
    assert empty.to_bytes() == b""
    assert index.entries[0].payload is None
    skipped = {
        op: empty.evaluate(op, literals).kind == "skip"
        for op, literals in [
            *((op, ["x"]) for op in ("eq", "in", "lt", "lte", "gt", "gte", "startswith", "endswith", "contains")),
            *((op, ["x"]) for op in ("neq", "notin", "like")),
            ("between", ["a", "b"]),
            ("notbetween", ["a", "b"]),
            ("isnull", []),
            ("isnotnull", []),
        ]
    }
    remaining = {"neq", "notin", "isnull", "between", "notbetween", "like"}
    assert {op for op, skip in skipped.items() if not skip} == remaining


# ---------------------------------------------------------------------- building


def test_sources_of_arrow_data() -> None:
    spec = {"range-bitmap": {"a": {}}, "bitmap": {"b": {}}}
    whole = pa.table({"a": pa.array([3, 1, None, 2], pa.int64()), "b": ["x", "y", "x", None], "other": [1, 2, 3, 4]})
    expected = paimon.build_file_index(whole, spec).to_bytes()
    pieces = pa.concat_tables([whole.slice(0, 1), whole.slice(1, 2), whole.slice(3)])
    sources = [
        pieces,
        whole.to_batches()[0],
        pieces.to_batches(),
        iter(pieces.to_batches()),
        pieces.to_reader(),
        Stream(pieces),
    ]
    for source in sources:
        assert paimon.build_file_index(source, spec).to_bytes() == expected
    with pytest.raises(TypeError, match="batch_size"):
        paimon.build_file_index(whole, spec, batch_size=5)
    with pytest.raises(InvalidQuery, match="no column 'z'"):
        paimon.build_file_index(whole, {"bitmap": {"z": {}}})
    with pytest.raises(InvalidQuery, match="record batch"):
        paimon.build_file_index([], spec)
    with pytest.raises(Unsupported, match="no Paimon type"):
        paimon.build_file_index(pa.table({"u": pa.array([1], pa.uint8())}), {"bitmap": {"u": {}}})


class Stream:
    """An object that has only Arrow's stream interface."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.rows.__arrow_c_stream__(requested_schema)


# ---------------------------------------------------------------------- options


def test_options() -> None:
    options = paimon.FileIndexOptions.parse(
        {
            "file-index.bitmap.columns": "a, b ,m[x],m[y]",
            "file-index.bitmap.b.version": "1",
            "file-index.bitmap.m.index-block-size": "1 kb",
            "file-index.bitmap.m[y].index-block-size": "2kb",
            "file-index.bloom-filter.columns": "a",
            "file-index.bloom-filter.a.items": "100",
            "file-index.bloom-filter.with.dot.items": "100",
            "file-index.in-manifest-threshold": "1 kb",
            "file-index.read.enabled": "false",
            "bucket": "4",
        }
    )
    assert {kind: {c: dict(o) for c, o in columns.items()} for kind, columns in options.spec.items()} == {
        "bitmap": {
            "a": {},
            "b": {"version": "1"},
            "m[x]": {"index-block-size": "1 kb"},
            "m[y]": {"index-block-size": "2kb"},
        },
        "bloom-filter": {"a": {"items": "100"}},
    }
    assert (options.in_manifest_threshold, options.read_enabled) == (1024, False)
    assert options.is_embedded(1024)
    assert not options.is_embedded(1025)
    assert paimon.FileIndexOptions.parse({}).in_manifest_threshold == 500


@pytest.mark.parametrize(
    "options",
    [
        {"file-index.bitmap.columns": "a,,b"},
        {"file-index.bitmap.columns": ""},
        {"file-index.bitmap.columns": "a", "file-index.bitmap.b.version": "1"},
        {"file-index.bloom-filter.a.items": "1"},
        {"file-index.in-manifest-threshold": "many"},
        {"file-index.read.enabled": "perhaps"},
    ],
)
def test_wrong_options(options: dict[str, str]) -> None:
    with pytest.raises(InvalidQuery):
        paimon.FileIndexOptions.parse(options)


def test_an_orc_file_is_a_source(tmp_path: Path) -> None:
    import pyarrow.orc

    path = tmp_path / "data-0.orc"
    moments = pa.array([NOW, None, NOW], pa.timestamp("us"))
    rows = pa.table({"id": pa.array([5, 6, 5], pa.int32()), "city": ["Oslo", None, "Rom"], "t": moments})
    pyarrow.orc.write_table(rows, path)
    spec = {"bitmap": {"city": {}}, "bloom-filter": {"id": {"items": 10}}, "range-bitmap": {"t": {}}}
    types = {"t": "TIMESTAMP(6)"}
    expected = paimon.build_file_index(rows, spec, types=types).to_bytes()
    for source in (path, str(path), path.read_bytes()):
        index = paimon.build_file_index(source, spec, types=types)
        assert index.to_bytes() == expected
    assert paimon.build_file_index(path, spec, types=types, batch_size=1).to_bytes() == expected
    with pytest.raises(InvalidQuery, match="did you mean"):
        paimon.build_file_index(path, {"bitmap": {"City": {}}})
    with pytest.raises(Unsupported, match="precision 6"):
        paimon.build_file_index(path, spec)
