"""Fuzzes the decoders of streams. The input is the decoder, the codec, the size of the pieces, the number of values,
and the position to seek to, followed by the bytes."""

import array

from bad.fuzz_targets.harness import Reader, fuzz, instrumented

with instrumented():
    from orcidx.errors import OrcidxError
    from orcidx.orc import buffers
    from orcidx.orc.byte_rle import BooleanRle, ByteRle, RawBytes
    from orcidx.orc.compression import open_codec
    from orcidx.orc.decimals import read_decimals, read_short_decimals, skip_varints
    from orcidx.orc.int_rle import IntRle
    from orcidx.orc.kinds import CompressionKind
    from orcidx.orc.streams import PositionIterator
    from orcidx.orc.timestamps import decode, read_days
    from orcidx.orc.window import Window

CODECS = [None, None, None, *(open_codec(kind) for kind in CompressionKind if kind != CompressionKind.NONE)]
BLOCK = 512


class Pieces:
    """A stream that storage delivers in pieces."""

    def __init__(self, data: bytes, piece: int) -> None:
        self.data = data
        self.length = len(data)
        self.piece = piece

    def fetch(self, offset: int) -> bytes:
        return self.data[offset : offset + self.piece]


def one(data: bytes) -> None:
    told = Reader(data)
    kind, codec, piece, rows = told.below(11), CODECS[told.below(9)], 1 + told.below(256), 1 + 3 * told.below(256)
    skip, positions = told.below(256), [told.below(256) for _ in range(4)]
    streaming = told.below(4) == 0
    body = told.rest()
    half = len(body) // 2

    def window(part: bytes = body) -> Window:
        return Window(Pieces(part, piece), codec, BLOCK, name="DATA")

    try:
        if kind < 4:
            integers = IntRle(window(), version=1 + kind % 2, signed=kind > 1)
            for code in "qih":
                integers.seek(PositionIterator.start())
                integers.read(array.array(code, bytes(8 * rows)), rows, streaming=streaming)
            integers.skip(skip)
            integers.seek(PositionIterator(positions))
            integers.read(array.array("q", bytes(8 * rows)), rows)
        elif kind == 4:
            tags = ByteRle(window())
            tags.read(bytearray(rows), rows)
            tags.skip(skip)
            tags.seek(PositionIterator(positions))
            tags.read(bytearray(rows), rows)
        elif kind == 5:
            bits = BooleanRle(window())
            out = bytearray(8 * (rows // 64 + 3))
            assert 0 <= bits.read_bits(out, skip % 64, rows) <= rows
            assert 0 <= bits.skip(skip) <= skip
            bits.seek(PositionIterator(positions))
            bits.read_bits(out, 0, rows)
        elif kind == 6:
            raw = RawBytes(window())
            raw.read_into(bytearray(rows), rows)
            raw.read_text(bytearray(rows), rows)
            raw.skip(skip)
            raw.seek(PositionIterator(positions))
            raw.read_into(bytearray(rows), rows)
        elif kind == 7:
            values = window(body[:half])
            scales = IntRle(window(body[half:]), version=1 + streaming, signed=True)
            rounding = ("half_up", "truncate", "error")[skip % 3]
            read_decimals(values, scales, bytearray(16 * rows), rows, scale=piece % 39, precision=38, rounding=rounding)
            skip_varints(values, skip)
        elif kind == 8:
            read_short_decimals(
                IntRle(window(), version=2, signed=True), bytearray(16 * rows), rows, scale=2, precision=1 + skip % 18
            )
        elif kind == 9:
            offsets = array.array("i", bytes(4 * (rows + 1)))
            total = buffers.read_offsets(IntRle(window(), version=2, signed=False), None, rows, rows, offsets)
            assert total >= 0
            assert total > 2**31 - 1 or (offsets[rows] == total and list(offsets) == sorted(offsets))
            buffers.skip_lengths(IntRle(window(), version=1, signed=False), skip)
        else:
            days = array.array("i", bytes(4 * rows))
            read_days(IntRle(window(body[:half]), version=2, signed=True), days, rows, -141427)
            seconds, nanos = (array.array("q", bytes(8 * rows)) for _ in range(2))
            IntRle(window(body[half:]), version=1, signed=True).read(seconds, rows)
            decode(seconds, nanos, rows, 0)
    except OrcidxError:
        pass


if __name__ == "__main__":
    fuzz(one)
