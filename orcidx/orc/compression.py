"""Decompresses streams: the framing of chunks, and the codecs.

A compressed ORC stream is a sequence of chunks. Each chunk has a ``header`` (3 bytes, little endian: length * 2 +
original) and ``length`` bytes. If ``original`` is 1, the chunk is stored uncompressed. A compressed chunk has at most
the compression block size, before and after decompression. An original chunk may be larger, because ORC C++ reads such
chunks. With codec NONE there are no headers.

ZLIB is raw deflate. SNAPPY, LZ4 and LZO (lzo1x) are raw blocks without a frame. ZSTD is one frame or several
consecutive frames. BROTLI is a raw stream. orcidx implements no codec itself, and calls a library for each codec. The
output is never larger than the given buffer, even if the chunk declares a larger size.
"""

from __future__ import annotations

import ctypes
import importlib
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

from orcidx.errors import CorruptFile, Unsupported
from orcidx.orc.kinds import CompressionKind
from orcidx.orc.native_codec import NativeCodec, lzo_size

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "BLOCK_SIZE_LIMIT",
    "CHUNK_HEADER",
    "METADATA_LIMIT_BYTES",
    "Codec",
    "check_block_size",
    "decompressed_chunks",
    "find_functions",
    "open_codec",
    "read_framed",
]

DecompressInto = Callable[[memoryview, memoryview], int]

CHUNK_HEADER = 3
"""The number of bytes of a chunk's header."""
BLOCK_SIZE_LIMIT = 1 << 23
"""The compression block size is below this value, because the length of a chunk has 23 bits. All writers refuse this
value and larger values."""
ZSTD_MODULES = ("_zstd", "backports.zstd._zstd", "zstandard.backend_c", "zstandard._cffi")
"""The modules that may contain libzstd, the fastest first. On x86-64 the libzstd of Python 3.14 (``_zstd``) and of
``backports.zstd`` has loops in assembly. The libzstd of ``zstandard`` has none and takes 8 to 18 % longer (decision
0002)."""
METADATA_LIMIT_BYTES = 1 << 30
"""The most bytes of one piece of metadata after decompression, as in ORC Java (``PROTOBUF_MESSAGE_MAX_LIMIT``)."""


@dataclass(frozen=True, kw_only=True)
class Codec:
    """One compression kind and its library. ``native``: functions of the library that do not need the GIL, if there are
    any."""

    name: str
    into: DecompressInto
    """``into(chunk, out)`` returns the number of bytes written. It raises ``ValueError`` if a chunk is damaged or too
    long."""
    native: NativeCodec | None = None

    def decompress_into(self, chunk: Buffer, out: bytearray | memoryview) -> int:
        """Decompresses one chunk to the start of ``out`` and returns its length in bytes.

        Raises ``CorruptFile`` if the chunk is damaged or longer than ``out``.
        """
        with memoryview(chunk) as source, memoryview(out) as target:
            try:
                return self.into(source, target)
            except ValueError as error:
                raise CorruptFile(
                    f"a {self.name} chunk is damaged, or has more than {len(target)} bytes after decompression"
                ) from error


def open_codec(kind: int, *, native: bool = True) -> Codec | None:
    """The codec of a compression kind. ``kind``: its number in the PostScript. Returns ``None`` for NONE.

    ``native=False`` leaves out the functions that do not need the GIL. Raises ``Unsupported`` for an unknown kind or a
    missing library. If a library is missing, the message names the package to install.
    """
    if kind == CompressionKind.NONE:
        return None
    if kind not in _OPENERS:
        known = ", ".join(one.name for one in CompressionKind)
        raise Unsupported(f"unknown compression kind {int(kind)}; the known kinds are {known}")
    return _open(kind, native)


@cache
def _open(kind: int, native: bool) -> Codec:
    return _OPENERS[kind](native)


def check_block_size(block_size: int) -> int:
    """The compression block size of a PostScript. Raises ``CorruptFile`` if it is impossible."""
    if not 0 < block_size <= BLOCK_SIZE_LIMIT:
        raise CorruptFile(f"the compression block size is {block_size}, but must be from 1 to {BLOCK_SIZE_LIMIT}")
    return block_size


