"""Takes an ORC file apart into streams and messages, which can be damaged and put together again with correct lengths.

A random byte flip in a compressed file seldom gets past the codec. Here a stream or a message is damaged after
decompression and stored again as original chunks, so that the damage reaches the decoder after the codec.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from random import Random

import cramjam
import lzallright
import zstandard
from bad.protobuf_edit import BYTES, Field, Message, damage

NONE, ZLIB, SNAPPY, LZO, LZ4, ZSTD, BROTLI = range(7)


@dataclass
class Stripe:
    information: Message
    streams: list[bytes]
    footer: Message


@dataclass
class OrcParts:
    stripes: list[Stripe]
    metadata: bytes
    footer: Message
    postscript: Message

    @classmethod
    def parse(cls, data: bytes) -> OrcParts:
        """Raises ``ValueError`` if the file is too damaged to be taken apart."""
        if len(data) < 4 or data[-1] >= len(data):
            raise ValueError("no tail")
        end = len(data) - 1 - data[-1]
        postscript = Message.parse(data[end:-1])
        footer_at = end - postscript.int(1)
        metadata_at = footer_at - postscript.int(5)
        if metadata_at < 0:
            raise ValueError("no footer")
        codec, block = postscript.int(2), postscript.int(3, 262144)
        footer = Message.parse(unframe(data[footer_at:end], codec, block))
        stripes = [_stripe(data, item, codec, block) for item in footer.all(3)]
        return cls(stripes, unframe(data[metadata_at:footer_at], codec, block), footer, postscript)

    def to_bytes(self) -> bytes:
        """Returns the bytes of the file. Every stream and message is in original (not compressed) chunks, and all
        lengths are correct."""
        codec, block = self.postscript.int(2), max(1, self.postscript.int(3, 262144))
        out = bytearray(b"ORC")
        self.footer.fields = [item for item in self.footer.fields if item.number != 3]
        for stripe in self.stripes:
            index = data = 0
            start = len(out)
            for record, stream in zip(stripe.footer.all(1), stripe.streams, strict=False):
                body = frame(stream, codec, block)
                message = Message.parse(record.value) if isinstance(record.value, bytes) else Message()
                message.set(3, len(body))
                record.value = message.to_bytes()
                out += body
                if message.int(1) in (6, 7, 8):
                    index += len(body)
                else:
                    data += len(body)
            footer = frame(stripe.footer.to_bytes(), codec, block)
            out += footer
            for number, value in ((1, start), (2, index), (3, data), (4, len(footer))):
                stripe.information.set(number, value)
            self.footer.fields.append(Field(3, BYTES, stripe.information.to_bytes()))
        metadata = frame(self.metadata, codec, block)
        footer = frame(self.footer.to_bytes(), codec, block)
        self.postscript.set(1, len(footer))
        self.postscript.set(5, len(metadata))
        postscript = self.postscript.to_bytes()
        return bytes(out) + metadata + footer + postscript + bytes([len(postscript) & 255])


def _stripe(data: bytes, item: Field, codec: int, block: int) -> Stripe:
    information = Message.parse(item.value if isinstance(item.value, bytes) else b"\xff")
    at = information.int(1)
    footer_at = at + information.int(2) + information.int(3)
    footer = Message.parse(unframe(data[footer_at : footer_at + information.int(4)], codec, block))
    streams = []
    for record in footer.all(1):
        length = Message.parse(record.value).int(3) if isinstance(record.value, bytes) else 0
        streams.append(unframe(data[at : at + length], codec, block))
        at += length
    return Stripe(information, streams, footer)


def unframe(data: bytes, codec: int, block: int) -> bytes:
    if codec == NONE:
        return data
    out, at = bytearray(), 0
    while at + 3 <= len(data):
        header = int.from_bytes(data[at : at + 3], "little")
        body = data[at + 3 : at + 3 + (header >> 1)]
        out += body if header & 1 else _decompress(body, codec, block)
        at += 3 + (header >> 1)
    return bytes(out)


def frame(data: bytes, codec: int, block: int) -> bytes:
    if codec == NONE:
        return data
    block = min(block, (1 << 23) - 1)
    out = bytearray()
    for at in range(0, len(data), block):
        piece = data[at : at + block]
        out += (len(piece) << 1 | 1).to_bytes(3, "little") + piece
    return bytes(out)


def _decompress(body: bytes, codec: int, block: int) -> bytes:
    try:
        if codec == ZLIB:
            return zlib.decompress(body, -15)
        if codec == SNAPPY:
            return bytes(cramjam.snappy.decompress_raw(body))
        if codec == LZ4:
            out = bytearray(block)
            return bytes(out[: cramjam.lz4.decompress_block_into(body, out, output_len=block)])
        if codec == LZO:
            return lzallright.LZOCompressor.decompress(body, output_size_hint=block)
        if codec == ZSTD:
            return zstandard.ZstdDecompressor().decompress(body, max_output_size=block)
    except (zlib.error, cramjam.DecompressionError, lzallright.LZOError, zstandard.ZstdError) as error:
        raise ValueError(f"a chunk cannot be decompressed: {error}") from error
    raise ValueError(f"codec {codec} is not supported")


def damage_inside(data: bytes, random: Random) -> bytes:
    """Damages the decompressed content of one message or stream of an ORC file. Raises ``ValueError`` if the file is
    too damaged to be taken apart."""
    parts = OrcParts.parse(data)
    choice = random.choice(("footer", "metadata", "postscript", "stripe footer", "stream", "stream", "stream"))
    if choice == "footer":
        parts.footer = Message.parse(damage(parts.footer.to_bytes(), random))
    elif choice == "metadata" or not parts.stripes:
        parts.metadata = damage(parts.metadata, random)
    elif choice == "postscript":
        parts.postscript = Message.parse(damage(parts.postscript.to_bytes(), random))
    else:
        stripe = random.choice(parts.stripes)
        if choice == "stripe footer" or not stripe.streams:
            stripe.footer = Message.parse(damage(stripe.footer.to_bytes(), random))
        else:
            _damage_stream(stripe, random)
    return parts.to_bytes()


def _damage_stream(stripe: Stripe, random: Random) -> None:
    at = random.randrange(len(stripe.streams))
    record = stripe.footer.all(1)[at].value
    kind = Message.parse(record).int(1) if isinstance(record, bytes) else 0
    stream = stripe.streams[at]
    if kind in (6, 7, 8) and random.random() < 0.8:
        stripe.streams[at] = damage(stream, random)
        return
    if not stream:
        stripe.streams[at] = random.randbytes(random.choice((1, 2, 10)))
        return
    changed = bytearray(stream)
    for _ in range(random.choice((1, 1, 2, 8))):
        telling = (0, 1, 0x7F, 0x80, 0xC0, 0xFE, 0xFF, random.randrange(256))
        changed[random.randrange(len(changed))] = random.choice(telling)
    cut = random.random()
    stripe.streams[at] = bytes(changed[: random.randrange(len(changed) + 1)] if cut < 0.2 else changed)
