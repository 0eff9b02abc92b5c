"""The files that the fuzzer damages: golden and frozen files, and files that pyarrow, pyorc and orcidx write here."""

from __future__ import annotations

import datetime
import decimal
import gzip
import io
import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pyorc
from goldens import FIXTURES, GOLDEN_ORC, GOLDEN_PAIMON

import orcidx

LARGEST = 140_000
"""The size of the largest sample in bytes. Larger samples find no further errors, and make a case slow."""


@dataclass(frozen=True)
class Sample:
    name: str
    kind: str
    """The target that reads the sample: "orc", "index", "container", "deletion-vector" or "hash"."""
    data: bytes
    facts: dict[str, Any] = field(default_factory=dict)


@cache
def corpus() -> list[Sample]:
    """Returns all samples in a fixed order. Golden files are included if they are present. Callers must not change the
    list."""
    samples = [*_golden_orc(), *_by_pyarrow(), *_by_pyorc(), *_by_orcidx()]
    for root in (FIXTURES / "paimon", GOLDEN_PAIMON):
        samples += _paimon(root)
    unique = {sample.name: sample for sample in samples if len(sample.data) <= LARGEST}
    return [unique[name] for name in sorted(unique)]


def _golden_orc() -> list[Sample]:
    return [
        Sample(f"golden/{path.relative_to(GOLDEN_ORC)}", "orc", path.read_bytes())
        for path in sorted(GOLDEN_ORC.rglob("*.orc"))
    ]


def _table(rows: int) -> pa.Table:
    random = np.random.default_rng(1)
    numbers = random.integers(-(2**62), 2**62, rows)
    words = [None if i % 11 == 0 else f"word-{i % 37}" for i in range(rows)]
    day = datetime.date(1960, 1, 1)
    moment = datetime.datetime(1969, 12, 31, 23, 59, 58, 123456)
    columns = {
        "small": pa.array(random.integers(0, 100, rows), pa.int8()),
        "wide": pa.array(numbers, mask=random.random(rows) < 0.1),
        "steps": pa.array(np.arange(rows) * 7, pa.int32()),
        "outliers": pa.array(np.where(random.random(rows) < 0.02, numbers % 10**12, numbers % 100)),
        "ratio": pa.array(random.normal(size=rows)),
        "flag": pa.array(random.random(rows) < 0.3),
        "word": pa.array(words),
        "unique": pa.array([f"{n:x}" for n in numbers]),
        "raw": pa.array([str(n).encode() for n in numbers]),
        "day": pa.array([day + datetime.timedelta(days=i * 13) for i in range(rows)]),
        "moment": pa.array([moment + datetime.timedelta(seconds=i * 1.5) for i in range(rows)], pa.timestamp("ns")),
        "price": pa.array([decimal.Decimal(i * i) / 100 for i in range(rows)], pa.decimal128(12, 2)),
        "huge": pa.array([decimal.Decimal(int(n)) / 1000 for n in numbers], pa.decimal128(38, 10)),
        "list": pa.array([list(range(i % 4)) if i % 5 else None for i in range(rows)], pa.list_(pa.int64())),
        "map": pa.array([[("k", i)] * (i % 3) for i in range(rows)], pa.map_(pa.string(), pa.int32())),
        "nested": pa.array([{"a": i, "b": str(i)} if i % 7 else None for i in range(rows)]),
    }
    return pa.table(columns)


def _by_pyarrow() -> list[Sample]:
    samples = []
    for codec in ("uncompressed", "zlib", "snappy", "lz4", "zstd"):
        out = io.BytesIO()
        pa.orc.write_table(
            _table(600),
            out,
            compression=codec,
            row_index_stride=100,
            bloom_filter_columns=[1, 7],
            dictionary_key_size_threshold=0.8,
            compression_block_size=65536,
        )
        samples.append(Sample(f"pyarrow/{codec}", "orc", out.getvalue()))
    out = io.BytesIO()
    pa.orc.write_table(_table(300), out, compression="zlib", file_version="0.11", dictionary_key_size_threshold=0.8)
    samples.append(Sample("pyarrow/version-0.11", "orc", out.getvalue()))
    return samples


