"""The reads of catalogs and index files of a directory are in the metrics of a scan, and in its explanation."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from indexed_directory import index_here

import orcidx
from orcidx.orc.metadata_cache import forget_metadata
from orcidx.storage.local import SMALL_FILE_BYTES, LocalReader

ROWS = 30_000


@pytest.mark.parametrize("where", ["city = 'city77'", "key = 4711", "key = -1", "id = 17"])
@pytest.mark.parametrize("embedded", [0, 1 << 30])
def test_reads_of_indexes_are_counted(
    tmp_path: Path, where: str, embedded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    for number in range(2):
        table = pa.table(
            {
                "id": np.arange(number * ROWS, (number + 1) * ROWS),
                "key": rng.permutation(2 * ROWS)[:ROWS],
                "city": [f"city{one}" for one in rng.integers(0, 500, ROWS)],
                "text": [rng.bytes(16).hex() for _ in range(ROWS)],
            }
        )
        orcidx.write_table(table, tmp_path / f"{number}.orc")
        assert (tmp_path / f"{number}.orc").stat().st_size > SMALL_FILE_BYTES
    index_here(tmp_path, {"bitmap": {"city": {}}, "bloom-filter": {"key": {}}}, embedded_bytes=embedded)
    time.sleep(0.2)  # tails of files that were just written are not kept in memory
    readers: list[LocalReader] = []
    plain = LocalReader.__init__

    def noted(reader: LocalReader, *arguments: Any, **named: Any) -> None:
        plain(reader, *arguments, **named)
        readers.append(reader)

    forget_metadata()
    told = orcidx.scan(tmp_path, ["id"], where, use_threads=False).explain().read_bytes
    forget_metadata()
    with monkeypatch.context() as patch:
        patch.setattr(LocalReader, "__init__", noted)
        with orcidx.scan(tmp_path, ["id"], where, use_threads=False).to_batches() as batches:
            list(batches)
    read = sum(one.metrics.bytes_fetched for one in readers), sum(one.metrics.requests for one in readers)
    catalogs = sum(one.metrics.bytes_fetched for one in readers if "_orcidx" in one.name)
    assert catalogs > 0
    assert (batches.metrics.bytes_read, batches.metrics.requests) == read
    assert told >= catalogs
