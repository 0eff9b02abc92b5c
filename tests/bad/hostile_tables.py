"""Small files of tables and index directories that claim to contain much data: manifests, snapshots, schemas, catalogs,
splits."""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import cramjam
import numpy as np
import pyarrow as pa
import zstandard
from bad.hostile_paimon import attack
from paimon_tables import INDEX_MANIFEST, MANIFEST, MANIFEST_LIST

from orcidx.index_directory.catalog import FILE_FIELDS, Catalog
from orcidx.index_directory.catalog_file import CatalogFile, written_catalog
from orcidx.orc_writer.writer import write_table
from orcidx.paimon_table.avro.container import read_avro_file
from orcidx.paimon_table.metadata.manifest import live_files, read_index_manifest, read_manifest, read_manifest_list
from orcidx.paimon_table.metadata.schema import parse_schema
from orcidx.paimon_table.metadata.snapshot import parse_hint, parse_snapshot
from orcidx.predicate import predicate_from_json
from orcidx.scanner.scan import Split

# ---------------------------------------------------------------------- manifests


def _long(number: int) -> bytes:
    value = (number << 1) ^ (number >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def _text(data: bytes) -> bytes:
    return _long(len(data)) + data


def avro(schema: Any, blocks: Sequence[tuple[int, bytes]], codec: str = "null") -> bytes:
    """Returns an Avro file. ``blocks``: the number of records and the stored bytes of each block."""
    out = b"Obj\x01" + _long(2) + _text(b"avro.schema") + _text(json.dumps(schema).encode())
    out += _text(b"avro.codec") + _text(codec.encode()) + _long(0) + b"S" * 16
    return out + b"".join(_long(count) + _long(len(block)) + block + b"S" * 16 for count, block in blocks)


def _record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def ask_avro(data: bytes) -> None:
    assert read_avro_file(memoryview(data)).records


_ONE_BYTE = _record(a="int")
_BOMB = 32 << 20
_MEMORY = r"of \d+ bytes take more than \d+ bytes of memory"


@attack(ask_avro, _MEMORY)
def records_of_a_byte_zstandard() -> bytes:
    return avro(_ONE_BYTE, [(_BOMB, zstandard.compress(bytes(_BOMB)))], "zstandard")


@attack(ask_avro, _MEMORY)
def records_of_a_byte_deflate() -> bytes:
    return avro(_ONE_BYTE, [(_BOMB, zlib.compress(bytes(_BOMB))[2:-4])], "deflate")


@attack(ask_avro, _MEMORY)
def records_of_a_byte_xz() -> bytes:
    return avro(_ONE_BYTE, [(_BOMB, lzma.compress(bytes(_BOMB)))], "xz")


@attack(ask_avro, _MEMORY)
def records_of_a_byte_bzip2() -> bytes:
    return avro(_ONE_BYTE, [(_BOMB, bz2.compress(bytes(_BOMB)))], "bzip2")


@attack(ask_avro, _MEMORY)
def records_of_a_byte_snappy() -> bytes:
    size = 8 << 20
    block = bytes(cramjam.snappy.compress_raw(bytes(size))) + zlib.crc32(bytes(size)).to_bytes(4, "big")
    return avro(_ONE_BYTE, [(size, block)], "snappy")


@attack(ask_avro, "larger than|is too large")
def a_block_that_is_too_large() -> bytes:
    return avro(_ONE_BYTE, [(1, zstandard.compress(bytes(_BOMB + 1)))], "zstandard")


@attack(ask_avro, "is too large")
def a_snappy_block_that_claims_much() -> bytes:
    return avro(_ONE_BYTE, [(1, b"\xff\xff\xff\xff\x07" + bytes(100))], "snappy")


@attack(ask_avro, "accepted")
def many_blocks() -> bytes:
    """There are many small blocks. A reader must not allocate the size of the largest block for each of them."""
    return avro(_ONE_BYTE, [(1, zstandard.compress(b"\0"))] * 20_000, "zstandard")


@attack(ask_avro, _MEMORY)
def strings_in_many_blocks() -> bytes:
    size = 16 << 20
    block = zstandard.compress(_text(bytes(size)))
    return avro(_record(a="string"), [(1, block)] * 200, "zstandard")


@attack(ask_avro, _MEMORY)
def an_array_of_much() -> bytes:
    inner = {"type": "record", "name": "i", "fields": [{"name": "b", "type": "int"}]}
    items = _long(20_000_000) + bytes(20_000_000) + b"\0"
    return avro(_record(a={"type": "array", "items": inner}), [(1, zstandard.compress(items))], "zstandard")


@attack(ask_avro, "cut off")
def an_array_that_claims_much() -> bytes:
    return avro(_record(a={"type": "array", "items": "int"}), [(1, _long(1 << 62) + bytes(100))])


@attack(ask_avro, "cut off")
def an_array_of_a_negative_count() -> bytes:
    return avro(_record(a={"type": "array", "items": "int"}), [(1, _long(-(1 << 63)) + _long(1) + bytes(100))])


@attack(ask_avro, _MEMORY)
def nulls_that_double() -> bytes:
    """Each type has two fields of the previous type. So each level doubles the number of values, and the values take no
    bytes."""
    fields, kind = [{"name": "a", "type": "long"}], "null"
    for level in range(28):
        two = [{"name": name, "type": kind} for name in "lr"]
        fields.append({"name": f"x{level}", "type": {"type": "record", "name": f"t{level}", "fields": two}})
        kind = f"t{level}"
    return avro({"type": "record", "name": "r", "fields": fields}, [(1, b"\0")])


@attack(ask_avro, "nested more than 32 levels deep")
def types_that_name_each_other() -> bytes:
    """The types are defined side by side, but each has a field of the previous type, so values are nested 8,000 levels
    deep. With such types, fastavro's C code crashes the process."""
    fields, kind = [], "int"
    for level in range(8_000):
        one = {"type": "record", "name": f"t{level}", "fields": [{"name": "l", "type": kind}]}
        fields.append({"name": f"x{level}", "type": ["null", one]})
        kind = f"t{level}"
    fields.append({"name": "z", "type": kind})
    return avro({"type": "record", "name": "r", "fields": fields}, [(1, bytes(8_001))])


@attack(ask_avro, "not JSON")
def a_schema_of_brackets() -> bytes:
    return avro(_ONE_BYTE, []).replace(b'{"type"', b"[" * 7, 1)


@attack(ask_avro, "accepted")
def a_schema_of_many_fields() -> bytes:
    return avro(_record(**{f"f{i:05}": "int" for i in range(20_000)}), [(1, bytes(20_000))])


_STATS = b"\0\0\0"  # no bounds, no counts


def _manifest(count: int, entry_bytes: Callable[[int], bytes], schema: Any) -> bytes:
    block = b"".join(map(entry_bytes, range(count)))
    return avro(schema, [(count, zstandard.compress(block))], "zstandard")


@attack(lambda data: live_files(read_manifest(memoryview(data)).entries), "accepted")
def a_manifest_of_many_files() -> bytes:
    def one(number: int) -> bytes:
        file = _text(b"%06d.orc" % number) + b"\2\2\0\0" + 2 * _STATS + b"\0\0\0\0" + b"\0" + b"\0" * 5
        return b"\4\0" + _text(bytes(4)) + b"\0\1" + file

    return _manifest(20_000, one, MANIFEST)


@attack(lambda data: read_manifest_list(memoryview(data)), "accepted")
def a_list_of_many_manifests() -> bytes:
    def one(number: int) -> bytes:
        return b"\4" + _text(b"manifest-%06d" % number) + b"\2\2\0" + _STATS + b"\0"

    return _manifest(40_000, one, MANIFEST_LIST)


@attack(lambda data: read_index_manifest(memoryview(data)), _MEMORY)
def an_index_manifest_of_many_ranges() -> bytes:
    def one(number: int) -> bytes:
        ranges = _long(500) + b"".join(b"\2" + _text(b"a") + b"\2\2\0" for _ in range(500)) + b"\0"
        return b"\2\0" + _text(bytes(4)) + b"\0" + _text(b"DELETION_VECTORS") + _text(b"i") + b"\2\2\2" + ranges + b"\0"

    return _manifest(2_000, one, INDEX_MANIFEST)


# ---------------------------------------------------------------------- JSON


def _schema(**changes: Any) -> bytes:
    document = {"id": 0, "fields": [{"id": 0, "name": "a", "type": "INT"}], "options": {}}
    return json.dumps({**document, **changes}).encode()


def ask_schema(data: bytes) -> None:
    assert parse_schema(data).arrow_schema


@attack(ask_schema, "not JSON")
def schema_of_brackets() -> bytes:
    return b'{"id":1,"fields":' + b"[" * 900_000


@attack(ask_schema, "nested more than")
def schema_of_a_deep_type() -> bytes:
    return _schema(fields=[{"id": 0, "name": "a", "type": "ARRAY<" * 100_000 + "INT" + ">" * 100_000}])


@attack(ask_schema, "nested more than")
def schema_of_a_deep_object() -> bytes:
    return b'{"id":1,"options":{},"fields":[{"id":0,"name":"a","type":' + (
        b'{"type":"ARRAY","element":' * 300 + b'"INT"' + b"}" * 300 + b"}]}"
    )


@attack(ask_schema, "accepted")
def schema_of_many_columns() -> bytes:
    return _schema(fields=[{"id": i, "name": f"c{i}", "type": "INT"} for i in range(20_000)])


@attack(ask_schema, "accepted")
def schema_of_a_wide_row() -> bytes:
    return _schema(fields=[{"id": 0, "name": "a", "type": f"ROW<{', '.join(f'c{i} INT' for i in range(60_000))}>"}])


@attack(ask_schema, "twice in its partitionKeys")
def schema_of_many_keys() -> bytes:
    """The schema has many partition keys. A reader must not search all columns for each of them."""
    fields = [{"id": i, "name": f"c{i}", "type": "INT"} for i in range(12_000)]
    return _schema(fields=fields, partitionKeys=["c11999"] * 40_000)


def _snapshot(**changes: Any) -> bytes:
    document = {"id": 1, "schemaId": 0, "baseManifestList": "a", "deltaManifestList": "b"}
    return json.dumps({**document, **changes}).encode()


@attack(parse_snapshot, "not JSON")
def snapshot_of_brackets() -> bytes:
    return b'{"id":' + b"[" * 900_000


@attack(parse_snapshot, "not JSON")
def snapshot_of_digits() -> bytes:
    return b'{"id":' + b"9" * 900_000 + b"}"


@attack(parse_snapshot, "schemaId")
def snapshot_of_a_huge_number() -> bytes:
    return _snapshot(schemaId=10**4_000)


@attack(parse_snapshot, "baseManifestList")
def snapshot_of_a_list_elsewhere() -> bytes:
    return _snapshot(baseManifestList="../../etc/passwd")


@attack(parse_snapshot, "deltaManifestList")
def snapshot_of_a_name_that_is_none() -> bytes:
    return _snapshot(deltaManifestList="a\ud800b")


@attack(parse_snapshot, "accepted")
def snapshot_of_much_else() -> bytes:
    return _snapshot(properties={f"p{i:06}": "v" for i in range(40_000)})


@attack(parse_hint, "accepted")
def hint_of_digits() -> bytes:
    return b"9" * 900_000


# ---------------------------------------------------------------------- catalogs of index directories, splits


def _catalog(rows: int, path: str, **columns: pa.Array) -> bytes:
    given = {field.name: pa.nulls(rows, field.type) for field in FILE_FIELDS}
    one = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([path]))
    described = {"version": 2, "spec": {}, "spec_key": "k", "statistics": []}
    return written_catalog(pa.table({**given, "path": one, **columns}), described)


