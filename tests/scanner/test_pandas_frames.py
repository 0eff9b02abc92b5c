"""Data frames of pandas are written and read. The results are compared with those of pyarrow.parquet."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import orcidx
from orcidx import col
from orcidx.rewriting.convert import convert


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns or {"a": [1, 2, 3]})


def dtype(values: list[Any], name: Any) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(values, dtype=name)})


ORDERED = pd.CategoricalDtype(["small", "large", "never"], ordered=True)
INDEX = pd.MultiIndex.from_tuples([("a", 1), ("b", 2), ("b", 3)], names=["k", None])
DAYS = pd.date_range("2020-01-01", periods=3, freq="D")

FRAMES: dict[str, pd.DataFrame] = {
    "range": frame(),
    "range with a step": frame().set_axis(pd.RangeIndex(4, 10, 2, name="r")),
    "named": frame().set_axis(pd.Index([7, 5, 6], name="k")),
    "unnamed": frame().set_axis(pd.Index(["x", "y", "z"])),
    "named like a column": frame().set_axis(pd.Index([7, 5, 6], name="a")).rename(columns={"a": "b"}),
    "multi": frame().set_axis(INDEX),
    "of days": frame().set_axis(DAYS),
    "of categories": frame().set_axis(pd.CategoricalIndex(["large", "small", "small"], dtype=ORDERED, name="size")),
    "no rows": frame().set_axis(pd.Index([7, 5, 6], name="k")).iloc[:0],
    "numbers as names": pd.DataFrame([[1, 2.5]] * 2, columns=pd.Index([0, 1], name="numbers")),
    "days as names": pd.DataFrame([[1, 2]], columns=DAYS[:2]),
    "levels of names": pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_product([["a"], [1, 2]], names=["n", "m"])),
    "categories": dtype(["a", "b", None, "a"], "category"),
    "categories in order": dtype(["large", "small", None], ORDERED),
    "string": dtype(["a", None], "string"),
    "object": dtype(["a", None], object),
    "Int64": dtype([1, None], "Int64"),
    "UInt8": dtype([1, None], "UInt8"),
    "Float32": dtype([1.5, None], "Float32"),
    "boolean": dtype([True, None], "boolean"),
    "uint8": dtype([1, 255], "uint8"),
    "uint32": dtype([1, 2**32 - 1], "uint32"),
    "float16": dtype([1.5, 2], "float16"),
    "zone": dtype(list(DAYS.tz_localize("Europe/Oslo")), "datetime64[us, Europe/Oslo]"),
    "fixed zone": pd.DataFrame({"x": DAYS.tz_localize("+05:30")}),
    "microseconds": dtype([*DAYS, pd.NaT], "datetime64[us]"),
    "nanoseconds": dtype([pd.Timestamp("2020-01-01 00:00:00.123456789")], "datetime64[ns]"),
    "period": pd.DataFrame({"x": pd.period_range("2020-01", periods=3, freq="M")}),
    "interval": pd.DataFrame({"x": pd.interval_range(0, 3)}),
    "arrow": dtype([1, None], "uint16[pyarrow]"),
    "attributes": frame(),
}
FRAMES["attributes"].attrs = {"from": "a test"}
WITH_OPTIONS = {
    "durations": (dtype([pd.Timedelta(5, "s"), pd.NaT], "timedelta64[us]"), {"time": "long"}),
    "times": (pd.DataFrame({"x": [pd.Timestamp("2020-01-01 03:04:05").time(), None]}), {"time": "long"}),
    "uint64": (dtype([1, 2**40], "uint64"), {"uint64": "long"}),
}


def by_parquet(given: pd.DataFrame, path: Path) -> pd.DataFrame:
    pq.write_table(pa.Table.from_pandas(given), path)
    return pq.read_table(path).to_pandas()


@pytest.mark.parametrize("name", FRAMES)
def test_as_by_parquet(name: str, tmp_path: Path) -> None:
    given = FRAMES[name]
    wanted = by_parquet(given, tmp_path / "a.parquet")
    path = str(tmp_path / "a.orc")
    for data in (given, pa.Table.from_pandas(given)):
        orcidx.write_table(data, path)
        found = orcidx.scan(path).to_pandas()
        pd.testing.assert_frame_equal(found, wanted, check_freq=False)
        assert found.attrs == wanted.attrs
        with orcidx.open(path) as file:
            pd.testing.assert_frame_equal(file.to_pandas(), wanted, check_freq=False)
    again = str(tmp_path / "again.orc")
    for source in (orcidx.read_table(path), orcidx.scan(path)):
        orcidx.write_table(source, again)
        pd.testing.assert_frame_equal(orcidx.scan(again).to_pandas(), wanted, check_freq=False)


@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_types_that_orc_lacks(name: str, tmp_path: Path) -> None:
    given, options = WITH_OPTIONS[name]
    path = str(tmp_path / "a.orc")
    orcidx.write_table(given, path, **options)
    pd.testing.assert_frame_equal(orcidx.scan(path).to_pandas(), by_parquet(given, tmp_path / "a.parquet"))


@pytest.mark.parametrize("given", [dtype([3, 1, 3], "category"), dtype(list(DAYS), "datetime64[s]")])
def test_what_parquet_loses(given: pd.DataFrame, tmp_path: Path) -> None:
    orcidx.write_table(given, tmp_path / "a.orc")
    pd.testing.assert_frame_equal(orcidx.scan(tmp_path / "a.orc").to_pandas(), given)


def test_parts_of_a_frame(tmp_path: Path) -> None:
    """Scans with columns, conditions and several files return the same frames as scans of Parquet tables."""
    given = pd.DataFrame({"a": [1, 2, 3], "b": pd.Series(["x", "y", "x"], dtype="category")})
    path = str(tmp_path / "a.orc")
    orcidx.write_table(given, path)
    found = orcidx.scan(path, ["b"], where=col("a") > 1).to_pandas()
    assert (found.index.tolist(), found["b"].tolist(), str(found["b"].dtype)) == ([0, 1], ["y", "x"], "category")
    orcidx.write_table(given.set_axis(pd.Index([5, 6, 7], name="k")), path)
    assert orcidx.scan(path, where=col("k") > 5).to_pandas().index.tolist() == [6, 7]
    assert orcidx.scan(path, ["a"]).to_pandas().index.tolist() == [0, 1, 2]
    other = str(tmp_path / "b.orc")
    orcidx.write_table(pd.DataFrame({"a": [4], "b": ["z"]}, index=pd.Index([8], name="k")), other)
    both = orcidx.scan([path, other]).to_pandas()
    assert (both.index.tolist(), both["b"].tolist()) == ([5, 6, 7, 8], ["x", "y", "x", "z"])
    assert list(orcidx.scan(path).to_pandas(ignore_metadata=True)) == ["a", "b", "k"]
    assert orcidx.read_table(path).to_pandas().index.name == "k"
    assert orcidx.read_schema(path).pandas_metadata["index_columns"] == ["k"]


def test_copies_keep_what_all_sources_say(tmp_path: Path) -> None:
    """A rewrite keeps user metadata unless the sources have different values of it. A conversion keeps the schema's
    metadata."""
    given = pd.DataFrame({"a": [1, 2]}, index=pd.Index([5, 6], name="k"))
    paths = [str(tmp_path / name) for name in ("a.orc", "b.orc")]
    orcidx.write_table(given, paths[0])
    orcidx.write_table(given, paths[1])
    orcidx.rewrite(paths, tmp_path / "c.orc", merge=True)
    assert orcidx.scan(tmp_path / "c.orc").to_pandas().index.tolist() == [5, 6, 5, 6]
    changed = pa.Table.from_pandas(given).replace_schema_metadata({"pandas": "{}"})
    orcidx.write_table(changed, paths[1])
    orcidx.rewrite(paths, tmp_path / "d.orc", sort_by=["a"], merge=True)
    assert "pandas" not in orcidx.open(tmp_path / "d.orc").user_metadata
    assert orcidx.scan(tmp_path / "d.orc").to_pandas()["k"].tolist() == [5, 5, 6, 6]
    pq.write_table(pa.Table.from_pandas(given), tmp_path / "a.parquet")
    convert(str(tmp_path / "a.parquet"), str(tmp_path / "e.orc"))
    assert orcidx.scan(tmp_path / "e.orc").to_pandas().index.tolist() == [5, 6]


def test_metadata_of_a_schema(tmp_path: Path) -> None:
    table = pa.table({"a": [1]}).replace_schema_metadata({"made by": "me", b"\xff": b"x", "ARROW:schema": "y"})
    orcidx.write_table(table, tmp_path / "a.orc", metadata={"of the file": "z"})
    assert orcidx.read_table(tmp_path / "a.orc").schema.metadata == {b"made by": b"me"}
    metadata = orcidx.open(tmp_path / "a.orc").user_metadata
    assert metadata == {"made by": b"me", "orcidx.schema": b'["made by"]', "of the file": b"z"}
    orcidx.write_table(pa.table({"a": [1]}), tmp_path / "b.orc")
    assert orcidx.open(tmp_path / "b.orc").user_metadata == {}
    assert orcidx.read_table(tmp_path / "b.orc").schema.metadata is None


@pytest.mark.parametrize("key", ["pandas", "orcidx.arrow", "orcidx.categories", "orcidx.schema"])
@pytest.mark.parametrize("value", [b"", b"\xff", b"[]", b"{}", b'{"index_columns": [[]], "columns": [7]}', b"AAAA"])
def test_damage_costs_no_row(key: str, value: bytes, tmp_path: Path) -> None:
    given = dtype(["a", "b"], "category").set_axis(pd.Index([5, 6], name="k"))
    orcidx.write_table(given, tmp_path / "a.orc")
    metadata = dict(orcidx.open(tmp_path / "a.orc").user_metadata) | {key: value}
    orcidx.write_table(pa.table({"x": ["a", "b"], "k": [5, 6]}), tmp_path / "b.orc", metadata=metadata)
    found = orcidx.scan(tmp_path / "b.orc").to_pandas().reset_index()
    assert found["x"].tolist() == ["a", "b"]


def test_damaged_schemas_of_arrow(tmp_path: Path, rng: Any) -> None:
    given = dtype(["a", "b"], "category")
    orcidx.write_table(given, tmp_path / "a.orc")
    metadata = dict(orcidx.open(tmp_path / "a.orc").user_metadata)
    for _ in range(60):
        changed = dict(metadata)
        for key in ("orcidx.arrow", "orcidx.categories"):
            raw = bytearray(base64.b64decode(changed[key]))
            raw[int(rng.integers(len(raw)))] = int(rng.integers(256))
            changed[key] = base64.b64encode(raw)
        facts = json.loads(changed["pandas"])
        facts["columns"][0][str(rng.choice(["name", "pandas_type", "numpy_type", "metadata"]))] = [None, 7, "x"][
            int(rng.integers(3))
        ]
        changed["pandas"] = json.dumps(facts).encode()
        orcidx.write_table(pa.table({"x": ["a", "b"]}), tmp_path / "b.orc", metadata=changed)
        assert orcidx.scan(tmp_path / "b.orc").to_pandas().shape[0] == 2
