"""Commits to tables that other writers left in an unusual state, or changed between planning and commit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_edits import edit_avro, edit_manifest, edit_snapshot
from paimon_empty import empty_table
from paimon_invariants import check_table, files_of, snapshot, snapshot_numbers
from paimon_soak import SPEC, rows
from paimon_tables import PaimonTable

from orcidx import CommitConflict, CommitUncertain, CorruptFile, InvalidQuery, Unsupported
from orcidx.paimon import open_table
from orcidx.paimon_table.commit import committing as commit
from orcidx.paimon_table.commit import snapshot_creation
from orcidx.paimon_table.commit.index_rewriting import IndexTask
from orcidx.paimon_table.commit.row_deleting import DeleteTask
from orcidx.predicate import col
from orcidx.storage.folder import Folder
from orcidx.storage.local import LocalReader

OPERATIONS: dict[str, Callable[..., Any]] = {
    "append": lambda table, **given: table.append(rows(1000, 10), **given),
    "delete": lambda table, **given: table.delete(col("id") < 10, **given),
    "rewrite": lambda table, **given: table.rewrite_file_index(spec=SPEC, **given),
}
AFTER = {"append": [*range(100), *range(1000, 1010)], "delete": list(range(10, 100)), "rewrite": list(range(100))}


def ids(folder: Path) -> list[int]:
    return sorted(open_table(folder).scan().to_table()["id"].to_pylist())


def every_file(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = empty_table(tmp_path / "t", file_index__in_manifest_threshold="10 b")
    open_table(made).append(rows(0))
    return made


# ---------------------------------------------------------------------- tables that change during an operation


def alter(folder: Path, **changes: Any) -> None:
    """Alters the table as Java does: adds a schema file, but no snapshot."""
    document = json.loads((folder / "schema" / "schema-0").read_text())
    options = document["options"] | changes.pop("options", {})
    altered = document | changes | {"id": 1, "options": options}
    (folder / "schema" / "schema-1").write_text(json.dumps(altered))


def while_it_runs(operation: str, monkeypatch: pytest.MonkeyPatch, happens: Callable[[], Any]) -> Any:
    """Runs the operation, and calls ``happens`` between its planning and its commit. Returns the result of the
    operation."""
    waiting = [happens]

    def first() -> None:
        while waiting:
            waiting.pop()()

    def batches() -> Iterator[pa.RecordBatch]:
        yield from rows(1000, 10).to_batches()
        first()

    if operation == "append":
        source = pa.RecordBatchReader.from_batches(rows(0).schema, batches())
        return lambda table, **given: table.append(source, **given)
    task, name = (DeleteTask, "find") if operation == "delete" else (IndexTask, "build")
    method = getattr(task, name)
    monkeypatch.setattr(task, name, lambda self: (first(), method(self))[1])
    return OPERATIONS[operation]


@pytest.mark.parametrize("another_snapshot", [False, True])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_schema_that_changes_between_planning_and_commit(
    folder: Path, monkeypatch: pytest.MonkeyPatch, operation: str, another_snapshot: bool
) -> None:
    """The operation fails if the schema changes after planning, because the rows, predicates and columns were planned
    for the old schema.
    """
    fields = [{"id": 0, "name": "id", "type": "BIGINT"}, {"id": 2, "name": "city", "type": "STRING"}]

    def altered() -> None:
        alter(folder, fields=fields, highestFieldId=2)
        if another_snapshot:
            open_table(folder).append(rows(5000, 1))

    run = while_it_runs(operation, monkeypatch, altered)
    with pytest.raises(CommitConflict, match="schema has changed"):
        run(open_table(folder))
    assert snapshot_numbers(folder) == ([1, 2] if another_snapshot else [1])
    names = {record["_FILE"]["_FILE_NAME"] for record in files_of(folder).live.values()}
    assert {path.name for path in folder.rglob("*.orc")} == names, "the data files of the failed change are deleted"


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("option", ["commit.callbacks", "option.of.tomorrow"])
def test_options_that_gate_an_operation_are_looked_at_when_it_commits(
    folder: Path, monkeypatch: pytest.MonkeyPatch, operation: str, option: str
) -> None:
    run = while_it_runs(operation, monkeypatch, lambda: alter(folder, options={option: "x"}))
    with pytest.raises(Unsupported, match=option):
        run(open_table(folder))
    assert snapshot_numbers(folder) == [1]


def test_a_delete_whose_vectors_are_switched_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    off = {"deletion-vectors.enabled": "false"}
    run = while_it_runs("delete", monkeypatch, lambda: alter(folder, options=off))
    with pytest.raises(Unsupported, match="deletion vectors"):
        run(open_table(folder))
    assert snapshot_numbers(folder) == [1]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_snapshots_that_came_while_it_ran_cost_no_try(
    folder: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    run = while_it_runs(operation, monkeypatch, lambda: open_table(folder).append(rows(5000, 1)))
    result = run(open_table(folder), retries=0)
    assert (result.snapshot_id, result.attempts) == (3, 1)
    check_table(folder)
    assert ids(folder) == sorted([*AFTER[operation], 5000])


# ---------------------------------------------------------------------- hints, gaps, names, tags, branches


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("hint", [None, b"", b"1", b"-", b"\xff\xfe", b"99", b"18446744073709551617", b"3 \n"])
def test_hints_that_are_stale_half_written_or_nonsense(folder: Path, operation: str, hint: bytes | None) -> None:
    open_table(folder).append(rows(0, 0))
    for _ in range(2):
        open_table(folder).append(rows(5000, 1))
    latest = folder / "snapshot" / "LATEST"
    latest.unlink() if hint is None else latest.write_bytes(hint)
    assert OPERATIONS[operation](open_table(folder)).snapshot_id == 4
    check_table(folder)
    assert ids(folder) == sorted([*AFTER[operation], 5000, 5000])
    assert latest.read_bytes() == b"4"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_commit_below_a_gap_would_be_hidden(folder: Path, operation: str) -> None:
    for _ in range(3):
        open_table(folder).append(rows(5000, 1))
    (folder / "snapshot" / "snapshot-3").unlink()
    (folder / "snapshot" / "LATEST").write_text("2")
    before = every_file(folder)
    with pytest.raises(CorruptFile, match="snapshot 3 is missing, but snapshot 4 exists"):
        OPERATIONS[operation](open_table(folder))
    assert every_file(folder) == before


def _roll_back(folder: Path, to: int) -> None:
    """Rolls back as Paimon's Java library does: changes the hint first, then deletes the newer snapshots, the newest
    first."""
    numbers = snapshot_numbers(folder)
    (folder / "snapshot" / "LATEST").write_text(str(to))
    for number in sorted(numbers, reverse=True):
        if number > to:
            (folder / "snapshot" / f"snapshot-{number}").unlink()


def _while_creating(monkeypatch: pytest.MonkeyPatch, *events: Callable[[], Any]) -> None:
    """Runs ``events``, the changes of other writers, right before the next snapshots are created."""
    create, waiting = Folder.create, list(events)

    def late(self: Folder, name: str, data: bytes, **given: Any) -> bool:
        if waiting:
            waiting.pop(0)()
        return create(self, name, data, **given)

    monkeypatch.setattr(Folder, "create", late)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_rollback_while_it_commits_leaves_no_snapshot_above_a_gap(
    folder: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """If a rollback left a gap below orcidx's snapshot, a later commit of Paimon would reach the number of that
    snapshot, and the rows of the later commit would be lost."""
    for number in range(2):
        open_table(folder).append(rows(5000 + number, 1))
    _while_creating(monkeypatch, lambda: _roll_back(folder, 1))
    result = OPERATIONS[operation](open_table(folder))
    monkeypatch.undo()
    assert (result.snapshot_id, result.attempts, snapshot_numbers(folder)) == (2, 2, [1, 2])
    check_table(folder)
    assert ids(folder) == AFTER[operation]


def test_a_rollback_whose_snapshot_cannot_be_taken_back_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2):
        open_table(folder).append(rows(5000 + number, 1))
    delete = Folder.delete

    def failing(self: Folder, name: str) -> None:
        if name.startswith("snapshot/"):
            raise OSError("no")
        delete(self, name)

    monkeypatch.setattr(Folder, "delete", failing)
    _while_creating(monkeypatch, lambda: _roll_back(folder, 1))
    with pytest.raises(
        CommitConflict, match=r"rolled back to snapshot 1 or below.*delete snapshot/snapshot-4"
    ) as caught:
        open_table(folder).append(rows(1000, 10))
    monkeypatch.undo()
    assert caught.value.snapshot_id == 4
    assert all((folder / name).exists() for name in caught.value.left_behind), "the snapshot names these files"
    (folder / "snapshot" / "snapshot-4").unlink()
    assert open_table(folder).append(rows(1000, 10)).snapshot_id == 2
    check_table(folder)


def test_commits_after_a_rollback_that_ours_would_hide(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_table(folder).append(rows(5000, 1))

    def others() -> None:
        _roll_back(folder, 1)
        open_table(folder).append(rows(6000, 1), commit_user="the other")

    create = Folder.create
    _while_creating(monkeypatch, lambda: (monkeypatch.setattr(Folder, "create", create), others()))
    with pytest.raises(CommitConflict, match="roll the table back to snapshot 2, and run the change again") as caught:
        open_table(folder).append(rows(1000, 10), commit_user="mine")
    monkeypatch.undo()
    assert (caught.value.commit_user, caught.value.other_user, caught.value.snapshot_id) == ("mine", "the other", 3)
    _roll_back(folder, 2)
    open_table(folder).append(rows(1000, 10))
    check_table(folder)
    assert ids(folder) == [*range(100), *range(1000, 1010), 6000]


def _renamed_by_java(folder: Path, number: int) -> None:
    """Overwrites the snapshot of this number, as Java does. The new snapshot is based on the snapshot before this
    number.
    """
    document = json.loads((folder / "snapshot" / f"snapshot-{number - 1}").read_text())
    document |= {"id": number, "uuid": f"Java's {number}", "commitUser": "java"}
    (folder / "snapshot" / f"snapshot-{number}").write_text(json.dumps(document))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_rename_that_comes_after_the_snapshot_was_read_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """Java checks whether the snapshot exists, waits, and then renames its own file over orcidx's snapshot. orcidx then
    makes its change again, after Java's snapshot. So the change is not lost."""
    put = Folder.put

    def late(self: Folder, name: str, data: bytes) -> None:
        if (name, data) == ("snapshot/LATEST", b"2"):
            _renamed_by_java(folder, 2)
        put(self, name, data)

    monkeypatch.setattr(Folder, "put", late)
    result = OPERATIONS[operation](open_table(folder))
    assert (result.snapshot_id, result.attempts, snapshot_numbers(folder)) == (3, 2, [1, 2, 3])
    assert "snapshot 2 was overwritten by java, and the change was made again" in result.notes[-1]
    named = result.notes[-1].partition("names these files any more: ")[2].split(", ")
    assert named
    for name in named:
        (folder / name).unlink()
    check_table(folder)
    assert ids(folder) == AFTER[operation]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_snapshot_that_is_overwritten_again_and_again_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """The error names all files that the change left, including those of the snapshot that was overwritten first."""
    put, before = Folder.put, set(every_file(folder))

    def late(self: Folder, name: str, data: bytes) -> None:
        if name == "snapshot/LATEST":
            _renamed_by_java(folder, int(data))
        put(self, name, data)

    monkeypatch.setattr(Folder, "put", late)
    with pytest.raises(CommitConflict, match="created and then overwritten") as caught:
        OPERATIONS[operation](open_table(folder), retries=1)
    monkeypatch.undo()
    assert (caught.value.other_user, caught.value.snapshot_id) == ("java", 3)
    _check_left(folder, before, caught.value)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_conflict_after_an_overwritten_snapshot_names_its_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    put, create, before = Folder.put, Folder.create, set(every_file(folder))

    def late(self: Folder, name: str, data: bytes) -> None:
        if (name, data) == ("snapshot/LATEST", b"2"):
            _renamed_by_java(folder, 2)
        put(self, name, data)

    def too_late(self: Folder, name: str, data: bytes, **given: Any) -> bool:
        if name == "snapshot/snapshot-3":
            _renamed_by_java(folder, 3)
        return create(self, name, data, **given)

    monkeypatch.setattr(Folder, "put", late)
    monkeypatch.setattr(Folder, "create", too_late)
    with pytest.raises(CommitConflict, match="committed by java in the meantime") as caught:
        OPERATIONS[operation](open_table(folder), retries=1)
    monkeypatch.undo()
    _check_left(folder, before, caught.value)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_files_of_a_lost_try_that_cannot_be_deleted_are_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, operation: str, fails: bool
) -> None:
    """If the change is tried again, the result or the error of the last attempt also names files of the first
    attempt."""
    before = set(every_file(folder))

    def busy(self: Folder, name: str) -> None:
        raise OSError(f"{name} is busy")

    monkeypatch.setattr(Folder, "delete", busy)
    others = [lambda: _renamed_by_java(folder, 2), *([lambda: _renamed_by_java(folder, 3)] if fails else [])]
    _while_creating(monkeypatch, *others)
    told: list[str] = []
    try:
        told += OPERATIONS[operation](open_table(folder), retries=1).notes
    except CommitConflict as conflict:
        told += [*conflict.__notes__, *conflict.left_behind]
    monkeypatch.undo()
    assert len(told) >= 1 + fails
    unnamed = {name for name in set(every_file(folder)) - before if not any(name in text for text in told)}
    assert not fails or all(name.startswith("snapshot/") for name in unnamed)
    for name in set(every_file(folder)) - before - unnamed:
        (folder / name).unlink()
    check_table(folder)
    assert ids(folder) == (list(range(100)) if fails else AFTER[operation])


