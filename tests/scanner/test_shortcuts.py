"""Functions that users know from other libraries: ``read_table`` and similar functions, data frames, and files as
streams of rows."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import pydoc
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pandas as pd
import pyarrow as pa
import pyarrow.orc
import pytest

import orcidx
from orcidx import InvalidQuery, ReadOptions, StorageError, col
from orcidx.options import OptionsByName
from orcidx.orc_writer.options import WriteOptions, WriteOptionsByName
from orcidx.paimon_table.commit.commit_options import CommitOptions, CommitOptionsByName
from orcidx.paimon_table.table import Table
from orcidx.scanner.arguments import FilesArguments, RowArguments

pl = pytest.importorskip("polars")

TABLE = pa.table({"id": pa.array(range(1000)), "name": [f"n{i % 7}" for i in range(1000)]})


@pytest.fixture
def path(tmp_path: Path) -> str:
    pa.orc.write_table(TABLE, tmp_path / "a.orc")
    return str(tmp_path / "a.orc")


def test_read_table_reads_one_file_or_many(path: str) -> None:
    assert orcidx.read_table(path) == TABLE
    assert orcidx.read_table([path, path], ["id"], col("id") < 3).column("id").to_pylist() == [0, 1, 2] * 2
    with pytest.raises(InvalidQuery, match="batchsize"):
        orcidx.read_table(path, batchsize=3)  # type: ignore[call-arg]


def test_metadata_and_schema(path: str) -> None:
    found = orcidx.read_metadata(path)
    assert (found.num_rows, found.num_columns, found.num_stripes) == (1000, 2, 1)
    assert found.schema == orcidx.read_schema(path) == TABLE.schema
    assert found.size == Path(path).stat().st_size
    assert found.orc_schema == "struct<id:bigint,name:string>"
    assert found.writer.kind == "cpp"
    assert orcidx.read_schema(path).names == ["id", "name"]


def test_frames(path: str) -> None:
    scan = orcidx.scan(path, ["id"], "id >= 998")
    pd.testing.assert_frame_equal(scan.to_pandas(), pd.DataFrame({"id": [998, 999]}))
    assert scan.to_polars().equals(pl.DataFrame({"id": [998, 999]}))
    assert scan.to_duckdb().fetchall() == [(998,), (999,)]


def test_a_file_is_a_stream_of_its_rows(path: str) -> None:
    with orcidx.open(path, options=ReadOptions(batch_size=300)) as file:
        assert [batch.num_rows for batch in file] == [300, 300, 300, 100]
        assert pa.table(file) == TABLE
        assert pa.schema(file) == TABLE.schema
        assert pl.DataFrame(file).shape == (1000, 2)


def test_a_file_pickles_as_the_version_that_it_is(path: str) -> None:
    with orcidx.open(path, options=ReadOptions(strings="view")) as file:
        data = pickle.dumps(file)
        with pickle.loads(data) as again:
            assert again.options == file.options
            assert again.read() == file.read()
    pa.orc.write_table(TABLE.slice(0, 10), path)
    with pytest.raises(StorageError, match="changed"):
        pickle.loads(data)


def test_reprs_are_short(path: str) -> None:
    scan = orcidx.scan([path] * 500, where=col("id").is_in(list(range(5000))))
    assert len(repr(scan)) < 600
    with orcidx.open(path) as file:
        assert len(repr(file)) < 600
        assert len(repr(file.scan(selection=range(0, 1000, 3)))) < 600


def test_the_keywords_of_a_type_checker_are_the_options() -> None:
    assert get_type_hints(OptionsByName) == get_type_hints(ReadOptions)
    for arguments in (FilesArguments, RowArguments):
        assert get_type_hints(ReadOptions).items() <= get_type_hints(arguments).items()
    assert get_type_hints(WriteOptionsByName) == get_type_hints(WriteOptions)
    assert get_type_hints(CommitOptionsByName) == get_type_hints(CommitOptions)


TAKE_OPTIONS: list[tuple[Callable[..., Any], type]] = [
    *((one, ReadOptions) for one in (orcidx.open, orcidx.scan, orcidx.read_table, orcidx.dataset, orcidx.scan_polars)),
    *((one, ReadOptions) for one in (orcidx.aggregate, orcidx.paimon.build_file_index, Table.scan, Table.aggregate)),
    *((getattr(orcidx.OrcFile, name), ReadOptions) for name in ("scan", "read", "splits", "may_contain")),
    *((one, WriteOptions) for one in (orcidx.write_table, orcidx.OrcWriter, orcidx.write_dataset)),
    *((getattr(Table, name), CommitOptions) for name in ("append", "delete", "rewrite_file_index")),
]


@pytest.mark.parametrize(("function", "options"), TAKE_OPTIONS, ids=lambda one: getattr(one, "__qualname__", None))
def test_help_and_completion_list_every_option(function: Callable[..., Any], options: type) -> None:
    listed = inspect.signature(function).parameters
    assert {field.name for field in dataclasses.fields(options)} <= listed.keys()
    assert not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in listed.values())


def test_what_a_rewrite_keeps_has_no_default_in_its_signature() -> None:
    listed = inspect.signature(orcidx.rewrite).parameters
    assert listed["compression"].default is None
    assert "bloom_filter_columns" not in listed
    # Python 3.15 shows annotations without quotes.
    assert re.search("compression: ('str'|str) = 'zstd'", pydoc.render_doc(orcidx.write_table))
