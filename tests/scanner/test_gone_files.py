"""Files that are listed, but deleted before a scan reads them. ``explain`` and ``report`` name these files, and a read
raises an error."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from click.testing import CliRunner

import orcidx
from orcidx import FileGone, StorageError
from orcidx.cli import _orcidx as command
from orcidx.cli import report as cli_report

SAID = r"no longer exists: it was deleted or replaced after it was listed or opened.*{}\.orc"


def written(folder: Path, count: int = 3, rows: int = 10) -> Path:
    folder.mkdir()
    for number in range(count):
        table = pa.table({"id": range(number * rows, number * rows + rows), "s": ["x"] * rows})
        orcidx.write_table(table, folder / f"{number}.orc")
    return folder


async def gathered(scan: Any) -> int:
    return sum([batch.num_rows async for batch in scan])


READS: dict[str, Any] = {
    "to_table": lambda scan: scan.to_table(),
    "where": lambda scan: scan.filter("id >= 0").to_table(),
    "batches": lambda scan: list(scan),
    "awaited": lambda scan: asyncio.run(gathered(scan)),
    "count": lambda scan: scan.count_rows(),
    "count where": lambda scan: scan.filter("s = 'x'").count_rows(),
    "totals": lambda scan: scan.aggregate({"n": "sum(id)"}),
    "stripes": lambda scan: list(scan.stripes()),
    "splits": lambda scan: scan.splits(),
    "limit": lambda scan: scan.limit(29).to_table(),
    "pickled": lambda scan: pickle.loads(pickle.dumps(scan)).to_table(),
}


@pytest.mark.parametrize("gone", [0, 1])
@pytest.mark.parametrize("read", READS)
def test_a_read_says_which_file_is_gone(tmp_path: Path, read: str, gone: int) -> None:
    """A read of a deleted file raises ``FileGone``. A plain ``FileNotFoundError`` would mean that the caller named a
    file that does not exist."""
    folder = written(tmp_path / "d")
    scan = orcidx.scan(folder)
    (folder / f"{gone}.orc").unlink()
    with pytest.raises(FileGone, match=SAID.format(gone)) as caught:
        READS[read](scan)
    assert isinstance(caught.value, StorageError)
    assert isinstance(caught.value, FileNotFoundError)


def test_other_reads_say_which_file_is_gone(tmp_path: Path) -> None:
    folder = written(tmp_path / "d")
    top = orcidx.scan(folder, top=["id"], limit=25)
    data = orcidx.dataset(folder)
    splits = [pickle.loads(pickle.dumps(one)) for one in orcidx.scan(folder).splits()]
    opened = orcidx.open(folder / "1.orc")
    scan, copy = opened.scan(), pickle.dumps(opened)
    (folder / "1.orc").unlink()
    for read in (
        top.to_table,
        data.to_table,
        data.count_rows,
        lambda: [split.scan().to_table() for split in splits],
        scan.to_table,
        lambda: pickle.loads(copy),
    ):
        with pytest.raises(FileGone, match=r"1\.orc"):
            read()
    with pytest.raises(FileNotFoundError) as caught:
        orcidx.open(folder / "1.orc")
    assert not isinstance(caught.value, FileGone)  # not FileGone, because the caller named this file


@pytest.mark.parametrize(
    "asked", [{}, {"where": "id >= 15"}, {"limit": 25}, {"top": ["id"], "limit": 5}, {"columns": ["s"]}]
)
@pytest.mark.parametrize("gone", [(0,), (1,), (0, 1), (2,), (0, 1, 2)])
def test_explain_goes_on_without_a_file_that_is_gone(tmp_path: Path, asked: Any, gone: tuple[int, ...]) -> None:
    folder = written(tmp_path / "d")
    scan = orcidx.scan(folder, **asked)
    for number in gone:
        (folder / f"{number}.orc").unlink()
    found = scan.explain()
    assert [Path(file.file).name for file in found.files] == ["0.orc", "1.orc", "2.orc"]
    told = [number for number, file in enumerate(found.files) if any(note.kind == "gone" for note in file.notes)]
    assert told == list(gone)
    assert sum(file.rows for file in found.files) == 10 * (3 - len(gone))
    assert "no longer exists" in str(found)
    assert "gone" in str(found.to_dict())


def test_a_report_goes_on_without_a_file_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "d")
    listing = cli_report.list_files

    def listed(*given: Any) -> Any:
        found = listing(*given)
        (folder / "1.orc").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(cli_report, "list_files", listed)
    page = tmp_path / "page.html"
    done = CliRunner().invoke(command, ["report", str(folder), "--where", "id > 5", "-o", str(page)])
    assert (done.exception, done.exit_code) == (None, 0)
    assert "no longer exists" in page.read_text()
    for path in folder.iterdir():
        path.unlink()
    written(tmp_path / "e", 2)
    monkeypatch.setattr(cli_report, "list_files", lambda *given: [*map(_dropped, listing(*given))])
    assert isinstance(CliRunner().invoke(command, ["report", str(tmp_path / "e"), "-o", str(page)]).exception, FileGone)


def _dropped(source: Any) -> Any:
    Path(source.location).unlink()
    return source


@pytest.mark.parametrize("opens_first", [False, True])
def test_a_remote_file_that_is_gone(opens_first: bool) -> None:
    memory = fsspec.filesystem("memory")
    for number in range(12):  # 8 files are opened ahead
        orcidx.write_table(pa.table({"id": range(10)}), f"memory://gone/{number:02}.orc")
    scan = orcidx.scan("memory://gone/", batch_size=10)
    batches = scan.to_batches() if opens_first else None
    if batches is not None:
        next(batches)
    for path in memory.ls("/gone", detail=False):
        memory.rm(path)
    with pytest.raises(FileGone, match=r"no longer exists.*\d\d\.orc"):
        list(batches if batches is not None else scan)
    assert [note.kind for note in scan.explain().notes] == ["gone"] * 12
