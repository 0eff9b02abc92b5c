"""The type tree: its text, Arrow types, paths and projection. Also tests the table of the streams of each type."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from orcidx import CorruptFile, InvalidQuery, ReadOptions, Unsupported
from orcidx.orc import types
from orcidx.orc.footer_records import TypeRecord
from orcidx.orc.kinds import EncodingKind, StreamKind
from orcidx.orc.metadata import TypeKind
from orcidx.orc.projection import find_columns, project
from orcidx.orc.streams import PositionIterator, is_decimal64, position_count, position_offsets, stream_layout
from orcidx.orc.types import OrcType, arrow_schema, arrow_type, build_tree, row_bytes
from orcidx.planner.schema_mapping import map_columns

K = TypeKind


def tree(*records: tuple[TypeKind, list[int], list[str]] | TypeRecord) -> OrcType:
    full = [
        item
        if isinstance(item, TypeRecord)
        else TypeRecord(kind=item[0], subtypes=tuple(item[1]), field_names=tuple(item[2]))
        for item in records
    ]
    return build_tree(full)


def leaf(kind: TypeKind, **fields: object) -> TypeRecord:
    return TypeRecord(kind=kind, **fields)  # type: ignore[arg-type]


NESTED = tree(
    (K.STRUCT, [1, 2, 4, 7, 10], ["a.b", "a", "m", "l", "A"]),
    leaf(K.INT),
    (K.STRUCT, [3], ["b"]),
    leaf(K.LONG),
    (K.MAP, [5, 6], []),
    leaf(K.STRING),
    leaf(K.DECIMAL, precision=10, scale=2),
    (K.LIST, [8], []),
    (K.STRUCT, [9], ["x"]),
    leaf(K.DATE),
    leaf(K.BOOLEAN),
)


def test_text_form() -> None:
    assert str(NESTED) == (
        "struct<`a.b`:int,a:struct<b:bigint>,m:map<string,decimal(10,2)>,l:array<struct<x:date>>,A:boolean>"
    )
    odd = tree(
        (K.STRUCT, [1, 2, 3], ["back`tick", "", "Ünï"]),
        leaf(K.CHAR, max_length=5),
        leaf(K.TIMESTAMP_INSTANT),
        leaf(K.VARCHAR, max_length=7),
    )
    assert str(odd) == "struct<`back``tick`:char(5),``:timestamp with local time zone,`Ünï`:varchar(7)>"
    assert str(tree((K.UNION, [1, 2], []), leaf(K.BYTE), leaf(K.GEOMETRY))) == "uniontype<tinyint,geometry>"


def test_tree_pickles_and_compares() -> None:
    assert pickle.loads(pickle.dumps(NESTED)) == NESTED
    assert [node.id for node in NESTED.walk()] == list(range(11))
    assert NESTED.repeated_ids == {5, 6, 8, 9}


OPTIONS = ReadOptions()


@pytest.mark.parametrize(
    ("record", "options", "wanted"),
    [
        (leaf(K.BYTE), {}, pa.int8()),
        (leaf(K.TIMESTAMP), {}, pa.timestamp("ns")),
        (leaf(K.TIMESTAMP), {"timestamp_unit": "ms"}, pa.timestamp("ms")),
        (leaf(K.TIMESTAMP_INSTANT), {"timestamp_unit": "us"}, pa.timestamp("us", tz="UTC")),
        (leaf(K.CHAR, max_length=3), {}, pa.string()),
        (leaf(K.VARCHAR), {"strings": "view"}, pa.string_view()),
        (leaf(K.STRING), {"strings": "dictionary"}, pa.string()),
        (leaf(K.BINARY), {"strings": "view"}, pa.binary()),
        (leaf(K.GEOGRAPHY), {}, pa.binary()),
        (leaf(K.DECIMAL, precision=38, scale=38), {}, pa.decimal128(38, 38)),
        (leaf(K.DECIMAL), {"decimal_zero_precision": (38, 6)}, pa.decimal128(38, 6)),
        (leaf(K.LONG), {}, pa.int64()),
        (leaf(K.LONG, attributes=(("spark.sql.catalyst.type", "timestamp_ntz"),)), {}, pa.timestamp("us")),
        (
            leaf(K.LONG, attributes=(("spark.sql.catalyst.type", "timestamp_ntz"),)),
            {"timestamp_ntz": False},
            pa.int64(),
        ),
    ],
)
def test_arrow_types_of_leaves(record: TypeRecord, options: dict[str, object], wanted: pa.DataType) -> None:
    assert arrow_type(tree(record), OPTIONS.override(**options)) == wanted


def test_arrow_types_of_nested_columns() -> None:
    schema = arrow_schema(NESTED, OPTIONS)
    assert schema.names == ["a.b", "a", "m", "l", "A"]
    assert schema.field("m").type == pa.map_(pa.string(), pa.decimal128(10, 2))
    assert not schema.field("m").type.key_field.nullable
    assert schema.field("l").type.value_field == pa.field("item", pa.struct([("x", pa.date32())]))
    union = tree((K.UNION, [1, 2], []), leaf(K.INT), leaf(K.STRING))
    assert arrow_type(union, OPTIONS) == pa.sparse_union(
        [pa.field("_union_0", pa.int32()), pa.field("_union_1", pa.string())]
    )


def test_row_bytes_are_those_of_arrow() -> None:
    """``row_bytes`` computes the size of a row from the types, if all of them have a fixed size. This size limits the
    first read of a stripe."""
    kinds = [kind for kind in K if kind not in (K.LIST, K.MAP, K.STRUCT, K.UNION)]
    for kind in kinds:
        node = tree(leaf(kind, precision=10, scale=2, max_length=5))
        arrow = arrow_type(node, ReadOptions())
        known = row_bytes(node)
        assert (known is None) == (pa.types.is_binary(arrow) or pa.types.is_string(arrow))
        if known is not None:
            assert known * 8 == arrow.bit_width
    assert row_bytes(tree((K.STRUCT, [1, 2], ["x", "y"]), leaf(K.INT), leaf(K.BOOLEAN))) == 4.125
    assert row_bytes(NESTED) is None


def test_dictionaries_are_chosen_by_column() -> None:
    node = tree((K.STRUCT, [1, 2], ["a", "b"]), leaf(K.STRING), leaf(K.STRING))
    schema = arrow_schema(node, OPTIONS.override(strings="dictionary"), dictionaries={2})
    assert schema.types == [pa.string(), pa.dictionary(pa.int32(), pa.string())]
    assert arrow_schema(node, OPTIONS, dictionaries={2}).types == [pa.string()] * 2


def test_top_level_leaf_is_one_unnamed_column() -> None:
    node = tree(leaf(K.TIMESTAMP))
    assert arrow_schema(node, OPTIONS).names == [""]
    assert project(node, [""]).root == node
    assert find_columns(node, "") == [node]
    nothing = project(node, []).root
    assert (nothing.kind, nothing.children) == (K.STRUCT, ())


@pytest.mark.parametrize(("precision", "scale"), [(39, 0), (10, 11), (2**32 - 1, 0)])
def test_impossible_decimals(precision: int, scale: int) -> None:
    node = tree((K.STRUCT, [1], ["d"]), leaf(K.DECIMAL, precision=precision, scale=scale))
    with pytest.raises(CorruptFile, match="impossible") as caught:
        arrow_schema(node, OPTIONS)
    assert caught.value.column == "d"


def test_unions_have_at_most_127_variants() -> None:
    for count, fine in ((127, True), (128, False)):
        node = tree((K.UNION, list(range(1, count + 1)), []), *[leaf(K.INT)] * count)
        if fine:
            assert arrow_type(node, OPTIONS).num_fields == count
        else:
            with pytest.raises(Unsupported, match="128 variants"):
                arrow_type(node, OPTIONS)


@pytest.mark.parametrize(
    ("columns", "text", "ids"),
    [
        (None, str(NESTED), set(range(11))),
        ([], "struct<>", {0}),
        (["a.b"], "struct<`a.b`:int>", {0, 1}),
        ([("a", "b")], "struct<a:struct<b:bigint>>", {0, 2, 3}),
        (["l.item.x", "a"], "struct<l:array<struct<x:date>>,a:struct<b:bigint>>", {0, 7, 8, 9, 2, 3}),
        (["m.value"], "struct<m:map<string,decimal(10,2)>>", {0, 4, 5, 6}),
        (["m.key"], "struct<m:map<string,decimal(10,2)>>", {0, 4, 5, 6}),
        (["A", "A", "a"], "struct<A:boolean,a:struct<b:bigint>>", {0, 10, 2, 3}),
    ],
)
def test_projection(columns: list[str] | None, text: str, ids: set[int]) -> None:
    projection = project(NESTED, columns)
    assert str(projection.root) == text
    assert projection.ids == ids


def test_projection_inside_maps_and_of_some_fields() -> None:
    node = tree(
        (K.STRUCT, [1], ["m"]),
        (K.MAP, [2, 3], []),
        leaf(K.STRING),
        (K.STRUCT, [4, 5, 6], ["x", "y", "z"]),
        leaf(K.INT),
        leaf(K.INT),
        leaf(K.INT),
    )
    assert str(project(node, ["m.value.z", "m.value.x"]).root) == "struct<m:map<string,struct<z:int,x:int>>>"
    assert str(project(node, ["m.value.z", "m.value"]).root) == str(node)


def test_names_that_repeat_or_differ_in_case() -> None:
    node = tree((K.STRUCT, [1, 2, 3], ["x", "x", "X"]), leaf(K.INT), leaf(K.LONG), leaf(K.DATE))
    assert str(project(node, ["x"]).root) == "struct<x:int,x:bigint>"
    assert str(project(node, ["X"]).root) == "struct<X:date>"
    assert [found.id for found in find_columns(node, "x")] == [1, 2]
    assert str(project(node, ["x"], case_sensitive=False).root) == "struct<x:int,x:bigint>"
    other = tree((K.STRUCT, [1], ["Name"]), leaf(K.INT))
    assert str(project(other, ["nAME"], case_sensitive=False).root) == "struct<Name:int>"
    with pytest.raises(InvalidQuery, match="did you mean 'Name'"):
        find_columns(other, "nAME")


@pytest.mark.parametrize(
    ("path", "hint"),
    [("a.bb", "a.b"), ("l.item.xx", "l.item.x"), (("m", "values"), "m.value"), ("zzz", None), ((), None), ("", None)],
)
def test_unknown_columns_name_the_nearest(path: str, hint: str | None) -> None:
    with pytest.raises(InvalidQuery, match=f"did you mean '{hint}'" if hint else "no column") as caught:
        find_columns(NESTED, path)
    assert hint or "mean" not in str(caught.value)


def test_a_name_with_dots_that_must_be_a_column() -> None:
    """The message must not suggest the name that the caller gave. An earlier version did."""
    with pytest.raises(InvalidQuery, match=r"there is no column 's\.x'; 's\.x' is a field of a struct"):
        find_columns(tree((K.STRUCT, [1], ["s"]), (K.STRUCT, [2], ["x"]), leaf(K.INT)), ("s.x",))


def test_unions_have_no_paths() -> None:
    node = tree((K.STRUCT, [1], ["u"]), (K.UNION, [2], []), leaf(K.INT))
    assert project(node, ["u"]).ids == {0, 1, 2}
    with pytest.raises(InvalidQuery):
        project(node, ["u.0"])


# The table of streams. ``width`` is the number of positions in a row-index entry that a real writer wrote.


@pytest.mark.parametrize(
    ("kind", "encoding", "present", "compressed", "width"),
    [
        (K.LONG, EncodingKind.DIRECT_V2, False, True, 3),
        (K.LONG, EncodingKind.DIRECT, False, False, 2),
        (K.BOOLEAN, EncodingKind.DIRECT, True, True, 8),
        (K.BOOLEAN, EncodingKind.DIRECT, False, False, 3),
        (K.STRUCT, EncodingKind.DIRECT, True, True, 4),
        (K.STRUCT, EncodingKind.DIRECT, False, True, 0),
        (K.DECIMAL, EncodingKind.DIRECT_V2, False, True, 5),
        (K.TIMESTAMP, EncodingKind.DIRECT_V2, False, True, 6),
        (K.STRING, EncodingKind.DIRECT_V2, True, False, 6),
        (K.STRING, EncodingKind.DICTIONARY_V2, False, True, 3),
        (K.DOUBLE, EncodingKind.DIRECT, False, False, 1),
        (K.MAP, EncodingKind.DIRECT_V2, True, True, 7),
        (K.UNION, EncodingKind.DIRECT, False, True, 3),
    ],
)
def test_positions_of_an_entry(kind: K, encoding: EncodingKind, present: bool, compressed: bool, width: int) -> None:
    node = OrcType(id=1, kind=kind, precision=30, scale=2)
    layout = stream_layout(node, encoding, decimal64=False)
    assert position_count(layout, has_present=present, compressed=compressed) == width


def test_dictionaries_are_not_addressed() -> None:
    layout = stream_layout(OrcType(id=1, kind=K.STRING), EncodingKind.DICTIONARY_V2, decimal64=False)
    assert [spec.kind.name for spec in layout] == ["DATA", "LENGTH", "DICTIONARY_DATA"]
    offsets = position_offsets(layout, has_present=True, compressed=True)
    assert {kind: at for kind, (at, _) in offsets.items()} == {StreamKind.PRESENT: 0, StreamKind.DATA: 4}


def test_decimal64_is_one_stream_of_signed_integers() -> None:
    short, long = (OrcType(id=1, kind=K.DECIMAL, precision=digits, scale=2) for digits in (18, 19))
    assert [is_decimal64(node, decimal64=True) for node in (short, long)] == [True, False]
    (data,) = stream_layout(short, EncodingKind.DIRECT_V2, decimal64=True)
    assert (data.kind, data.signed) == (StreamKind.DATA, True)
    assert len(stream_layout(long, EncodingKind.DIRECT_V2, decimal64=True)) == 2
    assert len(stream_layout(short, EncodingKind.DIRECT_V2, decimal64=False)) == 2


@pytest.mark.parametrize("kind", [kind for kind in K if kind not in (K.STRING, K.CHAR, K.VARCHAR)])
@pytest.mark.parametrize("encoding", [EncodingKind.DICTIONARY, EncodingKind.DICTIONARY_V2])
def test_only_strings_have_dictionaries(kind: K, encoding: EncodingKind) -> None:
    with pytest.raises(CorruptFile, match="encoding DICTIONARY"):
        stream_layout(OrcType(id=1, kind=kind, path=("c",)), encoding, decimal64=False)


def test_position_iterator() -> None:
    positions = PositionIterator([5, 7])
    assert (positions.take(), positions.take()) == (5, 7)
    with pytest.raises(CorruptFile, match="need more"):
        positions.take()
    start = PositionIterator.start()
    assert [start.take() for _ in range(9)] == [0] * 9


def spelled(node: OrcType, path: str | tuple[str, ...]) -> list[OrcType]:
    """A simple version of the rule for paths. It returns all columns that ``path`` spells exactly. Columns with the
    longest first name come first."""
    if node.kind is K.UNION:
        return []
    found: dict[int, list[OrcType]] = {}
    for name, child in zip(node.names, node.children):
        if isinstance(path, tuple):
            rest: str | tuple[str, ...] | None = path[1:] if path[:1] == (name,) else None
        else:
            rest = "" if path == name else path[len(name) + 1 :] if path.startswith(f"{name}.") else None
            rest = None if rest == "" and path != name else rest
        if rest is not None:
            found.setdefault(len(name), []).extend(spelled(child, rest) if rest else [child])
    return found[max(lengths)] if (lengths := [n for n, routes in found.items() if routes]) else []


def test_paths_are_found_by_the_rule(rng: np.random.Generator) -> None:
    """At two levels, some names have dots, some occur twice, and some are the beginning of another name."""
    words = ["a", "b", "a.b", "b.a", "a.b.a", ".", "a.", ".a", "é"]
    for _ in range(60):
        outer = [words[i] for i in rng.integers(0, len(words), 5)]
        inner = [words[i] for i in rng.integers(0, len(words), 4)]
        node = tree(
            (K.STRUCT, [1, 2, 3, 4, 5], outer), *[leaf(K.INT)] * 4, (K.STRUCT, [6, 7, 8, 9], inner), *[leaf(K.DATE)] * 4
        )
        for path in [".".join(pair) for pair in product(words, repeat=2)] + words + list(product(words, repeat=2)):
            expected = spelled(node, path)
            if expected:
                assert find_columns(node, path) == expected, (outer, inner, path)
            else:
                with pytest.raises(InvalidQuery):
                    find_columns(node, path)


class Name(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)


def test_asking_for_many_columns_looks_at_each_once() -> None:
    """The number of comparisons of names grows linearly with the number of columns, not quadratically."""
    names = [Name(f"c{i}") for i in range(2000)]
    node = tree((K.STRUCT, list(range(1, 2001)), list(names)), *[leaf(K.INT)] * 2000)
    asked = [str(name) for name in names[::-2]]
    Name.compared = 0
    assert [one.field.name for one in map_columns(node, asked, options=OPTIONS)] == asked
    assert Name.compared < 10 * len(names)


def test_a_name_of_many_columns() -> None:
    count = 50_000
    node = tree((K.STRUCT, list(range(1, count + 1)), ["x"] * count), *[leaf(K.INT)] * count)
    assert len(find_columns(node, "x")) == count


def test_a_wide_tree_makes_the_columns_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the columns that are used are created, and each is created once. The tree equals a tree that is created as a
    whole."""

    def wide() -> OrcType:
        integer, money = leaf(K.INT), leaf(K.DECIMAL, precision=9)
        records = [TypeRecord(K.STRUCT, (1, 2, *range(5, 105)), tuple(f"c{i}" for i in range(102)))]
        records += [integer, TypeRecord(K.LIST, (3,)), TypeRecord(K.LIST, (4,)), leaf(K.LONG), *[money, integer] * 50]
        return build_tree(records)

    with monkeypatch.context() as patch:
        patch.setattr(types, "WIDE_COLUMNS", 1 << 20)
        usual = wide()
    assert type(usual) is OrcType
    tree = wide()
    with monkeypatch.context() as patch:
        patch.setattr(types, "_build_children", lambda *_: pytest.fail("all columns were made"))
        assert [tree.child(place).id for place in (0, 3, 101)] == [1, 6, 104]
        assert project(tree, ["c3", "c0"]).root.children == (usual.children[3], usual.children[0])
        assert replace(tree, children=(usual.children[0],), names=("c0",)).children == usual.children[:1]
    assert tree.child(1) == usual.children[1]
    assert tree.child(1).path == ("c1",)
    assert str(tree) == str(usual)
    assert type(tree) is OrcType
    assert tree.child(5) is tree.children[5]
    for one, other in ((wide(), usual), (usual, wide()), (wide(), wide()), (pickle.loads(pickle.dumps(wide())), usual)):
        assert one == other
    assert len({wide(), wide(), usual}) == 1
    assert repr(wide()) == repr(usual)
    assert wide() != usual.children[0]
    assert [node.id for node in wide().walk()] == list(range(105))
