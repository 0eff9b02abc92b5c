"""Deletion vectors have the same bytes as Java's files. Set operations are compared with Python sets. Other tests are
about Puffin files and damage."""

from __future__ import annotations

import gzip
import json
import pickle
import random
import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import cramjam
import numpy as np
import pytest
from goldens import GOLDEN_PAIMON, roots
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from pyroaring import BitMap, BitMap64

from orcidx.errors import CorruptFile, InvalidQuery, OrcidxError, Unsupported, ValueOutOfRange
from orcidx.paimon.deletion_vector import DeletionVector
from orcidx.paimon.deletion_vector_files import (
    Range,
    read_deletion_vector,
    read_deletion_vectors,
    write_deletion_vectors,
)
from orcidx.planner.request import deleted_rows
from orcidx.pruning.selection import RowSelection

LARGEST64 = 9223372030412324864


def recorded_positions(folder: Path, vector: dict[str, Any]) -> list[int]:
    if "positions" in vector:
        return vector["positions"]
    if "positions_file" in vector:
        return json.loads(gzip.decompress((folder / vector["positions_file"]).read_bytes()))
    return [row for start, length in vector["runs_start_length"] for row in range(start, start + length)]


def recorded_files(folder: Path) -> list[dict[str, Any]]:
    files = []
    for sidecar in sorted(folder.glob("*.json")):
        case = json.loads(sidecar.read_text())
        single = [{"file": f"{case['name']}.bin", "vectors": case["vectors"]}] if "vectors" in case else []
        files += case.get("files", single)
    return files


@pytest.mark.parametrize("kind", ["dv32", "dv64"])
@pytest.mark.parametrize("root", roots("paimon", GOLDEN_PAIMON))
def test_java_files_read_and_are_written_byte_for_byte(root: Path, kind: str, tmp_path: Path) -> None:
    folder = root / kind
    files = recorded_files(folder)
    assert files
    for file in files:
        path = folder / file["file"]
        read = read_deletion_vectors(path)
        assert len(read) == len(file["vectors"])
        rebuilt = {}
        for (offset, vector), recorded in zip(read, file["vectors"]):
            positions = recorded_positions(folder, recorded)
            assert offset == recorded["offset"]
            assert vector.positions.tolist() == positions
            assert read_deletion_vector(path, offset, recorded["length"]) == vector
            rebuilt[recorded["data_file"]] = DeletionVector(positions, bitmap64=vector.bitmap64)
        written = tmp_path / "index"
        ranges = write_deletion_vectors(written, rebuilt)
        assert written.read_bytes() == path.read_bytes()
        assert ranges == {
            recorded["data_file"]: Range(recorded["offset"], recorded["length"], len(rebuilt[recorded["data_file"]]))
            for recorded in file["vectors"]
        }


def test_length_in_the_manifest_is_the_size_for_32_bit_and_the_entry_for_64_bit(tmp_path: Path) -> None:
    vectors = {"a": DeletionVector([1]), "b": DeletionVector([1], bitmap64=True)}
    ranges = write_deletion_vectors(tmp_path / "index", vectors)
    assert ranges["a"].length == len(vectors["a"].to_bytes()) - 8
    assert ranges["b"].length == len(vectors["b"].to_bytes())
    for name, wrong in (("a", ranges["a"].length + 8), ("b", ranges["b"].length - 8)):
        with pytest.raises(CorruptFile, match="but the given length is"):
            read_deletion_vector(tmp_path / "index", ranges[name].offset, wrong)


def test_rolling_starts_a_file_after_each_vector_beyond_the_target(tmp_path: Path) -> None:
    vectors = {f"data-{i}": DeletionVector(range(0, 40 * i, 2)) for i in range(1, 7)}
    ranges = write_deletion_vectors(tmp_path / "index", vectors, target_size=200)
    files = sorted({where.path for where in ranges.values()})
    assert files == [f"{tmp_path / 'index'}-{i}" for i in range(len(files))]
    assert len(files) > 1
    for file in files:
        entries = read_deletion_vectors(file)
        assert all(offset <= 200 for offset, _ in entries)
        assert file == files[-1] or Path(file).stat().st_size > 200
    for name, where in ranges.items():
        assert read_deletion_vector(where.path, where.offset, where.length) == vectors[name]
    assert write_deletion_vectors(tmp_path / "none", {}, target_size=200) == {}
    assert not list(tmp_path.glob("none*"))
    assert write_deletion_vectors(tmp_path / "none", {}) == {}
    assert (tmp_path / "none").read_bytes() == b"\x01"


