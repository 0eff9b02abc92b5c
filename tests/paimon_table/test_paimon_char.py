"""Conditions on CHAR columns that data files store as strings. Such ORC files are written by pyarrow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from pickle import dumps, loads
from typing import Any

import pyarrow as pa
import pytest
from paimon_tables import PaimonTable

from orcidx import Unsupported
from orcidx.paimon import Table, open_table
from orcidx.predicate import Predicate, col
from orcidx.predicate.char_leaf import CharLeaf
from orcidx.predicate.nodes import Op

TEXTS = ["ab ", "b", None, "ab", "", "   ", "b  ", "a\x00", "abc", "a"]
CONDITIONS: list[tuple[Predicate, Callable[[str], bool]]] = [
    (col("p") == "ab", lambda text: text == "ab"),
    (col("p") == "ab ", lambda text: text == "ab"),
    (col("p") != "b ", lambda text: text != "b"),
    (col("p") == "", lambda text: text == ""),
    (col("p") < "ab ", lambda text: text < "ab"),
    (col("p") >= "b", lambda text: text >= "b"),
    (col("p").isin(["ab", "b "]), lambda text: text in ("ab", "b")),
    (~col("p").isin(["ab", "b "]), lambda text: text not in ("ab", "b")),
    (col("p").between("a ", "ab"), lambda text: "a" <= text <= "ab"),
    (~col("p").between("a ", "ab"), lambda text: not "a" <= text <= "ab"),
    (col("p").eq_null_safe("b"), lambda text: text == "b"),
    (col("p").ends_with("b"), lambda text: text.endswith("b")),
]


def in_table(folder: Path, texts: list[Any], form: str, kind: Any = "CHAR(3)", arrow: Any = None) -> Table:
    table = PaimonTable(folder)
    table.schema({0: ("p", kind), 1: ("id", "INT")}, options={"bucket": "-1", "deletion-vectors.enabled": "true"})
    rows = pa.table({"p": pa.array(texts, arrow or pa.string()), "id": pa.array(range(len(texts)), pa.int32())})
    known: dict[str, Any] = {
        "_VALUE_STATS": table._stats(rows.select(["id"]), {"id": "INT"}),
        "_VALUE_STATS_COLS": ["id"],
    }
    table.add(f"a.{form}", rows, **known)
    table.commit()
    return open_table(folder)


@pytest.mark.parametrize("form", ["orc", "parquet"])
@pytest.mark.parametrize("repeats", [1, 3000])
def test_conditions_ignore_spaces_at_the_end(tmp_path: Path, form: str, repeats: int) -> None:
    """Conditions on a CHAR column ignore trailing spaces in ORC files too, so that no matching row is lost."""
    texts = TEXTS * repeats
    table = in_table(tmp_path, texts, form)
    for indexed in (False, True):
        if indexed:
            if repeats > 1:
                break
            table.rewrite_file_index(spec={kind: {"p": {}} for kind in ("bitmap", "bloom-filter", "range-bitmap")})
            table = open_table(tmp_path)
        for where, keeps in CONDITIONS:
            expected = [i for i, text in enumerate(texts) if text is not None and keeps(text.rstrip(" "))]
            assert table.scan(["id"], where=where).to_table()["id"].to_pylist() == expected, where
            assert table.scan(where=where).count_rows() == len(expected), where


@pytest.mark.parametrize("form", ["orc", "parquet"])
def test_indexes_of_values_with_more_spaces_than_the_type(tmp_path: Path, form: str) -> None:
    """Some engines write values of more than 3 characters into CHAR(3) columns. Files that store the column as strings
    can have such values, too.
    """
    texts = ["ab      ", "b", None, "ab", "", "      ", "b         ", "abcdef  ", "abc   ", "\xe9     ", "ab\x1f", " a"]
    table = in_table(tmp_path, texts, form)
    specs: list[tuple[str, dict[str, Any]]] = [("bitmap", {}), ("bitmap", {"version": 2, "index-block-size": 256})]
    for kind, options in [*specs, ("range-bitmap", {}), ("bloom-filter", {})]:
        table.rewrite_file_index(spec={kind: {"p": options}}, only_missing=False)
        table = open_table(tmp_path)
        for literal in ("ab", "ab  ", "abc", "abcdef", "", "b", "\xe9", "zz"):
            trimmed = [None if text is None else text.rstrip(" ") for text in texts]
            equal = [i for i, text in enumerate(trimmed) if text == literal.rstrip(" ")]
            other = [i for i, text in enumerate(trimmed) if text is not None and i not in equal]
            for where in (col("p") == literal, col("p").isin([literal, "?"]), col("p").between(literal, literal)):
                assert table.scan(["id"], where=where).to_table()["id"].to_pylist() == equal, (kind, where)
                assert table.scan(["id"], where=~where).to_table()["id"].to_pylist() == other, (kind, where)


def test_conditions_on_a_char_in_a_row(tmp_path: Path) -> None:
    kind = {"type": "ROW", "fields": [{"id": 2, "name": "a", "type": "CHAR(3)"}]}
    values = [{"a": "ab "}, None, {"a": "b"}]
    table = in_table(tmp_path, values, "orc", kind, pa.struct({"a": pa.string()}))
    assert table.scan(where=col("p")["a"] == "ab").to_table()["id"].to_pylist() == [0]
    assert table.scan(where=col("p")["a"] != "ab").to_table()["id"].to_pylist() == [2]


def test_a_delete_ignores_spaces_at_the_end(tmp_path: Path) -> None:
    table = in_table(tmp_path, ["ab ", "b", "ab"], "orc")
    table.delete(col("p") == "ab")
    assert open_table(tmp_path).scan().to_table()["id"].to_pylist() == [1]


@pytest.mark.parametrize("form", ["orc", "parquet"])
@pytest.mark.parametrize("strings", ["string", "view"])
def test_the_option_char(tmp_path: Path, form: str, strings: Any) -> None:
    """The option ``char`` also applies to columns that the file stores as strings."""
    table = in_table(tmp_path, ["ab ", "b", None, "\xe9", "abc"], form)
    expected = {
        "stored": ["ab ", "b", None, "\xe9", "abc"],
        "padded": ["ab ", "b  ", None, "\xe9  ", "abc"],
        "trimmed": ["ab", "b", None, "\xe9", "abc"],
    }
    for char, texts in expected.items():
        options: dict[str, Any] = {"char": char, "strings": strings}
        assert table.scan(["p"], **options).to_table()["p"].to_pylist() == texts
        assert table.scan(["p"], where=col("p") == "b ", **options).to_table()["p"].to_pylist() == texts[1:2]
        assert table.scan(["p"], top=["p"], limit=1, **options).to_table()["p"].to_pylist() == texts[:1]


def test_the_option_char_inside_of_nested_values(tmp_path: Path) -> None:
    row = {"type": "ROW", "fields": [{"id": 2, "name": "a", "type": "CHAR(3)"}, {"id": 3, "name": "b", "type": "INT"}]}
    kinds: list[tuple[Any, pa.DataType, Callable[[str | None], Any]]] = [
        (row, pa.struct({"a": pa.string(), "b": pa.int32()}), lambda text: {"a": text, "b": 1}),
        ({"type": "ARRAY", "element": "CHAR(3)"}, pa.list_(pa.string()), lambda text: [text, None]),
        ({"type": "ARRAY", "element": row}, pa.list_(pa.struct({"a": pa.string(), "b": pa.int32()})),
         lambda text: [None, {"a": text, "b": 2}]),
        ({"type": "MAP", "key": "CHAR(2)", "value": "CHAR(3)"}, pa.map_(pa.string(), pa.string()),
         lambda text: [("kk", text)]),
    ]  # fmt: skip
    for number, (kind, arrow, made) in enumerate(kinds):
        table = in_table(tmp_path / str(number), [made("b "), None, made("abc")], "parquet", kind, arrow)
        for char, text in (("stored", "b "), ("padded", "b  "), ("trimmed", "b")):
            options: dict[str, Any] = {"char": char}
            assert table.scan(["p"], **options).to_table()["p"].to_pylist() == [made(text), None, made("abc")]


def test_padding_that_does_not_fit_is_told(tmp_path: Path) -> None:
    table = in_table(tmp_path, ["a", "b"], "parquet", "CHAR(2147483647)")
    with pytest.raises(Unsupported, match="char="):
        table.scan(char="padded").to_table()


def test_a_leaf_keeps_its_length() -> None:
    leaf = CharLeaf(("p",), Op.EQ, ("a",), False, 3)
    for made in (loads(dumps(leaf)), ~leaf):
        assert isinstance(made, CharLeaf)
        assert made.length == 3
