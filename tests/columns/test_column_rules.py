"""Rules of the format that readers often get wrong, with a test each: strings, lists, maps, unions, and limits."""

import numpy as np
import pyarrow as pa
import pytest
from columns.column_encoder import node
from columns.raw_column import (
    DATA,
    DICTIONARY,
    DICTIONARY_DATA,
    DICTIONARY_V2,
    LENGTH,
    PRESENT,
    V1,
    raw_column,
    values,
)
from streams.encoders import Run, delta, direct, encode_bits, encode_bytes, fixed_delta, short_repeat
from streams.framing import chop

from orcidx.errors import CorruptFile, Unsupported, ValueOutOfRange
from orcidx.options import ReadOptions
from orcidx.orc.column_readers import BatchTooLarge
from orcidx.orc.columns.base import Limits
from orcidx.orc.int_rle import IntRle
from orcidx.orc.kinds import TypeKind
from orcidx.orc.timestamps import read_days

ALL_NULL = encode_bits([False] * 8).data
LONG = node(TypeKind.LONG)


def unsigned(*numbers: int) -> bytes:
    return direct(numbers, signed=False).data


def signed(*numbers: int) -> bytes:
    return direct(numbers, signed=True).data


# --- absent and empty streams -----------------------------------------------------------------------------------------

LEAVES = [kind for kind in TypeKind if kind not in (TypeKind.STRUCT, TypeKind.LIST, TypeKind.MAP, TypeKind.UNION)]


@pytest.mark.parametrize("kind", LEAVES)
@pytest.mark.parametrize("has_empty_streams", [False, True])
def test_all_nulls_need_no_other_stream(kind: TypeKind, has_empty_streams: bool) -> None:
    empty = {DATA: b"", LENGTH: b""} if has_empty_streams else {}
    column = raw_column(kind, {PRESENT: ALL_NULL, **empty}, 5, precision=9)
    assert values(column) == [None] * 5
    column.open().skip(5)


@pytest.mark.parametrize("kind", [TypeKind.LIST, TypeKind.MAP, TypeKind.UNION, TypeKind.STRUCT])
def test_all_nulls_of_nested_types_need_no_other_stream(kind: TypeKind) -> None:
    column = raw_column(kind, {PRESENT: ALL_NULL}, 5, children=[LONG] * (1 if kind is TypeKind.LIST else 2))
    assert values(column) == [None] * 5


@pytest.mark.parametrize("encoding", [DICTIONARY, DICTIONARY_V2])
def test_all_nulls_of_an_empty_dictionary(encoding: int) -> None:
    assert values(raw_column(TypeKind.STRING, {PRESENT: ALL_NULL}, 5, encoding=encoding)) == [None] * 5


def test_empty_strings_need_no_data() -> None:
    assert values(raw_column(TypeKind.STRING, {LENGTH: unsigned(0, 0, 0)}, 3)) == ["", "", ""]
    assert values(raw_column(TypeKind.BINARY, {LENGTH: unsigned(0, 0, 0)}, 3)) == [b"", b"", b""]


def test_more_data_than_values_is_ignored() -> None:
    assert values(raw_column(TypeKind.STRING, {LENGTH: unsigned(1, 2), DATA: b"abcdef"}, 2)) == ["a", "bc"]


@pytest.mark.parametrize(
    ("kind", "streams"),
    [
        (TypeKind.LONG, {}),
        (TypeKind.BOOLEAN, {}),
        (TypeKind.DOUBLE, {DATA: bytes(23)}),
        (TypeKind.STRING, {DATA: b"abc"}),
        (TypeKind.STRING, {LENGTH: unsigned(1, 1, 2), DATA: b"abc"}),
        (TypeKind.STRING, {PRESENT: b"", LENGTH: unsigned(1, 1, 1), DATA: b"abc"}),
        (TypeKind.DECIMAL, {DATA: bytes([2, 2, 2])}),
        (TypeKind.TIMESTAMP, {DATA: signed(1, 2, 3)}),
    ],
)
def test_values_that_are_not_there(kind: TypeKind, streams: dict) -> None:
    with pytest.raises(CorruptFile, match="ends before its values do") as caught:
        values(raw_column(kind, streams, 3, precision=9))
    assert caught.value.column == "c"
    assert caught.value.stream in ("PRESENT", "DATA", "LENGTH", "SECONDARY")


# --- dictionaries -----------------------------------------------------------------------------------------------------


