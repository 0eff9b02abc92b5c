"""Targets that exist already: links, pipes, devices, modes and owners. Also, what remains after a writer is dropped or
a disk is full."""

from __future__ import annotations

import gc
import io
import json
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from s3_server import obstore_of, s3_bucket

import orcidx
from orcidx import paimon
from orcidx.cli import main
from orcidx.errors import StorageError
from orcidx.storage import describe_source
from orcidx.storage.folder import Folder
from orcidx.storage.sink import write_file

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs modes, links and limits of POSIX systems")
TABLE = pa.table({"a": pa.array(np.random.default_rng(1).integers(-(2**62), 2**62, 50_000))})


def mode_of(path: Path | str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def by_writer(path: Path, source: Path) -> None:
    orcidx.write_table(TABLE, path)


def by_rewrite(path: Path, source: Path) -> None:
    orcidx.rewrite(source, path, overwrite=True, sort_by="a")


def by_copy(path: Path, source: Path) -> None:
    orcidx.rewrite(source, path, overwrite=True)


def by_convert(path: Path, source: Path) -> None:
    assert run(["convert", str(source), str(path), "--from", "orc", "--to", "parquet", "--overwrite"]) == 0


def by_report(path: Path, source: Path) -> None:
    assert run(["report", str(source), "-o", str(path)]) == 0


def by_explain(path: Path, source: Path) -> None:
    assert run(["explain", str(source), "-w", "a > 1", "--html", str(path)]) == 0


def by_index(path: Path, source: Path) -> None:
    assert run(["index", "build", str(source), "--bloom-filter", "a", "-o", str(path)]) == 0


def by_folder(path: Path, source: Path) -> None:
    Folder(describe_source(str(path.parent))).put(path.name, b"data")


def by_deletion_vectors(path: Path, source: Path) -> None:
    paimon.write_deletion_vectors(path, {})


def run(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as done:
        main(arguments)
    return int(done.value.code or 0)


Writer = Callable[[Path, Path], None]
OF_A_FILE: list[Writer] = [by_rewrite, by_copy, by_convert, by_report, by_explain, by_index]
WRITERS: list[Writer] = [by_writer, *OF_A_FILE, by_folder, by_deletion_vectors]


@pytest.fixture
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "s.orc"
    orcidx.write_table(TABLE, path)
    return path


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_a_file_keeps_its_mode(write: Writer, mode: int, tmp_path: Path, source: Path) -> None:
    path = tmp_path / "t.orc"
    path.write_bytes(b"old")
    path.chmod(mode)
    write(path, source)
    assert path.read_bytes() != b"old"
    assert mode_of(path) == mode
    assert names(tmp_path) == ["t.orc"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can change the owner of files")
def test_a_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "t.orc"
    path.write_bytes(b"old")
    path.chmod(0o640)
    os.chown(path, 1234, 2345)
    orcidx.write_table(TABLE, path)
    status = path.stat()
    assert (status.st_uid, status.st_gid, mode_of(path)) == (1234, 2345, 0o640)


@pytest.mark.parametrize("group", [True, False], ids=["group is given", "nothing is given"])
def test_an_owner_that_cannot_be_kept_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: bool) -> None:
    path = tmp_path / "t.orc"
    path.write_bytes(b"old")
    path.chmod(0o640)
    real = os.stat

    def of_another(place: object, *args: object, **options: object) -> os.stat_result:
        found = real(place, *args, **options)  # type: ignore[arg-type]
        return os.stat_result([*found[:4], 4242, 4243, *found[6:]]) if place == str(path) else found

    def denied(place: object, owner: int, given: int) -> None:
        if owner != -1 or not group:
            raise PermissionError(1, "not permitted")

    monkeypatch.setattr(os, "stat", of_another)
    monkeypatch.setattr(os, "chown", denied)
    with pytest.warns(RuntimeWarning, match="its owner 4242"):
        orcidx.write_table(TABLE, str(path))
    monkeypatch.undo()
    assert mode_of(path) == (0o640 if group else 0o600)  # rights of the old group must not go to another group


@pytest.mark.parametrize("write", OF_A_FILE)
def test_what_is_made_of_a_private_file_is_private(write: Writer, tmp_path: Path, source: Path) -> None:
    source.chmod(0o600)
    write(tmp_path / "new.orc", source)
    assert mode_of(tmp_path / "new.orc") == 0o600


def test_rows_that_a_writer_is_given_keep_the_file_private(tmp_path: Path, source: Path) -> None:
    """When a writer is opened, it is not known yet from which files its rows come. The mode of a private source is
    applied when its rows are written."""
    source.chmod(0o640)
    with orcidx.open(source) as file, orcidx.OrcWriter(tmp_path / "n.orc", TABLE.schema) as writer:
        writer.write(TABLE)
        writer.write(file.scan())
        writer.write(orcidx.scan(source))
        writer.write(TABLE)
    assert mode_of(tmp_path / "n.orc") == 0o640
    assert orcidx.scan(tmp_path / "n.orc").count_rows() == 4 * len(TABLE)


def test_what_is_repaired_of_a_private_file_is_private(tmp_path: Path, source: Path) -> None:
    source.chmod(0o600)
    assert run(["check", str(source), "--repair", str(tmp_path / "r.orc")]) == 0
    assert mode_of(tmp_path / "r.orc") == 0o600


def test_a_merge_is_for_those_who_may_read_all(tmp_path: Path, source: Path) -> None:
    other = tmp_path / "o.orc"
    orcidx.write_table(TABLE, other)
    source.chmod(0o640)
    other.chmod(0o604)
    orcidx.rewrite([source, other], tmp_path / "m.orc", merge=True)
    assert mode_of(tmp_path / "m.orc") == 0o600


def test_a_new_file_has_the_mode_of_new_files(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        orcidx.write_table(TABLE, tmp_path / "n.orc")
    finally:
        os.umask(old)
    assert mode_of(tmp_path / "n.orc") == 0o640


def test_nobody_else_reads_it_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "t.orc"
    path.write_bytes(b"old")
    path.chmod(0o600)
    with orcidx.OrcWriter(path, TABLE.schema) as writer:
        (temporary,) = (name for name in names(tmp_path) if name != "t.orc")
        assert mode_of(tmp_path / temporary) == 0o600
        writer.write(TABLE)


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_what_changes_add_to_a_private_paimon_table_is_private(tmp_path: Path, mode: int) -> None:
    """Manifests contain the smallest and largest values of data files, and indexes contain all values. So these files
    must be private too."""
    (tmp_path / "schema").mkdir()
    fields = [{"id": 0, "name": "id", "type": "BIGINT"}, {"id": 1, "name": "c", "type": "STRING"}]
    options = {"bucket": "-1", "deletion-vectors.enabled": "true", "file.format": "orc"}
    options["file-index.in-manifest-threshold"] = "10 b"
    schema = tmp_path / "schema" / "schema-0"
    schema.write_text(json.dumps({"id": 0, "fields": fields, "options": options}))
    schema.chmod(mode)
    rows = pa.table({"id": range(100), "c": [f"x{i}" for i in range(100)]})
    paimon.open_table(tmp_path).append(rows)
    paimon.open_table(tmp_path).rewrite_file_index(spec={"bitmap": {"c": {}}})
    paimon.open_table(tmp_path).delete("id < 10")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 12
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {mode}


def test_indexes_of_private_files_are_private(tmp_path: Path) -> None:
    from orcidx.index_directory.build import IndexSpec, index_file
    from orcidx.options import ReadOptions
    from orcidx.storage import list_sources

    orcidx.write_table(TABLE, tmp_path / "s.orc")
    (tmp_path / "s.orc").chmod(0o600)
    (found,) = list_sources(str(tmp_path))
    spec = IndexSpec.of({"bloom-filter": {"a": {}}}, embedded_bytes=0)
    row = index_file(Folder.of(describe_source(str(tmp_path)), "_orcidx"), found, "s.orc", spec, ReadOptions())
    assert row["error"] is None
    assert mode_of(tmp_path / "_orcidx" / row["index"]) == 0o600


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("dangling", [False, True], ids=["to a file", "to nothing yet"])
def test_links_are_followed(write: Writer, dangling: bool, tmp_path: Path, source: Path) -> None:
    real, link = tmp_path / "there" / "r.orc", tmp_path / "l.orc"
    real.parent.mkdir()
    if not dangling:
        real.write_bytes(b"old")
    (tmp_path / "middle").symlink_to("there/r.orc")
    link.symlink_to(tmp_path / "middle")
    write(link, source)
    assert link.is_symlink()
    assert (tmp_path / "middle").is_symlink()
    assert not real.is_symlink()
    assert real.read_bytes() != b"old"
    assert names(tmp_path) == ["l.orc", "middle", "there"]
    assert names(real.parent) == ["r.orc"]


@pytest.mark.parametrize("write", [by_writer, by_rewrite, by_copy, by_folder])
@pytest.mark.parametrize("kind", ["pipe", "device", "link to a device", "circle"])
def test_what_is_no_file_is_refused(write: Writer, kind: str, tmp_path: Path, source: Path) -> None:
    path = tmp_path / "t.orc"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("needs the right to create devices")
    else:
        path.symlink_to("/dev/null" if kind == "link to a device" else path)
    before = os.lstat(path).st_mode, os.stat("/dev/null").st_mode
    with pytest.raises((StorageError, IsADirectoryError)):
        write(path, source)
    assert (os.lstat(path).st_mode, os.stat("/dev/null").st_mode) == before
    assert names(tmp_path) == ["t.orc"]


def test_a_page_goes_into_a_device(tmp_path: Path, source: Path) -> None:
    write_file("/dev/null", b"data")
    by_report(Path("/dev/null"), source)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("write", [by_writer, by_rewrite, by_folder])
def test_the_directory_is_synced_after_the_rename(
    write: Writer, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    replace, fsync = os.replace, os.fsync
    monkeypatch.setattr(os, "replace", lambda *places: (done.append("rename"), replace(*places))[1])
    monkeypatch.setattr(
        os, "fsync", lambda fd: (done.append("directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file"), fsync(fd))
    )
    write(tmp_path / "t.orc", source)
    assert done[-2:] == ["rename", "directory"]
    assert done[0] == "file"


def dropped(where: object, **options: object) -> None:
    writer = orcidx.OrcWriter(where, TABLE.schema, compression="uncompressed", stripe_size=1 << 20, **options)  # type: ignore[arg-type]
    for _ in range(60):
        writer.write(TABLE)
    del writer
    gc.collect()


def test_a_dropped_writer_leaves_no_file(tmp_path: Path) -> None:
    dropped(tmp_path / "d.orc")
    assert names(tmp_path) == []


@pytest.mark.parametrize("kind", ["s3fs", "obstore"])
def test_a_dropped_writer_leaves_no_upload(kind: str) -> None:
    import s3fs

    with s3_bucket("dropped") as (options, log):
        if kind == "s3fs":
            dropped("s3://dropped/d.orc", storage_options=options)
        else:
            dropped("d.orc", filesystem=obstore_of(options["endpoint_url"], "dropped"))
        assert [one for one in log.requests if one[0] == "POST"], "an upload was begun"
        answer = s3fs.S3FileSystem(**options).call_s3("list_multipart_uploads", Bucket="dropped")
        assert not answer.get("Uploads")
        assert not s3fs.S3FileSystem(**options).find("dropped")


def test_a_process_that_ends_leaves_no_file(tmp_path: Path) -> None:
    code = (
        "import sys, pyarrow as pa, orcidx\n"
        "writer = orcidx.OrcWriter(sys.argv[1], pa.schema([('a', pa.int64())]))\n"
        "writer.write(pa.table({'a': [1]}))\n"
    )
    subprocess.run([sys.executable, "-P", "-c", code, str(tmp_path / "e.orc")], check=True, timeout=60)
    assert names(tmp_path) == []


FORK = """
import gc, os, sys, pyarrow as pa, orcidx
table = pa.table({"a": range(50_000)})
writer = orcidx.OrcWriter(sys.argv[1], table.schema, compression="uncompressed", stripe_size=1 << 12)
writer.write(table)
child = os.fork()
if not child:
    try:
        del writer
        gc.collect()
    finally:
        os._exit(0)
os.waitpid(child, 0)
writer.write(table)
writer.close()
"""


def test_a_forked_process_leaves_the_file_alone(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-P", "-c", FORK, str(tmp_path / "f.orc")], check=True, timeout=60)
    assert orcidx.open(tmp_path / "f.orc").read()["a"].to_pylist() == 2 * list(range(50_000))


@contextmanager
def full_disk(at: int) -> Iterator[None]:
    """Limits the size of files to ``at`` bytes. A larger write raises EFBIG, which is similar to ENOSPC on a full
    disk."""
    import signal

    old, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (at, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)


def into_dataset(path: Path, source: Path) -> None:
    orcidx.write_dataset(TABLE, path)


def merged(path: Path, source: Path) -> None:
    orcidx.rewrite([source, source], path, merge=True, overwrite=True)


FULL = {
    "write_table": lambda path, source: orcidx.write_table(TABLE, path, compression="uncompressed"),
    "rewrite": by_rewrite,
    "copy": by_copy,
    "merge": merged,
    "convert": lambda path, source: orcidx_convert(source, path),
    "write_file": lambda path, source: write_file(path, bytes(1 << 20)),
    "folder": lambda path, source: Folder(describe_source(str(path.parent))).put(path.name, bytes(1 << 20)),
    "created": lambda path, source: Folder(describe_source(str(path.parent))).create(path.name, bytes(1 << 20)),
}


def orcidx_convert(source: Path, path: Path) -> None:
    from orcidx.rewriting.convert import convert

    convert(str(source), str(path), target_format="csv", overwrite=True, progress=False)


@pytest.mark.parametrize("write", FULL.values(), ids=FULL.keys())
def test_a_full_disk_is_an_error_and_leaves_nothing(write: Writer, tmp_path: Path, source: Path) -> None:
    with full_disk(100_000), pytest.raises(StorageError):
        write(tmp_path / "t.orc", source)
    assert names(tmp_path) == []


def test_a_full_disk_leaves_the_file_that_was_there(tmp_path: Path, source: Path) -> None:
    path = tmp_path / "t.orc"
    for write in (by_writer, by_rewrite, by_copy):
        path.write_bytes(b"old")
        with full_disk(100_000), pytest.raises(StorageError):
            write(path, source)
        assert path.read_bytes() == b"old"
        assert names(tmp_path) == ["t.orc"]


def test_a_full_disk_in_a_data_set(tmp_path: Path) -> None:
    with full_disk(100_000), pytest.raises(StorageError):
        orcidx.write_dataset(TABLE, tmp_path / "set", compression="uncompressed")
    assert not [path for path in (tmp_path / "set").rglob("*") if path.is_file()]


def test_clean_lists_unfinished_uploads() -> None:
    import s3fs

    from orcidx.index_directory.clean import clean_indexes

    with s3_bucket("unfinished") as (options, _):
        filesystem = s3fs.S3FileSystem(**options)
        orcidx.write_table(TABLE, "s3://unfinished/set/a.orc", storage_options=options)
        for key in ("set/b.orc", "set/_orcidx/index/c", "setting/d.orc"):
            filesystem.call_s3("create_multipart_upload", Bucket="unfinished", Key=key)
        done = clean_indexes("s3://unfinished/set", older_than=0, storage_options=options)
        assert sorted(one.path for one in done.uploads) == ["_orcidx/index/c", "b.orc"]
        assert "2 unfinished uploads" in str(done)
        assert len(done.to_dict()["uploads"]) == 2
        assert "lifecycle rule" in str(done)
        assert not clean_indexes(
            "s3://unfinished/set", older_than=40 * 365 * 86400, storage_options=options
        ).uploads  # moto gives 2010 as the date of uploads


def modes_below(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*.orc")}


def test_rows_of_private_files_are_written_privately(tmp_path: Path) -> None:
    """If a source has mode 0600, a new file with its rows also gets mode 0600. The rows are those of a scan or an open
    file."""
    private, shared = tmp_path / "private.orc", tmp_path / "shared.orc"
    for path, mode in ((private, 0o600), (shared, 0o644)):
        orcidx.write_table(pa.table({"a": [1, 2]}), path)
        path.chmod(mode)
    for number, rows in enumerate((orcidx.scan([shared, private]), orcidx.open(private), orcidx.open(private).scan())):
        orcidx.write_table(rows, tmp_path / f"{number}.orc")
        orcidx.write_dataset(rows, tmp_path / f"d{number}")
        assert stat.S_IMODE((tmp_path / f"{number}.orc").stat().st_mode) == 0o600
        assert modes_below(tmp_path / f"d{number}") == {0o600}
    orcidx.write_table(orcidx.scan(shared), tmp_path / "s.orc")
    assert stat.S_IMODE((tmp_path / "s.orc").stat().st_mode) & 0o077
    assert sorted(orcidx.read_table(tmp_path / "d0")["a"].to_pylist()) == [1, 1, 2, 2]
    assert not list(tmp_path.rglob("*.tmp*"))


def test_an_overwritten_dataset_stays_private(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    orcidx.write_dataset(pa.table({"a": [1]}), folder)
    for path in folder.rglob("*.orc"):
        path.chmod(0o640)
    orcidx.write_dataset(pa.table({"a": [2]}), folder, mode="overwrite")
    assert modes_below(folder) == {0o640}
    assert orcidx.read_table(folder)["a"].to_pylist() == [2]


class Answers(MemoryFileSystem):
    """A file system whose methods return wrong results."""

    protocol = "answers"
    cachable = False
    answer: object = None

    def cat_file(self, path: str, start: Any = None, end: Any = None, **_: Any) -> Any:
        return self.answer


@pytest.mark.parametrize(("answer", "said"), [(None, "None"), ("text", "text")])
def test_answers_that_are_no_bytes(answer: object, said: str) -> None:
    orcidx.write_table(pa.table({"a": [1]}), "memory://answers/a.orc")
    unfinished = Answers()
    unfinished.answer = answer
    with pytest.raises(StorageError, match=f"returned {said} instead of bytes"):
        orcidx.open("/answers/a.orc", filesystem=unfinished)


def test_a_file_object_that_tells_no_size() -> None:
    file = io.BytesIO()
    file_like = type("Unfinished", (), {"seek": file.seek, "tell": lambda self: None, "read": file.read})()
    with pytest.raises(StorageError, match=r"tell\(\) of the file object returned None"):
        orcidx.open(file_like)
