"""Columns of a predicate that are tested while they are decoded. The tests check which columns are tested in this way,
and that the rows are the same as if arrays were made and then tested."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import orcidx
from orcidx import col
from orcidx.orc.columns import base
from orcidx.scanner import column_group, span_reader, tested_columns
from orcidx.scanner.column_group import ColumnGroup

ROWS = 5_000
DAY = datetime.date(2000, 1, 1)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    rng = np.random.default_rng(7)
    numbers = rng.integers(-100, 100, ROWS)
    nulls = rng.random(ROWS) < 0.3
    days = [DAY + datetime.timedelta(days=int(number)) for number in numbers]
    cents = pa.array([Decimal(int(number)).scaleb(-2) for number in numbers], pa.decimal128(15, 2))
    table = pa.table(
        {
            "long": np.where(
                numbers == 7, np.iinfo(np.int64).max, np.where(numbers == 8, np.iinfo(np.int64).min, numbers)
            ),
            "int": pa.array(numbers, pa.int32()),
            "short": pa.array(numbers, pa.int16()),
            "holes": pa.array(numbers, mask=nulls),
            "day": pa.array(days, mask=nulls),
            "cents": cents,
            "wide": cents.cast(pa.decimal128(30, 2)),
            "real": numbers / 3,
            "word": [f"w{number % 7}" for number in numbers],
            "label": [f"label number {number % 7}" for number in numbers],
            "kind": pa.array([f"kind number {number % 5}" for number in numbers], mask=nulls),
            "text": [f"t{row % 3000}" for row in range(ROWS)],
            "gaps": pa.array([f"t{row}".encode() for row in range(ROWS)], pa.binary(), mask=nulls),
            "id": np.arange(ROWS),
        }
    )
    path = str(tmp_path_factory.mktemp("tested") / "file.orc")
    orcidx.write_table(table, path, row_index_stride=1000)
    return path


@pytest.fixture(autouse=True)
def large_stripes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_group, "MANY_ROWS", 1)


def names_of_tested(path: str, monkeypatch: pytest.MonkeyPatch, columns: list[str], where: str) -> set[str]:
    """Returns the names of the columns that a scan tests while they are decoded."""
    found: set[str] = set()
    choose = span_reader.tested_columns

    def noted(group: ColumnGroup, names: Any, *others: Any, **options: Any) -> Any:
        chosen = choose(group, names, *others, **options)
        found.update([] if chosen is None else [names[place] for place in chosen.places])
        return chosen

    with monkeypatch.context() as patch, orcidx.open(path) as file:
        patch.setattr(span_reader, "tested_columns", noted)
        file.scan(columns, where).to_table()
    return found


@pytest.mark.parametrize(
    ("columns", "where", "expected"),
    [
        (["id"], "long < 5", {"long"}),
        (["id"], "long < 5 AND int >= 2 AND int < 50 AND day > DATE '2000-01-05'", {"long", "int", "day"}),
        (["id"], "cents BETWEEN 0.05 AND 0.07 AND holes = 3", {"cents", "holes"}),
        (["id", "long"], "long < 5 AND int < 50", {"int"}),  # ``long`` is returned, so it needs an array
        (["id"], "long < 5 OR int < 50", set()),
        (["id"], "long < 5 AND (long > -5 OR int < 50)", set()),
        (["id"], "int < 5 AND (long > -5 OR real < 50)", {"int"}),
        (["id"], "int IN (1, 5)", set()),
        (["id"], "int IN (5) AND NOT long > 3", {"int"}),
        (["id"], "int <> 5 AND long IS NOT NULL", set()),
        (["id"], "short < 5 AND wide < 5 AND real < 5 AND word < 'w3'", set()),
        (["id", "label"], "label < 'label number 3'", set()),  # ``label`` is returned, so it needs its strings
        (["id"], "label < 'label number 3' AND NOT label = 'label number 1' AND kind LIKE '%2'", {"label", "kind"}),
        (
            ["id"],
            "(label = 'label number 3' OR label LIKE 'label number 1%') AND kind NOT IN ('kind number 1')",
            {"label", "kind"},
        ),
        (["id"], "(label = 'label number 3' OR label IS NULL) AND int < 5", {"int"}),
        (
            ["id"],
            "label = 'label number 3' AND (label > 'l' OR kind = 'kind number 1') AND kind < 'kind number 4'",
            set(),
        ),
        (["id"], "upper(kind) = 'KIND NUMBER 1' AND label = 'label number 1'", {"label"}),
        (["id"], "int + 1 < 5 AND long < 5", {"long"}),  # pyarrow evaluates ``int + 1 < 5``, from arrays
        (["id"], "int + 1 < 5 AND long < 5 AND int < 3", {"long"}),
        (["id"], "int + 1 < 5 OR long < 5", set()),
        (["id"], "text = 't12' AND gaps IN (X'7431', X'74313233')", {"text", "gaps"}),
        (["id", "text"], "text = 't12' AND long < 5", {"text", "long"}),  # each returned string is 't12'
        (["id", "text", "gaps"], "text IN ('t12', 't13') AND gaps = X'7431'", {"text", "gaps"}),
        (["text"], "text = 't12' OR text = 't13'", set()),
        (["id"], "text = 't12' AND text > 'a' AND gaps <> X'7431'", set()),
        (["id"], "text = 't12' OR long < 5", set()),
        (["id"], "text IN ('1', '2', '3', '4', '5', '6', '7', '8', '9')", set()),
        (["id"], f"text = 't1{70_000 * 'x'}' AND int < 5", {"int"}),
        (["id"], "upper(text) = 'T12' AND text = 't12'", set()),
    ],
)
def test_which_columns(
    path: str, monkeypatch: pytest.MonkeyPatch, columns: list[str], where: str, expected: set[str]
) -> None:
    assert names_of_tested(path, monkeypatch, columns, where) == expected


CONDITIONS = [
    "long >= 9223372036854775807",
    "long > 9223372036854775807",
    "long <= -9223372036854775808",
    "long < 100000000000000000000 AND long >= -100000000000000000000",
    "long > 100000000000000000000",
    "int > 2147483648",
    "int >= -2147483648 AND int <= 2147483647",
    "int = 2.5",
    "int > 2.5 AND int < 3.5",
    "int > 5 AND int < 3",
    "int BETWEEN -3 AND 40 AND int >= 0 AND int <> 12",
    "holes > -20 AND holes <= 20 AND word = 'w1'",
    "day >= DATE '1999-12-01' AND day < DATE '2000-02-01' AND real > 0",
    "cents = 0.05 AND long < 50",
    "cents > 0.051 AND cents < 0.5",
    "cents < 1e30",
    "long = 3 AND long = 4",
    "long >= 0 AND (word = 'w3' OR real < 0)",
    "label = 'label number 3'",
    "label <> 'label number 3' AND kind <> 'kind number 0'",
    "label IN ('label number 0', 'label number 3') AND (kind = 'kind number 1' OR kind > 'kind number 3')",
    "NOT kind BETWEEN 'kind number 1' AND 'kind number 3' AND long < 50",
    "kind LIKE '%2' AND label NOT LIKE 'l%5'",
    "kind = 'absent'",
    "kind IS NULL AND label < 'label number 4'",
    "(kind IS NULL OR kind = 'kind number 2') AND label < 'label number 4'",
    "kind >= 'ki' AND kind < 'kj'",
    "kind NOT IN ('kind number 1', NULL)",
    "text = 't12'",
    "text = 'tall' AND long < 50",
    "text IN ('t12', 't130', 't2999', '') AND text IN ('t2999', 't12')",
    "text = 't12' AND text = 't13'",
    "gaps IN (X'7431', X'74313233', X'')",
    "gaps = X'7433303030' AND text = 't0'",
]


@pytest.mark.parametrize("where", CONDITIONS)
def test_the_rows_are_those_of_arrays(path: str, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    with orcidx.open(path) as file:
        for options in ({}, {"batch_size": 333}, {"row_range": (150, 4321)}, {"selection": list(range(3, ROWS, 17))}):
            for columns in (["id"], ["gaps", "id", "text"]):
                scan = file.scan(columns, where, **options)
                found, count = scan.to_table(), scan.count_rows()
                monkeypatch.setattr(tested_columns, "ENABLED", False)
                assert found.equals(scan.to_table())
                monkeypatch.setattr(tested_columns, "ENABLED", True)
                assert count == len(found)


@pytest.mark.parametrize("strings", ["string", "view", "dictionary"])
@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_returned_strings_are_the_literals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strings: Any, kind: pa.DataType
) -> None:
    """Many rows match, a string is empty, some are null, and the rows of one literal are too large for one batch."""
    texts = ["", "a", "é", "b" * 9000, "c" * 30, None, "d"]
    table = pa.table({"id": range(4_000), "text": pa.array([texts[row % 7] for row in range(4_000)])})
    table = table.set_column(1, "text", table["text"].cast(kind))
    path = str(tmp_path / "file.orc")
    orcidx.write_table(table, path, dictionary_key_size_threshold=0, row_index_stride=1000)
    values = table["text"].to_pylist()
    for wanted in ([texts[0]], [texts[2], texts[3]], [texts[1], "x", texts[4]], [texts[6], texts[0], texts[1]]):
        literals = [one if kind == pa.string() else str(one).encode() for one in wanted]
        expected = [row for row, value in enumerate(values) if value in literals]
        for limits in ({}, {"batch_bytes": 100_000}, {"batch_size": 333}):
            scan = orcidx.open(path, strings=strings).scan(where=col("text").is_in(literals), **limits)
            monkeypatch.setattr(tested_columns, "ENABLED", True)
            found = list(scan.to_batches())
            monkeypatch.setattr(tested_columns, "ENABLED", False)
            assert pa.Table.from_batches(found).equals(pa.Table.from_batches(list(scan.to_batches())))
            assert [row for batch in found for row in batch["id"].to_pylist()] == expected
            if "batch_bytes" in limits:
                assert max(batch.nbytes for batch in found) <= 120_000


def test_a_damaged_string_equals_no_literal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A string that is not valid UTF-8 is not returned, because no literal has its bytes."""
    path = tmp_path / "bad.orc"
    table = pa.table({"text": [f"a~{row:05}" for row in range(3_000)]})
    orcidx.write_table(table, path, compression="none", dictionary_key_size_threshold=0)
    path.write_bytes(path.read_bytes().replace(b"a~00777", b"a\xff00777"))
    for is_on in (True, False):
        monkeypatch.setattr(tested_columns, "ENABLED", is_on)
        with orcidx.open(path) as file:
            if is_on:
                assert file.scan(where=col("text") == "a~00778").to_table().num_rows == 1
            with pytest.raises(orcidx.OrcidxError):
                file.scan(where=col("text") == "a\udcff00777").to_table()
            with pytest.raises(orcidx.OrcidxError):
                file.scan(where=col("text") == b"a\xff00777").to_table()


