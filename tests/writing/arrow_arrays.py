"""Short arrays of every Arrow type, and of dictionaries, runs and views that are nested in each other."""

from __future__ import annotations

import decimal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["ARRAYS", "NOT_WRITTEN", "OwnType", "stored"]


class OwnType(pa.ExtensionType):
    """An extension type of a user. pyarrow does not define a hash for it."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "orcidx.tests.own")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> OwnType:
        return cls(storage)


def _own(values: pa.Array) -> Any:
    return pa.ExtensionArray.from_storage(OwnType(values.type), values)


def _dictionary(values: Any, index: pa.DataType | None = None, codes: tuple[int | None, ...] = (0, 1, 0)) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(codes, index or pa.int32()), values)


def _runs(values: Any) -> Any:
    return pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), values)


def _lists(values: Any) -> Any:
    return pa.ListArray.from_arrays([0, 1, len(values)], values)


def _fixed(values: Any, size: int = 2) -> Any:
    return pa.FixedSizeListArray.from_arrays(values, size)


def _sparse(*children: Any) -> Any:
    return pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), list(children))


def _dense(*children: Any, codes: tuple[int, ...] = (0, 1)) -> Any:
    names = [str(code) for code in codes]
    tags, places = pa.array(codes, pa.int8()), pa.array([0, 0], pa.int32())
    return pa.UnionArray.from_dense(tags, places, list(children), names, list(codes))


def _plain() -> Iterator[tuple[str, Any]]:
    yield "null", pa.nulls(3)
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"):
        yield name, pa.array([1, None, 3], getattr(pa, name)())
    yield "float16", pa.array(np.array([1, 2, 3], np.float16))
    yield "bool", pa.array([True, None, False])
    for name in ("string", "large_string", "string_view"):
        yield name, pa.array(["a", None, "a text beyond a view"], getattr(pa, name)())
    for name in ("binary", "large_binary", "binary_view"):
        yield name, pa.array([b"a", None, b"bytes beyond a view"], getattr(pa, name)())
    yield "binary(2)", pa.array([b"ab", None, b"cd"], pa.binary(2))
    yield "binary(0)", pa.array([b"", None, b""], pa.binary(0))
    yield "date32", pa.array([1, None, 3], pa.date32())
    yield "date64", pa.array([86_400_000, None, 0], pa.date64())
    for type_ in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.month_day_nano_interval()):
        value = pa.MonthDayNano([1, 2, 3]) if type_ == pa.month_day_nano_interval() else 1
        yield str(type_), pa.array([value, None], type_)
    for unit in ("s", "ms", "us", "ns"):
        for type_ in (pa.timestamp(unit), pa.timestamp(unit, "Europe/Oslo"), pa.duration(unit)):
            yield str(type_), pa.array([1, None, 3], type_)
    for name, digits, scale in (
        ("decimal32", 5, 2), ("decimal64", 15, 2), ("decimal128", 38, 0), ("decimal256", 38, 2),
        ("decimal256", 76, 2), ("decimal128", 5, -2),
    ):  # fmt: skip
        if hasattr(pa, name):
            value = decimal.Decimal(2**100) if digits == 38 and not scale else decimal.Decimal(100)
            yield f"{name}({digits},{scale})", pa.array([value, None], getattr(pa, name)(digits, scale))


def _nested() -> Iterator[tuple[str, Any]]:
    views, texts = pa.array(["a", "b", "c", "d"], pa.string_view()), pa.array(["a", "b", "c", "d"])
    two, entries = views.slice(0, 2), texts.slice(0, 2)
    for name in ("list_", "large_list", "list_view", "large_list_view"):
        yield name, pa.array([[1], None, []], getattr(pa, name)(pa.int64()))
    yield "fixed list", pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2))
    yield "fixed list(0)", pa.array([[], None, []], pa.list_(pa.int64(), 0))
    yield "fixed list of views", _fixed(views)
    yield "fixed list of binary views", _fixed(pa.array([b"a", b"b"], pa.binary_view()))
    yield "fixed list of fixed list of views", _fixed(_fixed(views), 1)
    yield "fixed list of dictionary", _fixed(texts.dictionary_encode())
    yield "fixed list of runs", _fixed(pa.RunEndEncodedArray.from_arrays(pa.array([2, 4], pa.int32()), entries))
    yield "fixed list of null", _fixed(pa.nulls(4))
    yield "list of views", _lists(two)
    yield "list of dictionary", _lists(texts.dictionary_encode())
    yield "list of dictionary of views", _lists(_dictionary(two, pa.int8()))
    yield "list of runs", _lists(_runs(entries))
    yield "list of own", _lists(_own(pa.array([1, 2, 3])))
    yield "list of null", _lists(pa.nulls(2))
    yield "struct", pa.array([{"a": 1, "b": "x"}, None], pa.struct([("a", pa.int64()), ("b", pa.string())]))
    yield "struct of view", pa.StructArray.from_arrays([two], ["v"])
    yield "struct of nothing", pa.array([{}, None], pa.struct([]))
    yield "struct of union", pa.StructArray.from_arrays([_sparse(pa.array([1, 2]), entries)], ["u"])
    yield "map", pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64()))
    yield "map of views", pa.MapArray.from_arrays([0, 1, 2], two, two)
    yield "map of null", pa.MapArray.from_arrays([0, 1], entries.slice(0, 1), pa.nulls(1))
    yield "dictionary", pa.array(["a", None, "a"]).dictionary_encode()
    yield "dictionary with a null entry", _dictionary(pa.array([None, "b"]), codes=(0, None, 1))
    yield "dictionary by uint64", _dictionary(entries, pa.uint64())
    for name, values in (
        ("views", two), ("int64", pa.array([1, 2])), ("dictionary", entries.dictionary_encode()),
        ("struct", pa.array([{"a": 1}, {"a": 2}])), ("list", pa.array([[1], [2]])), ("own", _own(pa.array([1, 2]))),
        ("decimal32", pa.array([decimal.Decimal(1), None], pa.decimal32(5, 2) if hasattr(pa, "decimal32") else None)),
    ):  # fmt: skip
        yield f"dictionary of {name}", _dictionary(values)
    yield "runs", _runs(entries)
    yield "runs of views", _runs(two)
    yield "runs of lists", _runs(pa.array([[1], [2]]))
    yield "runs of dictionary", _runs(entries.dictionary_encode())
    yield "sparse union", _sparse(pa.array([1, 2]), entries)
    yield "dense union", _dense(pa.array([1]), pa.array(["b"]))
    yield "dense union by codes", _dense(pa.array([1]), pa.array(["b"]), codes=(5, 7))
    yield "union of views", _dense(pa.array([1]), views)
    yield "union of nulls", _dense(pa.array([None], pa.int64()), pa.array([None], pa.string()))
    yield "union of own", _dense(_own(pa.array([1])), views)
    yield "own", _own(pa.array([1, 2, 3]))
    yield "own of views", _own(views)
    yield "uuid", pa.array([b"0123456789abcdef"] * 2, pa.uuid())
    yield "bool8", pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0], pa.int8()))
    yield "json", pa.array(['{"a":1}', "2"], pa.json_())
    yield "opaque", pa.ExtensionArray.from_storage(pa.opaque(pa.int64(), "x", "y"), pa.array([1, 2]))
    pairs = pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2))
    yield "tensor", pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int32(), [2]), pairs)


ARRAYS: dict[str, Any] = dict([*_plain(), *_nested()])

NOT_WRITTEN = {
    *("null", "uint64", "time32[s]", "time32[ms]", "time64[us]", "time64[ns]", "month_day_nano_interval"),
    *("duration[s]", "duration[ms]", "duration[us]", "duration[ns]", "decimal256(76,2)", "decimal128(5,-2)"),
    *("list of null", "fixed list of null", "map of null"),
}
"""Types that ORC cannot store."""


def stored(value: Any) -> Any:
    """Returns a value as it is stored, without its extension type."""
    if value is None:
        return None
    if isinstance(value, pa.ExtensionScalar | pa.UnionScalar | pa.RunEndEncodedScalar):
        return stored(value.value)
    if not value.is_valid:
        return None
    if isinstance(value, pa.DictionaryScalar):
        return stored(value.value)
    if pa.types.is_map(value.type):
        return [(stored(pair["key"]), stored(pair["value"])) for pair in value.values]
    if isinstance(value, pa.StructScalar):
        return {name: stored(value[name]) for name in value}
    if isinstance(value, pa.ListScalar):
        return [stored(one) for one in value.values]
    return value.as_py()
