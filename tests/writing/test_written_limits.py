"""The writer refuses to write a file that the reader cannot open with default options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import orcidx
from orcidx.orc.metadata_checks import DEEPEST_NESTING
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.types import MOST_VARIANTS

COLUMNS = 30


def in_structs(levels: int) -> pa.Array:
    array: pa.Array = pa.array([1])
    for _ in range(levels - 1):
        array = pa.StructArray.from_arrays([array], ["x"])
    return array


def in_lists(levels: int) -> pa.Array:
    array: pa.Array = pa.array([1])
    for _ in range(levels - 1):
        array = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), array)
    return array


def in_maps(levels: int) -> pa.Array:
    array: pa.Array = pa.array([1])
    for _ in range(levels - 1):
        array = pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["k"]), array)
    return array


def union(variants: int) -> pa.Array:
    return pa.UnionArray.from_sparse(pa.array([variants - 1], pa.int8()), [pa.array([1])] * variants)


def wide(columns: int) -> pa.Table:
    """Returns a table with ``columns`` columns, including nested ones."""
    children = [pa.array([True])] * (columns - 1)
    return pa.table({"s": pa.StructArray.from_arrays(children, [str(i) for i in range(columns - 1)])})


def by_table(table: pa.Table, root: Path) -> Path:
    root.mkdir(exist_ok=True)
    orcidx.write_table(table, root / "a.orc", use_threads=False)
    return root / "a.orc"


def by_writer(table: pa.Table, root: Path) -> Path:
    root.mkdir(exist_ok=True)
    with orcidx.OrcWriter(root / "a.orc", table.schema, use_threads=False) as writer:
        writer.write(table)
    return root / "a.orc"


def by_dataset(table: pa.Table, root: Path) -> Path:
    orcidx.write_dataset(table, root / "set")
    (path,) = (root / "set").rglob("*.orc")
    return path


WRITERS = pytest.mark.parametrize("write", [by_table, by_writer, by_dataset])


@WRITERS
@pytest.mark.parametrize("make", [in_structs, in_lists, in_maps])
def test_the_deepest_types_are_written_and_read_and_deeper_ones_refused(
    write: Callable[[pa.Table, Path], Path], make: Callable[[int], pa.Array], tmp_path: Path
) -> None:
    table = pa.table({"a": make(DEEPEST_NESTING)})
    assert orcidx.open(write(table, tmp_path)).read().num_rows == 1
    with pytest.raises(orcidx.Unsupported, match=f"deeper than {DEEPEST_NESTING} levels.*flatten"):
        write(pa.table({"a": make(DEEPEST_NESTING + 1)}), tmp_path / "deeper")
    assert not list(tmp_path.glob("deeper/**/*.orc"))


@pytest.mark.parametrize("write", [by_table, by_writer])
def test_unions_are_written_with_as_many_variants_as_are_read(
    write: Callable[[pa.Table, Path], Path], tmp_path: Path
) -> None:
    table = pa.table({"u": union(MOST_VARIANTS)})
    assert orcidx.open(write(table, tmp_path)).read()["u"].to_pylist() == [1]
    with pytest.raises(orcidx.Unsupported, match=f"{MOST_VARIANTS + 1} variants.*at most {MOST_VARIANTS}"):
        write(pa.table({"u": union(MOST_VARIANTS + 1)}), tmp_path / "more")
    assert not list(tmp_path.glob("more/**/*.orc"))


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets limits of the writer and the reader that small files can reach."""
    limits = MetadataLimits(metadata_columns=COLUMNS, metadata_stripes=3, metadata_bytes=1 << 16)
    monkeypatch.setattr(MetadataLimits, "for_file", lambda self, size: limits)


@pytest.mark.usefixtures("tight")
@WRITERS
def test_small_files_are_written_with_as_many_columns_as_are_read(
    write: Callable[[pa.Table, Path], Path], tmp_path: Path
) -> None:
    path = write(wide(COLUMNS), tmp_path)
    assert len(orcidx.open(path).schema.field("s").type) == COLUMNS - 1
    orcidx.rewrite(path, tmp_path / "again.orc")
    assert orcidx.open(tmp_path / "again.orc").num_rows == 1
    with pytest.raises(orcidx.Unsupported, match=r"metadata_columns.*With default options.*write more rows"):
        write(wide(COLUMNS + 1), tmp_path / "more")
    assert not list(tmp_path.glob("more/**/*.orc"))


@pytest.mark.usefixtures("tight")
def test_small_files_are_written_with_as_many_stripes_as_are_read(tmp_path: Path) -> None:
    for stripes in (3, 4):
        path = tmp_path / f"{stripes}.orc"
        writer = orcidx.OrcWriter(path, pa.schema({"a": pa.int64()}))
        for _ in range(stripes):
            writer.write(pa.table({"a": [1]}))
            writer.end_stripe()
        if stripes == 3:
            writer.close()
            assert orcidx.open(path).nstripes == 3
        else:
            with pytest.raises(orcidx.Unsupported, match=r"4 stripes.*metadata_stripes.*larger stripes"):
                writer.close()
            assert not path.exists()


@pytest.mark.usefixtures("tight")
def test_metadata_that_would_not_be_read_is_not_written(tmp_path: Path) -> None:
    table = pa.table({"a": [1]})
    with pytest.raises(orcidx.Unsupported, match="metadata_bytes"):
        orcidx.write_table(table, tmp_path / "a.orc", metadata={"k": bytes(1 << 17)})
    assert not (tmp_path / "a.orc").exists()