def ask_catalog(data: bytes) -> None:
    assert len(Catalog.read(CatalogFile(data)).latest())


@attack(ask_catalog, "according to its footer the catalog has 2000000 rows")
def catalog_of_many_rows() -> bytes:
    return _catalog(2_000_000, "a.orc")


@attack(ask_catalog, r"take at least \d+ bytes of memory; at most 67108864 bytes are allowed")
def catalog_of_a_long_name() -> bytes:
    return _catalog(50_000, "a" * 10_000)


@attack(ask_catalog, r"takes at least 3\d+ bytes of memory, but at most 134217728")
def catalog_of_a_long_name_of_an_index() -> bytes:
    kinds = FILE_FIELDS.field("indexes").type.value_type
    one = pa.array(["a" * 10_000]).take(pa.array(np.zeros(60_000, np.int32)))
    fields = [one, *(pa.nulls(60_000, kinds.field(number).type) for number in range(1, 4))]
    items = pa.StructArray.from_arrays(fields, [kinds.field(number).name for number in range(4)])
    return _catalog(2, "a.orc", indexes=pa.ListArray.from_arrays(pa.array([0, 30_000, 60_000], pa.int32()), items))


@attack(ask_catalog, r"take at least \d+ bytes of memory; at most 67108864 bytes are allowed")
def catalog_of_many_indexes_of_a_file() -> bytes:
    kinds = FILE_FIELDS.field("indexes").type.value_type
    zeros = [pa.repeat(pa.scalar("" if field.type == pa.string() else 0, field.type), 4_000_000) for field in kinds]
    items = pa.StructArray.from_arrays(zeros, fields=list(kinds))
    return _catalog(1, "a.orc", indexes=pa.ListArray.from_arrays(pa.array([0, 4_000_000], pa.int32()), items))


