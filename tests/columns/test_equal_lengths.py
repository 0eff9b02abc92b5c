"""Strings that all have the same length: their offsets, and the rows that a condition keeps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import orcidx
from orcidx.orc import buffers
from orcidx.orc.columns import base
from orcidx.scanner import column_group

ROWS = 10_000
LENGTHS = (0, 1, 2, 3, 4, 8, 16, 17)


@pytest.fixture(autouse=True)
def large_stripes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_group, "MANY_ROWS", 1)


def texts(rng: np.random.Generator, length: int, rows: int = ROWS) -> list[str]:
    letters = np.array(list("abcdefgh"))
    return ["".join(row) for row in rng.choice(letters, (rows, length))]


def check(path: Path, table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compares the rows of several conditions with pyarrow's filter. With ``KEEPS``, rows are dropped while the strings
    are decoded. Without ``KEEPS``, all rows are decoded, and the matching rows are selected afterwards."""
    orcidx.write_table(table, path, row_index_stride=1000, dictionary_key_size_threshold=0)
    with orcidx.open(path) as file:
        for keeps in (True, False):
            monkeypatch.setattr(base, "KEEPS", keeps)
            for least in (0, 1, 50, 99, 100):
                for batch_size in (700, 1 << 20):
                    found = file.scan(["s"], f"noise >= {least}", batch_size=batch_size).to_table()
                    found.validate(full=True)
                    assert found.equals(table.filter(pc.field("noise") >= least).select(["s"]))


@pytest.mark.parametrize("length", LENGTHS)
def test_conditions(length: int, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"noise": rng.integers(0, 100, ROWS), "s": texts(rng, length)})
    check(tmp_path / "file.orc", table, monkeypatch)


@pytest.mark.parametrize("at", [0, 4095, 4096, 4097, 8191, ROWS - 1])
def test_one_string_of_another_length(
    at: int, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = texts(rng, 4)
    words[at] = "another"
    check(tmp_path / "file.orc", pa.table({"noise": rng.integers(0, 100, ROWS), "s": words}), monkeypatch)


def test_texts_that_are_not_ascii(tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [word.replace("a", "ä").replace("b", "ß") if not set(word) - set("ab") else "cd" for word in texts(rng, 2)]
    assert len({len(word.encode()) for word in words}) == 2
    both = [["äb", "ßc"][number] for number in rng.integers(0, 2, ROWS).tolist()]  # each text has 3 bytes
    wide = [["ä", "ß", "cd"][number] for number in rng.integers(0, 3, ROWS).tolist()]  # each text has 2 bytes
    for number, column in enumerate((words, both, wide)):
        check(tmp_path / f"{number}.orc", pa.table({"noise": rng.integers(0, 100, ROWS), "s": column}), monkeypatch)


def test_invalid_text_among_rows_that_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invalid UTF-8 raises an error even in a row that the condition drops."""
    path = tmp_path / "file.orc"
    marker = "Zq"
    words = ["ab"] * ROWS
    words[500] = marker
    table = pa.table({"noise": np.arange(ROWS) % 100, "s": words})
    orcidx.write_table(table, path, compression="uncompressed", dictionary_key_size_threshold=0)
    data = path.read_bytes()
    assert data.count(marker.encode()) >= 1
    damaged = data.replace(marker.encode(), b"\xff\xfe")
    path.write_bytes(damaged)
    for keeps in (True, False):
        monkeypatch.setattr(base, "KEEPS", keeps)
        with orcidx.open(path) as file:
            scan = file.scan(["s"], "noise > 10")  # the condition drops row 500, whose text is invalid
            with pytest.raises(orcidx.CorruptFile, match="UTF-8"):
                scan.to_table()
            assert set(file.scan(["s"], "noise > 10", utf8="replace").to_table()["s"].to_pylist()) == {"ab"}


def test_offsets_of_equal_lengths() -> None:
    for kind, most in ((np.int32, 2**31 - 1), (np.int64, 2**63 - 1)):
        out = np.zeros(5, kind)
        buffers.fill_offsets(out, 7)
        assert out.tolist() == [0, 7, 14, 21, 28]
        with pytest.raises(ValueError, match="too long"):
            buffers.fill_offsets(out, most // 4 + 1)
