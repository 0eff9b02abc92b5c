"""Tests the commands with the demo file of the package."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

import orcidx.cli
from orcidx.cli import main
from orcidx.cli.arguments import parse_storage_options

DEMO = str(Path(orcidx.cli.__file__).with_name("demo") / "lineitem.orc")


@pytest.fixture
def orcidx_command(capsys: pytest.CaptureFixture[str]):
    def call(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit:
            main(list(words))
        out, err = capsys.readouterr()
        return int(exit.value.code or 0), out, err

    return call


def test_demo(orcidx_command):
    code, out, _ = orcidx_command("demo")
    assert code == 0
    assert "6,005 rows" in out
    assert "bloom filter" in out
    assert "row-group statistics" in out


def test_schema(orcidx_command):
    code, out, _ = orcidx_command("schema", DEMO, "--json")
    assert code == 0
    columns = {column["name"]: column for column in json.loads(out)["columns"]}
    assert columns["l_shipdate"] == {"name": "l_shipdate", "arrow": "date32[day]", "orc": "date"}
    assert orcidx_command("schema", DEMO)[1].splitlines()[0] == "column\torc type\tarrow type"


def test_meta(orcidx_command):
    _, out, _ = orcidx_command("meta", DEMO, "--json")
    meta = json.loads(out)
    assert (meta["rows"], meta["compression"], len(meta["stripes"])) == (6005, "ZSTD", 2)
    assert sum(stripe["rows"] for stripe in meta["stripes"]) == 6005


@pytest.mark.parametrize(("level", "rows"), [("file", 1), ("stripe", 2), ("row_group", 7)])
def test_stats(orcidx_command, level, rows):
    _, out, _ = orcidx_command("stats", DEMO, "-c", "l_orderkey", "--level", level, "--json")
    found = json.loads(out)
    assert len(found) == rows
    assert sum(row["count"] for row in found) == 6005


def test_head_and_cat(orcidx_command):
    _, out, _ = orcidx_command("head", DEMO, "-n", "2", "-c", "l_orderkey,l_shipdate")
    assert out.splitlines() == ["l_orderkey\tl_shipdate", "5601\t1992-01-08", "5409\t1992-01-13"]
    _, out, _ = orcidx_command("cat", DEMO, "--json", "-w", "l_orderkey = 3712", "-c", "l_orderkey")
    assert {json.loads(line)["l_orderkey"] for line in out.splitlines()} == {3712}


def test_times_that_python_has_no_object_for(orcidx_command, tmp_path):
    days = pa.array([10_000_000, None, -5_000_000, 0], pa.int32()).cast(pa.date32())
    nested = pa.StructArray.from_arrays([days, pa.array([[day] for day in days], pa.list_(pa.date32()))], ["d", "l"])
    micros = pa.array([400_000_000_000_000_000, -(10**17), None, 0], pa.int64()).cast(pa.timestamp("us"))
    path, index = str(tmp_path / "far.orc"), str(tmp_path / "far.index")
    orc.write_table(pa.table({"d": days, "t": micros, "s": nested}), path)
    _, out, _ = orcidx_command("cat", path, "-c", "d,t,s")
    assert out.splitlines()[1:] == [
        '29349-01-26\t14645-06-30T15:06:40.000000\t{"d": "29349-01-26", "l": ["29349-01-26"]}',
        '\t-1199-02-15T14:13:20.000000\t{"d": null, "l": [null]}',
        '-11720-06-19\t\t{"d": "-11720-06-19", "l": ["-11720-06-19"]}',
        '1970-01-01\t1970-01-01T00:00:00\t{"d": "1970-01-01", "l": ["1970-01-01"]}',
    ]
    _, out, _ = orcidx_command("head", path, "-n", "1", "-c", "d", "--json")
    assert json.loads(out) == {"d": "29349-01-26"}
    assert orcidx_command("index", "build", path, "--bitmap", "d", "-o", index)[0] == 0
    code, out, err = orcidx_command("index", "check", index, path)
    assert (code, out.splitlines()[1:]) == (0, ["d\tbitmap\tok"]), err


def test_count_and_scan(orcidx_command):
    assert orcidx_command("count", DEMO)[1] == "6005\n"
    _, out, _ = orcidx_command("count", DEMO, "-w", "l_orderkey = 3712")
    _, rows, _ = orcidx_command("scan", DEMO, "-w", "l_orderkey = 3712", "--row-numbers")
    assert len(rows.splitlines()) == int(out) + 1
    assert rows.splitlines()[0].endswith("\trow_number")


def test_explain(orcidx_command, tmp_path):
    page = tmp_path / "page.html"
    code, out, _ = orcidx_command("explain", DEMO, "-w", "l_orderkey = 3712", "--html", str(page), "--json")
    assert code == 0
    assert json.loads(out)["funnel"]
    text = page.read_text()
    assert "Pruning map" in text
    assert "l_orderkey = 3712" in text, "the page shows the condition as it was typed"
    assert json.loads(out)["where"] == "l_orderkey = 3712"
    assert "http" not in text.replace("http://www.w3.org", "")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["head", "no-such-file.orc"], 4, "no-such-file.orc"),
        (["head", __file__], 3, "not an ORC file"),
        (["head", DEMO, "-c", "l_orderky"], 2, "l_orderkey"),
        (["cat", DEMO, "-w", "l_orderkey >"], 2, ""),
        (["frobnicate"], 2, "frobnicate"),
        (["head", DEMO, "--storage-option", "x"], 2, "KEY=VALUE"),
    ],
)
def test_errors_are_one_line_and_have_their_code(orcidx_command, words, code, message):
    got, out, err = orcidx_command(*words)
    assert got == code, err
    assert message in err
    assert "Traceback" not in out + err


def test_debug_keeps_the_exit_code_and_shows_the_traceback(orcidx_command, tmp_path):
    index = tmp_path / "damaged.index"
    assert orcidx_command("index", "build", DEMO, "--bitmap", "l_orderkey", "-o", str(index))[0] == 0
    data = bytearray(index.read_bytes())
    data[-40:] = b"\xff" * 40
    index.write_bytes(data)
    for debug in ([], ["--debug"]):
        assert orcidx_command(*debug, "index", "check", str(index), DEMO)[0] == 1
    code, _, err = orcidx_command("--debug", "head", __file__)
    assert code == 3
    assert "Traceback" in err


def test_storage_options_may_be_truth_values() -> None:
    """Texts such as "false" become booleans. s3fs takes any text for true, so ``anon=false`` would mean
    ``anon=True``."""
    given = ("anon=false", "use_ssl=True", "key=12", "endpoint_url=http://h?a=b")
    assert parse_storage_options(given) == {"anon": False, "use_ssl": True, "key": "12", "endpoint_url": "http://h?a=b"}
