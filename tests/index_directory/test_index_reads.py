"""The reads of catalogs and index files of a directory are in the metrics of scans, in their explanations, and in the
metadata of totals."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from indexed_directory import index_here

import orcidx
from orcidx.orc.metadata_cache import forget_metadata
from orcidx.storage.local import SMALL_FILE_BYTES, LocalReader

ROWS = 30_000


@pytest.fixture(scope="module", params=[0, 1 << 30], ids=["index files", "embedded indexes"])
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path_factory.mktemp("indexed")
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
        orcidx.write_table(table, folder / f"{number}.orc")
        assert (folder / f"{number}.orc").stat().st_size > SMALL_FILE_BYTES
    index_here(folder, {"bitmap": {"city": {}}, "bloom-filter": {"key": {}}}, embedded_bytes=request.param)
    time.sleep(0.2)  # tails of files that were just written are not kept in memory
    return folder


def read_counts(run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, int]:
    """Calls a function after all metadata was forgotten. Returns the bytes and requests of all readers, and the bytes
    that were read from catalogs."""
    readers: list[LocalReader] = []
    plain = LocalReader.__init__

    def noted(reader: LocalReader, *arguments: Any, **named: Any) -> None:
        plain(reader, *arguments, **named)
        readers.append(reader)

    forget_metadata()
    with monkeypatch.context() as patch:
        patch.setattr(LocalReader, "__init__", noted)
        run()
    counts = [one.metrics for one in readers]
    catalogs = sum(one.metrics.bytes_fetched for one in readers if "_orcidx" in one.name)
    return sum(one.bytes_fetched for one in counts), sum(one.requests for one in counts), catalogs


@pytest.mark.parametrize("where", ["city = 'city77'", "key = 4711", "key = -1", "id = 17"])
def test_a_scan_counts_reads_of_indexes(folder: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_metadata()
    told = orcidx.scan(folder, ["id"], where, use_threads=False).explain().read_bytes
    metrics = []

    def run() -> None:
        with orcidx.scan(folder, ["id"], where, use_threads=False).to_batches() as batches:
            list(batches)
        metrics.append(batches.metrics)

    *read, catalogs = read_counts(run, monkeypatch)
    assert catalogs > 0
    assert [metrics[0].bytes_read, metrics[0].requests] == read
    assert told >= catalogs


@pytest.mark.parametrize("by", [None, "city"])
@pytest.mark.parametrize("where", [None, "city = 'city77'", "key = -1", "id = 17"])
def test_totals_count_reads_of_indexes(
    folder: Path, where: str | None, by: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metadata of the result includes the reads of catalogs. Earlier, these reads were missing."""
    facts = {}

    def run() -> None:
        found = orcidx.aggregate(folder, {"n": "count(*)", "last": "max(id)"}, where, by=by, use_threads=False)
        facts.update(json.loads(found.schema.metadata[b"orcidx"]))

    *read, catalogs = read_counts(run, monkeypatch)
    assert catalogs > 0
    assert [facts["bytes_read"], facts["requests"]] == read


def test_a_dataset_counts_reads_of_indexes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dataset estimates first whether pushing the filter is faster. The reads for the estimate are counted, too."""
    dataset = orcidx.dataset(folder, use_threads=False)
    *read, catalogs = read_counts(lambda: dataset.to_table(filter=pads.field("key") == 4711), monkeypatch)
    assert dataset.last_metrics is not None
    assert catalogs > 0
    assert [dataset.last_metrics.bytes_read, dataset.last_metrics.requests] == read