def dictionary(*indexes: int, size: int = 2, lengths: bytes | None = None, blob: bytes = b"abc") -> object:
    streams = {DATA: unsigned(*indexes), LENGTH: unsigned(1, 2) if lengths is None else lengths, DICTIONARY_DATA: blob}
    streams = {kind: data for kind, data in streams.items() if data}
    return raw_column(TypeKind.STRING, streams, len(indexes), encoding=DICTIONARY_V2, dictionary_size=size)


def test_dictionary() -> None:
    assert values(dictionary(1, 0, 1)) == ["bc", "a", "bc"]
    assert values(dictionary(1, 0, 1, blob=b"abc and more")) == ["bc", "a", "bc"]
    assert values(dictionary(0, 1, lengths=unsigned(0, 0), blob=b"")) == ["", ""]


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize(
    "lengths", [(0,), (1,), (5,), (0, 1), (3, 8), (2, 16), (9, 17), (1, 32), (1, 33), (100,)], ids=str
)
def test_dictionary_entries_of_all_lengths(rng: np.random.Generator, lengths: tuple[int, ...], nulls: bool) -> None:
    """The reader copies dictionary entries in steps of 8, 16 or 32 bytes, or with their exact length."""
    sizes = [*lengths, *(int(size) for size in rng.choice(lengths, 18))]
    entries = [rng.integers(97, 123, size).astype(np.uint8).tobytes() for size in sizes]
    picked = [int(index) for index in rng.integers(0, len(entries), 9000)]
    present = [not nulls or rng.random() < 0.7 for _ in picked]
    kept = [index for index, there in zip(picked, present, strict=True) if there]
    streams = {
        PRESENT: encode_bits(present).data,
        DATA: b"".join(unsigned(*kept[start : start + 300]) for start in range(0, len(kept), 300)),
        LENGTH: unsigned(*sizes),
        DICTIONARY_DATA: b"".join(entries),
    }
    streams = {kind: data for kind, data in streams.items() if data and (nulls or kind != PRESENT)}
    column = raw_column(TypeKind.STRING, streams, len(picked), encoding=DICTIONARY_V2, dictionary_size=len(entries))
    wanted = [entries[index].decode() if there else None for index, there in zip(picked, present, strict=True)]
    assert values(column) == wanted
    reader = column.open()
    read = [text for start in range(0, 9000, 700) for text in reader.read(min(700, 9000 - start)).to_pylist()]
    assert read == wanted


@pytest.mark.parametrize("strings", ["string", "dictionary", "view"])
@pytest.mark.parametrize("index", [2, 1 << 31, (1 << 32) + 1, (1 << 64) - 1])
def test_an_index_behind_the_dictionary(index: int, strings: str) -> None:
    column = dictionary(0, index)
    column.dictionaries = frozenset({1})
    with pytest.raises(CorruptFile, match=f"dictionary index {index} is outside a dictionary of 2 entries"):
        values(column, strings=strings)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lengths": b""}, "LENGTH"),
        ({"lengths": unsigned(1)}, "LENGTH"),
        ({"lengths": unsigned(1, 3)}, "DICTIONARY_DATA"),
        ({"blob": b""}, "DICTIONARY_DATA"),
        ({"lengths": unsigned(1, 1 << 63)}, "negative"),
        ({"size": (1 << 26) - 1}, "LENGTH"),
    ],
)
def test_a_damaged_dictionary(wrong: dict, message: str) -> None:
    with pytest.raises(CorruptFile, match=message):
        values(dictionary(0, 1, **wrong))


def test_dictionaries_beyond_what_is_read() -> None:
    with pytest.raises(Unsupported, match="4294967295 entries"):
        values(dictionary(0, size=(1 << 32) - 1))
    with pytest.raises(Unsupported, match="bytes"):
        values(dictionary(0, lengths=unsigned(1 << 30, 1 << 30)))
    with pytest.raises(CorruptFile, match="add up"):
        values(dictionary(0, lengths=unsigned((1 << 63) - 1, (1 << 63) - 1)))


def test_a_long_dictionary_comes_in_pieces() -> None:
    size = 200_000
    texts = [str(i % 1000) for i in range(size)]
    runs = b"".join(unsigned(*map(len, texts[at : at + 500])) for at in range(0, size, 500))
    column = dictionary(0, 65_535, 65_536, size - 1, size=size, lengths=runs, blob="".join(texts).encode())
    assert values(column) == [texts[0], texts[65_535], texts[65_536], texts[-1]]


