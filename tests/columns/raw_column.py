"""Columns whose streams are given as bytes, either alone or inside a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orc_messages as orc
import pyarrow as pa
from columns.column_encoder import Encoded, Layout, node, numbered
from streams.framing import chop

from orcidx.orc.columns.base import Limits
from orcidx.orc.footer_records import ColumnEncoding
from orcidx.orc.kinds import EncodingKind, StreamKind, TypeKind

PRESENT, DATA, LENGTH = StreamKind.PRESENT, StreamKind.DATA, StreamKind.LENGTH
DICTIONARY_DATA, SECONDARY = StreamKind.DICTIONARY_DATA, StreamKind.SECONDARY
V1, V2 = EncodingKind.DIRECT, EncodingKind.DIRECT_V2
DICTIONARY, DICTIONARY_V2 = EncodingKind.DICTIONARY, EncodingKind.DICTIONARY_V2

Streams = Mapping[StreamKind | tuple[int, StreamKind], bytes | str]


def raw_column(
    kind: TypeKind,
    streams: Streams,
    rows: int,
    *,
    encoding: EncodingKind = V2,
    dictionary_size: int = 0,
    children: Sequence[Any] = (),
    timezone: str | None = "UTC",
    decimal64: bool = False,
    limits: Limits | None = None,
    **fields: Any,
) -> Encoded:
    """Returns column 1. Its children have the next ids, in pre-order. ``streams``: hex text or bytes, by kind, or by
    (column, kind) for the children.

    ``encoding`` is that of column 1. Its children have the direct encoding of the same version.
    """
    root = numbered(node(kind, *children, **fields))
    direct = V1 if encoding in (V1, DICTIONARY) else V2
    encoded = Encoded(root, Layout(decimal64=decimal64), rows, writer_timezone=timezone)
    if limits is not None:
        encoded.limits = limits
    for below in root.walk():
        encoded.encodings[below.id] = ColumnEncoding(direct)
    encoded.encodings[1] = ColumnEncoding(encoding, dictionary_size=dictionary_size)
    for key, data in streams.items():
        place = key if isinstance(key, tuple) else (1, key)
        content = bytes.fromhex(data) if isinstance(data, str) else data
        encoded.streams[place] = chop(content, max(1, len(content)), "NONE")
    return encoded


def values(encoded: Encoded, **options: Any) -> list[Any]:
    """Reads all rows as Python values."""
    array: pa.Array = encoded.read(**options)
    array.validate(full=True)
    return array.to_pylist()


def file_of(
    types: Sequence[bytes],
    streams: Sequence[tuple[int, StreamKind, bytes]],
    rows: int,
    *,
    encodings: Mapping[int, bytes] = {},
    stripes: int = 1,
    timezone: str = "UTC",
    footer_fields: bytes = b"",
    postscript_fields: bytes = b"",
) -> bytes:
    """Returns an uncompressed file of equal stripes. ``streams``: (column, kind, bytes) in order. ``encodings``:
    messages by column, with DIRECT_V2 as the default."""
    data = b"".join(content for _, _, content in streams)
    footer = orc.stripe_footer(
        [(int(kind), column, len(content)) for column, kind, content in streams],
        [encodings.get(column, orc.uint(1, 2 if column else 0)) for column in range(len(types))],
        timezone,
    )
    return orc.orc_file(
        types,
        stripes=[(data, footer, rows)] * stripes,
        footer_fields=orc.uint(6, rows * stripes) + footer_fields,
        postscript_fields=postscript_fields,
    )


def single(kind: str, streams: Sequence[tuple[StreamKind, bytes]], rows: int, **more: Any) -> bytes:
    """Returns a file of type ``struct<c: kind>``. ``more``: fields of the type, and arguments of ``file_of``."""
    known = ("encodings", "stripes", "timezone", "footer_fields", "postscript_fields")
    of_file = {name: more.pop(name) for name in known if name in more}
    types = [orc.type_message("struct", [1], ["c"]), orc.type_message(kind, **more)]
    return file_of(types, [(1, stream, content) for stream, content in streams], rows, **of_file)
