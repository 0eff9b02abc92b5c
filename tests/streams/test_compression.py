"""Every kind of codec, in native code and in Python. Also damaged chunks, decompression bombs, and series of chunks."""

from __future__ import annotations

import pickle
import platform
import sys
import zlib
from collections.abc import Callable

import cramjam
import lzallright
import numpy as np
import pytest
import zstandard
from streams.framing import compressed, deflate, original

from orcidx.errors import CorruptFile, Unsupported
from orcidx.orc import compression
from orcidx.orc.compression import Codec, decompressed_chunks, open_codec, read_framed
from orcidx.orc.kinds import CompressionKind
from orcidx.orc.native_codec import NativeCodec, lzo_size

TEXT = b"the quick brown fox jumps over the lazy dog; " * 200
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "ZLIB": deflate,
    "SNAPPY": lambda data: bytes(cramjam.snappy.compress_raw(data)),
    "LZO": lambda data: lzallright.LZOCompressor().compress(data),
    "LZ4": lambda data: bytes(cramjam.lz4.compress_block(data, store_size=False)),
    "ZSTD": zstandard.ZstdCompressor().compress,
    "BROTLI": lambda data: bytes(cramjam.brotli.compress(data)),
}
PATHS = [(kind, native) for kind in COMPRESS for native in ((True, False) if kind in ("ZLIB", "ZSTD") else (True,))]


def codec_of(kind: str, native: bool) -> Codec:
    codec = open_codec(CompressionKind[kind], native=native)
    assert codec is not None
    assert codec.name == kind
    return codec


def decompressed(codec: Codec, chunk: bytes | memoryview, max_size: int) -> bytes:
    out = bytearray(max_size)
    return bytes(out[: codec.decompress_into(chunk, out)])


@pytest.mark.parametrize(("kind", "native"), PATHS)
def test_round_trip_and_bounds(kind: str, native: bool) -> None:
    codec = codec_of(kind, native)
    for content in (b"a", TEXT, bytes(100_000), np.random.default_rng(3).bytes(5000)):
        chunk = COMPRESS[kind](content)
        for max_size in (len(content), len(content) + 1, 1 << 18):
            assert decompressed(codec, chunk, max_size) == content
            assert decompressed(codec, memoryview(chunk), max_size) == content
        if len(content) > 1:
            with pytest.raises(CorruptFile, match=kind):
                decompressed(codec, chunk, len(content) - 1)
            with pytest.raises(CorruptFile, match=kind):
                decompressed(codec, chunk, 1)


@pytest.mark.parametrize(("kind", "native"), PATHS)
def test_truncated_anywhere(kind: str, native: bool) -> None:
    codec = codec_of(kind, native)
    chunk = COMPRESS[kind](TEXT)
    for end in range(len(chunk)):
        try:
            got = decompressed(codec, chunk[:end], 1 << 18)
        except CorruptFile:
            continue
        # An LZ4 block has no end mark, and an empty zstd stream has no frame. So for a truncated chunk
        # the result may have fewer bytes, but it has no wrong bytes.
        assert len(got) < len(TEXT)
        assert TEXT.startswith(got)
        assert kind == "LZ4" or end == 0


@pytest.mark.parametrize(("kind", "native"), PATHS)
def test_noise_is_refused_or_bounded(kind: str, native: bool, rng: np.random.Generator) -> None:
    codec = codec_of(kind, native)
    chunk = bytearray(COMPRESS[kind](TEXT))
    for _ in range(300):
        damaged = bytearray(chunk)
        for _ in range(3):
            damaged[rng.integers(len(damaged))] = rng.integers(256)
        for data in (bytes(damaged), rng.bytes(int(rng.integers(1, 60)))):
            try:
                assert len(decompressed(codec, data, len(TEXT))) <= len(TEXT)
            except CorruptFile:
                continue


@pytest.mark.parametrize("native", [True, False])
def test_zstd_frames(native: bool) -> None:
    codec = codec_of("ZSTD", native)
    one = zstandard.ZstdCompressor().compress(b"one ")
    unsized = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compress(b"two ")
    skippable = (0x184D2A51).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"xyz"
    assert decompressed(codec, one + skippable + unsized + one, 12) == b"one two one "
    for data in (one + b"xyz", one + one[:-1], one + skippable[:-1], one + b"\x28\xb5\x2f\xfd", unsized[:-1]):
        with pytest.raises(CorruptFile):
            decompressed(codec, data, 100)
    with pytest.raises(CorruptFile):
        decompressed(codec, one + unsized, 7)


