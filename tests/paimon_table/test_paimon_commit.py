"""Commits to Paimon tables. After a race, a fault or a kill, the table is either the old or the new one. Tables with
unknown features are refused."""

from __future__ import annotations

import datetime
import json
import math
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from paimon_empty import empty_table
from paimon_invariants import check_table, files_of, snapshot, snapshot_numbers
from paimon_soak import SPEC, rows, soak
from s3_server import s3_bucket

from orcidx import (
    CommitConflict,
    CommitUncertain,
    CorruptFile,
    InvalidQuery,
    StorageError,
    Unsupported,
    ValueOutOfRange,
)
from orcidx.paimon import open_table
from orcidx.paimon.file_index import read_file_index
from orcidx.paimon_table.commit.option_gates import GATES, HARMLESS, HONOURED, gate_of
from orcidx.predicate import col
from orcidx.storage.folder import Folder

OPTIONS_OF_2_1 = Path(__file__).parent.parent / "fixtures" / "paimon" / "options-2.1.txt"


def ids(folder: Path) -> list[int]:
    return sorted(open_table(folder).scan().to_table()["id"].to_pylist())


def every_file(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


OPERATIONS: dict[str, Callable[..., Any]] = {
    "append": lambda table, **given: table.append(rows(1000, 10), **given),
    "delete": lambda table, **given: table.delete(col("id") < 10, **given),
    "rewrite": lambda table, **given: table.rewrite_file_index(spec=SPEC, **given),
}
AFTER = {"append": [*range(100), *range(1000, 1010)], "delete": list(range(10, 100)), "rewrite": list(range(100))}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = empty_table(tmp_path / "t", file_index__in_manifest_threshold="10 b")
    open_table(made).append(rows(0))
    return made


# ---------------------------------------------------------------------- faults


class Fault(OSError):
    """An error that a storage may raise."""


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_error_at_any_write_leaves_the_old_table_and_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """In the first round, an error such as a full disk occurs when the change writes its first file. In the second
    round it occurs at the second file, and so on, until the change succeeds."""
    before, put = every_file(folder), Folder.put
    for allowed in range(40):
        writes = iter(range(allowed))

        def failing(self: Folder, name: str, data: bytes, writes: Any = writes) -> None:
            if next(writes, None) is None and not name.endswith("LATEST"):
                raise Fault(f"no space left for {name}")
            put(self, name, data)

        monkeypatch.setattr(Folder, "put", failing)
        try:
            OPERATIONS[operation](open_table(folder))
        except Fault:
            monkeypatch.setattr(Folder, "put", put)
            assert snapshot_numbers(folder) == [1]
            left = every_file(folder) - before
            assert all(name.endswith(".index") for name in left), "only sidecars remain: other jobs may use them"
            assert ids(folder) == list(range(100))
        else:
            break
    assert allowed > 3
    check_table(folder)
    assert ids(folder) == AFTER[operation]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("took_effect", [False, True])
def test_an_error_inside_the_create(
    folder: Path, monkeypatch: pytest.MonkeyPatch, operation: str, took_effect: bool
) -> None:
    """The call that creates the snapshot raises an error once. The commit finds out whether the snapshot exists. The
    change is made exactly once."""
    create, calls = Folder.create, []

    def failing(self: Folder, name: str, data: bytes, **given: Any) -> bool:
        calls.append(name)
        if len(calls) == 1:
            if took_effect:
                create(self, name, data, **given)
            raise Fault("the connection was lost")
        return create(self, name, data, **given)

    monkeypatch.setattr(Folder, "create", failing)
    result = OPERATIONS[operation](open_table(folder))
    monkeypatch.undo()
    assert result.snapshot_id == 2
    assert snapshot_numbers(folder) == [1, 2]
    check_table(folder)
    assert ids(folder) == AFTER[operation]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_nobody_can_tell_and_then_the_same_call_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """The snapshot is created, but the storage fails before this can be checked. So no file may be deleted."""
    create = Folder.create

    def failing(self: Folder, name: str, data: bytes, **given: Any) -> bool:
        create(self, name, data, **given)
        raise Fault("the connection was lost")

    def blind(self: Folder, name: str) -> bytes | None:
        raise Fault("and stayed so")

    monkeypatch.setattr(Folder, "create", failing)
    monkeypatch.setattr(Folder, "read", blind)
    with pytest.raises(CommitUncertain, match="snapshot-2") as caught:
        OPERATIONS[operation](open_table(folder), commit_user="job", identifier=7)
    monkeypatch.undo()
    assert (caught.value.commit_user, caught.value.identifier, caught.value.snapshot_id) == ("job", 7, 2)
    assert caught.value.left_behind
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.left_behind) == (str(caught.value), caught.value.left_behind)
    assert ids(folder) == AFTER[operation]
    repeated = OPERATIONS[operation](open_table(folder), commit_user="job", identifier=7)
    assert (repeated.snapshot_id, repeated.repeated) == (2, True)
    assert snapshot_numbers(folder) == [1, 2]
    check_table(folder)
    assert ids(folder) == AFTER[operation]


