"""The plan for writing a file is used again for the next file only if this file has the same schema and options."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

import orcidx
from orcidx.errors import InvalidQuery, Unsupported
from orcidx.orc.types import SIZED_TYPE
from orcidx.orc_writer.options import WriteOptions
from orcidx.orc_writer.write_plan import KEPT_PLANS, MOST_KEPT_COLUMNS, plan_write

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "at": pa.timestamp("us")})


def with_field_metadata(schema, name, metadata):
    number = schema.get_field_index(name)
    return schema.set(number, schema.field(number).with_metadata(metadata))


def test_an_equal_schema_has_the_same_plan() -> None:
    again = pa.schema([pa.field(one.name, one.type) for one in SCHEMA])
    assert plan_write(SCHEMA, WriteOptions()) is plan_write(again, WriteOptions(use_threads=False, stripe_size=1 << 20))


@pytest.mark.parametrize(
    "other",
    [
        SCHEMA.set(0, pa.field("id", pa.int64(), nullable=False)),
        SCHEMA.set(0, pa.field("ID", pa.int64())),
        SCHEMA.set(0, pa.field("id", pa.int32())),
        SCHEMA.set(2, pa.field("at", pa.timestamp("ms"))),
        SCHEMA.set(2, pa.field("at", pa.timestamp("us", "Europe/Oslo"))),
        with_field_metadata(SCHEMA, "name", {SIZED_TYPE: "char(4)"}),
        with_field_metadata(SCHEMA, "id", {"note": "a key"}),
    ],
)
def test_another_schema_has_another_plan(other) -> None:
    plan_write(SCHEMA, WriteOptions())
    found = plan_write(other, WriteOptions())
    assert found is not plan_write(SCHEMA, WriteOptions())
    records = [list(plan.types.records) for plan in (found, plan_write(SCHEMA, WriteOptions()))]
    nullable = [[node.nullable for node in plan.root.all_nodes] for plan in (found, plan_write(SCHEMA, WriteOptions()))]
    units = [[node.unit for node in plan.root.all_nodes] for plan in (found, plan_write(SCHEMA, WriteOptions()))]
    assert (records[0], nullable[0], units[0]) != (records[1], nullable[1], units[1])


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "zlib"},
        {"compression_level": 5},
        {"compression_block_size": 4096},
        {"types": {"name": "char(4)"}},
        {"spark": True},
    ],
)
def test_other_options_have_another_plan(options) -> None:
    plan = plan_write(SCHEMA, WriteOptions())
    found = plan_write(SCHEMA, WriteOptions(**options))
    assert found is not plan
    assert plan_write(SCHEMA, WriteOptions(**options)) is found
    assert plan_write(SCHEMA, WriteOptions()) is plan


@pytest.mark.parametrize(("options", "kind"), [("error", None), ("long", "LONG"), ("decimal", "DECIMAL")])
def test_options_of_types_are_not_forgotten(options, kind) -> None:
    schema = pa.schema({"n": pa.uint64()})
    for _ in range(2):
        if kind is None:
            with pytest.raises(Unsupported, match="uint64"):
                plan_write(schema, WriteOptions(uint64=options))
        else:
            assert plan_write(schema, WriteOptions(uint64=options)).types.records[1].kind.name == kind


def test_unknown_columns_in_types_are_refused_each_time() -> None:
    plan_write(SCHEMA, WriteOptions())
    for _ in range(2):
        with pytest.raises(InvalidQuery, match="nope"):
            plan_write(SCHEMA, WriteOptions(types={"nope": "char(3)"}))


def test_only_the_plans_that_were_used_last_are_kept() -> None:
    first, second = plan_write(SCHEMA, WriteOptions()), plan_write(SCHEMA, WriteOptions(spark=True))
    for number in range(KEPT_PLANS - 1):
        assert plan_write(SCHEMA, WriteOptions()) is first
        plan_write(pa.schema({f"c{number}": pa.int64()}), WriteOptions())
    assert plan_write(SCHEMA, WriteOptions()) is first
    assert plan_write(SCHEMA, WriteOptions(spark=True)) is not second


def test_the_plan_of_a_wide_file_is_not_kept() -> None:
    """A plan has a record for each column, so plans of wide files would take much memory."""
    first = plan_write(SCHEMA, WriteOptions())
    wide = pa.schema([pa.field(f"c{number}", pa.int64()) for number in range(MOST_KEPT_COLUMNS)])
    for _ in range(2):
        assert len(plan_write(wide, WriteOptions()).types.records) == MOST_KEPT_COLUMNS + 1
    assert plan_write(wide, WriteOptions()) is not plan_write(wide, WriteOptions())
    assert plan_write(SCHEMA, WriteOptions()) is first


def test_files_of_two_schemas_by_turns_have_their_own_types() -> None:
    sized = with_field_metadata(SCHEMA, "name", {SIZED_TYPE: "char(4)"})
    rows = {"id": [1], "name": ["a"], "at": [0]}
    for _ in range(2):
        for schema, expected in ((SCHEMA, "string"), (sized, "char(4)")):
            out = io.BytesIO()
            orcidx.write_table(pa.table(rows, schema=schema), out)
            assert f"name:{expected}" in str(orcidx.open(out.getvalue()).orc_schema)
