"""A verified rewrite accepts values that can be read only with the caller's options. It compares the values that are
read with these options."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import orcidx
from orcidx import ReadOptions

ROWS = 2500
TEXTS = pa.array([f"k{i * 7919 % ROWS:04}-ABCDE" if i % 3 else None for i in range(ROWS)])
NUMBERS = pa.array([Decimal(i * 1000 + i % 1000).scaleb(-3) for i in range(ROWS)], pa.decimal128(38, 3))
TIMES = pa.array([datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=i) for i in range(ROWS)])
ODD = {
    "utf8": (TEXTS, b"ABCDE", b"A\xffCDE"),
    "decimal_rounding": (NUMBERS, bytes.fromhex("28263003"), bytes.fromhex("28263002")),
    "timezone": (TIMES, b"UTC", b"XXT"),
}
"""For each option: a column, bytes of the written file, and the bytes that replace them. The changed file can be read
only with the option."""
WAYS: list[dict[str, Any]] = [{}, {"compression": "zstd"}, {"bloom_filters": ["x"]}, {"sort_by": "y"}]


def odd_file(path: Path, option: str, **options: Any) -> Path:
    """Writes a file that can be read only with the option."""
    column, old, new = ODD[option]
    table = pa.table({"x": column, "y": range(ROWS), "z": [i * 0.25 for i in range(ROWS)]})
    orcidx.write_table(
        table, path, compression="uncompressed", row_index_stride=1000, dictionary_key_size_threshold=0, **options
    )
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new))
    return path


@pytest.mark.parametrize("how", WAYS, ids=str)
@pytest.mark.parametrize(
    "read",
    [
        {"utf8": "replace"},
        {"decimal_rounding": "truncate"},
        {"decimal_rounding": "half_up"},
        {"timezone": "America/New_York"},
    ],
    ids=str,
)
@pytest.mark.parametrize("filtered", [False, True])
def test_sources_that_need_an_option(tmp_path: Path, how: dict[str, Any], read: dict[str, Any], filtered: bool) -> None:
    """The verification reads the source and the written file with the same options, so it accepts these sources."""
    (option,) = read
    source = odd_file(tmp_path / "a.orc", option, bloom_filter_columns=["x"] if filtered else None)
    target = tmp_path / "b.orc"
    made = orcidx.rewrite(source, target, read=ReadOptions(**read), **how)
    own = {} if option == "timezone" and made.way == "encode" else read
    assert orcidx.read_table(target, **own).equals(orcidx.read_table(source, **read))


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_damage_is_refused_also_with_options(tmp_path: Path, how: dict[str, Any]) -> None:
    source = odd_file(tmp_path / "a.orc", "utf8")
    old, new = (pa.array([value]).buffers()[1].to_pybytes()[:8] for value in (1500 * 0.25, 9e9))
    assert old in source.read_bytes()
    source.write_bytes(source.read_bytes().replace(old, new, 1))
    with pytest.raises(orcidx.CorruptFile, match=r"column z.*the values include 9000000000.0"):
        orcidx.rewrite(source, tmp_path / "b.orc", read=ReadOptions(utf8="replace"), **how)


@pytest.mark.parametrize("option", ODD)
def test_without_the_option_the_source_is_refused(tmp_path: Path, option: str) -> None:
    with pytest.raises(orcidx.CorruptFile, match="no file was published"):
        orcidx.rewrite(odd_file(tmp_path / "a.orc", option), tmp_path / "b.orc")
