"""``OrcFile.may_contain`` returns True for every stored value, and False if an index proves that a value is absent. The
work of a call is limited."""

from __future__ import annotations

import decimal
import io
import json
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest
from cli.test_cli import orcidx_command  # noqa: F401  (a fixture)
from indexed_directory import index_here

import orcidx
from orcidx import InvalidQuery, paimon
from orcidx.fetching.drive import run_value
from orcidx.scanner import key_search

ROWS = 4000
NUMBERS = np.random.default_rng(5).permutation(ROWS) * 2
TABLE = pa.table(
    {
        "id": np.arange(ROWS) * 2,
        "shuffled": NUMBERS,
        "text": [f"k{number:05}" for number in NUMBERS],
        "few": [f"f{number % 50 * 2:03}" for number in range(ROWS)],
        "amount": pa.array([decimal.Decimal(int(n)).scaleb(-2) for n in NUMBERS], pa.decimal128(12, 2)),
        "float": pa.array([float("nan") if n % 10 == 0 else n / 2 for n in NUMBERS.tolist()]),
        "day": pa.array(NUMBERS.astype(np.int32), pa.date32()),
        "flag": [True] * ROWS,
        "gone": pa.array([None] * ROWS, pa.int32()),
        "s": pa.array([{"a": {"b": number}} if number % 3 else None for number in range(ROWS)]),
    }
)


@pytest.fixture(scope="module")
def stored() -> bytes:
    out = io.BytesIO()
    names = ["shuffled", "text", "amount", "day"]
    orcidx.write_table(TABLE, out, row_index_stride=100, bloom_filter_columns=names, bloom_filter_fpp=0.001)
    return out.getvalue()


def answers(source: Any, column: Any, keys: Any, **options: Any) -> list[bool]:
    found = orcidx.open(source).may_contain(column, keys, **options)
    assert isinstance(found, pa.BooleanArray)
    assert found.null_count == 0
    return found.to_pylist()


@pytest.mark.parametrize("column", TABLE.column_names[:-1])
def test_every_stored_value_may_be_there(stored: bytes, column: str) -> None:
    assert all(answers(stored, column, TABLE[column])), column


@pytest.mark.parametrize(("column", "odd"), [("shuffled", 1), ("text", 1), ("amount", 1), ("day", 1), ("few", 1)])
def test_absent_keys_are_denied(stored: bytes, column: str, odd: int) -> None:
    """The tested columns have only even numbers, or texts with even numbers. Bloom filters rule out most of the odd
    numbers, and a dictionary rules out all of them."""
    numbers = np.arange(odd, 100 if column == "few" else ROWS, 2)
    keys: Any = {
        "text": lambda: [f"k{number:05}" for number in numbers],
        "few": lambda: [f"f{number:03}" for number in numbers],
        "amount": lambda: [decimal.Decimal(int(number)).scaleb(-2) for number in numbers],
        "day": lambda: pa.array(numbers.astype(np.int32), pa.date32()),
    }.get(column, lambda: numbers)()
    found = answers(stored, column, keys)
    assert sum(found) <= (0 if column == "few" else 0.08 * len(found))


def test_keys_are_converted_as_literals_of_where(stored: bytes) -> None:
    nan = float("nan")
    assert (
        answers(stored, "id", [2, 2.0, 2.5, decimal.Decimal("4.00"), -1, 10**30])
        == [True, True, False, True] + [False] * 2
    )
    assert answers(stored, "id", [nan, None]) == [False, False]
    assert answers(stored, "float", [nan, -0.0, 0.0, None]) == [True, True, True, False]
    assert answers(stored, "flag", [True, False, None]) == [True, False, False]
    assert answers(stored, "gone", [None, 0, 7]) == [True, False, False]
    assert answers(stored, "id", []) == []
    for wrong in ("2", b"2", 2, None):
        with pytest.raises(InvalidQuery, match="keys must be a list of keys"):
            answers(stored, "id", wrong)
    with pytest.raises(InvalidQuery, match="cannot be compared"):
        answers(stored, "id", ["two"])
    with pytest.raises(InvalidQuery, match="did you mean"):
        answers(stored, "idd", [2])
    with pytest.raises(InvalidQuery, match="only is_null"):
        answers(stored, "s", [None])
    with orcidx.open(stored) as file:
        file.close()
        with pytest.raises(InvalidQuery, match="closed"):
            file.may_contain("id", [2])