def read_framed(
    buffer: Buffer, codec: Codec | None, block_size: int, *, name: str, max_size: int = METADATA_LIMIT_BYTES
) -> bytes:
    """Decompresses all chunks of ``buffer`` (footer, metadata, index stream) and returns them as one ``bytes`` object.
    If ``codec`` is ``None``, the bytes are returned unchanged.

    Raises ``CorruptFile`` with ``name`` and the chunk's offset for a chunk that is damaged or extends past the end, and
    for a compressed chunk that exceeds the block size. Raises ``Unsupported`` if all chunks together exceed
    ``max_size`` bytes.
    """
    if codec is None:
        return bytes(buffer)
    check_block_size(block_size)
    if codec.native is not None:
        found = codec.native.unframe(buffer, block_size, max_size)
        if found is not None:
            return found
    result = bytearray()
    scratch: memoryview | None = None
    with memoryview(buffer) as whole:
        offset = 0
        while offset < len(whole):
            start, end, original = _chunk_bounds(whole, offset, block_size, name)
            if original:
                result += whole[start:end]
            elif end > start:
                scratch = scratch or _scratch(block_size)
                try:
                    length = codec.decompress_into(whole[start:end], scratch)
                except CorruptFile as error:
                    raise error.at(stream=name, offset=offset) from error.__cause__
                result += scratch[:length]
            if len(result) > max_size:
                raise Unsupported(
                    f"the {name} has more than {max_size} bytes after decompression; raise the option metadata_bytes "
                    "to read it",
                    offset=offset,
                )
            offset = end
    return bytes(result)


class _Kept(threading.local):
    """Each thread keeps memory for one block, and reuses this memory for all footers. New memory for each footer would
    have to be cleared, although most of it would never be used."""

    room = memoryview(b"")


_KEPT = _Kept()
LARGEST_KEPT_BYTES = 1 << 18
"""The most bytes that are kept. The usual block sizes are 64 and 256 KiB."""


def _scratch(size: int) -> memoryview:
    if size > LARGEST_KEPT_BYTES:
        return memoryview(bytearray(size))
    if len(_KEPT.room) < size:
        _KEPT.room = memoryview(bytearray(size))
    return _KEPT.room[:size]


def decompressed_chunks(
    buffer: Buffer, codec: Codec | None, block_size: int, *, name: str
) -> Iterator[tuple[int, memoryview]]:
    """Yields the chunks of a stream in order, as pairs (offset of the header, decompressed bytes). The bytes are valid
    until the next chunk. Without a codec the whole stream is one chunk. Raises ``CorruptFile`` like ``read_framed``.
    """
    with memoryview(buffer) as whole:
        if codec is None:
            yield 0, whole.cast("B")
            return
        check_block_size(block_size)
        scratch = bytearray(block_size)
        offset = 0
        with memoryview(scratch) as view:
            while offset < len(whole):
                start, end, original = _chunk_bounds(whole, offset, block_size, name)
                if original:
                    yield offset, whole[start:end]
                elif end > start:
                    try:
                        length = codec.decompress_into(whole[start:end], scratch)
                    except CorruptFile as error:
                        raise error.at(stream=name, offset=offset) from error.__cause__
                    yield offset, view[:length]
                offset = end


def _chunk_bounds(whole: memoryview, offset: int, block_size: int, name: str) -> tuple[int, int, bool]:
    start = offset + CHUNK_HEADER
    if start > len(whole):
        raise CorruptFile("the data ends inside a chunk header", stream=name, offset=offset)
    header = int.from_bytes(whole[offset:start], "little")
    length, original = header >> 1, bool(header & 1)
    if start + length > len(whole):
        raise CorruptFile(f"a chunk of {length} bytes extends past the end of the data", stream=name, offset=offset)
    if not original and length > block_size:
        raise CorruptFile(
            f"a compressed chunk of {length} bytes exceeds the block size {block_size}", stream=name, offset=offset
        )
    return start, start + length, original


