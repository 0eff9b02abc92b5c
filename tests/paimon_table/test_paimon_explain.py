"""Explanations of table scans. Each number of the funnel says whether it counts all files or only opened files. The
bytes are those that a scan reads."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from paimon_empty import empty_table
from paimon_tables import PaimonTable

from orcidx import col
from orcidx.explain.explanation import Explanation
from orcidx.explain.model import UnlistedFiles
from orcidx.explain.page import explanation_page
from orcidx.explain.pictures import rows_ruled_out
from orcidx.orc.metadata_cache import forget_metadata
from orcidx.paimon import build_file_index, open_table
from orcidx.storage import ReadMetrics
from orcidx.storage.local import LocalReader

FILES, ROWS = 3, 30_000


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    return PaimonTable(tmp_path / "t")


def filled(table: PaimonTable, form: str, rows: int = ROWS) -> Any:
    """A table of three files with this number of rows each. The ids count from 0. Only the manifest's statistics of
    ``id`` can rule out files."""
    table.schema({0: ("id", "INT"), 1: ("v", "STRING")})
    for number in range(FILES):
        ids = range(number * rows, (number + 1) * rows)
        data = pa.table({"id": pa.array(ids, pa.int32()), "v": [f"{one * 2654435761 % 2**32:08x}" * 4 for one in ids]})
        table.add(f"data-{number}.{form}", data)
    table.commit()
    return open_table(table.path)


def read_counts(scan: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, int, int]:
    """Runs a scan for which no tail is cached. Returns its metrics, and the bytes and reads that all readers
    counted."""
    readers: list[LocalReader] = []
    counts: list[ReadMetrics] = []
    plain = LocalReader.__init__

    def noted(reader: LocalReader, *arguments: Any, **named: Any) -> None:
        plain(reader, *arguments, **named)
        readers.append(reader)

    def noted_counts() -> ReadMetrics:
        counts.append(ReadMetrics())
        return counts[-1]

    forget_metadata()
    with monkeypatch.context() as patch:
        patch.setattr(LocalReader, "__init__", noted)
        # A thread that reads whole files has a ``ReadMetrics`` of its own.
        patch.setattr("orcidx.scanner.opened_file.ReadMetrics", noted_counts)
        with scan.to_batches() as batches:
            list(batches)
    counts += [one.metrics for one in readers]
    return batches.metrics, sum(one.bytes_fetched for one in counts), sum(one.requests for one in counts)


@pytest.mark.parametrize("form", ["orc", "parquet"])
def test_the_funnel_says_which_files_were_opened(table: PaimonTable, form: str) -> None:
    """The manifests rule out two of three files. The numbers of rows include these two files, but the bytes do not. So
    the funnel must say for each number which files it counts."""
    opened = filled(table, form)
    told = opened.scan(None, "id = 5").explain()
    of = {stage.name: stage.of for stage in told.funnel}
    counted = dict.fromkeys(("stripes", "row groups", "bytes"), "opened files")
    assert of == {"files": "all files", "rows": "all files", **counted}
    sizes = {file.path: file.size for file in opened.files()}
    assert [file.opened for file in told.files] == [True, False, False]
    assert all(file.size == sizes[file.file] for file in told.files)
    left_out = sum(file.size for file in told.files[1:])
    found = told.to_dict()
    assert found["unopened"] == {"files": 2, "rows": 2 * ROWS, "bytes": left_out}
    assert [file["opened"] for file in found["files"]] == [True, False, False]
    assert told.skipped_by["file statistics"] == 2 * ROWS
    assert rows_ruled_out(told)["file statistics"] == 2 * ROWS
    lines = str(told).splitlines()
    assert any(line.startswith("  bytes ") and line.endswith(" % of the opened files") for line in lines)
    assert any(line.startswith("  rows ") and line.endswith(" %") for line in lines)
    assert any("; 2 files of " in line and line.endswith(" were not opened") for line in lines)
    page = explanation_page(told)
    assert "of the opened files" in page
    assert "2 files of" in page
    assert "were not opened" in told._repr_html_()


def test_no_file_is_opened(table: PaimonTable) -> None:
    told = filled(table, "orc").scan(None, "id = -1").explain()
    assert told.read_bytes == 0
    assert "3 files of" in str(told)
    assert [line.split("  ")[-1] for line in str(told).splitlines() if line.startswith("  bytes")] == [
        "of the opened files"
    ]
    assert told.to_dict()["unopened"]["files"] == 3


def test_all_files_are_opened(table: PaimonTable) -> None:
    told = filled(table, "orc").scan().explain()
    assert {stage.of for stage in told.funnel} == {"all files"}
    assert told.to_dict()["unopened"] == {"files": 0, "rows": 0, "bytes": 0}
    assert "opened files" not in str(told)
    assert "not opened" not in str(told)


@pytest.mark.parametrize("form", ["orc", "parquet"])
@pytest.mark.parametrize("where", ["id = 5", "id < 40000", "v = 'x'", None])
def test_every_read_of_a_data_file_is_counted(
    table: PaimonTable, form: str, where: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metrics of a scan include the tail of each ORC file and all reads of Parquet files."""
    scan = filled(table, form).scan(None, where)
    metrics, size, requests = read_counts(scan, monkeypatch)
    assert (metrics.bytes_read, metrics.requests) == (size, requests)
    assert size > 0 or where == "v = 'x'"