def test_char_compares_trimmed() -> None:
    pyorc = pytest.importorskip("pyorc")
    out = io.BytesIO()
    with pyorc.Writer(out, "struct<c:char(5)>", bloom_filter_columns=["c"]) as writer:
        for text in ("ab", "b", "d"):
            writer.write((text,))
    assert answers(out.getvalue(), "c", ["ab", "ab  ", "b", "a", "e"]) == [True, True, True, False, False]


def test_nested_columns(stored: bytes) -> None:
    inside = [number for number in range(ROWS) if number % 3]
    for path in ("s.a.b", ("s", "a", "b")):
        assert all(answers(stored, path, [*inside, None]))
        assert answers(stored, path, [-1, ROWS]) == [False, False]
    out = io.BytesIO()
    orcidx.write_table(pa.table({"list": [[1, 2], [3]]}), out)
    with pytest.raises(InvalidQuery, match="inside a list or a map"):
        answers(out.getvalue(), "list.item", [1])


def test_the_reasons_name_who_ruled_a_key_out(stored: bytes) -> None:
    with orcidx.open(stored) as file:
        out_of_range = file.explain_keys("id", [-3, 6, 1.5])
        assert out_of_range.reasons == (
            f"min 0, max {2 * ROWS - 2}, no null (file statistics)",
            "stripe 0, row group 0 may contain it",
            "no value of type int64 equals it",
        )
        assert out_of_range.may_contain.to_pylist() == [False, True, False]
        assert file.explain_keys("id", [199]).reasons == (
            "outside the minimum and maximum of each row group (row-group statistics)",
        )
        assert file.explain_keys("few", ["f001"]).reasons == (
            "no dictionary of the remaining stripes contains it (dictionary)",
        )
        reasons = file.explain_keys("shuffled", range(1, ROWS, 2)).reasons
        assert "no bloom filter of the remaining row groups contains it (bloom filter)" in reasons
        assert "no null" in file.explain_keys("id", [None]).reasons[0]


def test_many_keys_are_one_plan(stored: bytes) -> None:
    """Ten thousand keys read the same bytes as one key, because each index is read once."""
    with orcidx.open(stored) as file:
        with mock.patch.object(key_search, "run_value", wraps=run_value) as runs:
            file.may_contain("shuffled", range(10_000))
        assert runs.call_count == 1
    parts = []
    for keys in ([1, 3, ROWS], range(10_000)):
        with orcidx.open(stored) as file:
            file.may_contain("shuffled", keys)
            parts.append((file.reader.storage.metrics.requests, file.reader.storage.metrics.bytes_fetched))
    assert parts[0] == parts[1]
    with mock.patch.object(key_search, "PAIRS_AT_ONCE", 64), orcidx.open(stored) as file:
        small = file.may_contain("text", [f"k{number:05}" for number in range(3000)])
    assert small == orcidx.open(stored).may_contain("text", [f"k{number:05}" for number in range(3000)])


def test_a_paimon_index_rules_keys_out(stored: bytes) -> None:
    absent = [n / 2 + 0.25 for n in range(100)]
    for spec in ({"bitmap": {"float": {}}}, {"bloom-filter": {"float": {"items": ROWS, "fpp": 0.001}}}):
        data = paimon.build_file_index(TABLE.select(["float"]), spec).to_bytes()
        reason = f"the index has no row with it (Paimon {next(iter(spec))} index)"
        with orcidx.open(stored) as file:
            assert all(file.may_contain("float", TABLE["float"], file_index=data).to_pylist())
            found = file.explain_keys("float", absent, file_index=data)
        assert found.reasons.count(reason) == len(absent) - found.may_contain.true_count >= len(absent) - 5


def test_keys_of_several_hashes_and_of_none() -> None:
    """A bloom filter may contain one of two forms of a decimal, so a key of this type has several hashes. A key with
    more decimal places than the column has no hash, because no stored value is equal to it."""
    out = io.BytesIO()
    values = pa.array([decimal.Decimal(n) for n in range(0, 1000, 2)], pa.decimal128(12, 2))
    pyarrow.orc.write_table(pa.table({"d": values}), out, bloom_filter_columns=[1], bloom_filter_fpp=0.001)
    keys = [decimal.Decimal("1E-500"), decimal.Decimal("5.5"), decimal.Decimal("500")]
    assert answers(out.getvalue(), "d", keys) == [False, False, True]


