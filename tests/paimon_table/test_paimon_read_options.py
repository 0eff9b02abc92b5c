"""Options that change what a scan of a table reads. Manifests and file indexes must not lose rows with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest
from paimon_tables import PaimonTable, serialized

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
    """The option ``timezone`` gives timestamps that manifests and indexes do not have."""
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
    """With ``utf8="replace"`` a scan reads U+FFFD where the file and its manifest have bytes that are not UTF-8."""
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
