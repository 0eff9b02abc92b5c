"""``Framing``: how the streams of a file are cut into chunks and compressed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orcidx.orc.compression import open_codec, read_framed
from orcidx.orc.kinds import CompressionKind
from orcidx.orc_writer.chunks import frame
from orcidx.orc_writer.compressors import Compressor

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Framing"]


@dataclass(frozen=True)
class Framing:
    """The codec for the streams of a file, and ``block_size``, the most bytes of a chunk before compression."""

    kind: CompressionKind
    compressor: Compressor | None
    block_size: int

    def frame(self, data: bytes) -> bytes:
        """The stored form of a whole stream or message."""
        return frame(data, self.compressor, self.block_size)

    def unframe(self, data: Buffer) -> bytes:
        """The bytes of a stream that ``frame`` has made."""
        return read_framed(data, open_codec(self.kind), self.block_size, name="index")
