"""Scans of Paimon tables: rows that Java wrote, with and without filters, schema evolution, Parquet, top rows, and
damaged files."""

from __future__ import annotations

import asyncio
import datetime
import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from goldens import FIXTURES, GOLDEN_PAIMON, roots
from paimon_empty import empty_table
from paimon_tables import PaimonTable, serialized

import orcidx
from orcidx.errors import CorruptFile, InvalidQuery, Unsupported, ValueOutOfRange
from orcidx.paimon import DeletionVector, build_file_index, open_table, read_file_index, write_deletion_vectors
from orcidx.paimon_table.read import orc_rows, plan, shared_reading
from orcidx.predicate import col
from orcidx.scanner import small_filter
from orcidx.scanner.file import open_file
from orcidx.scanner.small_files import SmallFiles

FROZEN = FIXTURES / "paimon" / "tables" / "db.db"
FORMATS = ["orc", "parquet"]


def predicate(recorded: list[Any]) -> Any:
    op, *arguments = recorded
    if op in ("and", "or"):
        left, right = map(predicate, arguments)
        return left & right if op == "and" else left | right
    if op == "isnull":
        return col(arguments[0]).is_null()
    return col(arguments[0]) == arguments[1] if op == "eq" else col(arguments[0]) > arguments[1]


def holds(recorded: list[Any], row: dict[str, Any]) -> bool:
    op, *arguments = recorded
    if op in ("and", "or"):
        return (all if op == "and" else any)(holds(part, row) for part in arguments)
    value = row[arguments[0]]
    if op == "isnull" or value is None:
        return op == "isnull" and value is None
    return value == arguments[1] if op == "eq" else value > arguments[1]


def recorded_rows(rows: list[list[Any]], schema: pa.Schema) -> list[dict[str, Any]]:
    def value(stored: Any, kind: pa.DataType) -> Any:
        if pa.types.is_timestamp(kind) and stored is not None:
            return datetime.datetime(1970, 1, 1) + datetime.timedelta(
                milliseconds=stored[0], microseconds=stored[1] // 1000
            )
        return stored

    return [{f.name: value(stored, f.type) for f, stored in zip(schema, row)} for row in rows]


def sorted_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize("root", roots("paimon", GOLDEN_PAIMON))
def test_java_tables_scan_to_their_rows(root: Path) -> None:
    checked = 0
    for path in sorted((root / "tables" / "expected").glob("*.json")):
        recorded = json.loads(path.read_text())
        table = open_table(root / "tables" / "db.db" / recorded["table"])
        if recorded["table"] == "pk_dynamic_bucket":
            with pytest.raises(Unsupported, match="must be merged"):
                table.scan()
            continue
        scan = table.scan()
        everything = scan.to_table()
        assert everything.schema == table.schema
        assert scan.count_rows() == everything.num_rows == recorded["row_count_visible"]
        rows = everything.to_pylist()
        if "rows" in recorded:
            assert sorted_rows(rows) == sorted_rows(recorded_rows(recorded["rows"], table.schema))
        for query in recorded.get("queries", []):
            expected = [row for row in rows if holds(query["filter"], row)]
            filtered = table.scan(where=predicate(query["filter"]))
            batches = filtered.to_batches()
            got = pa.Table.from_batches(list(batches), filtered.schema)
            assert got.to_pylist() == expected
            assert not batches.notes
            assert filtered.count_rows() == len(expected)
            assert table.scan(["id"], predicate(query["filter"])).to_table()["id"].to_pylist() == [
                row["id"] for row in expected
            ]
            returned = recorded_rows(query["rows"], table.schema)
            if len(returned) == query["rows_returned_before_residual_filter"]:
                assert sorted_rows(expected) == sorted_rows([row for row in returned if holds(query["filter"], row)])
            checked += 1
    assert checked >= 26


def test_the_file_index_leaves_as_many_rows_as_in_java() -> None:
    for name in ("append_dv32", "append_index_files"):
        recorded = json.loads((FIXTURES / "paimon" / "tables" / "expected" / f"{name}.json").read_text())
        for query in recorded["queries"]:
            batches = open_table(FROZEN / name).scan(where=predicate(query["filter"])).to_batches()
            list(batches)
            assert batches.metrics.rows_considered <= query["rows_returned_before_residual_filter"]


def test_a_scan_is_a_value() -> None:
    scan = open_table(FROZEN / "append_dv32").scan(["v", "id"], col("v") > 40, limit=7, batch_size=3)
    rows = scan.to_table()
    assert rows.num_rows == 7
    assert pickle.loads(pickle.dumps(scan)).to_table() == rows
    assert sum(batch.num_rows for batch in scan) == 7
    assert all(batch.num_rows <= 3 for batch in scan)
    assert pa.table(scan) == rows
    assert scan.to_reader().read_all() == rows
    assert scan.head(2) == rows.slice(0, 2)
    assert scan.count_rows() == 7

    async def collect() -> list[pa.RecordBatch]:
        return [batch async for batch in scan]

    assert pa.Table.from_batches(asyncio.run(collect())) == rows