def test_an_interrupt_inside_the_create_deletes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create = Folder.create

    def interrupted(self: Folder, name: str, data: bytes, **given: Any) -> bool:
        create(self, name, data, **given)
        raise KeyboardInterrupt

    monkeypatch.setattr(Folder, "create", interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_table(folder).append(rows(1000, 10))
    monkeypatch.undo()
    check_table(folder)
    assert ids(folder) == AFTER["append"]


def test_a_storage_that_ignores_conditions_is_noticed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The storage ignores the condition that a new file must not exist yet. So another writer can overwrite each
    snapshot right after it was created.
    """
    create = Folder.create

    def overwritten(self: Folder, name: str, data: bytes, **given: Any) -> bool:
        won = create(self, name, data, **given)
        first = json.loads((folder / "snapshot" / "snapshot-1").read_text())
        other = {**first, "id": int(name.rpartition("-")[2]), "uuid": f"another of {name}", "commitUser": "java"}
        (folder / name).write_text(json.dumps(other))
        return won

    monkeypatch.setattr(Folder, "create", overwritten)
    with pytest.raises(CommitConflict, match="created and then overwritten") as caught:
        open_table(folder).append(rows(1000, 10), retries=2)
    assert (caught.value.other_user, caught.value.snapshot_id) == ("java", 4)
    assert caught.value.left_behind


def test_a_storage_without_exclusive_creation_is_refused_unless_someone_vouches(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, create, held = every_file(folder), Folder.create, []

    def refusing(self: Folder, name: str, data: bytes, *, single_writer: bool = False) -> bool:
        if not single_writer:
            raise Unsupported("this storage cannot create a file exclusively")
        return create(self, name, data)

    class Lock:
        def __enter__(self) -> None:
            held.append(True)

        def __exit__(self, *_: object) -> None:
            held.append(False)

    monkeypatch.setattr(Folder, "create", refusing)
    with pytest.raises(Unsupported, match="exclusively"):
        open_table(folder).append(rows(1000, 10))
    assert every_file(folder) == before
    assert open_table(folder).append(rows(1000, 5), single_writer=True).snapshot_id == 2
    assert open_table(folder).append(rows(1005, 5), lock=Lock()).snapshot_id == 3
    assert held == [True, False]
    check_table(folder)
    assert ids(folder) == AFTER["append"]


# ---------------------------------------------------------------------- kills


def _killed_after(path: str, operation: str, writes: int) -> None:
    """Runs an operation in a process that is killed after ``writes`` files. The snapshot and the hint are also
    counted."""
    count = [0]

    def dying(method: Any) -> Any:
        def call(self: Folder, *given: Any, **named: Any) -> Any:
            found = method(self, *given, **named)
            count[0] += 1
            if count[0] == writes:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        return call

    Folder.put, Folder.create = dying(Folder.put), dying(Folder.create)  # type: ignore[method-assign]
    OPERATIONS[operation](open_table(path), commit_user="job", identifier=1)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # Python 3.12 and later warn
@pytest.mark.parametrize("operation", OPERATIONS)
def test_kill_9_after_each_file_leaves_the_old_or_the_new_table(tmp_path: Path, operation: str) -> None:
    fork = multiprocessing.get_context("fork")
    outcomes = []
    for writes in range(1, 30):
        folder = empty_table(tmp_path / f"t{writes}", file_index__in_manifest_threshold="10 b")
        open_table(folder).append(rows(0))
        process = fork.Process(target=_killed_after, args=(str(folder), operation, writes))
        process.start()
        process.join(60)
        committed = snapshot_numbers(folder) == [1, 2]
        check_table(folder)
        assert ids(folder) == (AFTER[operation] if committed else list(range(100)))
        again = OPERATIONS[operation](open_table(folder), commit_user="job", identifier=1)
        assert (again.snapshot_id, again.repeated) == (2, committed)
        check_table(folder)
        assert ids(folder) == AFTER[operation]
        outcomes.append((process.exitcode, committed))
        if process.exitcode == 0:
            break
    assert outcomes[-1] == (0, True)
    assert outcomes[-2] == (-signal.SIGKILL, True), "killed after the hint"
    assert outcomes[-3] == (-signal.SIGKILL, True), "killed after the snapshot"
    assert outcomes[-4] == (-signal.SIGKILL, False)
    assert len(outcomes) > 5


# ---------------------------------------------------------------------- races


def test_a_lost_race_is_run_again_on_the_new_snapshot(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create, others = Folder.create, [rows(2000, 5)]

    def late(self: Folder, name: str, data: bytes, **given: Any) -> bool:
        if others:
            open_table(folder).append(others.pop())
        return create(self, name, data, **given)

    monkeypatch.setattr(Folder, "create", late)
    table = open_table(folder)
    result = table.delete(col("id") < 10)
    monkeypatch.undo()
    assert (result.snapshot_id, result.attempts, result.planned_on) == (3, 2, 1)
    check_table(folder)
    assert ids(folder) == [*range(10, 100), *range(2000, 2005)]
    manifests = {name for name in every_file(folder) if name.startswith("manifest/")}
    assert len([name for name in manifests if "manifest-list" in name]) == 6, "files of the failed attempt are deleted"


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_what_a_delete_sees_of_rows_that_come_meanwhile(
    folder: Path, monkeypatch: pytest.MonkeyPatch, isolation: Any
) -> None:
    create, others = Folder.create, [rows(5, 1)]

    def late(self: Folder, name: str, data: bytes, **given: Any) -> bool:
        if others:
            open_table(folder).append(others.pop())
        return create(self, name, data, **given)

    monkeypatch.setattr(Folder, "create", late)
    open_table(folder).delete(col("id") < 10, isolation=isolation)
    monkeypatch.undo()
    assert ids(folder) == [*([5] if isolation == "snapshot" else []), *range(10, 100)]
    check_table(folder)


def test_no_tries_left_is_a_conflict_that_names_the_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create, busy = Folder.create, [False]

    def late(self: Folder, name: str, data: bytes, **given: Any) -> bool:
        if not busy[0]:
            busy[0] = True
            open_table(folder).append(rows(2000, 1), commit_user="the other")
            busy[0] = False
        return create(self, name, data, **given)

    monkeypatch.setattr(Folder, "create", late)
    with pytest.raises(CommitConflict, match="the other") as caught:
        open_table(folder).append(rows(1000, 10), retries=2, commit_user="mine")
    monkeypatch.undo()
    assert (caught.value.commit_user, caught.value.other_user) == ("mine", "the other")
    assert 1000 not in ids(folder)
    data_files = [name for name in every_file(folder) if name.endswith(".orc")]
    assert len(data_files) == len(open_table(folder).files()), "the data files of the failed append are deleted"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # Python 3.12 and later warn
def test_two_processes_change_one_table(folder: Path) -> None:
    """Runs ten rounds in each of two processes. ``python tests/paimon_soak.py 2 1000`` runs a thousand rounds."""
    assert soak(folder, 2, 10)["append"] > 3


# ---------------------------------------------------------------------- exactly once


def test_the_same_user_and_identifier_commit_once(folder: Path) -> None:
    first = open_table(folder).append(rows(1000, 10), commit_user="job", identifier=3)
    open_table(folder).append(rows(2000, 5))
    again = open_table(folder).append(rows(1000, 10), commit_user="job", identifier=3)
    assert (first.snapshot_id, again.snapshot_id, again.repeated) == (2, 2, True)
    other = open_table(folder).append(rows(3000, 1), commit_user="job", identifier=4)
    assert (other.snapshot_id, other.repeated) == (4, False)
    with pytest.raises(InvalidQuery, match="another change"):
        open_table(folder).delete(col("id") < 5, commit_user="job", identifier=3)


def test_expired_snapshots_may_have_held_it(folder: Path) -> None:
    open_table(folder).append(rows(1000, 10))
    (folder / "snapshot" / "snapshot-1").unlink()
    with pytest.raises(CommitUncertain, match="since="):
        open_table(folder).append(rows(2000, 10), commit_user="job", identifier=3)
    result = open_table(folder).append(rows(2000, 10), commit_user="job", identifier=3, since=2)
    assert (result.snapshot_id, result.repeated) == (3, False)


@pytest.mark.parametrize(
    "given",
    [
        {"identifier": 1},
        {"commit_user": "a", "identifier": -1},
        {"since": 1},
        {"retries": -1},
        {"jvm_zone": "Europe/Oslo"},
        {"jvm_zone": "Middle/Earth"},
        {"retry": 1},
    ],
)
def test_commit_options_that_cannot_be(folder: Path, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidQuery):
        open_table(folder).append(rows(1000, 1), **given)


@pytest.mark.parametrize(
    ("options", "version"), [({}, 1), ({"version": 2}, 2), ({"version": 1}, 1), ({"index-block-size": "256b"}, 2)]
)
@pytest.mark.parametrize("by", ["spec", "append"])
def test_bitmaps_are_for_every_reader_unless_asked_otherwise(
    tmp_path: Path, options: dict[str, Any], version: int, by: str
) -> None:
    """The default is version 1, because Paimon before 1.1 fails in each query that reads a bitmap of version 2."""
    configured = {f"file_index__bitmap__id__{name.replace('-', '_')}": str(value) for name, value in options.items()}
    if by == "append":
        folder = empty_table(tmp_path / "t", file_index__bitmap__columns="id", **configured)
        open_table(folder).append(rows(0))
    else:
        folder = empty_table(tmp_path / "t")
        open_table(folder).append(rows(0))
        open_table(folder).rewrite_file_index(spec={"bitmap": {"id": options}})
    (file,) = open_table(folder).files()
    given = file.embedded_index if file.embedded_index is not None else file.index
    with read_file_index(given, types={"id": "BIGINT"}, rows=file.rows) as index:
        found = index.index("id", "bitmap")
        assert found is not None
        assert found.version == version


# ---------------------------------------------------------------------- the list of allowed options


def test_every_option_of_paimon_2_1_is_classed() -> None:
    names = OPTIONS_OF_2_1.read_text().split()
    assert len(names) > 400
    for operation in ("rewrite_file_index", "delete", "append"):
        unknown = [name for name in names if gate_of(name.replace("#", "Some"), "x", operation) == "unknown"]
        assert unknown == []
    assert not GATES.keys() & (HONOURED | HARMLESS)
    assert not HONOURED & HARMLESS


@pytest.mark.parametrize("operation", OPERATIONS)
def test_unknown_and_refused_options(tmp_path: Path, operation: str) -> None:
    folder = empty_table(tmp_path / "t", option__of__tomorrow="1")
    with pytest.raises(Unsupported, match=r"option\.of\.tomorrow"):
        OPERATIONS[operation](open_table(folder))
    with pytest.raises(InvalidQuery, match=r"allow_options must be a list; give \['option\.of\.tomorrow'\]"):
        OPERATIONS[operation](open_table(folder), allow_options="option.of.tomorrow")
    open_table(folder).append(rows(0), allow_options=["option.of.tomorrow"])
    assert OPERATIONS[operation](open_table(folder), allow_options=["option.of.tomorrow"]).snapshot_id == 2
    for number, (name, gate) in enumerate(GATES.items()):
        refusing = {"rewrite_file_index": "rewrite"}.get(gate.operations[0], gate.operations[0])
        made = empty_table(tmp_path / f"gate{number}", **{name.replace(".", "__").replace("-", "_"): "strange"})
        with pytest.raises(Unsupported, match=name):
            OPERATIONS[refusing](open_table(made))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_schema_of_a_later_version_is_not_committed_to(folder: Path, operation: str) -> None:
    path = folder / "schema" / "schema-0"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 4}))
    with pytest.raises(Unsupported, match="version 4"):
        OPERATIONS[operation](open_table(folder))
    assert open_table(folder).scan().count_rows() == open_table(folder).scan().to_table().num_rows
    assert OPERATIONS[operation](open_table(folder), allow_options=["version 4"]).snapshot_id is not None


def _edit_snapshot(folder: Path, **fields: Any) -> None:
    path = folder / "snapshot" / f"snapshot-{snapshot_numbers(folder)[-1]}"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"version": 4}, Unsupported),
        ({"fieldOfTomorrow": 1}, Unsupported),
        ({"properties": {"sequence": "9"}}, Unsupported),
        ({"commitKind": "REPLACE"}, Unsupported),
        ({"totalRecordCount": 99}, CorruptFile),
        ({"deltaManifestListSize": 1}, CorruptFile),
        ({"indexManifest": "index-manifest-that-is-not-there-0"}, CorruptFile),
    ],
)
def test_a_snapshot_that_is_not_known_or_does_not_add_up(
    folder: Path, operation: str, fields: dict[str, Any], error: type[Exception]
) -> None:
    _edit_snapshot(folder, **fields)
    before = every_file(folder)
    with pytest.raises(error):
        OPERATIONS[operation](open_table(folder))
    assert every_file(folder) == before


def _rewrite_avro(path: Path, change: Callable[[dict[str, Any], list[dict[str, Any]]], None]) -> None:
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema: Any = reader.writer_schema
        records: Any = list(reader)
    change(schema, records)
    with path.open("wb") as file:
        fastavro.writer(file, schema, records, codec="zstandard")


def _resize(folder: Path) -> None:
    """Corrects the file sizes in the manifest lists and in the snapshot."""
    document = snapshot(folder)
    for name in ("baseManifestList", "deltaManifestList"):
        path = folder / "manifest" / document[name]

        def sized(_: Any, records: Any) -> None:
            for record in records:
                record["_FILE_SIZE"] = (folder / "manifest" / record["_FILE_NAME"]).stat().st_size

        _rewrite_avro(path, sized)
        _edit_snapshot(folder, **{f"{name}Size": path.stat().st_size})


def _only_manifest(folder: Path) -> Path:
    (path,) = (folder / "manifest").glob("manifest-[0-9a-f]*")
    return path


@pytest.mark.parametrize("operation", ["delete", "rewrite"])
def test_unknown_fields_of_entries_are_carried_through(folder: Path, operation: str) -> None:
    def tomorrow(schema: Any, records: Any) -> None:
        schema["fields"].append({"name": "_TOMORROW", "type": "string"})
        (file,) = [field for field in schema["fields"] if field["name"] == "_FILE"]
        file["type"]["fields"].append({"name": "_NEXT_WEEK", "type": ["null", "long"], "default": None})
        for record in records:
            record["_TOMORROW"] = "kept"
            record["_FILE"]["_NEXT_WEEK"] = 77

    _rewrite_avro(_only_manifest(folder), tomorrow)
    _resize(folder)
    with pytest.raises(Unsupported, match="a manifest has the field '_NEXT_WEEK'"):
        OPERATIONS[operation](open_table(folder))
    (note,) = open_table(folder).scan().notes
    assert "'_NEXT_WEEK' of a manifest, field '_TOMORROW' of a manifest" in note.text
    assert open_table(folder).scan().count_rows() == 100
    OPERATIONS[operation](open_table(folder), allow_options=["_NEXT_WEEK", "_TOMORROW"])
    (record,) = check_table(folder).live.values()
    assert (record["_TOMORROW"], record["_FILE"]["_NEXT_WEEK"]) == ("kept", 77)
    with pytest.raises(Unsupported, match="_TOMORROW"):
        open_table(folder).append(rows(1000, 1), allow_options=["_NEXT_WEEK", "_TOMORROW"])


def test_index_manifests_of_before_cardinalities_stay_as_they_are(folder: Path) -> None:
    open_table(folder).delete(col("id") == 5)

    def older(schema: Any, records: Any) -> None:
        (ranges,) = [field for field in schema["fields"] if field["name"] == "_DELETIONS_VECTORS_RANGES"]
        item = ranges["type"][1]["items"][1]
        item["fields"] = [field for field in item["fields"] if field["name"] != "_CARDINALITY"]
        for record in records:
            for where in record["_DELETIONS_VECTORS_RANGES"]:
                del where["_CARDINALITY"]

    _rewrite_avro(folder / "manifest" / snapshot(folder)["indexManifest"], older)
    assert open_table(folder).delete(col("id") == 6).rows == 1
    assert "_CARDINALITY" not in files_of(folder).index[0]["_DELETIONS_VECTORS_RANGES"][0]
    assert ids(folder) == [i for i in range(100) if i not in (5, 6)]


def test_a_new_entry_takes_the_default_of_an_unknown_field(folder: Path) -> None:
    def tomorrow(schema: Any, records: Any) -> None:
        schema["fields"].append({"name": "_TOMORROW", "type": ["null", "string"], "default": None})

    _rewrite_avro(_only_manifest(folder), tomorrow)
    _resize(folder)
    open_table(folder).append(rows(1000, 1))
    assert all(record["_TOMORROW"] is None for record in check_table(folder).delta)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_manifest_versions_and_index_types_of_tomorrow(folder: Path, operation: str) -> None:
    open_table(folder).delete(col("id") == 99)
    index = folder / "manifest" / snapshot(folder)["indexManifest"]
    _rewrite_avro(index, lambda _, records: records[0].update(_INDEX_TYPE="TOMORROW"))
    with pytest.raises(Unsupported, match="TOMORROW"):
        OPERATIONS[operation](open_table(folder))
    _rewrite_avro(index, lambda _, records: records[0].update(_INDEX_TYPE="DELETION_VECTORS", _VERSION=2))
    with pytest.raises(Unsupported, match="version 2"):
        OPERATIONS[operation](open_table(folder))
    _rewrite_avro(index, lambda _, records: records[0].update(_VERSION=1))
    _rewrite_avro(_only_manifest(folder), lambda _, records: records[0].update(_VERSION=3))
    _resize(folder)
    with pytest.raises(Unsupported, match="version 3"):
        OPERATIONS[operation](open_table(folder))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_damaged_metadata_is_an_error_and_nothing_is_written(folder: Path, operation: str) -> None:
    open_table(folder).delete(col("id") == 5)
    document = snapshot(folder)
    names = [document["baseManifestList"], document["deltaManifestList"], document["indexManifest"]]
    for path in (*(folder / "manifest" / name for name in names), _only_manifest(folder)):
        good = path.read_bytes()
        before = every_file(folder)
        for damaged in (good[:-20], good[: len(good) // 2], b"", good[:1] + b"?" + good[2:]):
            path.write_bytes(damaged)
            with pytest.raises((CorruptFile, Unsupported)):
                OPERATIONS[operation](open_table(folder))
            assert every_file(folder) == before
        path.write_bytes(good)


def test_a_damaged_vector_is_an_error_where_it_is_merged(folder: Path) -> None:
    open_table(folder).delete(col("id") == 5)
    (path,) = (folder / "index").iterdir()
    data = bytearray(path.read_bytes())
    data[12] ^= 1
    path.write_bytes(data)
    before = every_file(folder)
    with pytest.raises(CorruptFile):
        open_table(folder).delete(col("id") == 6)
    assert every_file(folder) == before


def test_what_is_written_is_read_back_before_it_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a storage drops the last byte of a file, or a whole file, nothing is committed."""
    put = Folder.put
    for prefix in ("manifest/manifest-list", "manifest/manifest-", "manifest/index-manifest", "index/"):
        for broken in (lambda data: data[:-1], lambda data: None):

            def lossy(self: Folder, name: str, data: bytes, prefix: str = prefix, broken: Any = broken) -> None:
                data = broken(data) if name.startswith(prefix) else data
                if data is not None:
                    put(self, name, data)

            for operation in OPERATIONS:
                if "index" in prefix and operation != "delete":
                    continue
                if prefix == "manifest/manifest-" and operation == "delete":
                    continue
                monkeypatch.setattr(Folder, "put", lossy)
                with pytest.raises((StorageError, CorruptFile, FileNotFoundError)):
                    OPERATIONS[operation](open_table(folder))
                monkeypatch.undo()
                assert snapshot_numbers(folder) == [1]


# ---------------------------------------------------------------------- refused tables, and rows that do not fit


def test_refusals_say_what_to_do(tmp_path: Path, folder: Path) -> None:
    keyed = empty_table(
        tmp_path / "keyed", {"id": "BIGINT NOT NULL", "city": "STRING"}, primary_keys=["id"], bucket="1"
    )
    for call in (lambda t: t.append(rows(0)), lambda t: t.delete(col("id") < 5)):
        with pytest.raises(Unsupported, match="primary-key"):
            call(open_table(keyed))
    plain = empty_table(tmp_path / "plain", deletion_vectors__enabled="false")
    with pytest.raises(Unsupported, match=r"deletion-vectors\.enabled"):
        open_table(plain).delete(col("id") < 5)
    with pytest.raises(Unsupported, match="no option for file indexes"):
        open_table(folder).rewrite_file_index()
    with pytest.raises(InvalidQuery, match="partition"):
        open_table(folder).rewrite_file_index(where=col("id") < 5, spec=SPEC)
    with pytest.raises(InvalidQuery, match="no column"):
        open_table(folder).rewrite_file_index(spec={"bitmap": {"town": {}}})
    open_table(folder).append(rows(100))
    with pytest.raises(Unsupported, match="newest"):
        open_table(folder, snapshot_id=1).delete(col("id") < 5)
    branch = empty_table(tmp_path / "t2" / "branch" / "branch-b")
    with pytest.raises(Unsupported, match="branch"):
        open_table(branch).append(rows(0))
    chance = pc.Expression._call("random", [], pc.RandomOptions(initializer=1))
    with pytest.raises(Unsupported, match="random"):
        open_table(folder).delete(chance < 0.5)
    named = empty_table(tmp_path / "t3", {"random": "BIGINT"})
    open_table(named).append(pa.table({"random": [1, 2]}))
    assert open_table(named).delete(pc.field("random") + 1 == 2).rows == 1, "random is only the name of a column"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"id": pa.array(["a"])}, InvalidQuery),
        ({"id": pa.array([1.5])}, InvalidQuery),
        ({"id": pa.array([2**63], pa.uint64())}, ValueOutOfRange),
        ({"town": pa.array(["a"])}, InvalidQuery),
        ({"city": pa.array(["a"])}, InvalidQuery),
        ({"id": pa.array([None], pa.int64())}, InvalidQuery),
        ({"id": pa.array([1]), "code": pa.array(["abc"])}, ValueOutOfRange),
        ({"id": pa.array([1]), "at": pa.array([1], pa.timestamp("us", "UTC"))}, InvalidQuery),
        ({"id": pa.array([1]), "at": pa.array([1], pa.timestamp("ns"))}, ValueOutOfRange),
        ({"id": pa.array([1]), "share": pa.array([1e300])}, ValueOutOfRange),
    ],
)
def test_rows_that_do_not_fit_write_nothing(tmp_path: Path, given: dict[str, pa.Array], error: type[Exception]) -> None:
    types = {"id": "BIGINT NOT NULL", "city": "STRING", "code": "VARCHAR(2)", "at": "TIMESTAMP(6)", "share": "FLOAT"}
    folder = empty_table(tmp_path / "t", types)
    before = every_file(folder)
    with pytest.raises(error):
        open_table(folder).append(pa.table(given))
    assert every_file(folder) == before


