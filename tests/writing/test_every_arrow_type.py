"""Functions that write, read or convert tables are called with every Arrow type. Each call returns the original values,
or raises an error of orcidx. No other error is raised."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from writing.arrow_arrays import ARRAYS, NOT_WRITTEN, OwnType, stored

import orcidx
from orcidx.paimon import build_file_index
from orcidx.rewriting.convert import convert

pl = pytest.importorskip("polars")

duckdb = pytest.importorskip("duckdb")


@pytest.fixture(autouse=True, scope="module")
def _own_type() -> Iterator[None]:
    pa.register_extension_type(OwnType(pa.int64()))
    yield
    pa.unregister_extension_type("orcidx.tests.own")


def rewritten(path: Path, **how: Any) -> Any:
    target = path.with_name("rewritten.orc")
    orcidx.rewrite([path, path] if how.get("merge") else path, target, overwrite=True, **how)
    return orcidx.read_table(target)


def converted(path: Path, ending: str) -> None:
    convert(path, path.with_suffix(ending), overwrite=True)


def spread(table: pa.Table, path: Path, *, by: str | tuple[str, ...] = ()) -> Any:
    folder = path.with_name(f"spread{by}")
    orcidx.write_dataset(table, folder, partition_by=by, mode="overwrite")
    return orcidx.scan(folder, ["k", "x"]).to_table().sort_by("k")


WRITERS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "table": lambda table, path: orcidx.write_table(table, path),
    "slice": lambda table, path: orcidx.write_table(table.slice(1), path.with_name("slice.orc")),
    "chunks": lambda table, path: orcidx.write_table(
        pa.concat_tables([table.slice(1), table.slice(0, 1), table.slice(0, 0)]), path.with_name("chunks.orc")
    ),
    "nothing": lambda table, path: orcidx.write_table(table.slice(0, 0), path.with_name("nothing.orc")),
}
READERS: dict[str, Callable[[Path], Any]] = {
    "read": lambda path: orcidx.open(path).read(),
    "views": lambda path: orcidx.open(path).read(strings="view"),
    "dictionaries": lambda path: orcidx.open(path).read(strings="dictionary"),
    "scan": lambda path: orcidx.scan([path]).to_table(),
    "head": lambda path: orcidx.open(path).head(9),
    "iter_batches": lambda path: pa.Table.from_batches(list(orcidx.open(path).iter_batches(1))),
    "rows": lambda path: orcidx.open(path).read(selection=list(range(orcidx.open(path).num_rows))),
    "by another": lambda path: orcidx.read_table(path, where="k >= 0"),
    "top by another": lambda path: orcidx.scan(path, top=["k"], limit=9, columns=["k", "x"]).to_table(),
    "dataset": lambda path: orcidx.dataset(path).to_table(),
    "dataset head": lambda path: orcidx.dataset(path).head(9),
    "dataset take": lambda path: orcidx.dataset(path).take(list(range(orcidx.open(path).num_rows))),
    "stream": lambda path: pa.table(orcidx.scan(path)),
    "rewrite": lambda path: rewritten(path),
    "sort by another": lambda path: rewritten(path, sort_by="k", compression="zlib"),
    "merge": lambda path: rewritten(path, merge=True, row_index_stride=1000).slice(orcidx.open(path).num_rows),
}
"""Calls that return all rows in their order."""
OTHERS: dict[str, Callable[[Path], Any]] = {
    "polars": lambda path: orcidx.scan_polars(path).collect(),
    "to_polars": lambda path: orcidx.open(path).to_polars(),
    "pandas": lambda path: orcidx.open(path).to_pandas(),
    "duckdb": lambda path: orcidx.scan(path).to_duckdb().to_arrow_table(),
    "count": lambda path: orcidx.scan(path, where="x IS NOT NULL").count_rows(),
    "null": lambda path: orcidx.read_table(path, where="x IS NULL"),
    "computed": lambda path: orcidx.read_table(path, where="k + 0 >= k"),
    "explain": lambda path: str(orcidx.scan(path, where="x IS NULL").explain()),
    "equal": lambda path: orcidx.read_table(path, where=orcidx.col("x") == orcidx.open(path).read()["x"][0]),
    "isin": lambda path: orcidx.read_table(path, where=orcidx.col("x").isin(orcidx.open(path).read()["x"].to_pylist())),
    "may_contain": lambda path: orcidx.open(path).may_contain("x", orcidx.open(path).read()["x"]),
    "top": lambda path: orcidx.scan(path, top=["x"], limit=2).to_table(),
    "sort": lambda path: rewritten(path, sort_by="x"),
    "cluster": lambda path: rewritten(path, cluster_by=["x", "k"]),
    "blooms": lambda path: rewritten(path, bloom_filters=["x"]),
    "aggregate": lambda path: orcidx.aggregate(path, {"a": "count(x)", "b": "min(x)", "c": "max(x)"}),
    "sum": lambda path: orcidx.aggregate(path, {"a": "sum(x)"}),
    "group": lambda path: orcidx.aggregate(path, {"a": "count(*)"}, by="x"),
    "statistics": lambda path: orcidx.open(path).statistics("x"),
    "json": lambda path: converted(path, ".jsonl"),
    "csv": lambda path: converted(path, ".csv"),
    "parquet": lambda path: converted(path, ".parquet"),
    **{
        kind: lambda path, kind=kind: build_file_index(orcidx.open(path).read(), {kind: ["x"]})
        for kind in ("bloom-filter", "bitmap", "bsi", "range-bitmap")
    },
}
"""Calls that may refuse a type."""


@contextmanager
def ours(entry: str) -> Iterator[None]:
    """Runs a block, and fails if the block raises an error that is not an error of orcidx."""
    try:
        yield
    except orcidx.OrcidxError:
        pass
    except Exception as error:
        raise AssertionError(
            f"{entry} raised an error that is not an error of orcidx: {type(error).__name__}: {error}"
        ) from error


@pytest.mark.parametrize("name", ARRAYS)
def test_a_type_everywhere(name: str, tmp_path: Path) -> None:
    array, path = ARRAYS[name], tmp_path / "x.orc"
    table = pa.table({"k": range(len(array)), "x": array})
    values = [stored(value) for value in array]
    if name in NOT_WRITTEN:
        for write in [*WRITERS.values(), spread]:
            with pytest.raises(orcidx.Unsupported, match="column x"):
                write(table, path)
        return
    for write in WRITERS.values():
        write(table, path)
    assert [stored(value) for value in spread(table, path)["x"]] == values
    assert [stored(value) for value in spread(table, path, by="k")["x"]] == values
    with ours("partitioned"):
        spread(table, path, by="x")
    for entry, read in READERS.items():
        found = read(path)
        found.validate(full=True)
        assert [stored(value) for value in found["x"]] == values, entry
    for entry, use in OTHERS.items():
        with ours(entry):
            use(path)


def test_unions_where_no_frame_has_them(tmp_path: Path) -> None:
    for name in ("sparse union", "struct of union"):
        orcidx.write_table(pa.table({"k": [0, 1], "x": ARRAYS[name]}), tmp_path / "u.orc")
        for entry in ("polars", "to_polars", "pandas"):
            with pytest.raises(orcidx.Unsupported, match=r"no type for unions: leave the column out.*column x"):
                OTHERS[entry](tmp_path / "u.orc")
        assert orcidx.scan_polars(tmp_path / "u.orc", columns=["k"]).collect()["k"].to_list() == [0, 1]
        found = orcidx.dataset(tmp_path / "u.orc").to_table(filter=pa.compute.field("k") > 0)
        assert found["x"][0].as_py() in ("b", {"u": "b"})


DAY = datetime.timedelta(1)
FRAMES: dict[str, tuple[Callable[[], Any], Any]] = {
    "Categorical": (lambda: pl.DataFrame({"x": pl.Series(["a", "b", "a"], dtype=pl.Categorical)}), ["a", "b", "a"]),
    "Enum": (lambda: pl.DataFrame({"x": pl.Series(["a", "b"], dtype=pl.Enum(["b", "a"]))}), ["a", "b"]),
    "Int128": (lambda: pl.DataFrame({"x": pl.Series([2**100], dtype=pl.Int128)}), "cast integers of 128 bits"),
    "List(Int128)": (lambda: pl.DataFrame({"x": pl.Series([[1]], dtype=pl.List(pl.Int128))}), "cast integers of 128"),
    "Object": (lambda: pl.DataFrame({"x": pl.Series([object()], dtype=pl.Object)}), "Python objects, .*column x"),
    "Null": (lambda: pl.DataFrame({"x": pl.Series([None], dtype=pl.Null)}), "null_type="),
    "Duration": (lambda: pl.DataFrame({"x": [DAY]}), "time="),
    "Array": (lambda: pl.DataFrame({"x": pl.Series([["a"]], dtype=pl.Array(pl.String, 1))}), [["a"]]),
    "Array(Categorical)": (lambda: pl.DataFrame({"x": pl.Series([["a"]], dtype=pl.Array(pl.Categorical, 1))}), [["a"]]),
    "List(Enum)": (lambda: pl.DataFrame({"x": pl.Series([["a"]], dtype=pl.List(pl.Enum(["a"])))}), [["a"]]),
    "Series": (lambda: pl.Series("x", [1]), "is a single column"),
    "LazyFrame": (lambda: pl.LazyFrame({"x": [1]}), "collect"),
    "pandas categories": (lambda: pd.DataFrame({"x": pd.Categorical(["a", "b"])}), ["a", "b"]),
    "pandas numbers as categories": (lambda: pd.DataFrame({"x": pd.Categorical([2, 1])}), [2, 1]),
    "periods": (lambda: pd.DataFrame({"x": pd.period_range("1970-01-02", periods=1, freq="D")}), [1]),
    "intervals": (lambda: pd.DataFrame({"x": pd.interval_range(0, 1)}), [{"left": 0, "right": 1}]),
    "cut": (lambda: pd.DataFrame({"x": pd.cut([1], [0, 1])}), [{"left": 0, "right": 1}]),
    "sparse": (lambda: pd.DataFrame({"x": pd.arrays.SparseArray([0, 1])}), "Sparse"),
    "mixed": (lambda: pd.DataFrame({"x": [1, "a"]}), "column x"),
    "complex": (lambda: pd.DataFrame({"x": [1j]}), "column x"),
    "large integers": (lambda: pd.DataFrame({"x": [2**70]}), "too large"),
    "one name twice": (lambda: pd.DataFrame([[1, 2]], columns=["x", "x"]), "x"),
    "pandas Series": (lambda: pd.Series([1], name="x"), "is a single column"),
    "HUGEINT": (lambda: duckdb.sql("SELECT 1::hugeint x"), [decimal.Decimal(1)]),
    "DuckDB's array and enum": (lambda: duckdb.sql("SELECT ['a'::enum('a', 'b')]::enum('a', 'b')[1] x"), [["a"]]),
    "INTERVAL": (lambda: duckdb.sql("SELECT interval 1 day x"), "column x"),
    "UNION": (lambda: duckdb.sql("SELECT union_value(a := 1) x"), [1]),
    "an array": (lambda: pa.array([1]), "not a record batch"),
    "a column": (lambda: pa.chunked_array([[1]]), "is a single column"),
    "NumPy": (lambda: np.array([(1,)], dtype=[("x", "i4")]), "no schema|is not supported as source"),
}
"""Objects that are written, and their values or the text of the error."""


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_is_written_or_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    make, wanted = FRAMES[name]
    ways: tuple[Callable[[Any], Any], ...] = (
        lambda data: orcidx.write_table(data, tmp_path / "x.orc"),
        lambda data: orcidx.write_dataset(data, tmp_path / "x"),
    )
    for write, written in zip(ways, ("x.orc", "x"), strict=True):
        if isinstance(wanted, str):
            with pytest.raises((orcidx.InvalidQuery, orcidx.Unsupported), match=wanted):
                write(make())
        else:
            write(make())
            assert orcidx.scan(tmp_path / written).to_table()["x"].to_pylist() == wanted