def test_what_cannot_be_asked() -> None:
    table = open_table(FROZEN / "append_dv32")
    for arguments, message in [
        ({"columns": "id"}, "columns must be a list"),
        ({"columns": ["idd"]}, "did you mean 'id'"),
        ({"where": col("idd") == 1}, "did you mean 'id'"),
        ({"limit": -1}, "negative"),
        ({"top": ["id"]}, "say how many"),
        ({"top": [], "limit": 1}, "contains no column"),
        ({"top": [("id", "down")], "limit": 1}, '"asc" or "desc"'),
        ({"top": [("id", "asc", "last", 1)], "limit": 1}, '"asc" or "desc"'),
        ({"top": [("nope", "asc")], "limit": 1}, "nope"),
        ({"batch": 1}, "unknown option"),
    ]:
        with pytest.raises(InvalidQuery, match=message):
            table.scan(**arguments)
    assert table.scan(["ID"], col("Id") == 1, case_sensitive=False).to_table()["id"].to_pylist() == [1]


def test_explanations_name_every_file() -> None:
    table = open_table(FROZEN / "append_dv32")
    explanation = table.scan(["id"], col("id") == 123).explain()
    kept, skipped = explanation.files
    assert "file statistics" in str(skipped.reasons[0])
    assert (kept.rows, kept.kept, skipped.kept) == (300, True, False)
    assert "append_dv32" in str(explanation)
    by_index = table.scan(["id"], (col("s") == "s7") & (col("v") == 7)).explain()
    groups = [group for file in by_index.files for stripe in file.stripes for group in stripe.row_groups]
    assert sum(group.kept_rows for group in groups) == 2
    sources = {reason.source for group in groups for reason in (*group.reasons, *group.proofs)}
    assert {"Paimon bitmap index", "Paimon range-bitmap index"} <= sources


def test_deletion_vectors_of_another_file(table: PaimonTable) -> None:
    table.schema({0: ("id", "INT")})
    table.add("data.orc", pa.table({"id": pa.array([1, 2, 3], pa.int32())}))
    with orcidx.open(table.path / "bucket-0" / "data.orc") as file:
        assert file.read(deletion_vector=DeletionVector([1]))["id"].to_pylist() == [1, 3]
        assert file.read(deletion_vector=DeletionVector([1], bitmap64=True))["id"].to_pylist() == [1, 3]
        with pytest.raises(CorruptFile, match="deletes row 3, but the file has 3 rows"):
            file.read(deletion_vector=DeletionVector([3]))


# ---------------------------------------------------------------------- evolution


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    return PaimonTable(tmp_path / "t")


def row_type(fields: dict[int, tuple[str, str]]) -> dict[str, Any]:
    return {"type": "ROW", "fields": [{"id": key, "name": name, "type": kind} for key, (name, kind) in fields.items()]}


@pytest.mark.parametrize("form", FORMATS)
def test_fields_go_by_id(table: PaimonTable, form: str) -> None:
    row = row_type({10: ("x", "INT"), 11: ("y", "STRING")})
    table.schema({0: ("a", "INT"), 1: ("b", "STRING"), 2: ("gone", "INT"), 3: ("r", row), 5: ("f", "FLOAT")})
    kinds = [pa.int32(), pa.string(), pa.int32(), pa.struct([("x", pa.int32()), ("y", pa.string())]), pa.float32()]
    old = pa.table(
        [
            pa.array(values, kind)
            for values, kind in zip(
                [
                    [1, 2, None],
                    ["k", None, "m"],
                    [7, 8, 9],
                    [{"x": 1, "y": "u"}, None, {"x": None, "y": "w"}],
                    [1.5] * 3,
                ],
                kinds,
            )
        ],
        names=["a", "b", "gone", "r", "f"],
    )
    table.add(f"old.{form}", old)
    row = row_type({11: ("y2", "STRING"), 12: ("z", "INT"), 10: ("x", "BIGINT")})
    table.schema({3: ("r", row), 1: ("a", "STRING"), 0: ("n", "BIGINT"), 4: ("gone", "STRING"), 5: ("f", "DOUBLE")})
    inner = pa.struct([("y2", pa.string()), ("z", pa.int32()), ("x", pa.int64())])
    new = pa.table(
        {
            "r": pa.array([{"y2": "v", "z": 5, "x": 2**40}], inner),
            "a": pa.array(["q"]),
            "n": pa.array([2**40]),
            "gone": pa.array(["here"]),
            "f": pa.array([2.5]),
        }
    )
    table.add(f"new.{form}", new)
    table.commit()
    opened = open_table(table.path)
    rows = opened.scan().to_table()
    assert rows.schema == opened.schema
    expected = [
        {"r": {"y2": "u", "z": None, "x": 1}, "a": "k", "n": 1, "gone": None, "f": 1.5},
        {"r": None, "a": None, "n": 2, "gone": None, "f": 1.5},
        {"r": {"y2": "w", "z": None, "x": None}, "a": "m", "n": None, "gone": None, "f": 1.5},
        {"r": {"y2": "v", "z": 5, "x": 2**40}, "a": "q", "n": 2**40, "gone": "here", "f": 2.5},
    ]
    assert rows.to_pylist() == expected
    for where, numbers in [
        (col("n") == 2, [1]),
        (col("n") > 1, [1, 3]),
        (col("a") == "k", [0]),
        (col("a").is_null(), [1]),
        (col("gone").is_null(), [0, 1, 2]),
        (col("gone") == "here", [3]),
        (col("gone") != "there", [3]),
        (col("gone").eq_null_safe(None), [0, 1, 2]),
        (~col("gone").eq_null_safe("here"), [0, 1, 2]),
        ((col("gone") == "here") | (col("n") == 1), [0, 3]),
        (col("r", "y2") == "w", [2]),
        (col("r", "x") >= 1, [0, 3]),
        (col("r", "z").is_null(), [0, 1, 2]),
        (col("r").is_null(), [1]),
        (col("f") < 2, [0, 1, 2]),
        (pc.field("n") > 1, [1, 3]),
        (pc.field("gone").is_null(), [0, 1, 2]),
        ("n > 1 AND a = 'q'", [3]),
    ]:
        scan = opened.scan(where=where)
        assert scan.to_table().to_pylist() == [expected[i] for i in numbers], where
        assert scan.count_rows() == len(numbers)
        assert opened.scan(["gone"], where).to_table()["gone"].to_pylist() == [expected[i]["gone"] for i in numbers]
    assert opened.scan(["gone"]).to_table()["gone"].to_pylist() == [None, None, None, "here"]