def _check_left(folder: Path, before: set[str], error: CommitConflict) -> None:
    """Checks that an error names all files that a failed change has left, and that these files can be deleted."""
    left = {name for name in set(every_file(folder)) - before if not name.startswith("snapshot/")}
    assert set(error.left_behind) == left
    assert all(name in str(error) for name in error.left_behind[:5])
    assert f"and {len(left) - 5} more" in str(error) or len(left) <= 5
    for name in left:
        (folder / name).unlink()
    check_table(folder)
    assert ids(folder) == list(range(100))


@pytest.mark.parametrize("retries", [None, 0])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_change_that_others_built_on_before_it_was_overwritten_is_not_made_twice(
    folder: Path, monkeypatch: pytest.MonkeyPatch, operation: str, retries: int | None
) -> None:
    put, seen = Folder.put, []

    def late(self: Folder, name: str, data: bytes) -> None:
        if (name, data) == ("snapshot/LATEST", b"2"):
            ours = json.loads((folder / "snapshot" / "snapshot-2").read_text())
            monkeypatch.undo()
            seen.append(open_table(folder).append(rows(6000, 1)).snapshot_id)
            assert ours["uuid"] != json.loads((folder / "snapshot" / "snapshot-1").read_text())["uuid"]
            _renamed_by_java(folder, 2)
        put(self, name, data)

    monkeypatch.setattr(Folder, "put", late)
    with pytest.raises(
        CommitUncertain, match=r"overwritten by java after snapshot 3 .* do not run this change again"
    ) as caught:
        OPERATIONS[operation](open_table(folder), retries=retries)
    assert (seen, caught.value.snapshot_id) == ([3], 2)
    assert ids(folder) == sorted([*AFTER[operation], 6000]), "the snapshot that others are based on is complete"