@pytest.mark.parametrize("char", ["stored", "trimmed", "padded"])
def test_entries_are_tested_in_the_form_of_the_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, char: Any
) -> None:
    path = str(tmp_path / "char.orc")
    words = [None if row % 11 == 0 else ["a", "b ", "c  ", "bcd"][row % 4] for row in range(ROWS)]
    options: dict[str, Any] = {"types": {"word": "char(3)"}, "dictionary_key_size_threshold": 1.0}
    orcidx.write_table(pa.table({"id": range(ROWS), "word": words}), path, row_index_stride=1000, **options)
    for where in ("word = 'b'", "word > 'a'", "word LIKE 'b%'", "word IN ('a  ', 'c')", "word <> 'a'"):
        with orcidx.open(path, char=char) as file:
            assert names_of_tested(path, monkeypatch, ["id"], where) == {"word"}
            scan = file.scan(["id"], where)
            found = scan.to_table()
            monkeypatch.setattr(tested_columns, "ENABLED", False)
            assert found.equals(scan.to_table()), where
            monkeypatch.setattr(tested_columns, "ENABLED", True)
            assert scan.count_rows() == found.num_rows > 0


def test_no_array_of_a_tested_column_is_made(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a scan only tests a column of numbers, or of strings with a dictionary, its largest buffer has one byte for
    each row. An array of the numbers would need eight bytes for each row, and of the dictionary's indexes four."""
    sizes: list[int] = []
    allocate = base.allocate

    def noted(self: Any, size: int) -> Any:
        sizes.append(size)
        return allocate(size)

    monkeypatch.setattr(base.ColumnReader, "allocate", noted)
    with orcidx.open(path) as file:
        assert file.scan(where="long BETWEEN -50 AND 50", batch_size=ROWS).count_rows() > 1000
        assert file.scan(where="label < 'label number 3'", batch_size=ROWS).count_rows() > 1000
    assert sizes
    assert max(sizes) <= ROWS