def test_kinds_convert_where_positions_fit(tmp_path: Path) -> None:
    narrow, wide = DeletionVector([3, 70000]), DeletionVector([1 << 33], bitmap64=True)
    write_deletion_vectors(tmp_path / "index", {"a": narrow, "b": wide}, bitmap64=True)
    read = [vector for _, vector in read_deletion_vectors(tmp_path / "index")]
    assert [vector.bitmap64 for vector in read] == [True, True]
    assert list(read[0]) == [3, 70000]
    assert read[0].as_kind(False) == narrow
    with pytest.raises(ValueOutOfRange, match="8589934592"):
        write_deletion_vectors(tmp_path / "untouched", {"b": wide}, bitmap64=False)
    assert not (tmp_path / "untouched").exists()


@pytest.mark.parametrize(
    ("positions", "bitmap64"),
    [
        ([-1], False),
        ([1 << 31], False),
        ([-1], True),
        ([LARGEST64 + 1], True),
        (np.array([-1]), False),
        (BitMap([1 << 31]), False),
        (np.array([1 << 63], dtype=np.uint64), True),
    ],
)
def test_positions_outside_are_refused(positions: Any, bitmap64: bool) -> None:
    with pytest.raises(ValueOutOfRange):
        DeletionVector(positions, bitmap64=bitmap64)


def test_limits_and_sources_of_positions() -> None:
    assert list(DeletionVector([2**31 - 1])) == [2**31 - 1]
    assert DeletionVector([LARGEST64], bitmap64=True).positions.tolist() == [LARGEST64]
    expected = DeletionVector([1, 5, 9])
    for positions in (range(1, 10, 4), np.array([9, 1, 5]), BitMap([1, 5, 9]), BitMap64([1, 5, 9]), iter([5, 1, 9])):
        assert DeletionVector(positions) == expected
    assert DeletionVector().positions.dtype == np.int64
    with pytest.raises(TypeError):
        DeletionVector([1.5])


def test_far_positions_are_read_but_not_written(tmp_path: Path) -> None:
    """Like Java, the writer stores an empty bitmap for each unused key below the largest key. For a single far
    position, these bitmaps could take 2 GiB, so the writer refuses such positions."""
    far = DeletionVector([7, (1 << 54) - 1], bitmap64=True)
    tracemalloc.start()
    try:
        entry = far.to_bytes()
        assert tracemalloc.get_traced_memory()[1] < 400 << 20
    finally:
        tracemalloc.stop()
    assert len(entry) == 4 + 4 + 8 + 12 * (1 << 22) + 2 * 10 + 4
    assert DeletionVector.from_bytes(entry) == far
    for position in (1 << 54, 1 << 58, LARGEST64):
        vector = DeletionVector([position], bitmap64=True)
        with pytest.raises(ValueOutOfRange, match=r"MB of empty bitmaps.* leave out positions that are not rows"):
            vector.to_bytes()
        with pytest.raises(ValueOutOfRange, match="leave out"):
            write_deletion_vectors(tmp_path / "index", {"a": DeletionVector([1]), "b": vector})
        assert not (tmp_path / "index").exists()
        sparse = with_crc(MAGIC64 + BitMap64([position]).serialize())
        assert DeletionVector.from_bytes(sparse) == vector


def test_is_a_value() -> None:
    vector = DeletionVector([1, 2])
    vector.bitmap.add(3)
    assert len(vector) == 2
    assert pickle.loads(pickle.dumps(vector)) == vector
    assert {vector: 1}[DeletionVector([2, 1])] == 1
    assert vector != DeletionVector([1, 2], bitmap64=True)
    assert 1 in vector
    assert -1 not in vector
    assert 2**70 not in vector
    assert not DeletionVector()