def test_rows_on_which_others_build_during_the_last_try_keep_their_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a snapshot of another writer names the data files of the append, the append does not delete them."""
    put, ours = Folder.put, []

    def late(self: Folder, name: str, data: bytes) -> None:
        if (name, data) == ("snapshot/LATEST", b"2"):
            ours.append((folder / "snapshot" / "snapshot-2").read_bytes())
            _renamed_by_java(folder, 2)
        put(self, name, data)

    def built_upon() -> None:
        if not ours:
            return _while_creating(monkeypatch, built_upon)
        monkeypatch.undo()
        (folder / "snapshot" / "snapshot-2").write_bytes(ours[0])
        open_table(folder).append(rows(6000, 1))
        return _renamed_by_java(folder, 2)

    monkeypatch.setattr(Folder, "put", late)
    _while_creating(monkeypatch, built_upon)
    with pytest.raises(CommitUncertain, match="overwritten by java after snapshot 3"):
        open_table(folder).append(rows(1000, 10), retries=1)
    assert ids(folder) == [*range(100), *range(1000, 1010), 6000]


def test_a_snapshot_below_that_java_is_about_to_overwrite_is_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java is about to replace the latest snapshot. A commit that is based on it would have rows that are not in the
    table, and would lack the rows that Java committed."""
    open_table(folder).append(rows(5000, 1))
    temporary = folder / "snapshot" / ".snapshot-2.6f2c8f5e-0000-4000-8000-000000000000.tmp"
    temporary.write_text("Java's")
    waited: list[float] = []

    def slept(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            temporary.unlink()
            _renamed_by_java(folder, 2)

    monkeypatch.setattr(commit.time, "sleep", slept)
    result = open_table(folder).append(rows(1000, 10))
    assert (result.snapshot_id, result.attempts, snapshot_numbers(folder)) == (3, 2, [1, 2, 3])
    assert ids(folder) == [*range(100), *range(1000, 1010)]
    assert not result.notes, "orcidx had not created a snapshot before"


@pytest.mark.parametrize("ends", ["renamed", "deleted", "left"])
def test_a_rename_under_way_is_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch, ends: str) -> None:
    """Java has checked that the snapshot does not exist, and its temporary file appears right before orcidx's snapshot
    is created. If this file is renamed, Java's snapshot is in place. If the file is deleted, orcidx's snapshot is in
    place. If the file remains because the writer was killed, the wait ends after some time."""
    create, temporary = Folder.create, folder / "snapshot" / ".snapshot-2.6f2c8f5e-0000-4000-8000-000000000000.tmp"

    def created(self: Folder, name: str, data: bytes, **given: Any) -> bool:
        if name == "snapshot/snapshot-2":
            first = json.loads((folder / "snapshot" / "snapshot-1").read_text())
            temporary.write_text(json.dumps({**first, "id": 2, "uuid": "another", "commitUser": "java"}))
        return create(self, name, data, **given)

    def slept(seconds: float) -> None:
        waited.append(seconds)
        if ends == "renamed" and len(waited) == 3:
            temporary.replace(folder / "snapshot" / "snapshot-2")
        elif ends == "deleted" and len(waited) == 3:
            temporary.unlink()

    waited: list[float] = []
    monkeypatch.setattr(Folder, "create", created)
    monkeypatch.setattr(commit.time, "sleep", slept)
    monkeypatch.setattr(snapshot_creation, "PATIENCE_SECONDS", 0.3 if ends == "left" else 1000)
    result = open_table(folder).append(rows(1000, 10))
    temporary.unlink(missing_ok=True)
    if ends == "renamed":
        assert (result.snapshot_id, result.attempts, len(result.notes)) == (3, 2, 1)
        assert len(waited) == 4, "three checks, and the wait between two attempts"
    else:
        assert (result.snapshot_id, result.attempts, result.notes) == (2, 1, ())
        assert waited if ends == "left" else len(waited) == 3
        check_table(folder)
    assert ids(folder) == [*range(100), *range(1000, 1010)]


