"""The messages and exit codes of the command line for errors, and for a pipe that its reader has closed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

import orcidx.cli
from orcidx.cli import main
from orcidx.predicate import parse
from orcidx.storage.failures import classify, translated_error

DEMO = str(Path(orcidx.cli.__file__).with_name("demo") / "lineitem.orc")


@pytest.fixture
def orcidx_command(capsys):
    def call(*words):
        with pytest.raises(SystemExit) as exit:
            main(list(words))
        out, err = capsys.readouterr()
        return int(exit.value.code or 0), out, err

    return call


def test_statistics_of_an_unknown_column_are_refused(orcidx_command):
    code, out, err = orcidx_command("stats", DEMO, "-c", "l_orderky")
    assert (code, out) == (2, "")
    assert "l_orderkey" in err


@pytest.mark.parametrize("where", ["l_orderky = 1", "l_orderkey = 'x'", "l_orderkey >"])
@pytest.mark.parametrize("command", ["cat", "head", "scan"])
def test_nothing_is_printed_before_an_error(orcidx_command, command, where):
    code, out, err = orcidx_command(command, DEMO, "-w", where)
    assert (code, out) == (2, "")
    assert err


@pytest.mark.parametrize(
    ("words", "code"), [(["meta", "nope.orc"], 4), (["head", __file__], 3), (["head", DEMO, "-c", "nope"], 2)]
)
def test_debug_keeps_the_exit_code(orcidx_command, words, code):
    got, _, err = orcidx_command("--debug", *words)
    assert got == code
    assert "Traceback" in err
    assert orcidx_command(*words)[0] == code


@pytest.mark.parametrize("words", [["cat"], ["cat", "--json"], ["scan"], ["head", "-n", "30000"]])
def test_a_closed_pipe_is_no_error(tmp_path, words):
    """If the reader of a pipe closes it early, as in ``orcidx cat FILE | head -1``, the command exits with 0."""
    pyarrow.orc.write_table(pa.table({"id": np.arange(30_000)}), tmp_path / "a.orc")  # more text than a pipe holds
    command, *options = words
    words = [sys.executable, "-P", "-m", "orcidx", command, str(tmp_path / "a.orc"), *options]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


def test_a_file_of_no_bytes_is_called_empty(orcidx_command, tmp_path):
    (tmp_path / "a.orc").write_bytes(b"")
    for command in ("meta", "explain"):
        code, out, _ = orcidx_command(command, str(tmp_path / "a.orc"))
        assert code == 0
        assert "empty" in out


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("id >", "something is missing here"),
        ("(((", "something is missing here"),
        ("id between 3", "something is missing here"),
        ("id = @", "something is missing here"),
        ("id = 'a", "is a quote not closed"),
        (") id", "does not belong here"),
        ("id in (1,", "expecting )"),
        ("case when", "something is missing here"),
    ],
)
def test_errors_in_sql_name_no_classes(sql, message):
    with pytest.raises(ValueError, match="cannot be parsed") as caught:
        parse(sql)
    assert message in str(caught.value)
    assert "sqlglot" not in str(caught.value)
    assert "<class" not in str(caught.value)


@pytest.mark.parametrize(
    "raised",
    [
        FileNotFoundError("The specified key does not exist."),
        FileNotFoundError(2, "No such file", "bucket"),
        PermissionError("Forbidden"),
        FileNotFoundError(),
    ],
    ids=repr,
)
def test_a_missing_object_is_named(raised):
    """The translated error names the object. s3fs raises errors like those in ``raised`` if an object is missing, or if
    the user has no permission to read it."""
    told = translated_error(raised, classify(raised), name="s3://bucket/a.orc", what="the tail")
    assert type(told) is type(raised)
    assert "s3://bucket/a.orc" in str(told)
    assert told.errno is not None
    assert os.strerror(told.errno)