SMALL = st.integers(0, 300)
EDGES = st.sampled_from([65535, 65536, 70000, 131071, 131072, 2**31 - 1])
POSITIONS = st.lists(SMALL | EDGES, max_size=60)
RUNS = st.builds(lambda start, length: range(start, start + length), st.integers(0, 200_000), st.integers(0, 9000))


class DeletionVectorMachine(RuleBasedStateMachine):
    """Builds, merges, writes, reads and damages vectors of both kinds, and compares them with Python sets."""

    @initialize(bitmap64=st.booleans())
    def start(self, bitmap64: bool) -> None:
        self.vector = DeletionVector(bitmap64=bitmap64)
        self.model: set[int] = set()

    @rule(positions=POSITIONS | RUNS, bitmap64=st.booleans())
    def union(self, positions: list[int] | range, bitmap64: bool) -> None:
        self.vector |= DeletionVector(positions, bitmap64=bitmap64)
        self.model |= set(positions)

    @rule(positions=POSITIONS | RUNS, bitmap64=st.booleans())
    def intersection(self, positions: list[int] | range, bitmap64: bool) -> None:
        self.vector &= DeletionVector(positions, bitmap64=bitmap64)
        self.model &= set(positions)

    @rule(position=st.integers(0, 2**36))
    def far(self, position: int) -> None:
        self.vector |= DeletionVector([position], bitmap64=True)
        self.model.add(position)

    @rule()
    def through_bytes(self) -> None:
        read = DeletionVector.from_bytes(self.vector.to_bytes())
        assert read == self.vector
        self.vector = read

    @rule(bitmap64=st.booleans())
    def other_kind(self, bitmap64: bool) -> None:
        if not bitmap64 and self.model and max(self.model) >= 2**31:
            with pytest.raises(ValueOutOfRange):
                self.vector.as_kind(bitmap64)
        else:
            self.vector = self.vector.as_kind(bitmap64)
            assert self.vector.bitmap64 == bitmap64

    @rule(rows=st.integers(0, 300_000), chosen=st.sets(SMALL, max_size=40))
    def selection(self, rows: int, chosen: set[int]) -> None:
        """Checks which rows of a file are left, among all rows and among the rows that an index chose."""
        if self.model and max(self.model) >= rows:
            with pytest.raises(CorruptFile, match="deletes row"):
                self.vector.kept_rows(rows)
            return
        kept = self.vector.kept_rows(rows)
        assert kept.count == rows - len(self.model)
        chosen = {row for row in chosen if row < rows}
        within = kept & RowSelection.from_positions(sorted(chosen), rows)
        assert within.positions().tolist() == sorted(chosen - self.model)
        assert set((~kept).positions().tolist()) == self.model

    @rule(data=st.data())
    def damage(self, data: st.DataObject) -> None:
        entry = bytearray(self.vector.to_bytes())
        at = data.draw(st.integers(0, len(entry) - 1))
        entry[at] ^= data.draw(st.integers(1, 255))
        with pytest.raises(CorruptFile):
            DeletionVector.from_bytes(entry)

    @invariant()
    def same(self) -> None:
        if hasattr(self, "model"):
            assert len(self.vector) == len(self.model)
            assert self.vector.positions.tolist() == sorted(self.model)


TestDeletionVectorMachine = DeletionVectorMachine.TestCase
TestDeletionVectorMachine.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)


def with_crc(checked: bytes) -> bytes:
    """Returns an entry with a valid length and CRC, whatever the content is."""
    return struct.pack(">i", len(checked)) + checked + zlib.crc32(checked).to_bytes(4, "big")


MAGIC32, MAGIC64 = bytes.fromhex("5e43f2d0"), bytes.fromhex("d1d33964")