def test_strings_as_dictionaries_and_views() -> None:
    column = dictionary(1, 0, 1)
    column.dictionaries = frozenset({1})
    array = column.read(strings="dictionary")
    assert array.type == pa.dictionary(pa.int32(), pa.string())
    assert array.dictionary.to_pylist() == ["a", "bc"]
    assert array.to_pylist() == ["bc", "a", "bc"]
    # If a column is not in ``dictionaries``, other stripes may store it without a dictionary. So the type is string.
    assert dictionary(1, 0).read(strings="dictionary").type == pa.string()
    view = dictionary(1, 0).read(strings="view")
    assert view.type == pa.string_view()
    assert view.to_pylist() == ["bc", "a"]


# --- text options -----------------------------------------------------------------------------------------------------

BROKEN = (b"a\xff", b"ok", b"\xc3")  # together b"a\xffok\xc3"


def broken(kind: TypeKind, *, as_dictionary: bool) -> object:
    streams = {LENGTH: unsigned(*map(len, BROKEN)), DICTIONARY_DATA if as_dictionary else DATA: b"".join(BROKEN)}
    if as_dictionary:
        streams[DATA] = unsigned(0, 1, 2)
    encoding = DICTIONARY_V2 if as_dictionary else 2
    return raw_column(kind, streams, 3, encoding=encoding, dictionary_size=3 * as_dictionary, max_length=4)


@pytest.mark.parametrize("as_dictionary", [False, True])
@pytest.mark.parametrize("kind", [TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR])
def test_text_that_is_not_utf8(kind: TypeKind, as_dictionary: bool) -> None:
    column = broken(kind, as_dictionary=as_dictionary)
    with pytest.raises(CorruptFile, match="not UTF-8"):
        column.read()
    assert column.read(utf8="replace").to_pylist() == ["a�", "ok", "�"]
    assert column.read(utf8="unchecked").view(pa.binary()).to_pylist() == list(BROKEN)
    for char in ("trimmed", "padded"):
        read = column.read(utf8="unchecked", char=char).view(pa.binary()).to_pylist()
        assert [value.rstrip() for value in read] == list(BROKEN)


def test_a_character_across_two_strings_is_not_utf8() -> None:
    column = raw_column(TypeKind.STRING, {LENGTH: unsigned(1, 1), DATA: "ü".encode()}, 2)
    with pytest.raises(CorruptFile, match="not UTF-8"):
        column.read()


@pytest.mark.parametrize("as_dictionary", [False, True])
def test_char_padding(as_dictionary: bool) -> None:
    texts = ["a   ", "a", "ü ", "", "    ", "long text"]
    streams = {LENGTH: unsigned(*(len(text.encode()) for text in texts))}
    streams[DICTIONARY_DATA if as_dictionary else DATA] = "".join(texts).encode()
    if as_dictionary:
        streams[DATA] = unsigned(*range(len(texts)))
    encoding = DICTIONARY_V2 if as_dictionary else 2
    column = raw_column(TypeKind.CHAR, streams, 6, encoding=encoding, dictionary_size=6 * as_dictionary, max_length=4)
    assert values(column) == texts
    assert values(column, char="trimmed") == ["a", "a", "ü", "", "", "long text"]
    assert values(column, char="padded") == ["a   ", "a   ", "ü   ", "    ", "    ", "long text"]
    assert values(column, char="padded", strings="view") == ["a   ", "a   ", "ü   ", "    ", "    ", "long text"]


def test_padding_does_not_blow_up() -> None:
    column = raw_column(TypeKind.CHAR, {LENGTH: unsigned(0), DATA: b""}, 1, max_length=(1 << 32) - 1)
    assert values(column) == [""]
    with pytest.raises(Unsupported, match="too long to be padded"):
        values(column, char="padded")
    many = raw_column(
        TypeKind.CHAR, {LENGTH: fixed_delta(0, 0, 100, signed=False).data}, 100, max_length=1000, limits=Limits(99_999)
    )
    with pytest.raises(BatchTooLarge):
        values(many, char="padded")