def _by_pyorc() -> list[Sample]:
    schema = (
        "struct<u:uniontype<int,string>,c:char(5),v:varchar(3),i:timestamp with local time zone,"
        "d:decimal(10,3),l:array<struct<x:int,y:array<string>>>>"
    )
    utc = datetime.UTC
    samples = []
    for kind in (pyorc.CompressionKind.NONE, pyorc.CompressionKind.ZSTD):
        out = io.BytesIO()
        with pyorc.Writer(out, schema, compression=kind, row_index_stride=50, bloom_filter_columns=("c",)) as writer:
            for i in range(200):
                moment = datetime.datetime(1965 + i % 70, 1, 1 + i % 28, tzinfo=utc)
                union = i if i % 2 else str(i)
                writer.write((union, f"c{i}"[:5], f"v{i}"[:3], moment, decimal.Decimal(i) / 8, [(i, ["a"] * (i % 3))]))
        samples.append(Sample(f"pyorc/{kind.name.lower()}", "orc", out.getvalue()))
    return samples


def _by_orcidx() -> list[Sample]:
    """Files with each codec, stripes of 4 KiB, every kind of bloom filter, and with or without dictionaries. One file
    is so small that every byte of it can be mutated."""
    table = _table(600)
    # ORC cannot store times in the last second before 1970, so all times are moved to the day before.
    before = pc.subtract(table["moment"], pa.scalar(86_400_000, pa.duration("ms")))
    table = table.set_column(table.schema.get_field_index("moment"), "moment", before)
    table = table.append_column("char", pa.array([f"c{i % 9}" for i in range(600)]))
    table = table.append_column("instant", before.cast(pa.timestamp("us", "UTC")))
    written = {
        "uncompressed": {"stripe_size": 4 << 10, "dictionary_key_size_threshold": 1},
        "zlib": {"compression_block_size": 1 << 10},
        "snappy": {"dictionary_key_size_threshold": 0},
        "lz4": {"row_index_stride": 0, "bloom_filter_columns": ()},
        "zstd": {"stripe_size": 16 << 10, "metadata": {"k": "v"}, "spark": True},
    }
    samples = []
    for codec, options in written.items():
        given = {"row_index_stride": 100, "bloom_filter_columns": ["*"], "types": {"char": "char(3)"}, **options}
        samples.append(Sample(f"orcidx/{codec}", "orc", _written(table, compression=codec, **given)))
    few = table.select(["wide", "word", "price", "moment", "list"]).slice(0, 60)
    small = _written(few, compression="uncompressed", row_index_stride=20, bloom_filter_columns=["word"])
    return [*samples, Sample("orcidx/small", "orc", small)]


def _written(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    orcidx.write_table(table, out, **options)
    return out.getvalue()


def _paimon(root: Path) -> list[Sample]:
    samples = []
    for sidecar in sorted(root.glob("*/*.json")):
        if sidecar.name.startswith("_") or sidecar.parent.name in ("tables", "expected", "hash"):
            continue
        facts = json.loads(sidecar.read_text())
        body = sidecar.with_name(facts.get("file", sidecar.stem + ".bin"))
        if not body.is_file():
            continue
        data = gzip.decompress(body.read_bytes()) if body.suffix == ".gz" else body.read_bytes()
        name = f"{root.name}/{sidecar.parent.name}/{sidecar.stem}"
        folder = sidecar.parent.name
        if folder == "container":
            samples.append(Sample(name, "container", data, {"types": _types(facts["row_type"])}))
        elif folder in ("dv32", "dv64"):
            samples.append(Sample(name, "deletion-vector", data))
        elif "index" in facts:
            samples.append(Sample(name, "index", data, {"kind": facts["index"], "type": facts["type"]}))
    for path in sorted(root.glob("hash/*.bin")):
        samples.append(Sample(f"{root.name}/hash/{path.stem}", "hash", path.read_bytes()))
    return samples


def _types(row_type: str) -> dict[str, str]:
    """Splits a type such as "ROW<`f0` INT, `m` MAP<VARCHAR(20), INT>>" into column types, at the back-quoted names."""
    parts = row_type.removeprefix("ROW<").removesuffix(">").split("`")[1:]
    return {name: text.strip().removesuffix(",") for name, text in zip(parts[::2], parts[1::2], strict=True)}
