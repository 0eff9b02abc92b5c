"""Tails of small files that are read by the pattern of a similar file, compared with tails that are parsed in full."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

import orcidx
from orcidx.orc.compression import open_codec
from orcidx.orc.metadata_cache import KINDS
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.small_file import FoundFile, SmallFile
from orcidx.orc.small_tails import SmallTails
from orcidx.orc.tail_reads import TailPattern, TailReads

CODECS = ("uncompressed", "zlib", "zstd", "snappy", "lz4")
NATIVE = ("uncompressed", "zlib", "zstd")
LARGE = 1 << 20


def table_of(number: int) -> pa.Table:
    rows = 50 + number
    words = pa.array([None if row % 7 == 0 else f"w{row % 5}" for row in range(rows)])
    return pa.table({"key": np.arange(number, number + rows), "word": words, "share": np.linspace(0, number, rows)})


def write(path: Path, number: int, codec: str, **options: Any) -> str:
    orcidx.write_table(table_of(number), path, compression=codec, **options)
    return str(path)


def read(path: str, pattern: TailPattern | None, last: int = LARGE) -> Any:
    reads = TailReads([path], pattern, most=LARGE, last=last)
    reads.run()
    return reads.take(path)


def tails_after(path: str, limits: MetadataLimits | None = None) -> SmallTails:
    """What is known after a file was opened and then read as a small file."""
    orcidx.open(path).close()
    tails = SmallTails(limits or MetadataLimits(), KINDS.get)
    assert tails.split(read(path, None)) is not None
    return tails


def parts(file: SmallFile | None) -> Any:
    """Everything that is read from a file."""
    if file is None:
        return None
    footer = file.stripe_footer(file.stripes[0], MetadataLimits())
    streams = dict(footer.streams.items())
    encodings = [footer.encodings[column] for column in range(len(footer.encodings))]
    whole = bytes(file.data), file.size, file.mtime_ns, file.rows, file.stripes, file.footer_bytes
    return whole, file.like, streams, encodings, footer.writer_timezone


def split_in_full(tails: SmallTails, found: FoundFile) -> SmallFile | None:
    """The parts of a file without the pattern."""
    return tails.split(FoundFile(found.data, found.size, found.mtime_ns))


@pytest.mark.parametrize("codec", CODECS)
def test_a_similar_file_is_read_by_the_pattern(tmp_path: Path, codec: str) -> None:
    paths = [write(tmp_path / f"{number}.orc", number, codec) for number in range(3)]
    tails = tails_after(paths[0])
    assert (tails.pattern is not None) == (codec in NATIVE)
    for path in paths:
        found = read(path, tails.pattern)
        assert found.data == Path(path).read_bytes()
        assert (found.size, found.mtime_ns) == (os.stat(path).st_size, os.stat(path).st_mtime_ns)
        assert isinstance(found, SmallFile) == (codec in NATIVE)
        assert not isinstance(found, SmallFile) or found.footer is not None
        assert parts(tails.split(found)) == parts(split_in_full(tails, found))


@pytest.mark.parametrize("codec", NATIVE)
def test_files_of_another_writer(tmp_path: Path, codec: str) -> None:
    paths = [str(tmp_path / f"{number}.orc") for number in range(2)]
    for number, path in enumerate(paths):
        orc.write_table(table_of(number), path, compression=codec)
    tails = tails_after(paths[0])
    found = read(paths[1], tails.pattern)
    assert isinstance(found, SmallFile)
    assert parts(tails.split(found)) == parts(split_in_full(tails, found))


@pytest.mark.parametrize("last", [60, 200, 500, LARGE])
def test_only_the_end_of_a_file(tmp_path: Path, last: int) -> None:
    """The footer of the stripe is missing if the bytes do not reach so far."""
    paths = [write(tmp_path / f"{number}.orc", number, "zstd") for number in range(2)]
    tails = tails_after(paths[0])
    found = read(paths[1], tails.pattern, last)
    assert (len(found.data), found.size) == (min(last, found.size), os.stat(paths[1]).st_size)
    if isinstance(found, SmallFile):
        begins = found.size - len(found.data)
        assert (found.footer is None) == (found.stripes[0].footer_offset < begins)
    assert last < LARGE or isinstance(found, SmallFile)


@pytest.mark.parametrize("codec", NATIVE)
def test_every_damaged_byte(tmp_path: Path, rng: np.random.Generator, codec: str) -> None:
    """The pattern either does not match, or gives the same parts as a full parse."""
    paths = [write(tmp_path / f"{number}.orc", number, codec) for number in range(2)]
    tails = tails_after(paths[0])
    sound, pattern = Path(paths[1]).read_bytes(), tails.pattern
    stripe = orcidx.open(paths[1]).stripes[0]
    path = str(tmp_path / "damaged.orc")
    matched = 0
    for at in range(stripe.offset + stripe.index_length + stripe.data_length, len(sound)):
        broken = bytearray(sound)
        broken[at] ^= int(rng.integers(1, 256))
        Path(path).write_bytes(broken)
        found = read(path, pattern)
        if not isinstance(found, SmallFile):
            continue
        matched += 1
        try:
            expected = parts(split_in_full(tails, found))
        except orcidx.OrcidxError as error:
            with pytest.raises(type(error), match="^" + str(error).split("offset")[0][:20]):
                parts(tails.split(found))
        else:
            assert expected is not None, at
            assert parts(tails.split(found)) == expected, at
    assert matched
    for size in range(0, len(sound), 7):
        Path(path).write_bytes(sound[:size])
        found = read(path, pattern)
        assert not isinstance(found, SmallFile)


def test_files_without_the_pattern(tmp_path: Path) -> None:
    first = write(tmp_path / "first.orc", 1, "zstd")
    tails = tails_after(first)
    pattern = tails.pattern
    assert pattern is not None
    assert isinstance(read(first, pattern), SmallFile)
    others = {
        "codec": write(tmp_path / "codec.orc", 1, "zlib"),
        "stripes": write(tmp_path / "stripes.orc", 20_000, "zstd", stripe_size=100_000),
        "metadata": write(tmp_path / "metadata.orc", 1, "zstd", metadata={"a": "b"}),
        "stride": write(tmp_path / "stride.orc", 1, "zstd", row_index_stride=1000),
    }
    orcidx.write_table(table_of(1).rename_columns(["key", "word", "part"]), tmp_path / "name.orc", compression="zstd")
    orcidx.write_table(table_of(1).slice(0, 0), tmp_path / "empty.orc", compression="zstd")
    others |= {"name": str(tmp_path / "name.orc"), "empty": str(tmp_path / "empty.orc")}
    assert len(orcidx.open(others["stripes"]).stripes) > 1
    for name, path in others.items():
        assert not isinstance(read(path, pattern), SmallFile), name
    # The next similar file has the pattern of the last file.
    orcidx.open(others["metadata"]).close()
    assert tails.split(read(others["metadata"], pattern)) is not None
    assert tails.pattern is not pattern
    found = tails.split(read(others["metadata"], tails.pattern))
    assert found is not None
    assert found.like.user_metadata == {"a": b"b"}
    assert not isinstance(read(first, tails.pattern), SmallFile)


def test_limits(tmp_path: Path) -> None:
    """A file that exceeds a limit does not have the pattern, so the usual checks raise their error."""
    path = write(tmp_path / "one.orc", 1, "zstd")
    orcidx.open(path).close()
    tails = tails_after(path)
    size = os.stat(path).st_size
    found = tails.split(read(path, tails.pattern))
    assert found is not None
    codec = open_codec(found.facts.compression)
    assert codec is not None
    sound = Path(path).read_bytes()

    def with_limits(**limits: int) -> bool:
        most = {"most_fields": 1000, "most_bytes": LARGE, "most_size": size, **limits}
        postscript = sound[-1 - sound[-1] : -1]
        read_again = read(
            path,
            TailPattern(
                None,
                columns=found.kind.columns,
                postscript=postscript,
                footer=found.footer_bytes,
                codec=codec.native,
                block_size=found.facts.block_size,
                **most,
            ),
        )
        return isinstance(read_again, SmallFile)

    assert with_limits()
    assert not with_limits(most_size=size - 1)
    assert not with_limits(most_bytes=len(found.footer_bytes) - 1)
    assert not with_limits(most_fields=5)
    with pytest.raises(ValueError, match="damaged"):
        TailPattern(
            None,
            columns=1,
            postscript=b"\xff",
            footer=b"",
            codec=None,
            block_size=1,
            most_fields=1,
            most_bytes=1,
            most_size=1,
        )


def test_the_order_of_files(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{number}.orc", number, "zstd") for number in range(5)]
    os.remove(paths[3])
    reads = TailReads(paths, None, most=LARGE, last=LARGE)
    reads.run()
    assert reads.take(paths[0]).size == os.stat(paths[0]).st_size
    assert reads.take("another") is None
    assert reads.left == 4
    assert reads.take(paths[2]).size == os.stat(paths[2]).st_size, "a file may be left out"
    assert reads.left == 2
    assert reads.take(paths[1]) is None
    assert reads.take(paths[3]) is None
    assert reads.take(paths[4]) is not None
    assert reads.left == 0
    assert reads.take(paths[4]) is None


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "large").write_bytes(bytes(101))
    os.mkfifo(tmp_path / "pipe")
    paths = [*(str(tmp_path / name) for name in ("empty", "large", "pipe", "nowhere", ".")), "a\0b", "a\ud800b"]
    reads = TailReads(paths, None, most=100, last=100)
    reads.run()
    assert [reads.take(path) for path in paths] == [None] * len(paths)
    nothing = TailReads([], None, most=100, last=100)
    nothing.run()
    assert nothing.take("any") is None


def test_the_bytes_outlive_the_reads(tmp_path: Path) -> None:
    path = write(tmp_path / "one.orc", 1, "zstd")
    data = read(path, None).data
    assert bytes(data) == Path(path).read_bytes()
    assert data.readonly
    tails = tails_after(path)
    for _ in range(3):
        file = read(path, tails.pattern)
        del file  # frees messages that nobody uses