@pytest.mark.parametrize("form", FORMATS)
def test_conditions_of_polars_keep_nan(table: PaimonTable, form: str) -> None:
    pl = pytest.importorskip("polars")
    table.schema({0: ("id", "INT"), 1: ("f", "DOUBLE")})
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "f": [1.0, float("nan"), 9.0]})
    table.add(f"a.{form}", rows)
    table.commit()
    scan = open_table(table.path).scan
    largest, ieee = pl.col("f") > 5, col("f") > 5
    for found, ids in [
        (scan(where=largest), [2, 3]),
        (scan().filter(largest).filter(pl.col("id") > 2), [3]),
        (scan().filter(largest).filter(ieee), [3]),
        (scan(where=ieee).filter(largest), [3]),
    ]:
        assert found.to_table()["id"].to_pylist() == ids
        assert found.count_rows() == len(ids)


@pytest.mark.parametrize("form", FORMATS)
def test_widened_and_nested_types(table: PaimonTable, form: str) -> None:
    element = row_type({20: ("p", "INT")})
    nested = [{"type": "ARRAY", "element": element}, {"type": "MAP", "key": "STRING", "value": element}]
    texts = ["DECIMAL(5, 2)", "SMALLINT", "CHAR(3)", "TIMESTAMP(3)"]
    table.schema(dict(enumerate(zip("dictlm", [*texts, *nested]))))
    item = pa.struct([("p", pa.int32())])
    moment = datetime.datetime(2024, 1, 1, 12, 0, 0, 5000)
    data = pa.table(
        {
            "d": pa.array([Decimal("1.50"), Decimal("-2.25"), None], pa.decimal128(5, 2)),
            "i": pa.array([1, -5, None], pa.int16()),
            "c": pa.array(["a  ", "ab ", None]),
            "t": pa.array([moment, None, moment], pa.timestamp("ms")),
            "l": pa.array([[{"p": 1}, None], None, []], pa.list_(item)),
            "m": pa.array([[("k", {"p": 3})], [], None], pa.map_(pa.string(), item)),
        }
    )
    table.add(f"old.{form}", data)
    element = row_type({21: ("q", "INT"), 20: ("p2", "BIGINT")})
    nested = [{"type": "ARRAY", "element": element}, {"type": "MAP", "key": "STRING", "value": element}]
    texts = ["DECIMAL(9, 4)", "DECIMAL(10, 1)", "STRING", "TIMESTAMP(6)"]
    table.schema(dict(enumerate(zip("dictlm", [*texts, *nested]))))
    table.commit()
    opened = open_table(table.path)
    rows = opened.scan().to_table()
    assert rows.schema == opened.schema
    first, third = {"q": None, "p2": 1}, {"q": None, "p2": 3}
    assert rows.to_pylist() == [
        {"d": Decimal("1.5000"), "i": Decimal("1.0"), "c": "a  ", "t": moment, "l": [first, None], "m": [("k", third)]},
        {"d": Decimal("-2.2500"), "i": Decimal("-5.0"), "c": "ab ", "t": None, "l": None, "m": []},
        {"d": None, "i": None, "c": None, "t": moment, "l": [], "m": None},
    ]
    for where, count in [
        (col("d") == Decimal("1.5"), 1),
        (col("i") == -5, 1),
        (col("i") > Decimal("0.5"), 1),
        (col("c") == "a", 0),  # the column is no longer CHAR, so blanks at the end are compared, too
        (col("c") == "a  ", 1),
        (col("t") == moment, 2),
        (col("l").is_null(), 1),
        ((col("c") == "ab ") & (col("d") < 0), 1),
    ]:
        assert opened.scan(["d"], where).to_table().num_rows == count, where


