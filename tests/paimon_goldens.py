"""Golden index bodies, with the content of their sidecars: Arrow columns, literals and expected rows."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from orcidx.paimon.data_types import DataType, parse_type
from orcidx.predicate.exact_time import ExactTime

KINDS = {"bloom": "bloom-filter", "bitmap1": "bitmap", "bitmap2": "bitmap", "range": "range-bitmap", "bsi": "bsi"}


@dataclass(frozen=True)
class Golden:
    """One case: an index body that Java wrote, or Java's error."""

    path: Path

    @cached_property
    def sidecar(self) -> dict[str, Any]:
        return json.loads(self.path.read_text())

    @property
    def kind(self) -> str:
        return KINDS[self.path.parent.name]

    @property
    def data_type(self) -> DataType:
        return parse_type(self.sidecar["type"])

    @property
    def rows(self) -> int:
        return self.sidecar["row_count"]

    @property
    def body(self) -> bytes | None:
        if "file" not in self.sidecar:
            return None
        path = self.path.parent / self.sidecar["file"]
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        if hashlib.sha256(data).hexdigest() != self.sidecar["sha256"]:
            raise AssertionError(f"the SHA-256 of {path.name} differs from the one in its sidecar file")
        return data

    @cached_property
    def values(self) -> list[Any]:
        if "values" in self.sidecar:
            return self.sidecar["values"]
        with gzip.open(self.path.parent / self.sidecar["values_file"]) as file:
            return json.load(file)

    @cached_property
    def array(self) -> pa.Array:
        return arrow_array(self.values, self.data_type)

    def literal(self, value: Any) -> Any:
        """Converts a literal of a predicate, or a value, to a pyarrow scalar."""
        if value is None:
            return None
        scalar = arrow_array([value], self.data_type)[0]
        if self.data_type.root.startswith("TIMESTAMP") and not isinstance(scalar, pa.TimestampScalar):
            return ExactTime(int(scalar.as_py()), "UTC" if self.data_type.root == "TIMESTAMP_LTZ" else None)
        return scalar


def expected_rows(answer: dict[str, Any], rows: int) -> BitMap:
    listed = answer.get("rows")
    if listed == "ALL":
        found = BitMap(range(rows))
    elif listed == "NONE":
        found = BitMap()
    elif listed is not None:
        found = BitMap(listed)
    else:
        found = BitMap()
        for start, length in answer["runs_start_length"]:
            found.add_range(start, start + length)
    assert len(found) == answer["cardinality"]
    return found


def matches(found: BitMap, answer: dict[str, Any], rows: int) -> bool:
    """Whether the rows are those of an answer. For many rows, the answer has only a digest."""
    if "rows" in answer or "runs_start_length" in answer:
        return found == expected_rows(answer, rows)
    digest = hashlib.sha256(np.array(found.to_array(), "<u4").tobytes()).hexdigest()
    return digest == answer["sha256_of_le_u32_positions"] and len(found) == answer["cardinality"]


def arrow_array(values: list[Any], data_type: DataType) -> pa.Array:
    """Converts values in the encoding of the sidecars to an Arrow array."""
    root = data_type.root
    if root in ("FLOAT", "DOUBLE"):
        layout = ">f" if root == "FLOAT" else ">d"
        numbers = [None if v is None else struct.unpack(layout, bytes.fromhex(v))[0] for v in values]
        return pa.array(numbers, data_type.arrow_type)
    if root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        fine = 1_000 if data_type.precision <= 6 else 1
        ticks = [None if v is None else (v[0] * 1_000_000 + v[1]) // fine for v in values]
        zone = "UTC" if root == "TIMESTAMP_LTZ" else None
        if any(tick is not None and abs(tick) >= 1 << 63 for tick in ticks):
            if all(tick is None or tick % 1_000 == 0 for tick in ticks):
                return pa.array([tick and tick // 1_000 for tick in ticks], pa.timestamp("us", zone))
            return pa.array(ticks, pa.decimal128(38, 0))
        return pa.array(ticks, pa.timestamp("us" if fine > 1 else "ns", zone))
    if root == "DECIMAL":
        import decimal

        context = decimal.Context(prec=60)
        numbers = [None if v is None else decimal.Decimal(v).scaleb(-data_type.scale, context) for v in values]
        return pa.array(numbers, pa.decimal128(data_type.precision, data_type.scale))
    if root in ("DATE", "TIME"):
        return pa.array(values, pa.int32()).cast(data_type.arrow_type)
    if root in ("BINARY", "VARBINARY"):
        return pa.array([None if v is None else bytes.fromhex(v) for v in values], pa.binary())
    if root in ("CHAR", "VARCHAR"):
        texts = [v["repeat"] * v["times"] if isinstance(v, dict) else v for v in values]
        return pa.array(texts, pa.string())
    return pa.array(values, data_type.arrow_type)


def goldens(root: Path, *folders: str) -> Iterator[Golden]:
    """Yields every case of the folders in the order of names."""
    for folder in folders or tuple(KINDS):
        for path in sorted((root / folder).glob("[!_]*.json")):
            yield Golden(path)