def test_doubles_for_a_float_column(tmp_path: Path) -> None:
    folder = empty_table(tmp_path / "t", {"share": "FLOAT"})
    given = [0.1, -0.0, math.inf, -math.inf, math.nan, None]
    open_table(folder).append(pa.table({"share": given}))
    found = open_table(folder).scan().to_table()["share"]
    assert repr(found.to_pylist()) == repr(pa.array(given, pa.float32()).to_pylist())


def test_a_stream_that_fails_leaves_no_file(folder: Path) -> None:
    def batches() -> Any:
        yield from rows(1000, 10).to_batches()
        raise RuntimeError("the source broke")

    before = every_file(folder)
    with pytest.raises(Exception, match="the source broke"):
        open_table(folder).append(pa.RecordBatchReader.from_batches(rows(0).schema, batches()))
    assert every_file(folder) == before


def test_small_files_roll_and_nothing_makes_no_snapshot(tmp_path: Path) -> None:
    folder = empty_table(tmp_path / "t", target_file_row_num="30")
    assert open_table(folder).append(rows(0, 0)).snapshot_id is None
    assert open_table(folder).append(rows(0, 100), dry_run=True).rows == 100
    assert snapshot_numbers(folder) == []
    result = open_table(folder).append(rows(0, 100))
    assert len(result.files["new"]) == 4
    assert result.rollback is None
    check_table(folder)
    assert ids(folder) == list(range(100))
    assert json.dumps(result.to_dict())
    assert "4 new" in str(result)