# --- lists, maps, unions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [TypeKind.LIST, TypeKind.MAP])
@pytest.mark.parametrize("length", [1 << 63, (1 << 64) - 1])
def test_a_negative_length(kind: TypeKind, length: int) -> None:
    children = [LONG] * (1 if kind is TypeKind.LIST else 2)
    column = raw_column(kind, {LENGTH: unsigned(1, length)}, 2, children=children)
    with pytest.raises(CorruptFile, match="negative") as caught:
        values(column)
    assert caught.value.stream == "LENGTH"
    reader = column.open()
    reader.skip(2)
    with pytest.raises(CorruptFile, match="negative"):
        reader.read(0)


@pytest.mark.parametrize("length", [1 << 27, 1 << 40, (1 << 63) - 1])
def test_a_huge_length_allocates_nothing(length: int) -> None:
    column = raw_column(TypeKind.LIST, {LENGTH: unsigned(length), (2, DATA): signed(1)}, 1, children=[LONG])
    column.limits = Limits(64 << 20)
    with pytest.raises(BatchTooLarge):
        column.read()
    # With the limit None, a single row is read. It cannot be split into smaller batches, so another error is raised.
    column.limits = Limits(None)
    with pytest.raises(Unsupported, match=r"the lists of a row have \d+ elements|one row.* held_bytes"):
        column.read()


def test_a_long_list_without_its_elements() -> None:
    column = raw_column(TypeKind.LIST, {LENGTH: unsigned(1 << 20), (2, DATA): signed(1)}, 1, children=[LONG])
    with pytest.raises(CorruptFile, match="ends before") as caught:
        column.read()
    assert caught.value.column == "c.item"


def test_lengths_that_add_up_to_too_much_to_skip() -> None:
    lists = node(TypeKind.LIST, node(TypeKind.UNION, LONG, LONG))
    streams = {LENGTH: unsigned(1), (2, LENGTH): unsigned((1 << 62) - 1), (3, DATA): bytes([127, 1])}
    column = raw_column(TypeKind.LIST, streams, 1, children=[lists])
    reader = column.open()
    reader.skip(1)
    with pytest.raises(CorruptFile):
        reader.read(0)


@pytest.mark.parametrize(
    "run",
    [
        short_repeat(1 << 31, 5, signed=True),
        direct([7, -(1 << 31) - 1, 7, 7], signed=True),
        fixed_delta(0, 1 << 29, 20, signed=True),
        fixed_delta((1 << 31) - 10, 1, 20, signed=True),
        delta(0, 1 << 29, [1 << 29] * 8, signed=True),
        delta(-(1 << 31) + 5, -1, [2] * 8, signed=True),
    ],
    ids=["repeated", "direct", "long steps", "short steps", "long differences", "short differences"],
)
def test_days_beyond_32_bits_are_refused_in_runs_of_every_form(run: Run) -> None:
    """A run with a day beyond 32 bits is refused if it is read alone, and if it is decoded together with other runs."""
    others = direct(range(300), signed=True).data
    for before, behind in ((0, 0), (0, 1), (1, 1)):
        data = others * before + run.data + others * behind
        rows = 300 * (before + behind) + len(run.values)
        with pytest.raises(ValueOutOfRange, match="millions of years"):
            raw_column(TypeKind.DATE, {DATA: data}, rows).read()
        stream = IntRle(chop(data, len(data), "NONE").window(), version=2, signed=True)
        with pytest.raises(ValueOutOfRange, match="millions of years"):
            read_days(stream, np.empty(rows, np.int32), rows, -141_427)


def test_map_keys_that_are_null() -> None:
    streams = {LENGTH: unsigned(2), (2, PRESENT): encode_bits([True, False]).data, (2, DATA): signed(7)}
    column = raw_column(TypeKind.MAP, {**streams, (3, DATA): signed(1, 2)}, 1, children=[LONG, LONG])
    with pytest.raises(CorruptFile, match="map keys are null"):
        values(column)


def test_map_keys_that_repeat_are_kept() -> None:
    streams = {LENGTH: unsigned(2), (2, DATA): signed(7, 7), (3, DATA): signed(1, 2)}
    column = raw_column(TypeKind.MAP, streams, 1, children=[LONG, LONG])
    assert values(column) == [[(7, 1), (7, 2)]]


