"""A read never exceeds its limits, whatever the file claims. Columns that are unusual but legal can be read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from columns.column_encoder import Encoded, Layout, encode_column, node, numbered
from columns.test_column_vectors import V1, V2, column
from streams.encoders import direct
from streams.framing import chop

from orcidx.errors import Unsupported
from orcidx.orc.column_readers import BatchTooLarge, Limits
from orcidx.orc.kinds import StreamKind, TypeKind
from orcidx.orc.streams import PositionIterator
from orcidx.orc.types import OrcType

STRING = node(TypeKind.STRING)
LONG = node(TypeKind.LONG)
WIDE = 1 << 40

EVERY_KIND = [
    *(node(kind) for kind in TypeKind if kind not in (TypeKind.LIST, TypeKind.MAP, TypeKind.STRUCT, TypeKind.UNION)),
    node(TypeKind.LIST, LONG),
    node(TypeKind.MAP, STRING, LONG),
    node(TypeKind.STRUCT, LONG),
    node(TypeKind.STRUCT),
    node(TypeKind.UNION, LONG, STRING),
]


def unsigned(*values: int) -> bytes:
    return direct(values, signed=False).data


@pytest.mark.parametrize("root", EVERY_KIND, ids=str)
def test_no_rows_need_no_streams(root: OrcType) -> None:
    for encoding in (V1, V2):
        reader = column(root, 0, encoding).open()
        reader.skip(0)
        assert len(reader.read(0)) == 0


def test_validity_is_dropped_where_nothing_is_null() -> None:
    for root in (LONG, STRING, node(TypeKind.BOOLEAN)):
        values: list[Any] = {TypeKind.LONG: [1, 2, 3], TypeKind.STRING: ["a", "", "b"]}.get(root.kind, [True] * 3)
        found = encode_column(numbered(root), values, Layout(keep_present=True)).read()
        assert found.buffers()[0] is None


def test_batches_share_the_dictionary() -> None:
    values = ["Oslo", None, "Rom"] * 9
    encoded = encode_column(numbered(STRING), values, Layout(dictionary=True), dictionaries=frozenset({1}))
    reader = encoded.open(strings="dictionary")
    first, second = reader.read(5), reader.read(5)
    assert first.dictionary.buffers()[2].address == second.dictionary.buffers()[2].address


def test_floats_keep_their_bits() -> None:
    payload = b"\x01\x00\x00\x00\x00\x00\xf8\x7f" + b"\x00" * 7 + b"\x80"
    found = column(node(TypeKind.DOUBLE), 2, V2, DATA=payload).read()
    assert found.buffers()[1].to_pybytes() == payload


def strings(*texts: bytes) -> Encoded:
    return column(STRING, len(texts), V2, DATA=b"".join(texts), LENGTH=unsigned(*map(len, texts)))


def test_strings_too_large_for_a_batch() -> None:
    encoded = strings(b"x" * 400, b"y" * 400)
    encoded.limits = Limits(600)
    reader = encoded.open()
    with pytest.raises(BatchTooLarge):
        reader.read(2)
    reader.seek({1: PositionIterator.start()})
    encoded.limits.begin(600)
    assert reader.read(1).to_pylist() == ["x" * 400]
    encoded.limits.begin(600)
    assert reader.read(1).to_pylist() == ["y" * 400]


def test_what_is_below_a_list_counts() -> None:
    """Limits count the memory of the children of a list. A million elements are little for a list of bytes, but much
    for a list of structs of decimals."""
    length = unsigned(1 << 20)
    wide = node(TypeKind.LIST, node(TypeKind.STRUCT, *[node(TypeKind.DECIMAL, precision=38, scale=0)] * 99))
    encoded = column(wide, 1, V2, LENGTH=length)
    for child in encoded.node.children[0].children:
        encoded.streams[child.id, StreamKind.PRESENT] = chop(b"\x7f\0" * 1009, 1 << 20, "NONE")
    for limits, error in ((Limits(64 << 20), BatchTooLarge), (Limits(None), Unsupported)):
        encoded.limits = limits
        before = pa.total_allocated_bytes()
        with pytest.raises(error):
            encoded.read()
        assert pa.total_allocated_bytes() - before < 1 << 20


def test_a_list_of_empty_structs_has_no_bytes_but_an_end() -> None:
    encoded = column(node(TypeKind.LIST, node(TypeKind.STRUCT)), 1, V2, LENGTH=unsigned(WIDE))
    encoded.limits = Limits(None)
    with pytest.raises(Unsupported, match="2147483647"):
        encoded.read()
    encoded = column(node(TypeKind.LIST, node(TypeKind.STRUCT)), 1, V2, LENGTH=unsigned(1 << 30))
    assert len(encoded.read()[0]) == 1 << 30


def test_claims_of_columns_add_up_and_begin_anew() -> None:
    limits = Limits(100)
    limits.claim(60)
    with pytest.raises(BatchTooLarge):
        limits.claim(60)
    limits.begin(100)
    limits.claim(100)
    limits.begin(None)
    limits.claim(1 << 20)
    limits = Limits(None, held_bytes=1 << 32)
    limits.claim_text((1 << 31) - 1)
    with pytest.raises(Unsupported, match="2147483648 bytes of strings"):
        limits.claim_text(1 << 31)
    with pytest.raises(Unsupported, match=r"one row, .* held_bytes"):
        limits.claim((1 << 31) + 2)


def test_what_is_held_adds_up_and_counts_against_a_single_row() -> None:
    limits = Limits(100, held_bytes=1000)
    limits.hold("one", 400)
    limits.hold("two", 500)
    limits.hold("one", 450)  # replaces the 400 bytes of "one"
    with pytest.raises(
        Unsupported, match=r"dictionaries and open streams of a stripe take at least 1050 .* held_bytes"
    ):
        limits.hold("one", 550)
    limits.hold("one", 300)
    limits.begin(None)
    limits.claim(200)
    with pytest.raises(Unsupported, match="held_bytes"):
        limits.claim(1)
