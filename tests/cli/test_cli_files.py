"""Tests of commands on files, directories, globs, URLs and standard input. Also tests the commands for sizes, streams
and checks, wide tables, and progress bars."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import orcidx
import orcidx.cli
from orcidx.cli import main
from orcidx.cli.output import plain
from orcidx.cli.row_text import json_lines, tab_lines
from orcidx.orc.python_values import python_values

DEMO = Path(orcidx.cli.__file__).with_name("demo") / "lineitem.orc"
LOOKING = ["schema", "meta", "stats", "sizes", "streams", "check"]
READING = ["head", "cat", "count", "scan", "explain"]


@pytest.fixture
def orcidx_command(capsys):
    def call(*words):
        with pytest.raises(SystemExit) as exit:
            main([str(word) for word in words])
        out, err = capsys.readouterr()
        return int(exit.value.code or 0), out, err

    return call


@pytest.fixture
def folder(tmp_path):
    for part in range(2):
        (tmp_path / f"part={part}").mkdir()
        orcidx.write_table(pa.table({"id": [part * 10 + 1, part * 10 + 2]}), tmp_path / f"part={part}" / "a.orc")
    return tmp_path


@pytest.mark.parametrize("command", LOOKING + READING)
def test_every_command_takes_a_directory_a_glob_a_url_and_standard_input(orcidx_command, folder, command, monkeypatch):
    one = folder / "part=0" / "a.orc"
    for source in (folder, folder / "*" / "*.orc", one.as_uri(), "-"):
        data = io.BytesIO(one.read_bytes())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data))
        code, out, err = orcidx_command(command, source, "--json")
        assert (code, err) == (0, ""), source
        documents = [json.loads(line) for line in out.splitlines()]
        several = isinstance(source, Path)
        if command in LOOKING and command != "stats":
            assert len(documents) == (2 if several else 1)
            name = documents[0]["file"]
            assert name == ("<stdin>" if source == "-" else source if "://" in str(source) else str(one))
        elif command == "count":
            assert documents == [{"rows": 4 if several else 2}]
        elif command in ("head", "cat", "scan"):
            assert [row["id"] for row in documents] == ([1, 2, 11, 12] if several else [1, 2])


@pytest.mark.parametrize("command", LOOKING + READING)
def test_exit_codes(orcidx_command, folder, command, tmp_path):
    damaged = tmp_path / "damaged.orc"
    damaged.write_bytes(DEMO.read_bytes()[:-20])
    (tmp_path / "none").mkdir()
    for debug in ([], ["--debug"]):
        assert orcidx_command(*debug, command, tmp_path / "nope.orc")[0] == 4
        assert orcidx_command(*debug, command, tmp_path / "*.nope")[0] == 4
        assert orcidx_command(*debug, command, tmp_path / "none")[0] == 4
        assert orcidx_command(*debug, command, damaged)[0] == (1 if command == "check" else 3)
        assert orcidx_command(*debug, command)[0] == 2
        if command in ("head", "cat", "scan", "explain", "stats", "streams"):
            assert orcidx_command(*debug, command, DEMO, "-c", "l_orderky")[0] == 2


def test_one_bad_file_does_not_hide_the_others(orcidx_command, folder):
    (folder / "part=1" / "b.orc").write_bytes(b"ORC and then nothing")
    (folder / "part=1" / "c.orc").write_bytes(b"PAR1 PAR1")
    code, out, err = orcidx_command("meta", folder, "--json")
    assert code == 3
    assert [json.loads(line)["rows"] for line in out.splitlines()] == [2, 2]
    assert "b.orc" in err
    assert "c.orc" in err
    code, out, err = orcidx_command("check", folder, "--json")
    assert code == 1
    assert [json.loads(line)["ok"] for line in out.splitlines()] == [True, True, False, False]


def test_sizes_and_streams_are_tables_in_a_pipe(orcidx_command):
    _, out, _ = orcidx_command("sizes", DEMO)
    rows = [line.split("\t") for line in out.splitlines()]
    assert rows[0][:2] == ["column", "type"]
    assert {"bloom_filter_utf8", "row_index", "bytes"} <= set(rows[0])
    assert int(rows[-1][-2]) == DEMO.stat().st_size
    _, out, _ = orcidx_command("streams", DEMO, "-c", "l_shipdate", "--stripe", "1")
    names, *rows = [line.split("\t") for line in out.splitlines()]
    assert {row[0] for row in rows} == {"1"}
    assert "short repeat" in next(row for row in rows if row[2] == "DATA")[names.index("runs")]
    assert orcidx_command("streams", DEMO, "--stripe", "9")[0] == 2


def test_stats_are_a_line_a_column(orcidx_command):
    _, out, _ = orcidx_command("stats", DEMO, "-c", "l_shipdate,l_orderkey")
    names, *rows = [line.split("\t") for line in out.splitlines()]
    assert names == ["column", "type", "values", "nulls", "minimum", "maximum", "sum", "bytes", "order"]
    assert [row[0] for row in rows] == ["l_orderkey", "l_shipdate"]
    assert rows[1][-1] == "ascending"


def test_check_and_repair(orcidx_command, tmp_path):
    code, out, _ = orcidx_command("check", DEMO)
    assert code == 0
    assert "ok; 6,005 rows" in out
    with orcidx.open(DEMO) as file:
        damaged = bytearray(DEMO.read_bytes())
        at = file.stripes[1].offset + file.stripes[1].index_length + 100
        damaged[at : at + 200] = bytes(200)
    (tmp_path / "b.orc").write_bytes(damaged)
    code, out, _ = orcidx_command("check", tmp_path / "b.orc", "--repair", tmp_path / "c.orc", "--json")
    told = json.loads(out)
    assert code == 1
    assert told["problems"][0]["stripe"] == 1
    assert told["repaired"]["rows"] + told["repaired"]["rows_lost"] == 6005
    assert orcidx_command("check", tmp_path / "c.orc")[0] == 0
    (tmp_path / "t.orc").write_bytes(DEMO.read_bytes()[:1000])
    code, _, err = orcidx_command("check", tmp_path / "t.orc", "--repair", tmp_path / "d.orc")
    assert code == 1
    assert "nothing can be written" in err


def test_scan_tells_its_timing(orcidx_command):
    _, _, err = orcidx_command("scan", DEMO, "-w", "l_orderkey = 3712", "--timing")
    assert "of processor time); read 1 of 7 row groups" in err
    assert orcidx_command("scan", DEMO, "-w", "l_orderkey = 3712")[2] == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(orcidx_command, shell, monkeypatch):
    code, out, _ = orcidx_command("completion", shell)
    assert code == 0
    assert "_ORCIDX_COMPLETE" in out
    monkeypatch.setenv("_ORCIDX_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", "orcidx st")
    monkeypatch.setenv("COMP_CWORD", "st" if shell == "fish" else "1")
    _, out, _ = orcidx_command()
    assert "stats" in out
    assert "streams" in out


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_wide_tables_are_elided_in_the_middle(monkeypatch):
    monkeypatch.setattr(sys, "stdout", out := Terminal())
    monkeypatch.setenv("COLUMNS", "80")
    from orcidx.cli.output import print_table

    print_table([f"column{i}" for i in range(50)], [list(range(50))], elide=True)
    text = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert "column0" in text
    assert "column49" in text
    assert "more …" in text
    assert max(map(len, text.splitlines())) <= 80
    shown = sum(f"column{i} " in text for i in range(50))
    assert f"{50 - shown} more" in text
    out.truncate(0)
    print_table(["a", "b"], [[1, 2]], elide=True)
    assert "more" not in out.getvalue()


def test_progress_is_drawn_on_a_terminal_only(monkeypatch):
    from orcidx.cli.progress import tracked

    monkeypatch.setattr(sys, "stderr", err := io.StringIO())
    assert list(tracked(range(5), "files")) == list(range(5))
    assert err.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", err := Terminal())
    assert list(tracked(range(5), "files")) == list(range(5))
    assert "files" in err.getvalue()


def test_rows_are_written_as_python_would(rng):
    count = 300
    floats = np.r_[rng.normal(size=count - 8), 1.0, 0.0, -0.0, 1e22, 1e-7, np.nan, np.inf, -np.inf]
    batch = pa.record_batch(
        {
            "i": pa.array(rng.integers(-(2**60), 2**60, count), mask=rng.random(count) < 0.1),
            "f": floats,
            "b": pa.array(rng.random(count) < 0.5, mask=rng.random(count) < 0.1),
            's"x': [("a", 'ü"x', "\\", "tab\t\n\r\x01", "", None)[i % 6] for i in range(count)],
            "d": pa.array(rng.integers(-800_000, 3_000_000, count).astype("i4")).cast(pa.date32()),
            "t": pa.array(rng.integers(-(10**15), 10**15, count), pa.timestamp("us")),
            "z": pa.array(rng.integers(0, 10**9, count) * 10**6, pa.timestamp("us", "UTC")),
            "bin": [bytes([i % 256]) for i in range(count)],
            "l": [None if i % 7 == 0 else [str(j) for j in range(i % 4)] for i in range(count)],
            "r": [None if i % 5 == 0 else {"x": i, "y": None if i % 3 else 'q"'} for i in range(count)],
            "m": pa.array([[("a", i)] for i in range(count)], pa.map_(pa.string(), pa.int64())),
            "e": pa.array([("a", 'b"', None)[i % 3] for i in range(count)]).dictionary_encode(),
        }
    ).slice(3)
    names = batch.schema.names
    expected = [plain(dict(zip(names, row))) for row in zip(*map(python_values, batch.columns))]
    lines = b"".join(map(bytes, json_lines(batch))).decode().split("\n")
    assert lines.pop() == ""
    assert [json.loads(line) for line in lines] == [json.loads(json.dumps(row)) for row in expected]
    cells = b"".join(map(bytes, tab_lines(batch))).decode().split("\n")
    assert cells.pop() == ""
    assert {line.count("\t") for line in cells} == {len(names) - 1}
    assert [line.split("\t")[0] for line in cells] == ["" if r["i"] is None else str(r["i"]) for r in expected]
    empty = pa.record_batch([pa.nulls(2)], names=["n"])
    assert b"".join(json_lines(empty)) == b'{"n": null}\n{"n": null}\n'


def test_scan_gives_the_first_rows_in_an_order(orcidx_command, tmp_path):
    orcidx.write_table(pa.table({"id": [3, 1, 2, None], "city": ["a", "b", "c", "d"]}), tmp_path / "a.orc")
    code, out, _ = orcidx_command("scan", tmp_path / "a.orc", "--top", "id:desc:first", "-n", 2, "--json")
    assert (code, list(map(json.loads, out.splitlines()))) == (0, [{"id": None, "city": "d"}, {"id": 3, "city": "a"}])
    code, _, err = orcidx_command("scan", tmp_path / "a.orc", "--top", "id")
    assert code == 2
    assert "give limit= to say how many" in err