@pytest.mark.parametrize(
    ("kind", "chunk"),
    [
        ("SNAPPY", b"\xff\xff\xff\xff\x0f\x00"),  # declares a size of 4 GiB
        ("ZSTD", b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 7 + b"\x7f\x01\x00\x00"),  # declares a size of 2**63 - 1 bytes
        ("LZO", b"\x00" + b"\x00" * 200_000 + b"\x01"),
        ("LZ4", b"\xf0" + b"\xff" * 200_000),
    ],
)
def test_declared_sizes_allocate_nothing(kind: str, chunk: bytes) -> None:
    for native in (True, False):
        with pytest.raises(CorruptFile):
            decompressed(codec_of(kind, native), chunk, 1000)


@pytest.mark.parametrize(("kind", "native"), PATHS)
def test_bombs(kind: str, native: bool) -> None:
    chunk = COMPRESS[kind](bytes(30_000_000))
    with pytest.raises(CorruptFile):
        decompressed(codec_of(kind, native), chunk, 1 << 18)


def test_an_lz4_chunk_that_begins_like_a_length_is_decompressed_whole() -> None:
    data = b"\x7f" * 12 + bytes(range(0, 160, 2))
    chunk = bytes(cramjam.lz4.compress_block(data, store_size=False))
    assert int.from_bytes(chunk[:4], "little") < 1 << 18  # the library could read these bytes as a length
    out = bytearray(1 << 18)
    assert open_codec(4).decompress_into(chunk, out) == len(data)
    assert out[: len(data)] == data


def test_lzo_sizes(rng: np.random.Generator) -> None:
    """``lzo_size`` accepts the same input as the library. It never returns less than the number of bytes that the
    library writes."""
    contents = [b"a", b"ab" * 9, TEXT, bytes(300_000), rng.bytes(3000), bytes(rng.integers(0, 3, 5000, np.uint8))]
    contents += [rng.bytes(n) + bytes(n) + rng.bytes(7) for n in range(1, 300, 7)]
    for content in contents:
        chunk = COMPRESS["LZO"](content)
        assert lzo_size(chunk) == len(content)
        for _ in range(20):
            damaged = bytearray(chunk)
            damaged[rng.integers(len(damaged))] = rng.integers(256)
            try:
                written = len(lzallright.LZOCompressor.decompress(bytes(damaged)))
            except lzallright.LZOError:
                continue
            assert lzo_size(damaged) == written
    for damaged in (b"", b"\x00", b"\x11", b"\x11\x00", b"\xff", b"\x00" * 1000):
        assert lzo_size(damaged) == -1


