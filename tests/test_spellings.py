"""Users of other libraries first try the calls that they know. These calls work, or the error says what to write."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner

import orcidx
from orcidx import col
from orcidx.cli import _orcidx as shell
from orcidx.cli import main
from orcidx.spark.conditions.query_text import parse_text

pl = pytest.importorskip("polars")

TABLE = pa.table({"id": [1, 2, 3], "city": ["Oslo", "Rom", None], "user": [{"name": "a"}, {"name": "b"}, None]})

ERRORS = [
    ('orcidx.read_table(path, filters=[("id", "<", 3)])', "use where="),
    ('orcidx.scan(path, filter=col("id") < 3)', "use where="),
    ("orcidx.dataset(path, filters=[])", "use where="),
    ("orcidx.scan_polars(path, n_rows=3)", "use limit="),
    ("orcidx.read_table(path, nrows=3)", "use limit="),
    ('orcidx.read_table(path, usecols=["id"])', "use columns="),
    ("orcidx.read_table(path, memory_map=True)", "use mmap="),
    ("orcidx.open(path, memory_map=True)", "use mmap="),
    ('orcidx.open(path, columns=["id"])', "it belongs to scan and read"),
    ("orcidx.open(path).scan(file_path=True)", "it belongs to orcidx.scan"),
    ("orcidx.read_table(path, filename=True)", "use file_path="),
    ('orcidx.read_table(path, read_dictionary=["city"])', 'use strings="dictionary"'),
    ('orcidx.read_table(path, engine="pyarrow")', "leave it out"),
    ("orcidx.read_table(path, merge_schema=True)", "use schema="),
    ("orcidx.read_table(path, batchsize=3)", "did you mean 'batch_size'"),
    ("orcidx.read_table(path, xyzzy=3)", "in all"),
    ("orcidx.paimon.open_table(path, snapshot=3)", "did you mean 'snapshot_id'"),
    ('orcidx.write_table(table, out, codec="zlib")', "use compression="),
    ('orcidx.write_table(table, out, compresion="zlib")', "did you mean 'compression'"),
    ("orcidx.write_table(table, out, row_group_size=3)", "use row_index_stride="),
    ('orcidx.write_table(table, out, partition_cols=["id"])', "use partition_by= of orcidx.write_dataset"),
    ("orcidx.write_table(table, out, index=False)", "preserve_index"),
    ('orcidx.rewrite(path, out, codec="zlib")', "use compression="),
    ('orcidx.write_table(table, out, mode="overwrite")', "it belongs to orcidx.write_dataset"),
    ("orcidx.OrcWriter(out, table.schema, version=1)", "use file_version="),
    ("orcidx.write_table(pl.DataFrame(table).lazy(), out)", "call collect()"),
    ("orcidx.write_table({'a': [1]}, out)", "give pyarrow.table(...)"),
    ("orcidx.write_table(path, out)", "orcidx.scan("),
    ("orcidx.write_table(table, b'out.orc')", "a path must be text"),
    ("orcidx.open(3)", "3, of type int, cannot be read: give a path"),
    ("orcidx.write_table(table.to_pylist(), out)", "pyarrow.Table.from_pylist(...)"),
    ('orcidx.read_table(path, dtype={"id": "int32"})', "use schema="),
    ('orcidx.scan(path).sink_parquet("x.parquet")', "orcidx convert"),
    ('orcidx.scan(path).save("x.orc")', "orcidx.write_table(scan, path)"),
    ("orcidx.scan(path).iter_rows()", "to_table().to_pylist()"),
    ("orcidx.scan(path).to_record_batch_reader()", "to_reader()"),
    ("orcidx.connect()", "orcidx.register_duckdb(connection, name, path)"),
    ("orcidx.read_statistics(path)", "statistics_table()"),
    ("orcidx.scan(path)[1:3]", "does not support [start:stop]; use limit(n), or row_range="),
    ("orcidx.scan(path).shape", "count_rows() and schema"),
    ("orcidx.read_table(path, colums=['id'])", "did you mean 'columns'"),
    ("orcidx.dataset(path).to_table(colums=['id'])", "did you mean 'columns'"),
    ("orcidx.dataset(path).count_rows(fitler=None)", "did you mean 'filter'"),
    ("orcidx.write_table(table, out, compresion=1)", "did you mean 'compression' or 'compression_level'?"),
    ("orcidx.read_table(path, wher='id < 3')", "did you mean 'where'"),
    ('col("user").field("name")', 'col("a", "b")'),
    ('orcidx.open(path)["id"]', "call read(columns=[...])"),
    ('orcidx.scan(path)["id"]', "use select(...)"),
    ("orcidx.OrcFile(3)", "give a path"),
    ("orcidx.read_orc(path)", "orcidx.read_table(path)"),
    ("orcidx.ORCFile(path)", "orcidx.open(path)"),
    ("orcidx.scan_orc(path)", "orcidx.scan_polars(path)"),
    ("orcidx.to_orc(table, path)", "orcidx.write_table(table, path)"),
    ('col("id").isNull()', "is_null()"),
    ('col("id").notna()', "is_not_null()"),
    ('col("city").str.startswith("O")', "starts_with"),
    ('col("city").startswith("O")', "starts_with(text)"),
    ('col("id").is_between(1, 2)', "between(low, high)"),
    ('col("user")[0]', "the name of a field of a struct must be a string"),
    ("orcidx.scan(path).collect()", "to_table()"),
    ("orcidx.scan(path).toPandas()", "to_pandas()"),
    ("orcidx.scan(path).show()", "head(n)"),
    ('orcidx.scan(path).group_by("city")', "aggregate("),
    ("orcidx.scan(path).where('id < 3')", "filter(...)"),
    ("orcidx.scan(path, limit=2).filter('id < 3')", "call filter(...) first, then limit(n)"),
    ("orcidx.scan(path, ['id']).select('city')", "the scan has no column"),
    ("orcidx.open(path).to_table()", "read()"),
    ("orcidx.open(path).num_row_groups", "nstripes"),
    ("orcidx.open(path).read_row_group(0)", "read_stripe(n)"),
    ("orcidx.open(path).limit(3)", "head(n)"),
    ("orcidx.read_table(path, row_groups=[0])", "use stripes= of scan and read of an open file"),
    ("orcidx.read_table(path, use_pandas_metadata=True)", "leave it out"),
    ('orcidx.dataset(path, format="orc")', "leave it out"),
    ("orcidx.write_table(table, out, overwrite=True)", "leave it out"),
    ('orcidx.write_dataset(table, "p", existing_data_behavior="error")', "use mode="),
    ("orcidx.read_pandas(path)", "orcidx.scan(path).to_pandas()"),
    ("orcidx.merge([path], out)", "orcidx.rewrite([path, ...], target)"),
    ("orcidx.schema(path)", "orcidx.read_schema(path)"),
    ("orcidx.open_table(path)", "orcidx.paimon.open_table(path)"),
    ('col("city").lower()', "SQL text as where="),
    ("orcidx.scan(path).distinct()", "by=[...]"),
    ('orcidx.scan(path).join("x")', "to_polars()"),
    ("orcidx.scan(path).to_dicts()", "to_table().to_pylist()"),
    ("orcidx.scan(path).tail(3)", "row_range="),
    ("orcidx.scan(path).printSchema()", "use schema"),
    ("orcidx.open(path).column_names", "schema.names"),
    ("orcidx.open(path).num_columns", "len(schema)"),
    ("closed.read()", "the file is closed: open it again"),
    ("closed.scan()", "the file is closed"),
    ("closed.head()", "the file is closed"),
    ("list(closed)", "the file is closed"),
    ("closed.schema", "the file is closed"),
    ("orcidx.open(os.fsencode(path[-60:]))", "give os.fsdecode(path)"),
    ("orcidx.read_table(b'~/events.orc')", "give os.fsdecode(path)"),
    ("orcidx.write_dataset(table, b'parts')", "a path must be text: give os.fsdecode(path)"),
    ("orcidx.rewrite(path, b'out.orc')", "a path must be text: give os.fsdecode(path)"),
    ("orcidx.paimon.open_table(b'table')", "give the path or URL of the table's directory"),
    ("orcidx.OrcWriter(b'out.orc', table.schema)", "a path must be text"),
    ("orcidx.scan(path).limit(-1)", "n of limit must not be negative"),
    ("orcidx.scan(path).limit('3')", "give a whole number"),
    ("orcidx.scan(path, row_numbers=True).select(['row_number', 'id'])", "be the last columns"),
]
WORKS = [
    ("orcidx.OrcFile(path).nrows", 3),
    ("orcidx.scan(path).limit(2).to_table()['id'].to_pylist()", [1, 2]),
    ("orcidx.scan(path, limit=2).limit(3).count()", 2),
    ("orcidx.scan(path).filter('id > 1').limit(1).to_table()['id'].to_pylist()", [2]),
    ("orcidx.scan(path, top=['id'], limit=2).limit(1).to_table()['id'].to_pylist()", [1]),
    ("orcidx.scan(path).head().num_rows", 3),
    ("orcidx.scan(path, row_numbers=True).select(['id']).schema.names", ["id"]),
    ("orcidx.scan(path, row_numbers=True).select(['id', 'row_number']).schema.names", ["id", "row_number"]),
    ("orcidx.open(path).scan().filter('id > 1').select('id').limit(1).to_table().to_pydict()", {"id": [2]}),
    ("orcidx.scan(path, where=col('id').isin([1, 3])).count()", 2),
    ("orcidx.read_table('~/events.orc', limit=1).num_rows", 1),
    ("orcidx.scan('~/*.orc').count()", 4),
    ("orcidx.scan(pathlib.Path('~/events.orc')).count()", 3),
    ("orcidx.read_schema('~/events.orc').names", ["id", "city", "user"]),
    ("orcidx.write_table(table, '~/new.orc') and orcidx.open(home + '/new.orc').nrows", 3),
    ("orcidx.rewrite('~/events.orc', '~/sub/../newer.orc') and orcidx.open(home + '/newer.orc').nrows", 3),
    ("orcidx.write_dataset(table, '~/parts') and sorted(os.listdir(home + '/parts')) != []", True),
    ("orcidx.open(path).head(2).num_rows", 2),
    ("orcidx.open(path).nrows", 3),
    ("orcidx.open(path).nstripes", 1),
    ("dict(orcidx.open(path).metadata)", {}),
    ("[b.num_rows for b in orcidx.open(path).iter_batches(batch_size=2)]", [2, 1]),
    ("orcidx.open(path).read_stripe(0, ['id']).to_pydict()", {"id": [1, 2, 3]}),
    ("orcidx.open(path).closed", False),
    ("closed.closed", True),
    ("made.count_rows()", 3),
    ("closed.num_rows", 3),
    ("orcidx.open(path).to_pandas().shape", (3, 3)),
    ("orcidx.open(path).to_polars().shape", (3, 3)),
    ("orcidx.open(path, mmap=True).options.mmap", True),
    ("orcidx.scan(path).filter(col('id') > 1).count()", 2),
    ("orcidx.scan(path, where='id > 1').filter(pl.col('id') < 3).count()", 1),
    ("orcidx.scan(path).select('id', 'city').schema.names", ["id", "city"]),
    ("orcidx.scan(path).select(['id']).to_table().to_pydict()", {"id": [1, 2, 3]}),
    ('orcidx.scan(path, where=col("user")["name"] == "b").count()', 1),
    ("orcidx.dataset(path).files", ["PATH"]),
    ('orcidx.open("~/events.orc").num_rows', 3),
    ("repr(orcidx.open(one))", "<OrcFile ONE: 1 row in 1 stripe, ZSTD>"),
]


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    path, one = str(tmp_path / "events.orc"), str(tmp_path / "one.orc")
    orcidx.write_table(TABLE, path)
    orcidx.write_table(TABLE.slice(0, 1), one)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    closed = orcidx.open(path)
    made = closed.scan()
    closed.close()
    out = str(tmp_path / "out.orc")
    return {
        "orcidx": orcidx,
        "col": col,
        "pl": pl,
        "table": TABLE,
        "path": path,
        "one": one,
        "out": out,
        "closed": closed,
        "made": made,
        "os": os,
        "pathlib": pathlib,
        "home": str(tmp_path),
    }


@pytest.mark.parametrize(("typed", "says"), ERRORS, ids=[typed for typed, _ in ERRORS])
def test_what_is_called_otherwise_here_says_how(typed: str, says: str, names: dict[str, Any]) -> None:
    with pytest.raises((orcidx.OrcidxError, AttributeError, TypeError)) as error:
        eval(typed, names)
    assert says in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(("typed", "gives"), WORKS, ids=[typed for typed, _ in WORKS])
def test_what_works_as_elsewhere(typed: str, gives: Any, names: dict[str, Any]) -> None:
    shown = eval(typed, names)
    if isinstance(gives, list) and gives == ["PATH"]:
        gives = [names["path"]]
    elif isinstance(gives, str):
        gives = gives.replace("ONE", names["one"])
    assert shown == gives


DOTTED = pa.table({"a.b": [1, 2, 3], "a": [{"b": 10}, {"b": 20}, {"b": 2}], "s": [{"x.y": 2}, {"x.y": 3}, None]})
NAMED = [
    *((where, [2]) for where in ("a.b = 2", '"a.b" = 2', "`a.b` = 2", "a.b + 0 = 2", '"a.b" + 0 = 2', "abs(a.b) = 2")),
    *((where, [3]) for where in ('"a"."b" = 2', 'a."b" = 2', '"a"."b" + 0 = 2', "`a`.`b` IN (2)")),
    *((where, [1]) for where in ("s.x.y = 2", 's."x.y" = 2', "s.x.y + 0 = 2", "s.x.y IN (2)", col("s.x.y") + 0 == 2)),
    *((where, [2]) for where in (col("a.b") == 2, col("a.b") + 0 == 2, [("a.b", "=", 2)], pl.col("a.b") == 2)),
    *((where, [3]) for where in (col("a", "b") == 2, col("a")["b"] == 2, [(("a", "b"), "=", 2)])),
    (pc.field("a.b") == 2, [2]),
    (pc.field("a", "b") == 2, [3]),
]


@pytest.mark.parametrize("nan", ["ieee", "largest"])
@pytest.mark.parametrize(("where", "found"), NAMED, ids=[str(where) for where, _ in NAMED])
def test_a_name_with_dots_means_the_same_in_every_form(where: Any, found: list[int], nan: Any, tmp_path: Path) -> None:
    orcidx.write_table(DOTTED, tmp_path / "dotted.orc")
    scan = orcidx.scan(tmp_path / "dotted.orc", ["a.b"], where, nan=nan)
    assert scan.to_table()["a.b"].to_pylist() == found
    assert scan.count_rows() == len(found)


def test_spark_reaches_into_structs_first() -> None:
    assert str(parse_text("a.b = 2")) == str(col("a", "b") == 2)
    assert str(parse_text("`a.b` = 2")) == str(col("a.b") == 2)


QUOTES = ['city = "Oslo"', "city = Oslo", '"Oslo" = city', 'city IN ("Oslo")', 'lower(city) = "Oslo"', "city = “Oslo”"]


@pytest.mark.parametrize("where", [*QUOTES, 'city BETWEEN "Oslo" AND "Rom"', "starts_with(city, `Oslo`)"])
def test_a_text_in_the_quotes_of_names_is_told_those_of_texts(where: str, names: dict[str, Any]) -> None:
    with pytest.raises(orcidx.InvalidQuery, match="single quotes: 'Oslo'"):
        orcidx.read_table(names["path"], where=where)


def _groups(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _groups(command, (*path, name))


@pytest.mark.parametrize("path", list(_groups(shell)), ids=" ".join)
def test_no_line_of_help_is_cut_at_80_columns(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(shell, [*path, "--help"], terminal_width=80).output
    commands = shown.partition("Commands:\n")[2].splitlines()
    assert commands
    assert [line for line in commands if not line.endswith(".") or line.endswith("..")] == []


def test_the_shell_names_its_flags(names: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("rewrite", "merge", "convert"):
        with pytest.raises(SystemExit):
            main([command, names["path"], names["one"]])
        told = capsys.readouterr().err
        assert "give --overwrite to replace it" in told
        assert "True" not in told


def test_one_thing_is_counted_as_one(names: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["explain", names["one"]])
    assert "1 row →" in capsys.readouterr().out
    assert "Scan of 1 file<" in orcidx.scan(names["one"])._repr_html_()


def test_a_minimum_of_zero_has_no_sign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    orcidx.write_table(pa.table({"f": [0.0, 1.0]}), tmp_path / "zero.orc")
    with pytest.raises(SystemExit):
        main(["stats", str(tmp_path / "zero.orc")])
    assert "-0.0" not in capsys.readouterr().out


SLOW_IMPORT = """
import builtins, os, signal, sys
import orcidx.__main__
usual = builtins.__import__
def slow(name, *rest):
    if name == "orcidx.cli":
        os.kill(os.getpid(), signal.SIGINT)
    return usual(name, *rest)
builtins.__import__ = slow
orcidx.__main__.main()
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_an_interrupt_among_the_imports_shows_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", SLOW_IMPORT, "--help"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