def test_watermark_and_statistics_are_carried(folder: Path) -> None:
    (folder / "statistics").mkdir()
    (folder / "statistics" / "stat-1").write_text(json.dumps({"snapshotId": 1, "schemaId": 0}))
    _edit_snapshot(folder, watermark=12345, statistics="stat-1", nextRowId=0)
    open_table(folder).delete(col("id") < 5)
    kept = {name: snapshot(folder).get(name) for name in ("watermark", "statistics", "nextRowId")}
    assert kept == {"watermark": 12345, "statistics": "stat-1", "nextRowId": 0}
    check_table(folder)
    (folder / "statistics" / "stat-1").write_text(json.dumps({"snapshotId": 1, "schemaId": 5}))
    open_table(folder).append(rows(500, 1))
    assert "statistics" not in snapshot(folder), "the statistics are of another schema"
    check_table(folder)


def test_progress_hears_of_every_file(folder: Path) -> None:
    open_table(folder).append(rows(500))
    for change in (
        lambda heard: open_table(folder).rewrite_file_index(spec=SPEC, progress=heard),
        lambda heard: open_table(folder).delete(col("id") < 600, progress=heard),
    ):
        heard: list[tuple[int, int]] = []
        change(lambda done, files, heard=heard: heard.append((done, files)))
        assert heard == [(1, 2), (2, 2)]


