"""Avro containers: files of fastavro are read correctly, and hostile files quickly cause an error of orcidx."""

from __future__ import annotations

import io
import json
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import cramjam
import fastavro
import pytest
import zstandard

from orcidx.errors import CorruptFile, Unsupported
from orcidx.paimon_table.avro import container as avro_file
from orcidx.paimon_table.avro.container import read_avro
from orcidx.paimon_table.avro.container_writing import write_avro
from orcidx.paimon_table.metadata.manifest_schemas import MANIFEST_SCHEMA, field_names

SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": ["null", "string"]}],
}
SYNC = b"0123456789abcdef"


def varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def text(value: bytes) -> bytes:
    return varint(len(value)) + value


def container(schema: Any, block: bytes, count: int, codec: str = "null") -> memoryview:
    entries = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec.encode()}
    head = b"Obj\x01" + varint(2) + b"".join(text(key) + text(value) for key, value in entries.items()) + varint(0)
    return memoryview(head + SYNC + varint(count) + varint(len(block)) + block + SYNC)


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2", "xz"])
def test_codecs(codec: str) -> None:
    records = [{"n": i, "s": None if i % 3 else "x" * i} for i in range(2000)]
    stream = io.BytesIO()
    fastavro.writer(stream, SCHEMA, records, codec=codec, sync_interval=1000)
    assert list(read_avro(memoryview(stream.getvalue()))) == records


