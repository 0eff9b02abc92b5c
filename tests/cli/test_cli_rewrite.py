"""``orcidx rewrite``, ``merge`` and ``convert``."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import orcidx
from orcidx.cli import main
from orcidx.spellings import size_text

TABLE = pa.table(
    {
        "id": pa.array([3, 1, 2], pa.int64()),
        "city": ["Oslo", None, "Rom, é"],
        "price": pa.array([Decimal("1.50"), Decimal("-2.25"), None], pa.decimal128(9, 2)),
        "at": pa.array([0, 1_500_000, None], pa.timestamp("us")),
    }
)


@pytest.fixture
def command(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    orcidx.write_table(TABLE, "a.orc", row_index_stride=2)

    def call(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit:
            main(list(words))
        out, err = capsys.readouterr()
        return int(exit.value.code or 0), out, err

    return call


def test_rewrite(command):
    code, out, err = command("rewrite", "a.orc", "b.orc", "--bloom", "city", "--compression", "snappy", "--dry-run")
    assert (code, err) == (0, "")
    assert out.startswith("b.orc: recompress and index: ")
    assert out.endswith("nothing was written\n")
    assert not os.path.exists("b.orc")
    code, out, _ = command("rewrite", "a.orc", "b.orc", "--sort-by", "id:desc", "--stripe-size", "64MiB", "--json")
    assert code == 0
    (told,) = json.loads(out)["files"]
    assert (told["way"], told["rows"], told["target"]) == ("encode", 3, "b.orc")
    assert orcidx.open("b.orc").read()["id"].to_pylist() == [3, 2, 1]
    assert command("rewrite", "a.orc", "c.orc", "--cluster-by", "id,city")[0] == 0


def test_wrong_calls_and_files(command):
    code, _, err = command("rewrite", "a.orc", "a.orc", "--sort-by", "idd")
    assert code == 2
    assert "no column 'idd'" in err
    Path("bad.orc").write_text("no orc")
    assert command("rewrite", "bad.orc", "b.orc")[0] == 3
    assert command("rewrite", "missing.orc", "b.orc")[0] == 4
    assert command("merge", "a.orc", "a.orc", "a.orc")[0] == 2
    assert command("rewrite", "a.orc", "b.orc", "--stripe-size", "many")[0] == 2
    assert sorted(os.listdir()) == ["a.orc", "bad.orc"]


def test_merge(command):
    code, out, _ = command("merge", "a.orc", "a.orc", "b.orc")
    assert (code, out[:12]) == (0, "b.orc: copy ")
    assert orcidx.open("b.orc").num_rows == 6


@pytest.mark.parametrize("suffix", ["parquet", "csv", "tsv", "jsonl"])
def test_convert_there_and_back(command, suffix):
    code, out, err = command("convert", "a.orc", f"b.{suffix}", "--timestamp-unit", "us")
    assert (code, err) == (0, "")
    assert out.startswith(f"b.{suffix}: 3 rows, {size_text(os.path.getsize(f'b.{suffix}'))}")
    code, out, _ = command("convert", f"b.{suffix}", "c.orc", "--compression", "zlib", "--bloom", "id", "--json")
    assert (code, json.loads(out)["rows"]) == (0, 3)
    back = orcidx.open("c.orc")
    assert back.compression == "ZLIB"
    found = back.read(timestamp_unit="us")
    assert found["id"].to_pylist() == [3, 1, 2]
    if suffix == "parquet":
        assert found.equals(TABLE)
        assert pyarrow.parquet.read_table("b.parquet").equals(TABLE)
    assert found["city"].to_pylist()[2] == "Rom, é"
    assert [str(value) for value in found["price"].to_pylist()[:2]] in (["1.50", "-2.25"], ["1.5", "-2.25"])
    assert command("convert", f"b.{suffix}", "c.orc")[0] == 2, "c.orc exists already"


def test_conversions_that_cannot_be(command):
    code, _, err = command("convert", "a.orc", "b.xlsx")
    assert code == 2
    assert ".parquet" in err
    assert command("convert", "a.parquet", "b.csv")[0] == 2
    Path("bad.parquet").write_text("no parquet")
    code, _, err = command("convert", "bad.parquet", "b.orc")
    assert code == 3
    assert "bad.parquet" in err
    Path("bad.jsonl").write_text('{"a": 1}\n{"a": \n')
    assert command("convert", "bad.jsonl", "b.orc")[0] == 3
    orcidx.write_table(pa.table({"l": [[1]]}), "l.orc")
    assert command("convert", "l.orc", "b.csv")[0] == 3
    assert not [name for name in os.listdir() if name.startswith((".", "b."))]
    assert command("convert", "l.orc", "l.jsonl")[0] == 0
    assert Path("l.jsonl").read_text() == '{"l": [1]}\n'
