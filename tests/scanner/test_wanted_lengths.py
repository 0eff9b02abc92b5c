"""Strings that are ruled out by their lengths. The tests check that the rows are the same as if all strings were read,
and that the bytes of strings without a wanted length are not decompressed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import orcidx
from orcidx.scanner import column_group, row_width, tested_columns, wanted_lengths

ROWS = 6_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file whose strings have other lengths in each block of 1,000 rows. ``text`` has strings of 20 to 25 bytes, and
    in one block also longer ones."""
    rng = np.random.default_rng(11)
    digits = rng.integers(0, 10**9, (ROWS, 4))
    long = np.array(["".join(map(str, row)).ljust(36, "0") for row in digits])
    cut = 20 + np.arange(ROWS) // 1000
    text = [one[:size] for one, size in zip(long, cut)]
    text[3456] = "5 text that is longer than all others, é"
    holes = rng.random(ROWS) < 0.2
    table = pa.table(
        {
            "id": np.arange(ROWS),
            "text": text,
            "holes": pa.array(text, mask=holes),
            "bytes": pa.array([one.encode() for one in text], pa.binary()),
            "char": pa.array([one + "  " for one in text]),
            "empty": ["" if row == 5_100 else one for row, one in enumerate(text)],
            "third": np.arange(ROWS) % 3,
        }
    )
    path = str(tmp_path_factory.mktemp("lengths") / "file.orc")
    options: dict[str, Any] = {"row_index_stride": 1000, "compression_block_size": 4096}
    orcidx.write_table(table, path, dictionary_key_size_threshold=0, types={"char": "char(60)"}, **options)
    return path


@pytest.fixture(autouse=True, params=[False, True], ids=["", "tested"])
def tested(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether strings are tested while they are decoded. If they are, their lengths are used in another way."""
    monkeypatch.setattr(tested_columns, "ENABLED", request.param)
    return bool(request.param)


TEXT = "'5 text that is longer than all others, é'"
SHORT = "'" + 21 * "1" + "'"

CONDITIONS = [
    (f"text = {TEXT}", 1),
    ("text = '555'", 0),
    (f"text = {SHORT}", 0),  # strings of one block have this length
    (f"text = {TEXT} AND third = 0", 1),
    (f"text = {TEXT} AND third = 1", 0),
    (f"text IN ({TEXT}, '555', {SHORT})", 1),
    (f"text = {TEXT} OR text = '555'", 1),
    (f"text = {TEXT} OR (text = '555' AND third = 1)", 1),
    (f"text = {TEXT} OR id = 7", 2),
    ("text <> '555'", ROWS),
    ("NOT text IN ('555', '5555')", ROWS),
    ("text = '555' OR text IS NOT NULL", ROWS),
    ("text = '555' AND text = '5555'", 0),
    ("text <=> '555' OR third = 2", ROWS // 3),
    ("text = '555' AND upper(text) = '555'", 0),
    ("empty = ''", 1),
    ("holes = ''", 0),
    ("holes = '555' OR holes IS NULL", None),
    ("bytes = X'353535'", 0),
    (f"bytes = text AND text = {TEXT}", 1),
    ("char = '555'", 0),
]


@pytest.mark.parametrize("most", [1, column_group.MANY_ROWS], ids=["columns apart", "columns together"])
@pytest.mark.parametrize(("where", "rows"), CONDITIONS)
def test_the_rows_are_those_without_lengths(
    path: str, monkeypatch: pytest.MonkeyPatch, where: str, rows: int | None, most: int
) -> None:
    monkeypatch.setattr(column_group, "MANY_ROWS", most)
    for kind in ("string", "view"):
        with orcidx.open(path, strings=kind, char="trimmed") as file:
            for options in ({}, {"batch_size": 333}, {"row_range": (150, 4321)}, {"columns": ["id"]}):
                scan = file.scan(where=where, **options)
                found, count = scan.to_table(), scan.count_rows()
                with monkeypatch.context() as patch:
                    patch.setattr(wanted_lengths, "ENABLED", False)
                    assert found.equals(scan.to_table())
                assert count == len(found)
                assert "row_range" in options or rows in (None, count)


def test_padded_and_replaced_strings_are_read(path: str, tmp_path: Path) -> None:
    """The options ``char`` and ``utf8`` can change the lengths of strings."""
    bad = tmp_path / "bad.orc"
    orcidx.write_table(
        pa.table({"text": ["a~" + 30 * "b"]}), str(bad), compression="none", dictionary_key_size_threshold=0
    )
    bad.write_bytes(bad.read_bytes().replace(b"a~b", b"a\xffb"))
    for name, where, options in (
        (str(bad), "text = 'a\ufffd" + 30 * "b" + "'", {"utf8": "replace"}),
        (path, f"char = {TEXT}", {"char": "padded"}),
        (path, f"char = {TEXT}", {"char": "stored"}),
    ):
        with orcidx.open(name, **options) as file:
            assert file.scan(where=where).count_rows() == 1


def decompressed(path: str, where: str, **options: Any) -> tuple[int, int]:
    """Returns the number of rows of a scan, and of the bytes that it decompressed."""
    with orcidx.open(path) as file:
        batches = file.scan(where=where, **options).to_batches()
        return sum(batch.num_rows for batch in batches), batches.metrics.bytes_decompressed


@pytest.mark.parametrize("where", ["text = '555'", "holes IN ('555', '55') AND third = 0", "bytes = X'353535'"])
def test_bytes_are_not_decompressed(path: str, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.setattr(column_group, "MANY_ROWS", 1)
    rows, size = decompressed(path, where)
    monkeypatch.setattr(wanted_lengths, "ENABLED", False)
    monkeypatch.setattr(tested_columns, "ENABLED", False)
    before = decompressed(path, where)
    assert (rows, before[0]) == (0, 0)
    assert size < 20_000 < ROWS * 15 < before[1]


def test_bytes_before_a_wanted_length_are_read_later(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest string is the only one of its length, and is read after the bytes that were left out before it. The
    bytes of the reads after it are left out, too."""
    monkeypatch.setattr(column_group, "MANY_ROWS", 1)
    monkeypatch.setattr(row_width, "ENABLED", False)
    rows, size = decompressed(path, f"text = {TEXT}", columns=["text"], batch_size=100)
    monkeypatch.setattr(wanted_lengths, "ENABLED", False)
    monkeypatch.setattr(tested_columns, "ENABLED", False)
    before = decompressed(path, f"text = {TEXT}", columns=["text"], batch_size=100)
    assert (rows, before[0]) == (1, 1)
    assert size < 0.7 * before[1]