@attack(ask_catalog, "not a catalog")
def catalog_of_brackets() -> bytes:
    sink = pa.BufferOutputStream()
    write_table(pa.table({"path": ["a"]}), sink, metadata={"orcidx.rollup": "[" * 300_000})
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def predicate_from_json_text(data: bytes) -> object:
    return predicate_from_json(json.loads(data))


@attack(Split.from_json, "not the JSON of a split")
def split_of_brackets() -> bytes:
    return b'{"orcidx_split":' + b"[" * 900_000


@attack(Split.from_json, "not the JSON of a split")
def split_of_a_deep_predicate() -> bytes:
    where = '{"not":' * 50_000 + "1" + "}" * 50_000
    return f'{{"orcidx_split":1,"rows":1,"estimated_bytes":1,"job":{{}},"request":{{"where":{where}}}}}'.encode()


@attack(predicate_from_json_text, "nested more than 100 levels deep")
def predicate_that_is_deep() -> bytes:
    """The predicate is deeply nested. If it were accepted, its evaluation would need a stack frame for each level."""
    leaf = '{"column":["a"],"op":"GT","literals":[1],"negated":false}'
    return (f'{{"and":[{leaf},' * 300 + leaf + "]}" * 300).encode()


@attack(Split.from_json, "not the JSON of a split")
def split_of_a_huge_number() -> bytes:
    return b'{"orcidx_split":1,"rows":' + b"9" * 4_000 + b',"estimated_bytes":1,"job":{},"request":{}}'
