"""Compares ``explain`` of a directory with rows that are counted by hand and by Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from indexed_directory import index_here
from pyarrow import orc

import orcidx.spark
from orcidx import InvalidQuery, Unsupported
from orcidx.spark.jobs import explaining

SPEC = {"bitmap": {"city": {}}, "bloom-filter": {"user": {"items": 5000, "fpp": 0.001}}}
FILES, ROWS = 12, 5000


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes files. ``id`` grows from file to file, and ``user`` and ``city`` are scattered. File 11 has no index, and
    ``a.orc`` is corrupt."""
    root = tmp_path_factory.mktemp("explained")
    rng = np.random.default_rng(5)
    for number in range(FILES):
        folder = root / f"day={number // 4}"
        folder.mkdir(exist_ok=True)
        if number == FILES - 1:
            index_here(root, SPEC)
        rows = pa.table(
            {
                "id": pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64()),
                "user": pa.array(rng.choice(1_000_000, ROWS, replace=False) * 12 + number, pa.int64()),
                "city": [f"city{(n * 7 + number) % 13}" for n in range(ROWS)],
            }
        )
        with orc.ORCWriter(str(folder / f"{number:02}.orc"), row_index_stride=1000) as writer:
            writer.write(rows)
    (root / "a.orc").write_bytes(b"nonsense")
    return root


def funnel(found: Any) -> dict[str, tuple[int, int]]:
    return {stage.name: (stage.before, stage.after) for stage in found.funnel}


@pytest.mark.parametrize("in_tasks", [False, True])
def test_the_funnel_and_what_each_evidence_does(
    spark: Any, directory: Path, monkeypatch: pytest.MonkeyPatch, in_tasks: bool
) -> None:
    monkeypatch.setattr(explaining, "EXAMINED_FILES", 0 if in_tasks else 100)
    found = orcidx.spark.explain(spark, str(directory), "ID >= 18000 AND city = 'city5' AND day < 2")
    rows = {row["path"]: row for row in found.files.to_pylist()}
    of_city = [sum((n * 7 + number) % 13 == 5 for n in range(ROWS)) for number in range(FILES)]
    assert [rows[f"day={number // 4}/{number:02}.orc"]["kept_rows"] for number in range(4, 8)] == of_city[4:8]
    assert rows["day=0/00.orc"]["skipped_by"] == "file statistics (catalog)"
    assert rows["day=2/10.orc"]["skipped_by"] == "partition"
    assert rows["a.orc"]["skipped_by"] == "partition"
    assert funnel(found)["files"] == (FILES + 1, 5)
    assert funnel(found)["rows"][0] == 11 * ROWS, "rows of files that were not opened are not known"
    assert funnel(found)["row groups"][0] == 5 * 5
    assert {stage.name: stage.of for stage in found.funnel} == {
        "files": "all files",
        "rows": "all files",
        **dict.fromkeys(("stripes", "row groups", "bytes"), "opened files"),
    }
    left = [row["size"] for row in rows.values() if not row["opened"]]
    assert found.to_dict()["unopened"] == {"files": len(left), "bytes": sum(left)}
    assert len(left) == FILES + 1 - 5
    assert "files of" in str(found)
    assert "not opened" in str(found)
    opened = sum(row["size"] for row in rows.values() if row["opened"])
    assert 0 < funnel(found)["bytes"][1] <= funnel(found)["bytes"][0] < opened
    alone = {one.name: one for one in found.alone}
    assert alone["bitmap index of city"].files == 11
    assert alone["bitmap index of city"].kept_rows == sum(of_city[:11])
    assert alone["bloom-filter index of user"].kept_rows == 11 * ROWS
    assert (alone["partition"].skipped_files, alone["partition"].kept_rows) == (5, 8 * ROWS)
    assert alone["file statistics (catalog)"].skipped_files == 3
    assert next(iter(found.skipped_by)) in ("partition", "file statistics (catalog)", "Paimon bitmap index")


def test_what_rules_out_without_partitions_has_its_own_name(spark: Any, tmp_path: Path) -> None:
    """In a directory without partitions, ``explain`` never names "partition" as the reason why a file is skipped."""
    orc.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "a.orc")
    orc.write_table(pa.table({"id": pa.array([], pa.int64())}), tmp_path / "none.orc")
    index_here(tmp_path, {"bitmap": {"id": {}}})
    found = orcidx.spark.explain(spark, str(tmp_path), "id = 7 OR id = 0")
    told = {row["path"]: row["skipped_by"] for row in found.files.to_pylist()}
    assert told == {"a.orc": "file statistics (catalog)", "none.orc": "no rows in the file"}
    assert "partition" not in {one.name for one in found.alone}