@pytest.mark.parametrize("form", FORMATS)
def test_fields_inside_a_row_go_by_id_if_the_arrow_type_is_the_same(table: PaimonTable, form: str) -> None:
    def schema(a: int, b: int) -> None:
        row = row_type({a: ("a", "INT"), b: ("b", "INT")})
        array, mapped = {"type": "ARRAY", "element": row}, {"type": "MAP", "key": "STRING", "value": row}
        table.schema({0: ("s", row), 1: ("l", array), 2: ("m", mapped)})

    schema(10, 11)
    item = pa.struct([("a", pa.int32()), ("b", pa.int32())])
    value = {"a": 10, "b": 20}
    data = {
        "s": pa.array([value, None], item),
        "l": pa.array([[value, None], None], pa.list_(item)),
        "m": pa.array([[("k", value)], None], pa.map_(pa.string(), item)),
    }
    table.add(f"old.{form}", pa.table(data))
    none = {"s": None, "l": None, "m": None}
    for a, b, expected in [(12, 11, {"a": None, "b": 20}), (11, 10, {"a": 20, "b": 10})]:
        schema(a, b)
        table.commit()
        opened = open_table(table.path)
        assert opened.scan().to_table().to_pylist() == [
            {"s": expected, "l": [expected, None], "m": [("k", expected)]},
            none,
        ]
        found = col("s")["a"] == 20
        assert opened.scan(["s"], found).to_table().to_pylist() == ([{"s": expected}] if a == 11 else [])
        assert opened.scan(["s"], col("s")["b"] == expected["b"]).to_table().to_pylist() == [{"s": expected}]


@pytest.mark.parametrize("form", FORMATS)
def test_times_of_day_are_numbers_in_orc(table: PaimonTable, form: str) -> None:
    table.schema({0: ("t", "TIME(3)"), 1: ("n", "INT")})
    millis = pa.array([0, 43_200_001, None], pa.int32())
    times = millis if form == "orc" else millis.cast(pa.time32("ms"))
    table.add(f"data.{form}", pa.table({"t": times, "n": pa.array([1, 2, 3], pa.int32())}), _VALUE_STATS_COLS=[])
    table.commit()
    opened = open_table(table.path)
    noon = datetime.time(12, 0, 0, 1000)
    assert opened.scan().to_table()["t"].to_pylist() == [datetime.time(0), noon, None]
    assert opened.scan(["n"], col("t") == noon).to_table()["n"].to_pylist() == [2]
    assert opened.scan(["n"], (col("t") < noon) | (col("n") == 3)).to_table()["n"].to_pylist() == [1, 3]
    assert opened.scan(["n"], (col("t") <= noon) & (col("n") >= 2)).to_table()["n"].to_pylist() == [2]


def test_timestamps_come_in_the_unit_of_their_precision(table: PaimonTable) -> None:
    kinds = {"TIMESTAMP(0)": "s", "TIMESTAMP(3)": "ms", "TIMESTAMP(6)": "us"}
    table.schema({i: (f"t{i}", text) for i, text in enumerate(kinds)})
    late = datetime.datetime(9999, 12, 31, 23, 59, 59)
    table.add("data.orc", pa.table({f"t{i}": pa.array([late], pa.timestamp("us")) for i in range(3)}))
    table.commit()
    rows = open_table(table.path).scan().to_table()
    assert rows.schema.types == [pa.timestamp(unit) for unit in kinds.values()]
    assert rows.to_pylist() == [{f"t{i}": late for i in range(3)}]


def test_strings_as_views(table: PaimonTable) -> None:
    table.schema({0: ("s", "STRING")})
    table.add("data.orc", pa.table({"s": ["x", None]}))
    table.commit()
    rows = open_table(table.path).scan(strings="view").to_table()
    assert rows.schema.types == [pa.string_view()]
    assert rows["s"].to_pylist() == ["x", None]


# ---------------------------------------------------------------------- rows