def test_zstandard_and_logical_types() -> None:
    plain = varint(7) + varint(0)
    assert list(read_avro(container(SCHEMA, zstandard.compress(plain), 1, "zstandard"))) == [{"n": 7, "s": None}]
    dated = {**SCHEMA, "fields": [{"name": "n", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}
    assert list(read_avro(container(dated, varint(2**62), 1))) == [{"n": 2**62}]


def test_named_types_are_used_twice() -> None:
    inner = {"type": "record", "name": "i", "fields": [{"name": "x", "type": "int"}]}
    schema = {**SCHEMA, "fields": [{"name": "a", "type": inner}, {"name": "b", "type": "i"}]}
    assert list(read_avro(container(schema, varint(1) + varint(2), 1))) == [{"a": {"x": 1}, "b": {"x": 2}}]


def test_items_come_in_several_blocks_with_their_sizes_or_without() -> None:
    kinds = {"type": "map", "values": ["null", "double"]}
    fields = {"a": {"type": "array", "items": "int"}, "m": kinds}
    schema = {**SCHEMA, "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}
    array = varint(2) + varint(5) + varint(-7) + varint(-1) + varint(1) + varint(300) + varint(0)
    pairs = varint(1) + varint(1) + b"k" + varint(0) + varint(-1) + varint(11) + varint(1) + b"l" + varint(1)
    block = array + pairs + struct.pack("<d", 0.5) + varint(0)
    assert list(read_avro(container(schema, block, 1))) == [{"a": [5, -7, 300], "m": {"k": None, "l": 0.5}}]
    for end in range(1, len(block)):
        with pytest.raises(CorruptFile, match="Avro record"):
            list(read_avro(container(schema, block[:end], 1)))


def nested(depth: int) -> Any:
    return {"type": "array", "items": nested(depth - 1)} if depth else "long"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("long", "JSON"),
        ({"type": "array", "items": "long"}, "not a record"),
        ({"type": "record", "name": "r", "fields": []}, "records that take no bytes"),
        ({"type": "record", "name": "r", "fields": [{"name": "a", "type": "null"}]}, "records that take no bytes"),
        ({"type": "record", "name": "r", "fields": [{"name": "a", "type": "r"}]}, "contains itself"),
        ({"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "r"]}]}, "contains itself"),
        ({"type": "record", "name": "r", "fields": [{"name": "a", "type": nested(60)}]}, "levels deep"),
        ({**SCHEMA, "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]}, "items that take no bytes"),
        ({"type": "record", "name": "r", "fields": [{"name": "a", "type": []}]}, "union"),
        ({"type": "record", "name": "r", "fields": [{"name": "a", "type": [["null"]]}]}, "union"),
        ({"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "enum"}}]}, "not allowed in"),
        ({"type": "record", "name": "r", "fields": [{"name": "a", "type": 3}]}, "not an Avro type"),
        ({"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}] * 2}, "twice"),
        ({"type": "record", "name": "r", "fields": [3]}, "a field in the Avro schema has no name"),
        ({"type": "record", "fields": []}, "has no name"),
    ],
)
def test_schemas_that_are_refused(schema: Any, message: str) -> None:
    with pytest.raises(CorruptFile, match=message):
        list(read_avro(container(schema, b"\x00" * 50, 50)))


@pytest.mark.parametrize(
    ("block", "count", "codec", "message"),
    [
        (b"", 1, "null", "cannot hold 1 records"),
        (varint(1), 2**60, "null", "cannot hold"),
        (varint(1) + varint(0) + b"x", 1, "null", "after its last record"),
        (varint(1) + varint(3), 1, "null", "Avro record"),
        (varint(1) + varint(1) + varint(2**50), 1, "null", "Avro record"),
        (b"nonsense", 1, "deflate", "Avro block"),
        (b"nonsense", 1, "zstandard", "Avro block"),
        (b"nonsense", 1, "bzip2", "Avro block"),
        (b"nonsense", 1, "xz", "Avro block"),
        (b"\xff\xff\xff\xff\x7f1234", 1, "snappy", "is too large"),
        (bytes(cramjam.snappy.compress_raw(b"\x02\x00")) + b"\x00\x00\x00\x00", 1, "snappy", "CRC"),
        (zlib.compress(bytes((1 << 25) + 1), 1)[2:-4], 1, "deflate", "larger than"),
        (zstandard.compress(bytes((1 << 25) + 1), 1), 1, "zstandard", "larger than"),
    ],
)
def test_blocks_that_are_refused(block: bytes, count: int, codec: str, message: str) -> None:
    with pytest.raises(CorruptFile, match=message):
        list(read_avro(container(SCHEMA, block, count, codec)))


@pytest.mark.parametrize("codec", ["zstandard", "deflate"])
def test_manifests_of_many_small_files_are_read(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file has an entry that deletes it and an entry that adds it again, and one writer made all file names. So a
    compressed entry takes only a few bytes. The limit of memory must allow this."""
    monkeypatch.setattr(avro_file, "_LEAST_MEMORY", 1 << 20)
    stats = {"_MIN_VALUES": bytes(40), "_MAX_VALUES": bytes(40), "_NULL_COUNTS": [0, 0]}
    row = {"_MIN_KEY": bytes(12), "_MAX_KEY": bytes(12), "_KEY_STATS": stats, "_VALUE_STATS": stats}
    numbers = dict.fromkeys(("_FILE_SIZE", "_ROW_COUNT", "_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER"), 100)
    row |= numbers | {"_SCHEMA_ID": 0, "_LEVEL": 0, "_EXTRA_FILES": []}
    entry = {"_VERSION": 2, "_PARTITION": bytes(12), "_BUCKET": 0, "_TOTAL_BUCKETS": -1}
    missing = dict.fromkeys(field_names(MANIFEST_SCHEMA, "_FILE") - row.keys())
    files = [{**missing, **row, "_FILE_NAME": f"data-{UUID(int=5)}-{number}.orc"} for number in range(1000)]
    records = [{**entry, "_KIND": kind, "_FILE": file} for file in files for kind in (1, 0)]
    data = write_avro(MANIFEST_SCHEMA, codec, records)
    assert len(list(read_avro(memoryview(data)))) == 2000
    assert len(data) < 40_000


def test_frames_that_are_refused() -> None:
    good = bytes(container(SCHEMA, varint(1) + varint(0), 1))
    assert list(read_avro(memoryview(good))) == [{"n": 1, "s": None}]
    for end in range(len(good)):
        if good[:end].endswith(SYNC):
            continue  # a file that is cut here is a valid file with fewer blocks
        with pytest.raises(CorruptFile):
            list(read_avro(memoryview(good[:end])))
    for broken in (b"Obj\x01" + b"\xff" * 20, b"Obj\x01" + varint(-1) + b"\xff" * 20, b"Obj\x01" + varint(2**62)):
        with pytest.raises(CorruptFile):
            list(read_avro(memoryview(broken)))
    with pytest.raises(Unsupported, match="lz77"):
        list(read_avro(container(SCHEMA, b"", 0, "lz77")))


def test_threads_share_what_is_known_of_a_schema() -> None:
    """Threads share the parsed schema, but each thread decodes its own file."""
    records = [{"n": number, "s": "x" * (number % 50)} for number in range(20_000)]
    files = [write_avro(json.dumps(SCHEMA).encode(), "null", records[: 2000 * part]) for part in range(1, 9)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda data: len(list(read_avro(memoryview(data)))), files * 4))
    assert found == [2000 * part for part in range(1, 9)] * 4
    known = avro_file._understood(json.dumps(SCHEMA).encode())
    assert avro_file._understood(json.dumps(SCHEMA).encode()) is known