@pytest.mark.parametrize("columns", [None, ["id"], ["v"]])
def test_bytes_of_parquet_are_those_of_the_columns_that_are_read(
    table: PaimonTable, columns: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The explanation shows the bytes of the columns that are read, not those of the whole file."""
    opened = filled(table, "parquet")
    scan = opened.scan(columns, "id = 5")
    told = scan.explain()
    metrics, size, _ = read_counts(scan, monkeypatch)
    assert told.read_bytes == metrics.bytes_read == size
    everything = opened.scan(None, "id = 5").explain().funnel[-1].before
    assert (told.funnel[-1].before < everything) == (columns == ["id"])
    assert told.funnel[-1].after == told.funnel[-1].before < told.files[0].size


def test_a_parquet_file_without_rows_left_is_not_read(table: PaimonTable, monkeypatch: pytest.MonkeyPatch) -> None:
    table.schema({0: ("id", "INT")})
    data = pa.table({"id": pa.array(range(0, 2000, 2), pa.int32())})
    table.add("data.parquet", data)
    table.entries[0]["_FILE"]["_EMBEDDED_FILE_INDEX"] = build_file_index(data, {"bitmap": {"id": {}}}).to_bytes()
    table.commit()
    scan = open_table(table.path).scan(None, col("id") == 5)
    told = scan.explain()
    assert (told.files[0].kept_rows, told.read_bytes, told.funnel[-1].after) == (0, 0, 0)
    assert told.funnel[-1].before > 0
    assert read_counts(scan, monkeypatch)[1] == 0


@pytest.mark.parametrize("where", ["id = 5", "id < 40000", "v = 'x'", None])
def test_explain_gives_the_bytes_that_a_scan_counts(
    table: PaimonTable, where: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``explain`` gives the same number of bytes as the metrics of the scan. Both include the tails of ORC files."""
    opened = filled(table, "orc")
    time.sleep(0.2)  # tails of files that were just written are not kept in memory
    scan = opened.scan(["id"], where)
    forget_metadata()
    told = scan.explain().read_bytes
    metrics, _, _ = read_counts(scan, monkeypatch)
    assert told == metrics.bytes_read
    assert scan.explain().read_bytes == told


@pytest.mark.parametrize("columns", [None, ["tags"], ["id"]])
@pytest.mark.parametrize("where", ["id >= 0", "id = 2500", None])
def test_small_files_that_must_be_opened_are_read_once(
    table: PaimonTable, where: str | None, columns: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes of a small file are kept if it must be opened after it was read. Earlier, the scan read them twice."""
    table.schema({0: ("id", "INT"), 1: ("tags", {"type": "MAP", "key": "STRING", "value": "INT"})})
    for number in range(FILES):
        ids = range(number * 1000, (number + 1) * 1000)
        tags = pa.array([[(f"tag {one % 7}", one)] for one in ids], pa.map_(pa.string(), pa.int32()))
        table.add(f"data-{number}.orc", pa.table({"id": pa.array(ids, pa.int32()), "tags": tags}))
    table.commit()
    time.sleep(0.2)
    scan = open_table(table.path).scan(columns, where)
    forget_metadata()
    told = scan.explain().read_bytes
    metrics, _, _ = read_counts(scan, monkeypatch)
    assert told == metrics.bytes_read
    assert metrics.requests == (1 if where == "id = 2500" else FILES)


@pytest.mark.parametrize("form", ["orc", "parquet"])
@pytest.mark.parametrize("limit", [0, 5, ROWS, ROWS + 5])
def test_a_limit_is_explained(table: PaimonTable, form: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a scan with a limit, the explanation counts only the files that the scan opens. Earlier, it counted all
    files."""
    opened = filled(table, form)
    time.sleep(0.2)
    scan = opened.scan(["id"], limit=limit)
    forget_metadata()
    told = scan.explain()
    metrics, _, _ = read_counts(scan, monkeypatch)
    assert told.read_bytes == metrics.bytes_read
    stages = {one.name: (one.before, one.after) for one in told.funnel}
    assert stages["files"] == (FILES, -(-limit // ROWS))
    assert stages["rows"] == (FILES * ROWS, limit)
    assert [file.opened for file in told.files] == [number * ROWS < limit for number in range(FILES)]
    assert f"rows after the first {limit} are not read" in str(told)
    assert scan.to_table().num_rows == limit


def test_a_limit_with_a_condition_or_an_order_is_noted(table: PaimonTable) -> None:
    opened = filled(table, "orc")
    assert "the scan ends after 5 matching rows" in str(opened.scan(["id"], "id > 10", limit=5).explain())
    told = opened.scan(["id"], limit=5, top=["id"]).explain()
    assert "the first 5 rows by id ascending" in str(told)
    assert told.funnel[3].after == FILES * ROWS, "this is the most that the scan may read"


@pytest.mark.parametrize("columns", [["id"], ["v"]])
@pytest.mark.parametrize("key", ["id", "v"])
@pytest.mark.parametrize("rows", [100, ROWS])
def test_an_order_is_explained_with_its_sort_keys(
    table: PaimonTable, rows: int, key: str, columns: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sort keys are read even if they are not selected, and small files are read once. Earlier, the explanation
    counted only the selected columns, and the scan read small files twice."""
    opened = filled(table, "orc", rows)
    time.sleep(0.2)
    scan = opened.scan(columns, limit=5, top=[key])
    forget_metadata()
    told = scan.explain().read_bytes
    metrics, _, _ = read_counts(scan, monkeypatch)
    assert metrics.bytes_read <= 1.02 * told
    assert metrics.bytes_read == told or rows == ROWS


@pytest.mark.parametrize("partition", [1, 9])
def test_files_of_manifests_that_were_not_read_are_counted(tmp_path: Path, partition: int) -> None:
    """If the manifest list rules out a manifest, the manifest is not read. The explanation must still count the
    manifest's files, so that they are seen to be skipped."""
    empty_table(tmp_path, {"id": "BIGINT", "p": "INT"}, partition_keys=["p"])
    for number in range(3):
        rows = pa.table({"id": range(100), "p": pa.array([number] * 100, pa.int32())})
        open_table(tmp_path).append(rows)
    told = open_table(tmp_path).scan(None, f"p = {partition}").explain()
    kept = int(partition < 3)
    unlisted = UnlistedFiles(manifests=3 - kept, files=3 - kept, rows=300 - 100 * kept)
    assert told.unlisted == unlisted
    stages = {one.name: (one.before, one.after, one.of) for one in told.funnel}
    assert stages["files"] == (3, kept, "all files")
    assert stages["rows"] == (300, 100 * kept, "all files")
    assert stages["bytes"][2] == "opened files"
    assert told.skipped_by == {"partition range": unlisted.rows}
    assert rows_ruled_out(told) == {"other evidence": unlisted.rows}
    assert told.to_dict()["unlisted"] == {"manifests": 3 - kept, "files": 3 - kept, "rows": unlisted.rows}
    line = f"{3 - kept} manifests with {3 - kept} files of {unlisted.rows} rows were not read"
    assert line in str(told)
    assert line in told._repr_html_()
    assert open_table(tmp_path).scan(None, "id > 5").explain().unlisted is None


def test_a_manifest_list_without_numbers_of_files(tmp_path: Path) -> None:
    told = Explanation("p = 1", ("id",), (), unlisted=UnlistedFiles(2, None, 300))
    assert told.funnel[0].before == 0
    assert "2 manifests with their files were not read" in str(told)
    assert "the counts above lack some of these" in str(told)


@pytest.fixture(scope="module", params=itertools.product(["orc", "parquet"], [False, True]), ids=str)
def indexed_table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A table with file indexes, with and without deletion vectors. Returns its directory and the format."""
    form, deletes = request.param
    folder = tmp_path_factory.mktemp("indexed")
    options = {"file_index__bloom_filter__columns": "key", "deletion_vectors__enabled": "true", "file__format": form}
    options |= {"file_index__in_manifest_threshold": "1 B"}
    empty_table(folder, {"id": "BIGINT", "key": "BIGINT", "v": "STRING"}, **options)
    rng = np.random.default_rng(1)
    for number in range(2):
        ids = range(number * ROWS, (number + 1) * ROWS)
        words = [rng.bytes(16).hex() for _ in ids]  # random texts, so that the files are not small
        open_table(folder).append(pa.table({"id": ids, "key": rng.permutation(2 * ROWS)[:ROWS], "v": words}))
    if deletes:
        open_table(folder).delete(f"id = 5 OR id = {ROWS + 5}")
    time.sleep(0.2)
    return folder, form


@pytest.mark.parametrize("where", ["key = 17", "id = 17", None])
def test_reads_of_indexes_and_deletion_vectors_are_counted(
    indexed_table: tuple[Path, str], where: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads of file indexes and deletion vectors are counted in the metrics of a scan and in its explanation. An
    earlier version counted them in neither.
    """
    folder, form = indexed_table
    scan = open_table(folder).scan(["key"], where)
    forget_metadata()
    told = scan.explain()
    metrics, size, requests = read_counts(scan, monkeypatch)
    assert (metrics.bytes_read, metrics.requests) == (size, requests)
    assert told.read_bytes == pytest.approx(size, rel=0.01 if form == "orc" and where else 0)
