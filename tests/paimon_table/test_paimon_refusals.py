"""Changes of tables that orcidx does not support are refused. The error says what to do, and nothing is written
(decision 0050)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_edits import edit_index, edit_manifest
from paimon_empty import empty_table
from paimon_invariants import snapshot_numbers
from paimon_soak import SPEC, rows

from orcidx import CorruptFile, Unsupported
from orcidx.paimon import open_table
from orcidx.predicate import col

OPERATIONS: dict[str, Callable[..., Any]] = {
    "append": lambda table: table.append(rows(1000, 10)),
    "delete": lambda table: table.delete(col("id") < 10),
    "rewrite": lambda table: table.rewrite_file_index(spec=SPEC),
}


def every_file(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = empty_table(tmp_path / "t")
    open_table(made).append(rows(0))
    return made


def refused(folder: Path, operation: str, match: str, error: type[Exception] = Unsupported) -> None:
    before = every_file(folder)
    with pytest.raises(error, match=match):
        OPERATIONS[operation](open_table(folder))
    assert every_file(folder) == before


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("field", "match"), [("_VERSION", "version 7"), ("_KIND", "kind 7")])
def test_manifests_with_what_is_not_known(folder: Path, operation: str, field: str, match: str) -> None:
    edit_manifest(folder, lambda found: [one.update({field: 7}) for one in found])
    refused(folder, operation, match)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("field", "value", "match"),
    [("_VERSION", 2, "version 2"), ("_INDEX_TYPE", "btree-global", "btree-global"), ("_KIND", 7, "kind")],
)
def test_index_manifests_with_what_is_not_known(
    folder: Path, operation: str, field: str, value: Any, match: str
) -> None:
    open_table(folder).delete(col("id") == 50)
    edit_index(folder, lambda found: [one.update({field: value}) for one in found])
    refused(folder, operation, match)


@pytest.mark.parametrize("operation", ["delete", "rewrite"])
def test_data_files_outside_the_table(folder: Path, operation: str) -> None:
    def outside(found: list[Any]) -> None:
        file = found[0]["_FILE"]
        file["_EXTERNAL_PATH"] = f"file:///elsewhere/{file['_FILE_NAME']}"

    edit_manifest(folder, outside)
    refused(folder, operation, "outside")


@pytest.mark.parametrize("operation", ["delete", "rewrite"])
@pytest.mark.parametrize("suffix", ["avro", "lance", "blob"])
def test_data_files_of_other_formats(folder: Path, operation: str, suffix: str) -> None:
    def renamed(found: list[Any]) -> None:
        file = found[0]["_FILE"]
        (path,) = folder.rglob(file["_FILE_NAME"])
        file["_FILE_NAME"] = path.with_suffix(f".{suffix}").name
        path.rename(path.with_suffix(f".{suffix}"))

    edit_manifest(folder, renamed)
    refused(folder, operation, suffix)


@pytest.mark.parametrize("kind", ["VARIANT", "BLOB", "VECTOR<FLOAT, 3>"])
def test_rows_of_types_that_are_kept_elsewhere(tmp_path: Path, kind: str) -> None:
    made = empty_table(tmp_path / "t", {"id": "BIGINT", "city": "STRING", "v": kind})
    refused(made, "append", kind.partition("<")[0])


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_partitions_by_floats(tmp_path: Path, kind: str) -> None:
    """Appends to a table with partitions by floating-point values are refused, because writers use two forms of the
    FLOAT value 0.1 in the name of a directory."""
    made = empty_table(tmp_path / "t", {"id": "BIGINT", "city": "STRING", "part": kind}, partition_keys=["part"])
    before = every_file(made)
    with pytest.raises(Unsupported, match="part"):
        open_table(made).append(rows(0).append_column("part", pa.array([0.5] * rows(0).num_rows)))
    assert every_file(made) == before


def test_a_damaged_deletion_vector_stops_a_delete(folder: Path) -> None:
    open_table(folder).delete(col("id") == 50)
    (index,) = (folder / "index").glob("index-*")
    data = bytearray(index.read_bytes())
    data[-6] ^= 0x55
    index.write_bytes(data)
    refused(folder, "delete", "deletion vector", CorruptFile)
    assert snapshot_numbers(folder) == [1, 2]


def edit_json(path: Path, change: Callable[[Any], Any]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "change",
    [
        lambda schema: schema.update(surprise=1),
        lambda schema: schema["fields"][0].update(surprise=1),
        lambda schema: schema["fields"].append(
            {"id": 7, "name": "s", "type": {"type": "ARRAY", "element": "INT", "surprise": 1}}
        ),
        lambda schema: schema["fields"].append(
            {
                "id": 7,
                "name": "s",
                "type": {"type": "ROW", "fields": [{"id": 8, "name": "x", "type": "INT", "surprise": 1}]},
            }
        ),
    ],
    ids=["schema", "field", "type", "nested field"],
)
def test_schemas_with_keys_that_are_not_known(folder: Path, operation: str, change: Callable[[Any], Any]) -> None:
    edit_json(folder / "schema" / "schema-0", change)
    refused(folder, operation, "surprise")
    assert open_table(folder).scan(["id"]).count_rows() == rows(0).num_rows


@pytest.mark.parametrize("lacking", [True, False])
def test_rows_without_a_value_where_java_writes_a_default(folder: Path, lacking: bool) -> None:
    """Rows without a value are refused if the column has a default. orcidx would write NULL, but Java writes the
    default."""
    edit_json(folder / "schema" / "schema-0", lambda schema: schema["fields"][1].update(defaultValue="Rome"))
    given = rows(1000, 10)
    without = given.select(["id"]) if lacking else given.set_column(1, "city", pa.array(["x"] * 9 + [None]))
    before = every_file(folder)
    with pytest.raises(Unsupported, match="default 'Rome'"):
        open_table(folder).append(without)
    assert every_file(folder) == before
    open_table(folder).append(given)
