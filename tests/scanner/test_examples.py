"""Compares the example files of Apache ORC with their expected rows. The files are read from the first row on, and from
the start of every row group."""

from __future__ import annotations

import gzip
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from goldens import GOLDEN_ORC, names_of

import orcidx

BAD = {
    "missing_length_stream_in_string_dict": "LENGTH",
    "negative_dict_entry_lengths": "negative",
    "missing_blob_stream_in_string_dict": "DICTIONARY_DATA",
    "stripe_footer_bad_column_encodings": "",
}
"""The error of each corrupt example."""
READABLE = [name for name in names_of(GOLDEN_ORC, "*.orc") if not str(name).startswith("corrupt/")]


def shown(value: Any, kind: pa.DataType) -> Any:
    """Returns a value in the form of the expected files."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: shown(value[field.name], field.type) for field in kind}
    if pa.types.is_list(kind):
        return [shown(item, kind.value_type) for item in value]
    if pa.types.is_map(kind):
        return [{"key": shown(k, kind.key_type), "value": shown(v, kind.item_type)} for k, v in value]
    if pa.types.is_binary(kind):
        return list(value)
    if pa.types.is_date(kind):
        return value.isoformat()
    if pa.types.is_floating(kind):
        return Decimal(repr(value)) if math.isfinite(value) else value
    return value


def shown_column(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return [None if nanos is None else stamp(nanos) for nanos in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_union(kind):
        return [value for chunk in column.chunks for value in shown_union(chunk)]
    return [shown(value, kind) for value in column.to_pylist()]


def shown_union(chunk: pa.UnionArray) -> list[Any]:
    variants = [shown_column(pa.chunked_array([chunk.field(i)])) for i in range(chunk.type.num_fields)]
    values = [variants[tag][row] for row, tag in enumerate(chunk.type_codes.to_pylist())]
    tags = chunk.type_codes.to_pylist()
    return [None if value is None else {"tag": tag, "value": value} for tag, value in zip(tags, values)]


def stamp(nanos: int) -> str:
    seconds, fraction = divmod(nanos, 1_000_000_000)
    text = str(pa.scalar(seconds, pa.timestamp("s")).as_py())
    return f"{text}.{f'{fraction:09d}'.rstrip('0') or '0'}"


def same(expected: Any, got: Any) -> bool:
    if isinstance(expected, dict):
        if got is None and expected.keys() == {"tag", "value"}:
            return expected["value"] is None  # Arrow has no null unions, only unions of a null value
        return isinstance(got, dict) and expected.keys() == got.keys() and all(same(expected[k], got[k]) for k in got)
    if isinstance(expected, list):
        return isinstance(got, list) and len(expected) == len(got) and all(map(same, expected, got))
    if isinstance(expected, Decimal) and isinstance(got, (int, Decimal)):
        # Java prints a float or double with the fewest digits that identify it, like ``repr`` of a Python float.
        return expected == got or float(expected) == float(got)
    return bool(expected == got)


@pytest.mark.parametrize("name", names_of(GOLDEN_ORC, "expected/*.jsn.gz"))
def test_rows_equal_the_expected_ones(name: str, golden_orc: Path) -> None:
    example = Path(name).name.removesuffix(".jsn.gz")
    with orcidx.open(golden_orc / f"{example}.orc") as f:
        table = f.read(timestamp_unit="ns")
    with gzip.open(golden_orc / name, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line, parse_float=Decimal) for line in lines]
    assert len(rows) == table.num_rows
    if table.schema.names == [""]:
        assert all(map(same, rows, floats(table.column(0))))
        return
    for column_name in table.schema.names:
        got = floats(table.column(column_name))
        expected = [row[column_name] for row in rows]
        different = [i for i, pair in enumerate(zip(expected, got)) if not same(*pair)]
        assert not different, (column_name, different[0], expected[different[0]], got[different[0]])


def floats(column: pa.ChunkedArray) -> list[Any]:
    """Returns float32 values as Java prints them, with the shortest text that is parsed as the same float."""
    if pa.types.is_float32(column.type):
        texts = column.cast(pa.string()).to_pylist()
        return [None if text is None else Decimal(text) for text in texts]
    return shown_column(column)


@pytest.mark.parametrize("name", READABLE)
def test_any_row_range_reads_like_the_whole(name: str, golden_orc: Path) -> None:
    """Reads seven rows from the start of each row group, by the positions of the row index. The last row group is read
    first."""
    with orcidx.open(golden_orc / name) as f:
        whole = f.read(timestamp_unit="us")
        starts = [start for start in row_group_starts(f) if start < f.num_rows]
        for start in list(reversed(starts))[:: max(1, len(starts) // 40)]:
            part = f.read(row_range=(start, start + 7), timestamp_unit="us")
            assert part.equals(whole.slice(start, 7)), start


def row_group_starts(f: orcidx.OrcFile) -> list[int]:
    stride = f.tail.footer.row_index_stride or (1 << 62)
    starts, first = [], 0
    for stripe in f.stripes:
        starts += range(first, first + stripe.rows, stride)
        first += stripe.rows
    return starts


@pytest.mark.parametrize("name", names_of(GOLDEN_ORC, "corrupt/*.orc"))
def test_corrupt_examples_raise(name: str, golden_orc: Path) -> None:
    with pytest.raises(orcidx.CorruptFile, match=BAD[Path(name).stem]), orcidx.open(golden_orc / name) as f:
        f.read()