@pytest.mark.parametrize("form", FORMATS)
def test_deletions_and_indexes_select_the_same_rows_in_both_formats(table: PaimonTable, form: str) -> None:
    table.schema({0: ("id", "INT"), 1: ("v", "BIGINT")})
    data = pa.table({"id": pa.array(range(5000), pa.int32()), "v": pa.array([i % 50 or None for i in range(5000)])})
    deleted = DeletionVector([*range(100, 2000), 3333, 4999], bitmap64=form == "parquet")
    table.add(f"data.{form}", data)
    index = build_file_index(data, {"range-bitmap": {"v": {}}, "bloom-filter": {"id": {"items": 5000}}})
    table.entries[0]["_FILE"]["_EMBEDDED_FILE_INDEX"] = index.to_bytes()
    table.add_deletions("index-0", write_deletion_vectors(table.path / "index" / "index-0", {f"data.{form}": deleted}))
    table.commit()
    opened = open_table(table.path)
    explanation = opened.scan(where=col("v") == 7).explain()
    kept = [row for row in data.to_pylist() if row["id"] not in deleted]
    assert explanation.files[0].kept_rows == len([row for row in kept if row["v"] == 7])
    assert opened.scan(batch_size=700).to_table().to_pylist() == kept
    assert opened.scan().count_rows() == len(kept)
    batches = opened.scan(where=col("v") == 7).to_batches()
    assert [row for batch in batches for row in batch.to_pylist()] == [row for row in kept if row["v"] == 7]
    assert batches.metrics.rows_considered == len([row for row in kept if row["v"] == 7])
    assert opened.scan(where=(col("v") == 7) & (col("id") == 9999)).to_table().num_rows == 0
    assert opened.scan(limit=10).to_table().to_pylist() == kept[:10]
    assert opened.scan(limit=0).to_table().num_rows == 0


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("enabled", ["true", "False"])
def test_a_table_may_turn_its_file_indexes_off(table: PaimonTable, form: str, enabled: str) -> None:
    table.schema({0: ("id", "INT")}, options={"file-index.read.enabled": enabled})
    data = pa.table({"id": pa.array([1, 5, 9], pa.int32())})
    other = pa.table({"id": pa.array([1, 7, 9], pa.int32())})  # the index lacks the value 5
    index = build_file_index(other, {"bitmap": {"id": {}}})
    table.add(f"data.{form}", data, _EMBEDDED_FILE_INDEX=index.to_bytes())
    table.commit()
    rows = open_table(table.path).scan(where=col("id") == 5).to_table()
    assert rows["id"].to_pylist() == ([5] if enabled == "False" else [])


@pytest.mark.parametrize("form", FORMATS)
def test_a_damaged_index_keeps_its_rows_and_damaged_deletions_raise(table: PaimonTable, form: str) -> None:
    table.schema({0: ("id", "INT")})
    data = pa.table({"id": pa.array([1, 2, 3], pa.int32())})
    table.add(f"data.{form}", data, _EMBEDDED_FILE_INDEX=b"nonsense")
    table.add(f"more.{form}", data, _EXTRA_FILES=["absent.index"])
    table.commit()
    batches = open_table(table.path).scan(where=col("id") == 2).to_batches()
    assert sum(batch.num_rows for batch in batches) == 2
    assert [note.kind for note in batches.notes] == ["damaged", "absent"]
    with pytest.raises((CorruptFile, FileNotFoundError)):
        open_table(table.path).scan(where=col("id") == 2, strict_index=True).to_table()
    ranges = write_deletion_vectors(table.path / "index" / "index-0", {f"data.{form}": DeletionVector([7])})
    table.add_deletions("index-0", ranges)
    table.commit()
    with pytest.raises(CorruptFile, match="deletes row 7, but the file has 3 rows"):
        open_table(table.path).scan().to_table()
    (table.path / "index" / "index-0").write_bytes(b"\x01\x00\x00")
    with pytest.raises(CorruptFile, match="index-0"):
        open_table(table.path).scan().to_table()


@pytest.mark.parametrize("form", FORMATS)
def test_files_that_are_not_what_the_manifest_says(table: PaimonTable, form: str) -> None:
    table.schema({0: ("id", "INT")})
    data = pa.table({"id": pa.array([1, 2, 3], pa.int32())})
    table.add(f"data.{form}", data, _ROW_COUNT=4)
    table.commit()
    with pytest.raises(CorruptFile, match="manifest says 4"):
        open_table(table.path).scan().to_table()
    (table.path / "bucket-0" / f"data.{form}").write_bytes(b"PAR1 nonsense PAR1")
    with pytest.raises(CorruptFile, match=f"data.{form}"):
        open_table(table.path).scan().to_table()
    (table.path / "bucket-0" / f"data.{form}").unlink()
    with pytest.raises(FileNotFoundError):
        open_table(table.path).scan().to_table()


def test_other_formats_and_columns_without_a_value(table: PaimonTable) -> None:
    table.schema({0: ("id", "INT")})
    data = pa.table({"id": pa.array([1], pa.int32())})
    table.add("data.parquet", data.rename_columns(["other"]), _VALUE_STATS_COLS=[])
    table.commit()
    with pytest.raises(CorruptFile, match="lacks the column 'id'"):
        open_table(table.path).scan().to_table()
    table.entries[0]["_FILE"]["_FILE_NAME"] = "data.avro"
    table.commit()
    with pytest.raises(Unsupported, match="avro"):
        open_table(table.path).scan().to_table()