# --- libraries ------------------------------------------------------------------------------------------------------


def _library(module: str, package: str, codec: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Unsupported(
            f"reading {codec} needs the Python package {package} (pip install {package}), "
            f"which cannot be imported: {error}"
        ) from error


@cache
def find_functions(modules: tuple[str, ...], names: tuple[str, ...]) -> tuple[int, ...] | None:
    """Finds the addresses of C functions. Each function is exported by one of the given extension modules, or by a
    library to which such a module is linked."""
    for module in modules:
        file = _file_of(module)
        if file is None:
            continue
        try:
            library = ctypes.CDLL(file)
            found = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names]
        except (OSError, AttributeError):  # the file cannot be loaded, or does not export the symbols
            continue
        if all(found):
            return tuple(address for address in found if address is not None)
    return None


def _file_of(module: str) -> str | None:
    """The file of an installed extension module. Its parent packages are not imported, because an import takes
    up to 3 ms."""
    places: Sequence[str] | None = None
    file = None
    for name in module.split("."):
        spec = PathFinder.find_spec(name, places)
        if spec is None:
            return None
        places, file = spec.submodule_search_locations, spec.origin
    return file


def _native_deflate() -> NativeCodec | None:
    found = find_functions(
        ("deflate._deflate", "deflate"),
        ("libdeflate_alloc_decompressor", "libdeflate_free_decompressor", "libdeflate_deflate_decompress_ex"),
    )
    return NativeCodec(library="deflate", create=found[0], destroy=found[1], call=found[2]) if found else None


def _native_zstd() -> NativeCodec | None:
    found = find_functions(
        ZSTD_MODULES,
        ("ZSTD_createDCtx", "ZSTD_freeDCtx", "ZSTD_decompressDCtx", "ZSTD_isError"),
    )
    if not found:
        return None
    return NativeCodec(library="zstd", create=found[0], destroy=found[1], call=found[2], is_error=found[3])


def _through(native: NativeCodec) -> DecompressInto:
    def into(chunk: memoryview, out: memoryview) -> int:
        written = native.decompress_into(chunk, out)
        if written < 0:
            raise ValueError(f"{native.library} could not decompress the chunk")
        return written

    return into


def _copy(data: bytes | bytearray, out: memoryview) -> int:
    if len(data) > len(out):
        raise ValueError(f"the decompressed data has {len(data)} bytes, but its buffer has only {len(out)} bytes")
    out[: len(data)] = data
    return len(data)


def _zlib(native: bool) -> Codec:
    if native and (library := _native_deflate()):
        return Codec(name="ZLIB", into=_through(library), native=library)
    try:
        deflate = importlib.import_module("deflate")
    except ImportError:
        return Codec(name="ZLIB", into=_inflate)

    def into(chunk: memoryview, out: memoryview) -> int:
        try:
            return _copy(deflate.deflate_decompress(chunk, len(out)), out)
        except deflate.DeflateError as error:
            raise ValueError(str(error)) from error

    return Codec(name="ZLIB", into=into)


def _inflate(chunk: memoryview, out: memoryview) -> int:
    """Decompresses with inflate of the standard library. inflate does not limit its output, and does not detect a
    truncated end. So this function checks the size of the output and the end of the data."""
    stream = zlib.decompressobj(-15)
    try:
        data = stream.decompress(chunk, len(out) + 1)
        written = _copy(data, out)
        if not stream.eof and (stream.decompress(stream.unconsumed_tail, 1) or not stream.eof):
            raise ValueError("truncated")
    except zlib.error as error:
        raise ValueError(str(error)) from error
    return written