def test_bitmaps_without_runs_and_gaps_between_keys_are_read() -> None:
    """pypaimon and the writers of Iceberg write bitmaps without runs, and 64-bit bitmaps without entries for unused
    keys."""
    assert DeletionVector.from_bytes(with_crc(MAGIC32 + BitMap(range(100)).serialize())) == DeletionVector(range(100))
    wide = DeletionVector([1, 5 << 32], bitmap64=True)
    assert DeletionVector.from_bytes(with_crc(MAGIC64 + BitMap64([1, 5 << 32]).serialize())) == wide


@pytest.mark.parametrize(
    ("checked", "message"),
    [
        (b"\x00\x00\x00\x00" + BitMap([1]).serialize(), "magic"),
        (MAGIC32, "cut off"),
        (MAGIC32 + BitMap([1]).serialize() + b"\x00", "after the bitmap"),
        (MAGIC32 + BitMap([2**31]).serialize(), "2147483648"),
        (MAGIC64 + b"\x00" * 7, "cut off"),
        (MAGIC64 + struct.pack("<q", -1), "-1 bitmaps"),
        (MAGIC64 + struct.pack("<q", 2**40), "bitmaps do not fit"),
        (MAGIC64 + struct.pack("<q", 0) + b"\x00", "after the bitmap"),
        (MAGIC64 + BitMap64([2**31 << 32]).serialize(), "key -2147483648"),
        (MAGIC64 + BitMap64([LARGEST64 + 1]).serialize(), "is not from 0"),
        (MAGIC64 + struct.pack("<q", 2) + (struct.pack("<i", 1) + BitMap([1]).serialize()) * 2, "key 1 follows key 1"),
        (MAGIC64 + struct.pack("<q", 2) + struct.pack("<i", 1) + BitMap(range(0, 9, 2)).serialize(), "cut off"),
    ],
)
def test_wrong_content_behind_a_right_crc(checked: bytes, message: str) -> None:
    with pytest.raises(CorruptFile, match=message):
        DeletionVector.from_bytes(with_crc(checked))


def test_every_truncation_and_trailing_byte_is_corrupt(tmp_path: Path) -> None:
    for bitmap64 in (False, True):
        entry = DeletionVector([1, 2, 3, 70000], bitmap64=bitmap64).to_bytes()
        for length in range(len(entry)):
            with pytest.raises(CorruptFile):
                DeletionVector.from_bytes(entry[:length])
        with pytest.raises(CorruptFile):
            DeletionVector.from_bytes(entry + b"\x00")
    path = tmp_path / "index"
    for content, message in (
        (b"", "the file is empty"),
        (b"\x02", "the file has version 2, but"),
        (b"\x01\x00", ""),
        (b"PFA", "the file has version 80, but"),
        (b"\x01" + entry[:-1], ""),
    ):
        path.write_bytes(content)
        with pytest.raises(CorruptFile, match=f"{message}.*index"):
            read_deletion_vectors(path)


def test_ranges_outside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "index"
    where = write_deletion_vectors(path, {"a": DeletionVector([1])})["a"]
    for offset, length in [(-1, 20), (1, -5), (1, 0), (1, 3), (10**6, 26), (0, where.length), (2, where.length)]:
        with pytest.raises(CorruptFile):
            read_deletion_vector(path, offset, length)
    with pytest.raises(FileNotFoundError):
        read_deletion_vector(tmp_path / "absent", 1, 26)


@pytest.mark.parametrize("keep_crc", [True, False])
def test_mutations_raise_only_corrupt_file(keep_crc: bool, tmp_path: Path) -> None:
    """A mutated vector with a corrected CRC is either refused, or it is a valid vector."""
    source = random.Random(5)
    originals = [
        DeletionVector([*range(100, 9000), 70001, 70003, *range(140000, 150000, 2)], bitmap64=bitmap64).to_bytes()
        for bitmap64 in (False, True)
    ]
    originals.append(DeletionVector([5, 1 << 34, 3 << 33], bitmap64=True).to_bytes())
    for _ in range(1500):
        body = bytearray(source.choice(originals)[4:-4])
        for _ in range(source.randint(1, 3)):
            body[source.randrange(min(len(body), 60) if source.random() < 0.7 else len(body))] = source.randrange(256)
        entry = with_crc(bytes(body))
        if not keep_crc:
            entry = entry[:-1] + bytes([entry[-1] ^ 1])
        try:
            vector = DeletionVector.from_bytes(entry)
        except CorruptFile:
            continue
        assert keep_crc
        positions = vector.positions
        assert len(vector) == len(positions)
        assert (np.diff(positions) > 0).all()
        if positions.size and positions[-1] < 1 << 40:
            assert DeletionVector.from_bytes(vector.to_bytes()) == vector