def test_values_beyond_the_unit_name_the_column(table: PaimonTable) -> None:
    table.schema({0: ("t", "TIMESTAMP(9)")})
    late = pa.array([datetime.datetime(9999, 1, 1)], pa.timestamp("us"))
    table.add("data.orc", pa.table({"t": late}), _VALUE_STATS_COLS=[])
    table.commit()
    with pytest.raises(ValueOutOfRange, match="t"):
        open_table(table.path).scan().to_table()


def test_partition_columns_come_from_the_files(table: PaimonTable) -> None:
    table.schema({0: ("a", "INT"), 1: ("dt", "DATE")}, partition_keys=("dt",))
    for day in (19000, 19001):
        data = pa.table({"a": pa.array([day], pa.int32()), "dt": pa.array([day], pa.int32()).cast(pa.date32())})
        partition = serialized(["DATE"], [day])
        table.add(f"data-{day}.orc", data, partition=partition, directory=f"dt={day}/bucket-0")
    table.commit()
    scan = open_table(table.path).scan(where=col("dt") == datetime.date(2022, 1, 9))
    assert scan.to_table()["a"].to_pylist() == [19001]
    assert len(scan.plan.skipped) == 1


# ---------------------------------------------------------------------- top


def test_the_bound_of_top_moves_from_file_to_file(table: PaimonTable) -> None:
    """Rows of the next files are not read if they cannot replace one of the top rows that were found before. This also
    works without a file index."""
    table.schema({0: ("id", "INT"), 1: ("score", "DOUBLE")})
    for number in range(4):
        ids = np.arange(number * 1000, number * 1000 + 1000, dtype="i4")
        data = pa.table({"id": ids, "score": np.where(ids == 3500, -1.0, ids.astype("f8"))})
        table.add(f"data-{number}.orc", data, _VALUE_STATS_COLS=[])
    table.commit()
    scan = open_table(table.path).scan(["id"], top=["score"], limit=3)
    with scan.to_batches() as batches:
        assert [row for batch in batches for row in batch["id"].to_pylist()] == [3500, 0, 1]
        assert batches.metrics.rows_considered == 2000  # those of the first file, and of the file that contains -1


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("nulls", ["first", "last"])
@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_top_rows_are_exact_and_in_order(table: PaimonTable, form: str, direction: str, nulls: str) -> None:
    table.schema({0: ("id", "INT"), 1: ("score", "DOUBLE"), 2: ("name", "STRING")})
    nan = float("nan")
    for number in range(2):
        ids = list(range(number * 300, number * 300 + 300))
        scores = [[None, nan, -0.0, 0.0, float(i % 17), float(-i)][i % 6] for i in ids]
        data = pa.table(
            {
                "id": pa.array(ids, pa.int32()),
                "score": pa.array(scores, pa.float64()),
                "name": [f"n{i % 7}" for i in ids],
            }
        )
        table.add(f"data-{number}.{form}", data, _VALUE_STATS_COLS=[])
        index = build_file_index(data, {"range-bitmap": {"score": {}}})
        table.entries[number]["_FILE"]["_EMBEDDED_FILE_INDEX"] = index.to_bytes()
    name = f"data-0.{form}"
    deleted = DeletionVector([0, 1, 4, 5])
    table.add_deletions("index-0", write_deletion_vectors(table.path / "index" / "index-0", {name: deleted}))
    table.commit()
    opened = open_table(table.path)
    rows = opened.scan().to_table().to_pylist()

    def order(row: dict[str, Any]) -> Any:
        score, name = row["score"], row["name"]
        sign = 1 if direction == "asc" else -1
        if score is None:
            return (0 if nulls == "first" else 2, 0, 0, [-ord(c) for c in name], row["id"])
        is_nan = score != score
        return (1, sign * is_nan, 0 if is_nan else sign * score, [-ord(c) for c in name], row["id"])

    for where, chosen in [(None, rows), (col("id") >= 250, [row for row in rows if row["id"] >= 250])]:
        for k in (0, 1, 5, 60, 1000):
            top = [("score", direction, nulls), ("name", "desc")]
            got = opened.scan(["id", "name"], where, top=top, limit=k).to_table()
            assert got.schema.names == ["id", "name"]
            assert got["id"].to_pylist() == [row["id"] for row in sorted(chosen, key=order)[:k]]


