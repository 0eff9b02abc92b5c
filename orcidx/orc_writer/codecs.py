"""The codecs in which orcidx writes, and their levels.

ZSTD and ZLIB come from the libraries in the packages ``zstandard`` and ``deflate``, which are called without the GIL.
SNAPPY and LZ4 come from pyarrow. LZO and BROTLI can be read but not written, because only Java's writer uses these
codecs and few readers support them today.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.orc.compression import find_functions
from orcidx.orc.kinds import CompressionKind
from orcidx.orc_writer.compressors import Compressor

__all__ = ["compression_kind", "open_compressor"]

_NAMES = {
    "uncompressed": CompressionKind.NONE,
    "none": CompressionKind.NONE,
    "zlib": CompressionKind.ZLIB,
    "snappy": CompressionKind.SNAPPY,
    "lz4": CompressionKind.LZ4,
    "zstd": CompressionKind.ZSTD,
}
_LEVELS = {CompressionKind.ZLIB: (1, 12, 4), CompressionKind.ZSTD: (-131072, 22, 3), CompressionKind.LZ4: (1, 12, 0)}
"""The lowest, the highest and the default level. The levels of ZLIB are those of libdeflate. Level 4 of libdeflate is
faster than level 2 of zlib, and its output is smaller. The default of ZSTD is that of ORC Java. Streams also try
``FASTER_ZSTD``, with two windows. LZ4 without a level uses its fast block format. With a level it uses the slow "high
compression" format."""

FASTER_ZSTD = 1
"""The level that each stream tries in addition to the default level. With this level, digits and ids take fewer bytes
and less time than with the default level (decision 0129)."""

NARROW_WINDOW = 14
"""A window of 16 KiB for the faster level. It is tried if the faster level gives a smaller result than the default
level. In data for which this is so, the reference to a distant match may take more bytes than the digits that it
replaces. Sorted keys become 11 % smaller with this window (decision 0129)."""

LEAST_MATCH = 6
"""The shortest match of the default level in chunks of 64 KiB and more. zstd itself would use 4 or 5. This length is
faster, and the result is up to 15 % smaller. Streams of integers use zstd's own length, because codes of two bytes took
4 % more with this length (decision 0129)."""

MANY_PLACES = 16
"""With this setting the faster level remembers 65,536 places, four times as many as by default. On most texts its
result is then within 2 % of the default level's result, in two thirds of the time (decision 0129)."""


THOROUGH_ZSTD = 12
BEST_MATCHES = 7
"""A short stream tries this level, with zstd's strategy ``btopt``, if each of its bytes represents many values. An
example is a column of sorted dates. The result is 6 to 15 % smaller than with the other levels, and takes 12 to 35 ns
a byte (decision 0129). By default the level has that strategy only up to 16 KiB. The level saves little for longer
streams."""


KEPT_COMPRESSORS = 4
"""The maximum number of compressors that are kept for the next file. Each keeps the contexts of its library, about 2
MiB for each thread that has used it. Making the contexts of ZSTD again takes as long as encoding a few rows (decision
0041)."""


def compression_kind(name: str | None) -> CompressionKind:
    """The codec that ``compression=`` names, in upper or lower case. Raises ``InvalidQuery`` for other names, and
    ``Unsupported`` for LZO and BROTLI."""
    known = _NAMES.get(name.lower()) if isinstance(name, str) else CompressionKind.NONE if name is None else None
    if known is not None:
        return known
    if isinstance(name, str) and name.lower() in ("lzo", "brotli"):
        raise Unsupported(
            f"compression={name!r} can be read but not written, because few readers support it today; use 'zstd'"
        )
    raise InvalidQuery(f"compression={name!r} is not one of uncompressed, zlib, snappy, lz4, zstd")


@lru_cache(maxsize=KEPT_COMPRESSORS)
def open_compressor(kind: CompressionKind, level: int | None = None) -> Compressor | None:
    """The compressor of chunks. The result is None for the codec NONE. Raises ``InvalidQuery`` for a level that the
    codec does not have, and ``Unsupported``, with the name of the package, if a package is missing."""
    lowest, highest, number = _LEVELS.get(kind, (0, 0, 0))
    if level is not None:
        if not lowest <= level <= highest or lowest == highest:
            name = kind.name.lower()
            levels = f"the levels of {name} are {lowest} to {highest}" if highest else f"the codec {name} has no levels"
            raise InvalidQuery(f"compression_level={level!r} is not supported; {levels}")
        number = level
    if kind is CompressionKind.NONE:
        return None
    if kind is CompressionKind.ZSTD:
        if level is not None:
            return _zstd(level)
        faster, narrow = _zstd(FASTER_ZSTD, hash_log=MANY_PLACES), _zstd(FASTER_ZSTD, window_log=NARROW_WINDOW)
        thorough = _zstd(THOROUGH_ZSTD, strategy=BEST_MATCHES)
        for_numbers = _zstd(number, faster=faster, narrow=narrow, thorough=thorough)
        return _zstd(number, min_match=LEAST_MATCH, faster=faster, narrow=narrow, for_numbers=for_numbers)
    if kind is CompressionKind.ZLIB:
        return _zlib(number)
    name = "snappy" if kind is CompressionKind.SNAPPY else "lz4_raw"
    codec = pa.Codec(name, compression_level=number) if number else pa.Codec(name)
    return Compressor(name=kind.name, through=lambda raw: codec.compress(raw, asbytes=True))


def _zstd(
    level: int,
    *,
    min_match: int = 0,
    window_log: int = 0,
    hash_log: int = 0,
    strategy: int = 0,
    faster: Compressor | None = None,
    narrow: Compressor | None = None,
    for_numbers: Compressor | None = None,
    thorough: Compressor | None = None,
) -> Compressor:
    names = ("ZSTD_createCCtx", "ZSTD_freeCCtx", "ZSTD_compress2", "ZSTD_isError", "ZSTD_CCtx_setParameter")
    if found := find_functions(("zstandard.backend_c", "zstandard._cffi"), names):
        return Compressor(
            name="ZSTD",
            level=level,
            min_match=min_match,
            window_log=window_log,
            hash_log=hash_log,
            strategy=strategy,
            functions=found,
            faster=faster,
            narrow=narrow,
            for_numbers=for_numbers,
            thorough=thorough,
        )
    codec = pa.Codec("zstd", compression_level=level)
    return Compressor(name="ZSTD", through=lambda raw: codec.compress(raw, asbytes=True), faster=faster)


def _zlib(level: int) -> Compressor:
    names = ("libdeflate_alloc_compressor", "libdeflate_free_compressor", "libdeflate_deflate_compress")
    if found := find_functions(("deflate._deflate", "deflate"), names):
        return Compressor(name="ZLIB", level=level, functions=found)
    try:
        import deflate
    except ImportError as error:
        raise Unsupported(
            f"writing ZLIB needs the Python package deflate (pip install deflate), which cannot be imported: {error}"
        ) from error
    return Compressor(name="ZLIB", through=lambda raw: deflate.deflate_compress(raw, level))