def puffin(blobs: list[bytes], *, compressed: bool = False, **changes: Any) -> bytes:
    """Returns a Puffin file as Iceberg writes it."""
    body, entries = b"PFA1", []
    for i, blob in enumerate(blobs):
        entries.append(
            {"type": "deletion-vector-v1", "fields": [2147483645], "snapshot-id": -1, "sequence-number": -1}
            | {"offset": len(body), "length": len(blob)}
            | {"properties": {"referenced-data-file": f"data-{i}.orc", "cardinality": "3"}}
            | changes
        )
        body += blob
    payload = json.dumps({"blobs": entries, "properties": {}}).encode()
    if compressed:
        payload = bytes(cramjam.lz4.compress(payload))
    return body + b"PFA1" + payload + struct.pack("<iI", len(payload), int(compressed)) + b"PFA1"


@pytest.mark.parametrize("compressed", [False, True])
def test_puffin_blobs_are_64_bit_vectors(compressed: bool, tmp_path: Path) -> None:
    vectors = [DeletionVector([1, 2, 1 << 33], bitmap64=True), DeletionVector(bitmap64=True)]
    path = tmp_path / "deletes.puffin"
    path.write_bytes(puffin([vector.to_bytes() for vector in vectors], compressed=compressed))
    read = read_deletion_vectors(path)
    assert [vector for _, vector in read] == vectors
    for offset, vector in read:
        assert read_deletion_vector(path, offset, len(vector.to_bytes())) == vector
    path.write_bytes(puffin([b"some sketch"], type="apache-datasketches-theta-v1"))
    assert read_deletion_vectors(path) == []


def test_puffin_damage(tmp_path: Path) -> None:
    blob = DeletionVector([1], bitmap64=True).to_bytes()
    path = tmp_path / "deletes.puffin"
    for changes in ({"offset": 3}, {"offset": -1}, {"length": 10**9}, {"length": -1}, {"offset": "4"}, {"length": 5}):
        path.write_bytes(puffin([blob], **changes))
        with pytest.raises(CorruptFile):
            read_deletion_vectors(path)
    path.write_bytes(puffin([blob], **{"compression-codec": "zstd"}))
    with pytest.raises(Unsupported, match="zstd"):
        read_deletion_vectors(path)
    source = random.Random(3)
    good = puffin([blob, blob])
    mixed = [good, puffin([blob], compressed=True)]
    for _ in range(600):
        data = bytearray(source.choice(mixed))
        data[source.randrange(len(data))] = source.randrange(256)
        path.write_bytes(data[: source.randint(0, len(data))] if source.random() < 0.2 else data)
        try:
            read_deletion_vectors(path)
        except OrcidxError:
            continue
    deep = b"[" * 100_000
    path.write_bytes(b"PFA1PFA1" + deep + struct.pack("<iI", len(deep), 0) + b"PFA1")
    with pytest.raises(CorruptFile, match="not JSON"):
        read_deletion_vectors(path)


@pytest.mark.parametrize("kind", [BitMap, BitMap64])
def test_a_bitmap_that_reaches_past_the_file_is_refused(kind: Any) -> None:
    assert deleted_rows(kind([3, 9]), 10, "f").positions().tolist() == [3, 9]
    assert deleted_rows(kind([]), 10, "f").is_empty
    for past in (10, 11, 1 << 20):
        with pytest.raises(InvalidQuery, match="has positions beyond the 10 rows of f"):
            deleted_rows(kind([3, past]), 10, "f")