def test_top_uses_the_range_bitmap(table: PaimonTable) -> None:
    table.schema({0: ("id", "INT"), 1: ("v", "INT")})
    values = [i * 7 % 1000 for i in range(1000)]
    data = pa.table({"id": pa.array(range(1000), pa.int32()), "v": pa.array(values, pa.int32())})
    index = build_file_index(data, {"range-bitmap": {"v": {}, "id": {}}})
    table.add("data.orc", data, _EMBEDDED_FILE_INDEX=index.to_bytes())
    table.commit()
    opened = open_table(table.path)
    batches = opened.scan(top=[("v", "desc", "last")], limit=5).to_batches()
    assert [row["v"] for batch in batches for row in batch.to_pylist()] == [999, 998, 997, 996, 995]
    assert batches.metrics.rows_considered == 5
    batches = opened.scan(where=col("id") < 100, top=["v"], limit=5).to_batches()
    expected = sorted(values[:100])[:5]
    assert [row["v"] for batch in batches for row in batch.to_pylist()] == expected
    assert batches.metrics.rows_considered == 5


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_top_takes_zeros_of_both_signs_as_equal_with_a_range_bitmap(table: PaimonTable, kind: str) -> None:
    table.schema({0: ("x", kind), 1: ("id", "INT")})
    number = pa.float32() if kind == "FLOAT" else pa.float64()
    data = pa.table({"x": pa.array([0.0, -0.0, -1.0], number), "id": pa.array([3, 2, 1], pa.int32())})
    index = build_file_index(data, {"range-bitmap": {"x": {}}})
    table.add("data.orc", data, _EMBEDDED_FILE_INDEX=index.to_bytes())
    table.commit()
    first = open_table(table.path).scan(top=[("x", "desc", "last"), "id"], limit=1).to_table()
    assert first["id"].to_pylist() == [2]


def test_top_on_other_types(table: PaimonTable) -> None:
    table.schema({0: ("b", "BOOLEAN"), 1: ("d", "DECIMAL(5, 2)"), 2: ("s", "BYTES"), 3: ("t", "TIMESTAMP(6)")})
    moments = [datetime.datetime(2024, 1, day) for day in (3, 1, 2)]
    data = pa.table(
        {
            "b": [True, None, False],
            "d": pa.array([Decimal("1.00"), Decimal("-3.00"), None], pa.decimal128(5, 2)),
            "s": [b"\xff", b"a", b""],
            "t": pa.array(moments, pa.timestamp("us")),
        }
    )
    table.add("data.orc", data, _VALUE_STATS_COLS=[])
    table.commit()
    opened = open_table(table.path)
    for column, values in [("b", [False, True, None]), ("s", [b"", b"a", b"\xff"]), ("t", sorted(moments))]:
        assert opened.scan([column], top=[column], limit=3).to_table()[column].to_pylist() == values
    decimals = opened.scan(["d"], top=[("d", "desc", "first")], limit=2).to_table()["d"].to_pylist()
    assert decimals == [None, Decimal("1.00")]