def test_the_standard_library_serves_zlib_without_deflate(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(compression.importlib, "import_module", missing)
    codec = compression._zlib(native=False)
    assert codec.into is compression._inflate
    chunk = deflate(TEXT)
    assert decompressed(codec, chunk, len(TEXT)) == TEXT
    assert decompressed(codec, chunk + b"junk", len(TEXT)) == TEXT
    assert decompressed(codec, deflate(b""), 1) == b""
    for damaged in (chunk[:-1], chunk[:10], b"", b"\xff", zlib.compress(TEXT)):
        with pytest.raises(CorruptFile):
            decompressed(codec, damaged, len(TEXT))
    with pytest.raises(CorruptFile):
        decompressed(codec, chunk, len(TEXT) - 1)


@pytest.mark.parametrize(("kind", "package"), [("SNAPPY", "cramjam"), ("LZO", "lzallright"), ("ZSTD", "zstandard")])
def test_a_missing_library_is_named(kind: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(compression.importlib, "import_module", missing)
    with pytest.raises(Unsupported, match=f"pip install {package}"):
        compression._OPENERS[CompressionKind[kind]](False)


def test_kinds() -> None:
    assert open_codec(0) is None
    assert open_codec(CompressionKind.NONE) is None
    assert open_codec(1) is open_codec(CompressionKind.ZLIB)
    for kind in (7, -1):
        with pytest.raises(Unsupported, match="unknown compression kind"):
            open_codec(kind)


def test_libraries_are_called_without_the_gil() -> None:
    """On Linux, the wheels of the compression libraries export C functions. On other systems, their Python functions
    are used."""
    for kind in ("ZLIB", "ZSTD"):
        native = codec_of(kind, True).native
        if native is None:
            pytest.skip(f"the library of {kind} exports no C functions on this system")
        assert native.library in ("deflate", "zstd")
        assert codec_of(kind, False).native is None


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or sys.version_info >= (3, 14),
    reason="the installed libraries are known only for Linux on x86_64 and Python before 3.14",
)
def test_the_fastest_libzstd_is_called() -> None:
    names = ("ZSTD_createDCtx", "ZSTD_decompressDCtx")
    alone = [compression.find_functions((module,), names) for module in compression.ZSTD_MODULES]
    assert compression.find_functions(compression.ZSTD_MODULES, names) == alone[1] is not None
    assert alone[0] is None
    assert sum(one is not None for one in alone) >= 2


def test_every_libzstd_that_is_installed() -> None:
    names = ("ZSTD_createDCtx", "ZSTD_freeDCtx", "ZSTD_decompressDCtx", "ZSTD_isError")
    for module in compression.ZSTD_MODULES:
        found = compression.find_functions((module,), names)
        if found is None:
            continue
        native = NativeCodec(library=module, create=found[0], destroy=found[1], call=found[2], is_error=found[3])
        chunk, out = COMPRESS["ZSTD"](TEXT), bytearray(len(TEXT))
        assert native.decompress_into(chunk, memoryview(out)) == len(TEXT)
        assert out == TEXT
        assert native.decompress_into(chunk[:-1], memoryview(out)) < 0
        assert native.decompress_into(chunk, memoryview(out)[:-1]) < 0


@pytest.mark.parametrize("kind", ["ZLIB", "ZSTD"])
def test_one_chunk_is_read_in_one_call(kind: str, rng: np.random.Generator) -> None:
    """If one call cannot read the chunk, the slower Python code reads it, or raises an error that says what is
    wrong."""
    codec, slow = codec_of(kind, True), codec_of(kind, False)
    if codec.native is None:
        pytest.skip("the library exports no C functions")
    data = bytes(rng.integers(0, 4, 3000, np.uint8))
    chunk = COMPRESS[kind](data)
    packed = (len(chunk) << 1).to_bytes(3, "little") + chunk
    for framed in (packed, original(data)):
        assert codec.native.unframe(framed, 4096, 4096) == data
        assert codec.native.unframe(framed, 4096, 2999) is None
        assert codec.native.unframe(framed + framed, 4096, 8192) is None
        assert read_framed(framed + framed, codec, 4096, name="footer") == data + data
        for end in range(0, len(framed), 7):
            assert codec.native.unframe(framed[:end], 4096, 4096) is None
        for place in range(0, len(framed), 11):
            damaged = bytearray(framed)
            damaged[place] ^= 0x55
            found = codec.native.unframe(damaged, 4096, 4096)
            if found is not None:
                assert found == read_framed(damaged, slow, 4096, name="footer")
    assert codec.native.unframe(packed, 2999, 4096) is None


@pytest.mark.parametrize("native", [True, False])
def test_framed_blobs(native: bool) -> None:
    codec = codec_of("ZLIB", native)
    blob = compressed(deflate(b"abc")) + original(b"") + original(b"def") + compressed(b"") + compressed(deflate(b""))
    assert read_framed(blob, codec, 100, name="footer") == b"abcdef"
    assert read_framed(b"", codec, 100, name="footer") == b""
    assert read_framed(memoryview(b"as it is"), None, 0, name="footer") == b"as it is"
    ends = {8, 11, 17, 20, 25}  # chunks end at these places, so a cut there leaves shorter but valid data
    assert read_framed(blob[:11], codec, 100, name="footer") == b"abc"
    for end in set(range(1, len(blob))) - ends:
        with pytest.raises(CorruptFile, match=r"inside a chunk header|past the end") as error_info:
            read_framed(blob[:end], codec, 100, name="footer")
        assert error_info.value.stream == "footer"
        assert error_info.value.offset == max({0, *ends} & set(range(end)))
        assert str(pickle.loads(pickle.dumps(error_info.value))) == str(error_info.value)
    with pytest.raises(CorruptFile, match="block size") as error_info:
        read_framed(original(b"xy") + compressed(bytes(11)), codec, 10, name="footer")
    assert error_info.value.offset == 5
    with pytest.raises(Unsupported, match=r"more than 5 bytes.*metadata_bytes"):
        read_framed(blob, codec, 100, name="footer", max_size=5)
    with pytest.raises(CorruptFile, match="block size"):
        read_framed(blob, codec, 1 << 40, name="footer")


@pytest.mark.parametrize("native", [True, False])
def test_an_original_chunk_may_exceed_the_block_size(native: bool) -> None:
    """ORC C++ reads such chunks. ORC Java refuses them."""
    codec = codec_of("ZLIB", native)
    framed = original(b"x" * 12) + compressed(deflate(b"abc"))
    assert read_framed(framed, codec, 5, name="footer") == b"x" * 12 + b"abc"
    found = decompressed_chunks(framed, codec, 5, name="DATA")
    assert [(offset, bytes(chunk)) for offset, chunk in found] == [(0, b"x" * 12), (15, b"abc")]