def test_damaged_indexes_rule_nothing_out(stored: bytes) -> None:
    """Some bytes of a stripe's indexes are flipped, one at a time. No stored value is ruled out, and the reasons say
    what is damaged."""
    with orcidx.open(stored) as file:
        stripe = file.stripes[0]
    keys = NUMBERS[:50]
    told = set()
    rng = np.random.default_rng(9)
    for place in rng.integers(stripe.offset, stripe.offset + stripe.index_length, 60).tolist():
        broken = bytearray(stored)
        broken[place] ^= 0xFF
        for column in ("shuffled", "text"):
            asked = keys if column == "shuffled" else [f"k{number:05}" for number in keys]
            try:
                found = orcidx.open(bytes(broken)).explain_keys(column, asked)
            except orcidx.CorruptFile:
                continue  # the file cannot be read without this structure
            told |= {note.kind for note in found.notes}
            if "damaged" in {note.kind for note in found.notes}:
                assert found.may_contain.true_count == len(keys)
                assert "damaged" in found.reasons[0]
    assert "damaged" in told
    found = orcidx.open(stored).explain_keys("id", [2, -7], file_index=b"no index at all")
    assert found.may_contain.to_pylist() == [True, False]
    assert "damaged" in found.reasons[0]


def test_files_of_other_writers_and_without_rows() -> None:
    out = io.BytesIO()
    pyarrow.orc.write_table(
        TABLE.select(["id", "text", "few"]),
        out,
        bloom_filter_columns=[1, 2],
        bloom_filter_fpp=0.01,
        row_index_stride=500,
    )
    for column in ("id", "text", "few"):
        assert all(answers(out.getvalue(), column, TABLE[column]))
    assert sum(answers(out.getvalue(), "text", [f"k{n:05}" for n in range(1, ROWS, 2)])) < ROWS // 8
    out = io.BytesIO()
    orcidx.write_table(TABLE.slice(0, 0), out)
    with orcidx.open(out.getvalue()) as file:
        found = file.explain_keys("id", [2, None])
    assert found.may_contain.to_pylist() == [False, False]
    assert found.reasons[0] == "the file has no rows"


def test_options_turn_evidence_off(stored: bytes) -> None:
    assert answers(stored, "shuffled", [1], row_index=False, bloom_filters=False) == [True]
    assert sum(answers(stored, "shuffled", range(1, 100, 2), row_index=False)) < 10
    assert all(answers(stored, "shuffled", range(1, 99, 2), bloom_filters=False))


def test_the_command(stored: bytes, tmp_path: Path, orcidx_command: Any) -> None:  # noqa: F811
    path = tmp_path / "file.orc"
    path.write_bytes(stored)
    code, out, _ = orcidx_command("may-contain", str(path), "id", "6", "-7")
    assert code == 0
    assert out.splitlines()[1:] == [
        "6\tyes\tstripe 0, row group 0 may contain it",
        f"-7\tno\tmin 0, max {2 * ROWS - 2}, no null (file statistics)",
    ]
    code, out, _ = orcidx_command("may-contain", str(path), "float", "nan", "--null", "--json")
    found = json.loads(out)
    assert [(key["key"], key["may_contain"]) for key in found["keys"]] == [("nan", True), (None, False)]
    assert orcidx_command("may-contain", str(path), "flag", "false")[0] == 1
    assert orcidx_command("may-contain", str(path), "id", "six")[0] == 2
    assert orcidx_command("may-contain", str(path), "id")[0] == 2


def test_the_command_asks_the_index_directory(stored: bytes, tmp_path: Path, orcidx_command: Any) -> None:  # noqa: F811
    path = tmp_path / "file.orc"
    path.write_bytes(stored)
    index_here(tmp_path, {"bitmap": {"float": {}}})
    code, out, _ = orcidx_command("may-contain", str(path), "float", "0.25")
    assert (code, out.splitlines()[1]) == (1, "0.25\tno\tthe index has no row with it (Paimon bitmap index)")
