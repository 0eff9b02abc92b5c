"""Options and calendars that change the values that a scan of a table reads. Manifests and indexes must not rule out
matching rows with such options."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest
from java_footers import as_java_writes
from paimon_tables import PaimonTable, serialized

import orcidx
from orcidx import col
from orcidx.errors import InvalidQuery
from orcidx.paimon import build_file_index, open_table

NAMES = serialized(["INT", "STRING"], [0, "b"])
JULY = 1_593_561_600_000_000
"""2020-07-01 in microseconds. The option ``timezone`` changes the times of this day by an hour."""


def _texts(values: list[bytes]) -> pa.Array:
    return pa.array(values, pa.binary()).view(pa.string())


@pytest.fixture
def times(tmp_path: Path) -> PaimonTable:
    made = PaimonTable(tmp_path / "times")
    made.schema({0: ("id", "INT"), 1: ("at", "TIMESTAMP(6)")})
    for i, moment in enumerate([JULY, JULY + 10_000_000_000]):
        at = pa.array([moment, moment + 1_000_000], pa.timestamp("us"))
        rows = pa.table({"id": pa.array([2 * i, 2 * i + 1], pa.int32()), "at": at})
        index = build_file_index(rows, {"range-bitmap": {"at": {}}}, types={"id": "INT", "at": "TIMESTAMP(6)"})
        made.add(f"data-{i}.orc", rows, _EMBEDDED_FILE_INDEX=index.to_bytes())
    made.commit()
    return made


def test_zone_of_the_option(times: PaimonTable) -> None:
    """With the option ``timezone``, a scan reads other timestamps than those in manifests and indexes."""
    table = open_table(times.path)
    options: dict[str, Any] = {"timezone": "Europe/Oslo"}
    at = table.scan(["at"], **options).to_table()["at"].to_pylist()
    assert at[0] != table.scan(["at"]).to_table()["at"].to_pylist()[0]
    first = (col("at") > at[0]) & (col("id") < 2)
    for where, ids in [(col("at") == at[0], [0]), (col("at") >= at[2], [2, 3]), (first, [1])]:
        assert table.scan(["id"], where, **options).to_table()["id"].to_pylist() == ids
        assert table.scan(["id"], where, top=["id"], limit=4, **options).to_table()["id"].to_pylist() == ids
        assert table.scan(["id"], where, **options).count_rows() == len(ids)
        assert table.aggregate({"n": "count(*)"}, where, **options)["n"].to_pylist() == [len(ids)]
    assert len(table.scan(["id"], (col("at") == at[0]) & (col("id") == 1), **options).plan.tasks) == 1
    with pytest.raises(InvalidQuery):
        table.scan(["id"], col("at") == "noon", **options)


def test_options_are_made_once(times: PaimonTable) -> None:
    """Scans with the same keywords share their options. Checking all options again for each scan, and computing their
    cache key again, took 5 % of the instructions of scanning a table with one file."""
    table = open_table(times.path)
    assert table.scan().options is table.scan().options
    assert table.scan(use_threads=False).options is table.scan(use_threads=False).options


def test_zone_of_the_option_with_a_partition(tmp_path: Path) -> None:
    made = PaimonTable(tmp_path / "table")
    made.schema({0: ("id", "INT"), 1: ("at", "TIMESTAMP(6)")}, partition_keys=("at",))
    rows = pa.table({"id": pa.array([1], pa.int32()), "at": pa.array([JULY], pa.timestamp("us"))})
    partition = serialized(["TIMESTAMP(6)"], [(JULY // 1000, 0)])
    made.add("data-0.orc", rows, directory="at=2020-07-01T00%3A00/bucket-0", partition=partition)
    made.commit()
    table = open_table(made.path)
    at = table.scan(timezone="Europe/Oslo").to_table()["at"][0].as_py()
    assert table.scan(where=col("at") == at, timezone="Europe/Oslo").count_rows() == 1
    assert table.scan(where=col("at") == at).count_rows() == 0


def test_replaced_text(tmp_path: Path) -> None:
    """With ``utf8="replace"``, bytes of the file and its manifest that are not UTF-8 are read as U+FFFD."""
    made = PaimonTable(tmp_path / "table")
    made.schema({0: ("id", "INT"), 1: ("name", "STRING")})
    rows = pa.table({"id": pa.array([0, 1], pa.int32()), "name": _texts([b"a\xff", b"b"])})
    pyarrow.orc.write_table(rows, tmp_path / "rows.orc")
    index = build_file_index(str(tmp_path / "rows.orc"), {"range-bitmap": {"name": {}}}, utf8="unchecked")
    stats = {"_MIN_VALUES": serialized(["INT", "BYTES"], [0, b"a\xff"]), "_MAX_VALUES": NAMES, "_NULL_COUNTS": [0, 0]}
    made._stats = lambda *_: stats  # type: ignore[method-assign]  # pyarrow cannot compute statistics of these texts
    made.add("data-0.orc", rows, _EMBEDDED_FILE_INDEX=index.to_bytes())
    made.commit()
    table = open_table(made.path)
    for where, ids in [(col("name") == "a\ufffd", [0]), (col("name") < "a\ufffe", [0]), (col("name") > "a", [0, 1])]:
        assert table.scan(["id"], where, utf8="replace").to_table()["id"].to_pylist() == ids
        top = table.scan(["id"], where, top=["name"], limit=3, utf8="replace")
        assert top.to_table()["id"].to_pylist() == ids


@pytest.mark.parametrize("calendar", ["proleptic", "stored"])
def test_daysas_java_writes(tmp_path: Path, calendar: Any) -> None:
    """Paimon's Java library writes days of the proleptic calendar, although the footer names the hybrid calendar. Scans
    of a table must return the original days."""
    days = [
        datetime.date(1500, 1, 1),
        datetime.date(1582, 10, 4),
        datetime.date(1582, 10, 15),
        datetime.date(2020, 1, 1),
    ]
    made = PaimonTable(tmp_path / "table")
    made.schema({0: ("id", "INT"), 1: ("day", "DATE")})
    rows = pa.table({"id": pa.array(range(4), pa.int32()), "day": pa.array(days)})
    entry = made.add("data-0.orc", rows)
    path = made.path / "bucket-0" / "data-0.orc"
    orcidx.write_table(rows, path, compression="none")
    path.write_bytes(as_java_writes(path.read_bytes()))
    assert orcidx.open(path).read(["day"])["day"].to_pylist() != days
    entry["_FILE"]["_FILE_SIZE"] = path.stat().st_size
    made.commit()
    table = open_table(made.path)
    assert table.scan(["day"], calendar=calendar).to_table()["day"].to_pylist() == days
    for i, day in enumerate(days):
        column = col("day")
        for where, ids in {
            column == day: [i], column != day: [n for n in range(4) if n != i], column < day: list(range(i)),
            column >= day: list(range(i, 4)), (column == day) | (col("id") == 0): sorted({0, i}),
            column.is_in([day, days[0]]): sorted({0, i}), column.function("year") == day.year: [
                n for n in range(4) if days[n].year == day.year
            ],
        }.items():  # fmt: skip
            assert table.scan(["id"], where, calendar=calendar).to_table()["id"].to_pylist() == ids
            assert table.scan(["id"], where, calendar=calendar).count_rows() == len(ids)
            found = table.aggregate({"n": "count(*)", "least": "min(day)"}, where, calendar=calendar).to_pylist()
            assert found == [{"n": len(ids), "least": min((days[n] for n in ids), default=None)}]
    top = table.scan(["day"], top=["day"], limit=2, calendar=calendar)
    assert top.to_table()["day"].to_pylist() == days[:2]
