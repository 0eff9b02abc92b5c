"""Rows get the same buckets as in Paimon's Java, for every type that a bucket key can have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from paimon_java_values import TYPES, random_rows

from orcidx import write_table
from orcidx.paimon import open_table
from orcidx.paimon_table.data_files.row_conforming import conformed, placed

BUCKETS = 97


def our_buckets(folder: Path, rows: pa.Table) -> list[int]:
    """Returns the bucket of each row, which is computed in the same way as by an append."""
    schema = open_table(folder).table_schema
    found = np.full(len(rows), -1)
    (batch,) = rows.combine_chunks().to_batches()
    for _, _, bucket, part in placed(conformed(batch, schema), schema, BUCKETS):
        found[part["number"].to_numpy()] = bucket
    return found.tolist()


def test_buckets_of_every_key_type(paimon_java: Any, rng: np.random.Generator, tmp_path: Path) -> None:
    """Compares the buckets of random keys. ``ORCIDX_KEYS=100000`` sets the number of keys. A run with so many keys
    takes minutes, so start it by hand."""
    count = int(os.environ.get("ORCIDX_KEYS", "300"))
    rows = random_rows(rng, count)
    source = tmp_path / "keys.orc"
    numbered = rows.append_column("number", pa.array(range(count), pa.int64()))
    clock = numbered.column_names.index("clock")
    write_table(numbered.set_column(clock, "clock", numbered["clock"].cast(pa.int32())), str(source))
    for number, key in enumerate([*([name] for name in TYPES), ["text", "big", "nanos"], list(TYPES)]):
        options = {"bucket": str(BUCKETS), "bucket-key": ",".join(key)}
        table = paimon_java.create(f"bucketed_{number}", {**TYPES, "number": "BIGINT"}, options=options)
        java = paimon_java.buckets(f"bucketed_{number}", source)
        assert our_buckets(table, numbered) == java, key
        assert len(set(java)) > (1 if key == ["flag"] else 10)