def test_nothing_that_matches_is_ruled_out(spark: Any, directory: Path, tmp_path: Path) -> None:
    for path in directory.glob("*/*.orc"):
        (tmp_path / path.parent.name).mkdir(exist_ok=True)
        (tmp_path / path.parent.name / path.name).write_bytes(path.read_bytes())
    index_here(tmp_path, SPEC)
    user = orc.read_table(tmp_path / "day=1" / "06.orc")["user"][77].as_py()
    for where in (f"user = {user}", "id = 12345", f"user = {user} OR id BETWEEN 40000 AND 40010", "city = 'nowhere'"):
        found = orcidx.spark.explain(spark, tmp_path, where)
        expected = spark.read.orc(str(tmp_path)).where(where).count()
        kept = funnel(found)["rows"][1]
        assert expected <= kept <= expected + 6 * 1000, where
        assert orcidx.spark.read(spark, tmp_path, where=where).count() == expected
        bloom = next(one for one in found.alone if one.name == "bloom-filter index of user")
        assert bloom.skipped_files == (11 if where == f"user = {user}" else 0)


def test_it_is_shown_as_text_data_and_page(spark: Any, directory: Path, tmp_path: Path) -> None:
    found = orcidx.spark.explain(spark, str(directory), "user = 5 AND id < 60000")
    text = str(found)
    assert text.splitlines()[0].startswith("where (col('user') == 5) & (col('id') < 60000): ")
    assert "each evidence alone" in text
    assert "CorruptFile: not an ORC file" in text
    assert "2 of 13 files are not in the catalog" in text
    assert json.loads(json.dumps(found.to_dict()))["funnel"][0]["before"] == FILES + 1
    found.save(tmp_path / "page.html")
    assert "<td>bloom-filter index of user</td>" in (tmp_path / "page.html").read_text()


def test_without_indexes_it_tells_what_orc_itself_does(spark: Any, tmp_path: Path) -> None:
    for number in range(3):
        orc.write_table(pa.table({"id": range(number * 100, number * 100 + 100)}), tmp_path / f"{number}.orc")
    found = orcidx.spark.explain(spark, tmp_path, "id = 150")
    assert funnel(found)["files"] == (3, 1)
    assert {stage.of for stage in found.funnel} == {"all files"}
    assert "not opened" not in str(found)
    scanned = orcidx.scan(tmp_path, where="id = 150").explain()
    assert funnel(found)["bytes"] == funnel(scanned)["bytes"], "the bytes are those of columns, not of files"
    assert [one.name for one in found.alone] == ["ORC statistics and bloom filters"]
    assert found.skipped_by == {"file statistics": 200}


def test_what_cannot_be_explained(spark: Any, directory: Path) -> None:
    with pytest.raises(InvalidQuery, match="not a directory"):
        orcidx.spark.explain(spark, str(directory / "day=0" / "00.orc"), "id = 1")
    with pytest.raises(InvalidQuery, match="describe"):
        orcidx.spark.explain(spark, str(directory), None)
    table = Path(__file__).parent.parent / "fixtures/paimon/tables/db.db/append_dv32"
    with pytest.raises(Unsupported, match="open_table"):
        orcidx.spark.explain(spark, str(table), "id = 1")


def test_a_note_says_that_indexes_are_not_used_for_positions(spark: Any, tmp_path: Path) -> None:
    """If all columns of the files have names like _col0, Spark finds the columns of a given schema by position. A note
    says that indexes are not used for this reason."""
    orc.write_table(pa.table({"_col0": [1], "_col1": [2]}), tmp_path / "0.orc")
    index_here(tmp_path, {"bitmap": {"_col0": {}}})
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
    told = 'match="position" does not find columns by their names'
    assert told in str(orcidx.spark.explain(spark, str(tmp_path), "id = 1", schema=schema))
    frame = orcidx.spark.read(spark, str(tmp_path), where="id = 1", schema=schema, limit=5)
    assert [tuple(row) for row in frame.collect()] == [(1, 2)]
    assert told in str(orcidx.spark.why(frame))
