"""When a file is read, attributes of ORC types become Arrow field metadata. When a table is written, field metadata
becomes attributes again, so no attribute is lost."""

from __future__ import annotations

import io
import uuid

import pyarrow as pa
import pytest
from pyarrow import orc

import orcidx
from orcidx.orc.metadata_cache import PLANS


def with_ids() -> pa.Table:
    def field(name, kind, number, **more):
        return pa.field(name, kind, metadata={"iceberg.id": str(number), **more})

    point = pa.struct([field("x", pa.int32(), 3), field("y", pa.list_(field("item", pa.int8(), 5)), 4)])
    tags = pa.map_(field("key", pa.string(), 7).with_nullable(False), field("value", pa.int64(), 8, own="é"))
    schema = pa.schema(
        [
            field("id", pa.int64(), 1, **{"iceberg.required": "true"}),
            field("point", point, 2),
            field("tags", tags, 6),
            field("code", pa.string(), 9, **{"orc.type": "char(3)"}),
            pa.field("bare", pa.int64()),
        ]
    )
    rows = [
        [1, 2, 3],
        [{"x": 1, "y": [1, 2]}, None, {"x": None, "y": []}],
        [[("a", 1)], None, []],
        ["abc", None, "d"],
        [4, 5, 6],
    ]
    return pa.table([pa.array(one, kind) for one, kind in zip(rows, schema.types)], schema)


def written(data, **options) -> bytes:
    out = io.BytesIO()
    orcidx.write_table(data, out, **options)
    return out.getvalue()


def test_attributes_are_field_metadata():
    table = with_ids()
    data = written(table)
    with orcidx.open(data) as file:
        assert file.schema.equals(table.schema, check_metadata=True)
        read = file.read()
        [batch] = file.scan()
    assert read.schema.equals(table.schema, check_metadata=True)
    assert read.column("point").type.equals(table.schema.field("point").type, check_metadata=True)
    assert batch.schema.equals(table.schema, check_metadata=True)
    # pyarrow returns attributes in the same form.
    theirs = orc.read_table(io.BytesIO(data)).schema
    assert theirs.field("id").metadata == read.schema.field("id").metadata
    assert theirs.field("point").type.field(1).type.value_field.metadata == {b"iceberg.id": b"5"}


def test_what_is_scanned_is_written_as_it_was(tmp_path):
    first = written(with_ids())
    with orcidx.open(first) as file:
        again = written(file.scan(where="id > 0"))
        assert orcidx.open(again).orc_schema == file.orc_schema
        assert [n.attributes for n in orcidx.open(again).columns] == [n.attributes for n in file.columns]
    (tmp_path / "a.orc").write_bytes(first)
    (tmp_path / "b.orc").write_bytes(again)
    orcidx.rewrite([tmp_path / "a.orc", tmp_path / "b.orc"], tmp_path / "both.orc", merge=True, sort_by=["id"])
    both = orcidx.open(tmp_path / "both.orc")
    assert both.schema.equals(with_ids().schema, check_metadata=True)
    assert both.orc_schema.count("char(3)") == 1


@pytest.mark.parametrize("names", [["tags"], [("point", "y"), "id"]])
def test_a_projection_keeps_its_own(names):
    with orcidx.open(written(with_ids())) as file:
        schema = file.scan(names).schema
        assert file.scan(names).to_table().schema.equals(schema, check_metadata=True)
        for field in schema:
            assert field.metadata == file.schema.field(field.name).metadata


def test_a_wanted_schema_keeps_its_own_metadata():
    wanted = pa.schema([pa.field("id", pa.int64(), metadata={"mine": "1"}), pa.field("bare", pa.int64())])
    with orcidx.open(written(with_ids())) as file:
        assert file.scan(schema=wanted).to_table().schema.equals(wanted, check_metadata=True)
        [batch] = file.scan(schema=wanted)
        assert batch.schema.equals(wanted, check_metadata=True)


def test_one_plan_for_files_of_one_schema(tmp_path):
    for number in range(5):
        (tmp_path / f"{number}.orc").write_bytes(written(with_ids()))
    orcidx.scan(tmp_path).to_table()
    before = len(PLANS)
    assert orcidx.scan(tmp_path).to_table().num_rows == 15
    assert len(PLANS) <= before + 2


def test_marked_timestamps_stay_bigints_of_spark():
    field = pa.field("at", pa.timestamp("ns"), metadata={"spark.sql.catalyst.type": "timestamp_ntz"})
    table = pa.table([pa.array([1_000_000, None], pa.timestamp("us"))], pa.schema([pa.field("at", pa.timestamp("us"))]))
    with orcidx.open(written(table, spark=True)) as file:
        again = written(file.scan())
        assert file.schema.field("at").metadata == field.metadata
        assert file.orc_schema == orcidx.open(again).orc_schema == "struct<at:bigint>"
        assert orcidx.open(again).read().equals(table)
    nanos = pa.table([pa.array([1_000_001], pa.timestamp("ns"))], pa.schema([field]))
    with pytest.raises(orcidx.ValueOutOfRange, match=r"at.*row 0|row 0.*at"):
        written(nanos)


def test_an_extension_type_is_no_claim_to_arrow():
    """The name of an extension type is stored under a key of orcidx, not of Arrow. pyarrow returns attributes as field
    metadata. With Arrow's own key, no library could import the table if the storage did not match the extension
    type."""
    data = written(pa.table({"u": pa.array([uuid.UUID(int=7).bytes], pa.uuid())}))
    for table in (orc.read_table(io.BytesIO(data)), orcidx.open(data).read()):
        assert table.schema.field("u").metadata[b"orcidx.extension"] == b"arrow.uuid"
        assert pa.table(pa.RecordBatchReader.from_stream(table)).column("u").to_pylist() == [uuid.UUID(int=7).bytes]


def test_attributes_of_others_that_arrow_would_take_for_its_own():
    field = pa.field("b", pa.binary(), metadata={"ARROW:extension:name": "arrow.uuid", "iceberg.id": "1"})
    out = io.BytesIO()
    orc.write_table(pa.table([pa.array([b"x"])], pa.schema([field])), out)
    table = orcidx.open(out.getvalue()).read()
    assert table.schema.field("b").metadata == {b"iceberg.id": b"1"}
    assert pa.table(pa.RecordBatchReader.from_stream(table)).num_rows == 1