def test_old_snapshots_stay_as_they_were(folder: Path) -> None:
    kept = {name: (folder / name).read_bytes() for name in every_file(folder) if not name.endswith("LATEST")}
    for operation in OPERATIONS.values():
        operation(open_table(folder))
    assert {name: (folder / name).read_bytes() for name in kept} == kept
    assert len(open_table(folder, snapshot_id=1).scan().to_table()) == 100
    assert len(files_of(folder, 1).live) == 1


def test_instants_in_orc_files_need_a_zone_that_is_known(tmp_path: Path) -> None:
    """Paimon's Java library shifts instants in ORC files by the zone of its JVM, but does not shift instants in
    statistics and indexes."""
    types = {"id": "BIGINT", "at": "TIMESTAMP(6) WITH LOCAL TIME ZONE"}
    moments = [datetime.datetime(2026, 1, day, tzinfo=datetime.UTC) for day in range(1, 29)]
    given = pa.table({"id": range(28), "at": pa.array(moments, pa.timestamp("us", "UTC"))})
    where = col("at") < moments[10]
    folder = empty_table(tmp_path / "t", types)
    with pytest.raises(Unsupported, match="jvm_zone"):
        open_table(folder).append(given)
    open_table(folder).append(given, jvm_zone="Etc/UTC")
    with pytest.raises(Unsupported, match="jvm_zone"):
        open_table(folder).delete(where)
    with pytest.raises(Unsupported, match="jvm_zone"):
        open_table(folder).rewrite_file_index(spec={"bsi": {"at": {}}})
    open_table(folder).rewrite_file_index(spec={"bsi": {"at": {}, "id": {}}}, jvm_zone="UTC")
    scan = open_table(folder).scan(where=where)
    batches = scan.to_batches()
    assert sum(batch.num_rows for batch in batches) == 10
    assert any("JVM" in note.text for note in batches.notes)
    assert any("JVM" in note.text for note in scan.explain().files[0].notes)
    late = col("at") > moments[27] + datetime.timedelta(days=5)
    assert open_table(folder).plan(late).skipped == (), "Java's statistics and the file may have different instants"
    assert not open_table(folder).scan(["id"], where=col("id") == 1).to_batches().notes
    vouched = open_table(folder).scan(where=late, jvm_zone="UTC")
    assert (len(vouched.plan.skipped), vouched.to_batches().notes) == (1, [])
    moved = open_table(folder).scan(where=col("at") == moments[3], jvm_zone="Asia/Kolkata").to_table()
    assert moved.num_rows == 0, "the stored instant is 5:30 before the instant that was meant"
    meant = moments[3] + datetime.timedelta(hours=5, minutes=30)
    found = open_table(folder).scan(where=col("at") == meant, jvm_zone="Asia/Kolkata").to_table()
    assert found.to_pylist() == [{"id": 3, "at": meant}]
    with pytest.raises(InvalidQuery, match="not a time zone"):
        open_table(folder).scan(jvm_zone="Middle/Earth")
    assert open_table(folder).delete(where, jvm_zone="UTC").rows == 10
    plain = empty_table(tmp_path / "plain", types, orc__timestamp_ltz__legacy__type="false")
    open_table(plain).append(given)
    assert open_table(plain).delete(where).rows == 10
    assert len(open_table(plain).plan(late).skipped) == 1
    assert not open_table(plain).scan().to_batches().notes