@pytest.mark.parametrize("tag", [2, 127, 128, 255])
def test_a_union_tag_without_variant(tag: int) -> None:
    streams = {DATA: encode_bytes(bytes([0, tag])).data, (2, DATA): signed(1, 2), (3, DATA): signed(3, 4)}
    column = raw_column(TypeKind.UNION, streams, 2, children=[LONG, LONG])
    with pytest.raises(CorruptFile, match=f"the tag {tag}, but the tags must go from 0 to 1"):
        column.read()
    reader = column.open()
    reader.skip(2)
    with pytest.raises(CorruptFile, match=f"tag {tag}"):
        reader.read(0)


def test_a_union_has_at_most_127_variants() -> None:
    most = raw_column(TypeKind.UNION, {DATA: bytes([255, 126]), (128, DATA): signed(9)}, 1, children=[LONG] * 127)
    assert values(most) == [9]
    with pytest.raises(Unsupported, match="128 variants"):
        raw_column(TypeKind.UNION, {DATA: bytes([255, 0])}, 1, children=[LONG] * 128).open()


def test_a_null_union_is_a_null_of_its_first_variant() -> None:
    streams = {PRESENT: encode_bits([True, False, True]).data, DATA: bytes([254, 1, 0])}
    column = raw_column(
        TypeKind.UNION, {**streams, (2, DATA): signed(5), (3, DATA): signed(6)}, 3, children=[LONG, LONG]
    )
    assert values(column) == [6, None, 5]
    assert column.read().type_codes.to_pylist() == [1, 0, 0]


def test_a_struct_without_fields_keeps_its_rows() -> None:
    column = raw_column(TypeKind.STRUCT, {PRESENT: encode_bits([True, False, True]).data}, 3)
    assert values(column) == [{}, None, {}]
    assert values(raw_column(TypeKind.STRUCT, {}, 3)) == [{}, {}, {}]


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [TypeKind.STRING, TypeKind.BINARY])
def test_bytes_beyond_the_limit(kind: TypeKind) -> None:
    column = raw_column(kind, {LENGTH: unsigned(10, 10), DATA: b"x" * 20}, 2, limits=Limits(31))
    with pytest.raises(BatchTooLarge):
        column.read()
    column.limits = Limits(32)  # 20 bytes of data and 12 bytes of offsets
    assert len(column.read()) == 2


def test_no_limit_is_above_what_an_array_addresses() -> None:
    column = raw_column(TypeKind.STRING, {LENGTH: unsigned(1 << 30, 1 << 30)}, 2, limits=Limits(1 << 40))
    with pytest.raises(BatchTooLarge):
        column.read()
    column.limits = Limits(None)
    with pytest.raises(Unsupported, match="2147483648 bytes of strings"):
        column.read()


def test_a_string_longer_than_its_stream_is_found_early() -> None:
    column = raw_column(TypeKind.STRING, {LENGTH: unsigned((1 << 31) - 20), DATA: b"abc"}, 1)
    column.limits = Limits(None, held_bytes=1 << 32)
    with pytest.raises(CorruptFile, match="ends before"):
        column.read()


def test_small_integers_wrap() -> None:
    """A value that is too large for SHORT or INT wraps around, as in ORC Java and ORC C++."""
    assert values(raw_column(TypeKind.SHORT, {DATA: signed(40_000)}, 1)) == [-25_536]
    assert values(raw_column(TypeKind.INT, {DATA: signed(1 << 31)}, 1)) == [-(1 << 31)]


@pytest.mark.parametrize("kind", [TypeKind.LONG, TypeKind.DECIMAL, TypeKind.TIMESTAMP, TypeKind.LIST, TypeKind.BINARY])
def test_a_dictionary_encoding_is_for_text_only(kind: TypeKind) -> None:
    column = raw_column(kind, {DATA: signed(1)}, 1, encoding=DICTIONARY_V2, precision=9, children=[LONG])
    with pytest.raises(CorruptFile, match="DICTIONARY"):
        column.open()


def test_version_1_runs_in_any_file() -> None:
    assert values(raw_column(TypeKind.LONG, {DATA: "f80001020304050607"}, 8, encoding=V1)) == [
        0, -1, 1, -2, 2, -3, 3, -4,
    ]  # fmt: skip
    assert values(raw_column(TypeKind.LONG, {DATA: short_repeat(5, 4, signed=True).data}, 4)) == [5] * 4


def test_options_are_checked() -> None:
    for wrong in ({"strings": "text"}, {"char": "cut"}, {"utf8": "ignore"}, {"timestamp_unit": "m"}, {"calendar": ""}):
        with pytest.raises(ValueError, match="must be one of"):
            ReadOptions(**wrong)