@pytest.mark.parametrize("times", [1, 1000])
@pytest.mark.parametrize("operation", [*OPERATIONS, "scan"])
def test_a_hint_that_is_written_over_while_it_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, operation: str, times: int
) -> None:
    """Java truncates LATEST and then writes it again. A scan or a change reads the hint again if it is empty."""
    fetch, hint, seen = LocalReader.whole, folder / "snapshot" / "LATEST", []

    def written_over(self: LocalReader) -> Any:
        if self.name.endswith("LATEST") and len(seen) < times:
            seen.append(hint.read_bytes())
            hint.write_bytes(b"")
            try:
                return fetch(self)
            finally:
                hint.write_bytes(seen[0])
        return fetch(self)

    monkeypatch.setattr(LocalReader, "whole", written_over)
    # If ``read_small`` returns None, for example for an empty file, a reader is opened. Here it always returns None.
    monkeypatch.setattr("orcidx.paimon.small_files.read_small", lambda *_: None)
    table = open_table(folder)
    if operation == "scan":
        assert table.scan().to_table().num_rows == 100
    else:
        OPERATIONS[operation](table)
        assert ids(folder) == AFTER[operation]
    assert len(seen) >= min(times, 3)


def test_the_snapshot_below_may_have_expired(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _while_creating(monkeypatch, lambda: (folder / "snapshot" / "snapshot-1").unlink())
    assert open_table(folder).append(rows(1000, 10)).snapshot_id == 2
    assert snapshot_numbers(folder) == [2]


def test_sidecars_that_a_failed_rewrite_leaves_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk is full, the error names the sidecars that were written before."""
    for start in (1000, 2000):
        open_table(folder).append(rows(start))
    before, put, written = set(every_file(folder)), Folder.put, [0]

    def full(self: Folder, name: str, data: bytes) -> None:
        written[0] += name.endswith(".index")
        if written[0] == 3:
            raise OSError(28, "No space left on device")
        put(self, name, data)

    monkeypatch.setattr(Folder, "put", full)
    with pytest.raises(OSError, match="No space left") as caught:
        open_table(folder).rewrite_file_index(spec=SPEC)
    monkeypatch.undo()
    left = set(every_file(folder)) - before
    assert len(left) == 2
    assert all(name in "".join(caught.value.__notes__) for name in left)
    _while_creating(monkeypatch, lambda: open_table(folder).append(rows(3000, 1)))
    with pytest.raises(CommitConflict) as conflict:
        open_table(folder).rewrite_file_index(spec=SPEC, retries=0)
    monkeypatch.undo()
    assert len([name for name in conflict.value.left_behind if name.endswith(".index")]) == 3
    check_table(folder)


@pytest.mark.parametrize("form", ["orc", "parquet"])
def test_files_without_rows_need_no_index(tmp_path: Path, form: str) -> None:
    """A file without rows does not make the rewrite of the table fail."""
    made = PaimonTable(tmp_path / "t")
    made.schema({0: ("id", "BIGINT"), 1: ("city", "STRING")}, options={"bucket": "-1"})
    without = {"_VALUE_STATS": made._stats(pa.table({}), {}), "_VALUE_STATS_COLS": []}
    for number in range(2):
        made.add(f"data-{number}.{form}", rows(0).slice(0, number), **without)
    made.commit()
    result = open_table(made.path).rewrite_file_index(spec=SPEC)
    assert result.files == {"done": (f"data-1.{form}",), "complete": (f"data-0.{form}",)}
    assert open_table(made.path).scan(["id"], col("city") == "").count_rows() == 0
    assert ids(made.path) == [0]


def test_an_index_that_is_built_again_with_the_same_bytes(tmp_path: Path) -> None:
    """An index is built again with the same result. So a snapshot adds an entry of the file that is equal to the entry
    that the snapshot deletes.
    """
    made = empty_table(tmp_path / "t", file_index__bitmap__columns="city", file_index__in_manifest_threshold="1 mb")
    open_table(made).append(rows(0))
    for _ in range(3):
        result = open_table(made).rewrite_file_index(only_missing=False)
        assert len(result.files["done"]) == 1
        check_table(made)
        assert ids(made) == list(range(100))


def test_an_index_of_a_column_whose_name_looks_like_a_key_of_a_map(tmp_path: Path) -> None:
    made = empty_table(tmp_path / "t", {"id": "BIGINT", "a[b]": "STRING", "a": "STRING"})
    open_table(made).append(pa.table({"id": [0, 1], "a[b]": ["x", "y"], "a": ["y", "x"]}))
    result = open_table(made).rewrite_file_index(spec={"bitmap": {"a[b]": {}}})
    assert len(result.files["done"]) == 1
    assert len(open_table(made).rewrite_file_index(spec={"bitmap": {"a[b]": {}}}).files["complete"]) == 1
    assert open_table(made).scan(["id"], col("a[b]") == "y").to_table()["id"].to_pylist() == [1]


def test_names_that_are_no_numbers(folder: Path) -> None:
    for name in ("snapshot-²", "snapshot-٣", "snapshot-", "snapshot--1", "snapshot-7.tmp", ".snapshot-9"):
        (folder / "snapshot" / name).write_text("{}")
    (folder / "snapshot" / "LATEST").unlink()
    assert open_table(folder).append(rows(1000, 10)).snapshot_id == 2
    assert ids(folder) == AFTER["append"]


def test_a_branch_by_any_path(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    branch = folder / "branch" / "branch-b"
    for part in ("schema", "snapshot"):
        shutil.copytree(folder / part, branch / part)
    (tmp_path / "link").symlink_to(branch)
    monkeypatch.chdir(branch.parent)
    for path in (branch, f"{branch}/", "branch-b", "./branch-b/", tmp_path / "link"):
        for operation in OPERATIONS.values():
            with pytest.raises(Unsupported, match="branch"):
                operation(open_table(path))


def test_tags_and_branches_of_the_table_stay_as_they_are(folder: Path) -> None:
    """Tags and branches are copies of snapshots. Some files are named only by a tag or a branch."""
    (folder / "tag").mkdir()
    shutil.copy(folder / "snapshot" / "snapshot-1", folder / "tag" / "tag-first")
    branch = folder / "branch" / "branch-b"
    for part in ("schema", "snapshot"):
        shutil.copytree(folder / part, branch / part)
    before = every_file(folder)
    del before["snapshot/LATEST"]
    for operation in OPERATIONS.values():
        operation(open_table(folder))
    after = every_file(folder)
    assert {name: after[name] for name in before} == before
    assert open_table(folder, snapshot_id=1).scan().count_rows() == 100


# ---------------------------------------------------------------------- what others wrote


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"properties": 5}, "properties"),
        ({"watermark": "noon"}, "watermark"),
        ({"watermark": 1 << 63}, "watermark"),
        ({"nextRowId": True}, "nextRowId"),
        ({"statistics": "../secret"}, "statistics"),
        ({"statistics": ["stat-1"]}, "statistics"),
        ({"statistics": "stat-that-is-missing"}, "missing"),
    ],
)
def test_fields_that_would_be_carried_on(folder: Path, operation: str, fields: dict[str, Any], what: str) -> None:
    edit_snapshot(folder, **fields)
    with pytest.raises(CorruptFile, match=what):
        OPERATIONS[operation](open_table(folder))
    assert snapshot_numbers(folder) == [1]
    assert len(list(folder.rglob("*.orc"))) == 1


@pytest.mark.parametrize(
    ("option", "value", "operations"),
    [
        ("bucket", "many", ("append", "delete")),
        ("commit.max-retries", "ten", tuple(OPERATIONS)),
        ("commit.max-retries", "-1", tuple(OPERATIONS)),
        ("commit.timeout", "soon", tuple(OPERATIONS)),
        ("manifest.merge-min-count", "3.5", tuple(OPERATIONS)),
        ("manifest.target-file-size", "much", tuple(OPERATIONS)),
        ("target-file-row-num", "0", ("append",)),
        ("target-file-row-num", "all", ("append",)),
        ("target-file-size", "-1", ("append",)),
        ("metadata.stats-keep-first-n-columns", "²", ("append",)),
        ("deletion-vector.index-file.target-size", "x", ("delete",)),
        ("file-index.in-manifest-threshold", "x", ("append", "rewrite")),
    ],
)
def test_options_that_are_no_values(folder: Path, option: str, value: str, operations: tuple[str, ...]) -> None:
    """The error names the option and is raised before anything is written. A limit of 0 rows must not produce files
    without end."""
    path = folder / "schema" / "schema-0"
    document = json.loads(path.read_text())
    document["options"][option] = value
    path.write_text(json.dumps(document))
    for operation in operations:
        with pytest.raises((InvalidQuery, CorruptFile), match=option):
            OPERATIONS[operation](open_table(folder))
    assert snapshot_numbers(folder) == [1]
    assert len(list(folder.rglob("*.orc"))) == 1


def test_numbers_of_others_that_leave_no_room(tmp_path: Path) -> None:
    folder = empty_table(tmp_path / "t", bucket="1", bucket_key="id")
    open_table(folder).append(rows(0))
    edit_manifest(folder, lambda found: found[0]["_FILE"].update(_MAX_SEQUENCE_NUMBER=(1 << 63) - 5))
    with pytest.raises(CorruptFile, match="sequence number"):
        open_table(folder).append(rows(1000, 10))
    assert open_table(folder).append(rows(1000, 4)).snapshot_id == 2
    check_table(folder)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_more_rows_than_a_snapshot_can_count(folder: Path, operation: str) -> None:
    open_table(folder).append(rows(100))

    def huge(found: list[Any]) -> None:
        for record in found:
            record["_FILE"]["_ROW_COUNT"] = (1 << 63) - 1

    manifests = list((folder / "manifest").glob("manifest-[0-9a-f]*"))
    for path in manifests:
        edit_avro(path, huge)
    sizes = {path.name: path.stat().st_size for path in manifests}
    for name in ("baseManifestList", "deltaManifestList"):
        listed = folder / "manifest" / snapshot(folder)[name]
        edit_avro(listed, lambda found: [one.update(_FILE_SIZE=sizes[one["_FILE_NAME"]]) for one in found])
        edit_snapshot(folder, **{f"{name}Size": listed.stat().st_size})
    edit_snapshot(folder, totalRecordCount=2 * ((1 << 63) - 1))
    with pytest.raises(CorruptFile, match="rows"):
        OPERATIONS[operation](open_table(folder))
    assert snapshot_numbers(folder) == [1, 2]


def test_vectors_of_files_that_are_no_more_are_dropped(folder: Path) -> None:
    """Paimon's compaction sometimes leaves deletion vectors of files that no longer exist. A later delete in the same
    index file drops them."""
    open_table(folder).append(rows(100))
    open_table(folder).delete(col("id").is_in([5, 105]))
    index = folder / "manifest" / snapshot(folder)["indexManifest"]

    def orphaned(found: list[Any]) -> None:
        (one,) = found
        one["_DELETIONS_VECTORS_RANGES"][0]["f0"] = "data-compacted-away-0.orc"

    edit_avro(index, orphaned)
    live = [file.entry.name for file in open_table(folder).files()]
    assert open_table(folder).delete(col("id").is_in([6, 106])).rows == 2
    named = [where["f0"] for record in check_table(folder).index for where in record["_DELETIONS_VECTORS_RANGES"]]
    assert sorted(named) == sorted(live)
    assert len(ids(folder)) == 200 - 3


def test_two_vectors_for_one_file_that_come_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge that uses only one of the two vectors would restore the rows that the other vector deletes."""
    open_table(folder).delete(col("id") == 5)

    def doubled() -> None:
        open_table(folder).delete(col("id") == 6)
        index = folder / "manifest" / snapshot(folder)["indexManifest"]
        edit_avro(index, lambda found: found.append(dict(found[0])))

    run = while_it_runs("delete", monkeypatch, doubled)
    before = snapshot_numbers(folder)[-1]
    with pytest.raises(CorruptFile, match="two deletion vectors"):
        run(open_table(folder))
    assert snapshot_numbers(folder)[-1] == before + 1