def test_the_schema_of_each_file_tells_whether_a_jvm_moved_its_instants(tmp_path: Path) -> None:
    """The option may be changed after files were written. The instants in these files do not change."""
    option = "orc.timestamp-ltz.legacy.type"
    zone, meant = "Asia/Kolkata", datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    folder = empty_table(tmp_path / "t", {"id": "BIGINT", "at": "TIMESTAMP(6) WITH LOCAL TIME ZONE"})
    stored = {"moved": meant - datetime.timedelta(hours=5, minutes=30), "true": meant}

    def one(number: int, moment: datetime.datetime) -> pa.Table:
        return pa.table({"id": [number], "at": pa.array([moment], pa.timestamp("us", "UTC"))})

    # This append writes the file that Java would write in ``zone``.
    open_table(folder).append(one(0, stored["moved"]), jvm_zone="UTC")
    schema = json.loads((folder / "schema" / "schema-0").read_text())
    (folder / "schema" / "schema-1").write_text(
        json.dumps(schema | {"id": 1, "options": schema["options"] | {option: "false"}})
    )
    open_table(folder).append(one(1, stored["true"]))
    assert open_table(folder).scan(jvm_zone=zone).to_table()["at"].to_pylist() == [meant, meant]
    assert open_table(folder).scan(where=col("at") == meant, jvm_zone=zone).count_rows() == 2
    asked = open_table(folder).scan(where=col("at") == meant)
    assert asked.to_table()["id"].to_pylist() == [1]
    assert [note.source for note in asked.notes] == ["ORC files"]
    for change in (
        lambda: open_table(folder).delete(col("at") == meant),
        lambda: open_table(folder).rewrite_file_index(spec={"bsi": {"at": {}}}),
    ):
        with pytest.raises(Unsupported, match="jvm_zone"):
            change()
    assert open_table(folder).delete(col("id") == 0).rows == 1


def test_on_s3_with_conditional_puts() -> None:
    with s3_bucket("lake") as (options, _):
        import s3fs

        filesystem = s3fs.S3FileSystem(**options)
        options_of_table = {"bucket": "-1", "file.format": "orc", "deletion-vectors.enabled": "true"}
        fields = [{"id": 0, "name": "id", "type": "BIGINT"}]
        schema = {"id": 0, "fields": fields, "options": options_of_table}
        filesystem.pipe_file("lake/t/schema/schema-0", json.dumps(schema).encode())
        path = "s3://lake/t"
        for number in range(2):
            table = open_table(path, storage_options=options)
            table.append(pa.table({"id": pa.array(range(number * 10, number * 10 + 10), pa.int64())}))
        table = open_table(path, storage_options=options)
        assert table.delete(col("id") < 5).rows == 5
        result = open_table(path, storage_options=options).rewrite_file_index(spec={"bsi": {"id": {}}})
        assert result.snapshot_id == 4
        found = open_table(path, storage_options=options).scan().to_table()["id"].to_pylist()
        assert sorted(found) == list(range(5, 20))
