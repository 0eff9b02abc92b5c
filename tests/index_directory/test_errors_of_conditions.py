"""A condition raises the same errors with and without the indexes of a directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from indexed_directory import index_here

import orcidx
from orcidx import InvalidQuery, col

ROADS: dict[str, Callable[..., Any]] = {
    "table": lambda path, where, **more: orcidx.scan(path, where=where, **more).to_table(),
    "batches": lambda path, where, **more: list(orcidx.scan(path, where=where, **more)),
    "count": lambda path, where, **more: orcidx.scan(path, where=where, **more).count_rows(),
    "totals": lambda path, where, **more: orcidx.aggregate(path, {"n": "count(*)"}, where, **more),
    "splits": lambda path, where, **more: orcidx.scan(path, where=where, **more).splits(),
    "explain": lambda path, where, **more: orcidx.scan(path, where=where, **more).explain(),
    "top": lambda path, where, **more: orcidx.scan(path, where=where, top=["n"], limit=2, **more).to_table(),
}


def _directory(root: Path, files: int) -> Path:
    for number in range(files):
        values = range(100 * number, 100 * number + 100)
        table = pa.table({"A": values, "a": [1000 + one for one in values], "n": values})
        orcidx.write_table(table, root / f"{number}.orc")
    return root


@pytest.mark.parametrize("road", ROADS.values(), ids=list(ROADS))
@pytest.mark.parametrize("fresh", ["listing", "catalog"])
@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize("indexed", ["A", "a"])
def test_a_name_that_differs_from_another_only_in_case(
    tmp_path: Path, indexed: str, files: int, fresh: str, road: Callable[..., Any]
) -> None:
    """The files have the columns ``a`` and ``A``, and the index has one of them. If a scan compares names without
    regard to case, it must refuse both names as ambiguous. Earlier, the index ruled out all files, and no error was
    raised."""
    root = _directory(tmp_path, files)
    index_here(root, {"bloom-filter": {indexed: {"items": 100, "fpp": 0.01}}}, embedded_bytes=1 << 20)
    for name in ("a", "A"):
        for value in (7, 1007, -1):
            with pytest.raises(InvalidQuery, match=f"the column name '{name}' is ambiguous"):
                road(root, col(name) == value, case_sensitive=False, fresh=fresh)
    with pytest.raises(InvalidQuery, match="ambiguous"):
        road(root, (col("a") >= 0) & (col("n") >= 0), case_sensitive=False, fresh=fresh)


@pytest.mark.parametrize("road", ROADS.values(), ids=list(ROADS))
@pytest.mark.parametrize("files", [1, 2])
def test_a_wrong_part_beside_a_part_that_rules_out_every_file(
    tmp_path: Path, files: int, road: Callable[..., Any]
) -> None:
    root = _directory(tmp_path, files)
    index_here(root, {"bitmap": {"A": {}}})
    with pytest.raises(InvalidQuery, match="no column 'zz'"):
        road(root, (col("zz") == 1) & (col("A") == -1))
    with pytest.raises(InvalidQuery, match="cannot be compared with 'x'"):
        road(root, (col("n") == "x") & (col("A") == -1))


@pytest.mark.parametrize("fresh", ["listing", "catalog"])
def test_the_catalog_has_only_one_of_two_columns_of_a_later_file(tmp_path: Path, fresh: Any) -> None:
    """The second file has the columns ``a`` and ``A``, but the catalog has no statistics of ``A``, because the file has
    many columns. A scan without regard to case must refuse both names, and must not use the statistics of ``a``."""
    orcidx.write_table(pa.table({"A": [1, 2]}), tmp_path / "0.orc")
    wide = {"a": [5, 6], **{f"c{number}": [0, 0] for number in range(40)}, "A": [1, 2]}
    orcidx.write_table(pa.table(wide), tmp_path / "1.orc")
    index_here(tmp_path, {"bitmap": {"c1": {}}})
    for name in ("a", "A"):
        with pytest.raises(InvalidQuery, match="ambiguous"):
            orcidx.scan(tmp_path, where=col(name) == 2, case_sensitive=False, fresh=fresh).count_rows()
    assert orcidx.scan(tmp_path, where=col("A") == 2, fresh=fresh).count_rows() == 2


def test_another_spelling_still_rules_out_files(tmp_path: Path) -> None:
    for number in range(3):
        orcidx.write_table(pa.table({"Id": [number, number]}), tmp_path / f"{number}.orc")
    index_here(tmp_path, {"bitmap": {"Id": {}}})
    for sources in (tmp_path, tmp_path / "1.orc"):
        scan = orcidx.scan(sources, where="ID = 1", case_sensitive=False)
        assert scan.to_table().column("Id").to_pylist() == [1, 1]
        batches = orcidx.scan(tmp_path, where="ID = 1", case_sensitive=False).to_batches()
        assert sum(batch.num_rows for batch in batches) == 2
        assert batches.metrics.files_skipped == 2


def test_the_order_of_top_has_an_ambiguous_name(tmp_path: Path) -> None:
    """A scan with ``top`` must refuse an ambiguous name. Earlier, only a scan of several stripes did so. For one
    stripe, the rows were returned in the order of the column that has exactly this name."""
    root = _directory(tmp_path, 2)
    for sources in (root, root / "0.orc"):
        scan = orcidx.scan(sources, ["a"], top=[("a", "desc")], limit=1, case_sensitive=False)
        for road in (scan.to_table, scan.explain):
            with pytest.raises(InvalidQuery, match="ambiguous"):
                road()
        exact = orcidx.scan(sources, ["a"], top=[("a", "desc")], limit=1)
        assert exact.to_table().num_rows == 1