def test_files_of_one_schema_share_what_follows_from_it(table: PaimonTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mapping of columns, and the predicate on the files' columns, are computed once for each schema, not for each
    file."""
    for number, name in enumerate(("id", "number")):
        table.schema({0: (name, "INT"), 1: ("v", "BIGINT")})
        for part in range(3):
            rows = pa.table({name: pa.array([number, part], pa.int32()), "v": [number, part]})
            table.add(f"{number}{part}.{'orc' if part else 'parquet'}", rows)
    table.commit()
    made = []
    for module, name in ((plan, "map_fields"), (shared_reading, "split_where")):
        call = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, _name=name, _call=call, **k: made.append(_name) or _call(*a, **k))
    scan = open_table(str(table.path)).scan(where=col("number") >= 1)
    assert sorted(scan.to_table()["v"].to_pylist()) == [1, 1, 1, 1, 1, 2, 2]
    assert made.count("map_fields") == 2
    assert made.count("split_where") == 3, "once for each schema and format, except for a file that is ruled out"


@pytest.mark.parametrize("form", ["orc", "parquet"])
def test_indexes_that_are_built_later_have_all_digits_of_times_in_a_map(table: PaimonTable, form: str) -> None:
    moments = [datetime.datetime(2026, 1, 1, 0, 0, 0, micros) for micros in (0, 5, 10)]
    table.schema({0: ("id", "INT"), 1: ("m", {"type": "MAP", "key": "STRING NOT NULL", "value": "TIMESTAMP(6)"})})
    maps = pa.array([[("k", moment)] for moment in moments], pa.map_(pa.string(), pa.timestamp("us")))
    table.add(f"a.{form}", pa.table({"id": pa.array([0, 1, 2], pa.int32()), "m": maps}), _VALUE_STATS_COLS=["id"])
    table.commit()
    open_table(str(table.path)).rewrite_file_index(spec={"bsi": {"m[k]": {}}})
    (file,) = open_table(str(table.path)).files()
    index = read_file_index(file.embedded_index or file.index, types={"m[k]": "TIMESTAMP(6)"}).index("m[k]", "bsi")
    assert [index.evaluate("eq", [moment]).rows.to_array().tolist() for moment in moments] == [[0], [1], [2]]


def _small_table(table: PaimonTable, files: int = 6) -> None:
    """Writes ``files`` files. The second half of them has a newer schema, which renames a column and widens another."""
    for schema in (("id", "INT"), ("number", "BIGINT")):
        table.schema({0: schema, 1: ("v", "VARCHAR(20)"), 2: ("at", "TIMESTAMP(6)")})
        kind = pa.int32() if schema[1] == "INT" else pa.int64()
        for part in range(files // 2):
            at = [datetime.datetime(2024, 1, 1 + part, row) for row in range(5)]
            rows = {
                schema[0]: pa.array(range(part * 5, part * 5 + 5), kind),
                "v": [f"{schema[0]}{part}", None, "", "x", "y"],
            }
            table.add(f"{schema[0]}{part}.orc", pa.table({**rows, "at": pa.array(at, pa.timestamp("us"))}))
    table.commit()


@pytest.mark.parametrize("where", [None, col("number") == 7, col("number") >= 5, col("v") == "x", col("number") > 99])
@pytest.mark.parametrize("columns", [None, ["v"], ["at", "number"], []])
def test_small_files_give_the_same_opened_or_not(
    table: PaimonTable, monkeypatch: pytest.MonkeyPatch, where: Any, columns: list[str] | None
) -> None:
    _small_table(table)
    passes, reads = [], []
    for opened in (False, True):
        if opened:
            monkeypatch.setattr(SmallFiles, "take", lambda *_, **__: None)
        scan = open_table(str(table.path)).scan(columns, where)
        batches = scan.to_batches()
        rows = pa.Table.from_batches(list(batches), scan.schema)
        counted = {name: value for name, value in vars(batches.metrics).items() if name != "seconds"}
        reads.append((counted.pop("requests"), counted.pop("bytes_read")))
        passes.append((rows, counted))
    assert passes[0] == passes[1]
    assert reads[0] <= reads[1], "opening a file needs one more read, for the tail"


def test_small_files_are_not_opened(table: PaimonTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are read without being opened. Exceptions are the first file of each plan, files with deleted rows,
    and files with an index that the scan uses."""
    _small_table(table)
    opened: list[str] = []
    for where in (None, col("number") == 7):
        open_table(str(table.path)).scan(where=where).to_table()
    monkeypatch.setattr(orc_rows, "open_file", lambda source, **k: opened.append(source.name) or open_file(source, **k))
    scanned = open_table(str(table.path)).scan()
    assert scanned.to_table().num_rows == 30
    assert opened == []
    opened_table = open_table(str(table.path))
    assert opened_table.scan(where=col("number") == 7).to_table().num_rows == 2
    assert opened == []
    monkeypatch.setattr(small_filter, "ENABLED", False)
    assert opened_table.scan(where=col("number") == 7).to_table().num_rows == 2
    assert len(opened) == 2, "the statistics rule out the other files"


def test_a_small_file_with_other_rows_than_its_manifest_says(table: PaimonTable) -> None:
    _small_table(table, files=2)
    path = next((table.path / "bucket-0").glob("number0.orc"))
    orcidx.write_table(pa.table({"number": [1], "v": ["a"], "at": pa.array([None], pa.timestamp("us"))}), str(path))
    for where in (None, col("v") == "b"):  # the statistics in the file rule out "b"
        with pytest.raises(CorruptFile, match=r"has 1 rows, but the manifest says 5.*number0\.orc"):
            open_table(str(table.path)).scan(where=where).to_table()


@pytest.mark.parametrize("form", ["orc", "parquet"])
def test_rows_without_columns_are_counted(tmp_path: Path, form: str) -> None:
    """A scan of no columns returns batches without columns. They do not contain the columns of the condition either,
    but they have the right number of rows."""
    folder = empty_table(tmp_path / "t", {"id": "BIGINT", "a": "INT"}, file__format=form)
    open_table(folder).append(pa.table({"id": [1, 2, 3], "a": pa.array([1, 2, 2], pa.int32())}))
    for where, rows in ((None, 3), ("a = 2", 2), ("a + 1 = 3", 2)):
        found = open_table(folder).scan([], where).to_table()
        assert (found.num_rows, found.num_columns) == (rows, 0)


@pytest.mark.parametrize("form", ["orc", "parquet"])
def test_string_views_with_a_condition_or_an_order(tmp_path: Path, form: str) -> None:
    """A condition is tested after the strings are converted to string views, and ``top`` sorts string views."""
    table = PaimonTable(tmp_path)
    table.schema({0: ("p", "VARCHAR(3)"), 1: ("id", "INT")})
    table.add(f"a.{form}", pa.table({"p": ["b", "ab ", None], "id": pa.array([1, 2, 3], pa.int32())}))
    table.schema({0: ("p", "CHAR(9)"), 1: ("id", "INT")})
    table.commit()
    opened = open_table(tmp_path)
    for given, expected in (
        ({"where": col("p") == "ab"}, ["ab "]),
        ({"where": col("id") > 1}, ["ab ", None]),
        ({"top": ["p"], "limit": 1}, ["ab "]),
        ({"limit": 1}, ["b"]),
    ):
        scan = opened.scan(["p"], strings="view", **given)
        found = scan.to_table()
        assert found.schema == scan.schema == pa.schema([("p", pa.string_view())])
        assert found["p"].to_pylist() == expected
    assert opened.scan(where=col("p") == "ab", strings="view").count_rows() == 1