def _zstd(native: bool) -> Codec:
    if native and (library := _native_zstd()):
        return Codec(name="ZSTD", into=_through(library), native=library)
    zstandard = _library("zstandard", "zstandard", "ZSTD")
    contexts = threading.local()  # two threads that share a context would corrupt memory

    def into(chunk: memoryview, out: memoryview) -> int:
        context = getattr(contexts, "zstd", None)
        if context is None:
            context = contexts.zstd = zstandard.ZstdDecompressor()
        total = 0
        try:
            for frame in _zstd_frames(chunk):
                room = out[total:]
                # The library allocates the size that the frame declares, so this size is checked first.
                if zstandard.frame_content_size(frame) > len(room):
                    raise ValueError(
                        f"a zstd frame declares a decompressed size above the maximum of {len(room)} bytes"
                    )
                total += _copy(context.decompress(frame, max_output_size=max(len(room), 1)), room)
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from error
        return total

    return Codec(name="ZSTD", into=into)


def _zstd_frames(chunk: memoryview) -> list[memoryview]:
    """Splits the chunk into frames by their block headers (RFC 8878, 3.1.1), because the Python API reads only one
    frame."""
    frames = []
    start = 0
    while start < len(chunk):
        position = start
        magic = int.from_bytes(chunk[start : start + 4], "little")
        if magic & ~0xF == 0x184D2A50:  # a skippable frame has a length, and then as many bytes
            start += 8 + int.from_bytes(chunk[start + 4 : start + 8], "little")
            continue
        if magic != 0xFD2FB528 or start + 5 > len(chunk):
            raise ValueError("not a zstd frame")
        descriptor = chunk[start + 4]
        single = descriptor >> 5 & 1
        position += 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + (single, 2, 4, 8)[descriptor >> 6]
        last = 0
        while not last:
            header = int.from_bytes(chunk[position : position + 3], "little")
            last = header & 1
            position += 3 + (1 if header >> 1 & 3 == 1 else header >> 3)
            if position > len(chunk):
                raise ValueError("truncated")
        position += 4 * (descriptor >> 2 & 1)
        if position > len(chunk):
            raise ValueError("truncated")
        frames.append(chunk[start:position])
        start = position
    if start > len(chunk) or not frames:
        raise ValueError("truncated")
    return frames


def _cramjam(name: str, submodule: str, function: str) -> Codec:
    cramjam = _library("cramjam", "cramjam", name)
    call = getattr(getattr(cramjam, submodule), function)

    def into(chunk: memoryview, out: memoryview) -> int:
        try:
            return int(call(chunk, out))
        except cramjam.DecompressionError as error:
            raise ValueError(str(error)) from error

    return Codec(name=name, into=into)


def _lz4(native: bool) -> Codec:
    cramjam = _library("cramjam", "cramjam", "LZ4")

    def into(chunk: memoryview, out: memoryview) -> int:
        try:
            # A chunk does not begin with its length. But without output_len, the library reads the first four bytes as
            # a length, and uses this length if it fits into ``out``.
            return int(cramjam.lz4.decompress_block_into(chunk, out, output_len=len(out)))
        except cramjam.DecompressionError as error:
            raise ValueError(str(error)) from error

    return Codec(name="LZ4", into=into)


def _lzo(native: bool) -> Codec:
    lzallright = _library("lzallright", "lzallright", "LZO")

    def into(chunk: memoryview, out: memoryview) -> int:
        # The library decompresses the whole chunk, even if the result is longer than ``out``. So the length of the
        # result is computed first.
        if not 0 <= lzo_size(chunk) <= len(out):
            raise ValueError(f"the chunk is damaged, or has more than {len(out)} bytes after decompression")
        try:
            return _copy(lzallright.LZOCompressor.decompress(chunk, len(out)), out)
        except lzallright.LZOError as error:
            raise ValueError(str(error.args[0])) from error

    return Codec(name="LZO", into=into)


_OPENERS: dict[int, Callable[[bool], Codec]] = {
    CompressionKind.ZLIB: _zlib,
    CompressionKind.SNAPPY: lambda native: _cramjam("SNAPPY", "snappy", "decompress_raw_into"),
    CompressionKind.LZO: _lzo,
    CompressionKind.LZ4: _lz4,
    CompressionKind.ZSTD: _zstd,
    CompressionKind.BROTLI: lambda native: _cramjam("BROTLI", "brotli", "decompress_into"),
}
