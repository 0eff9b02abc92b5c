"""Reads from an object store (moto's S3), on the driver and in the tasks, with and without indexes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc
from s3_server import RequestLog, s3_bucket

from orcidx.spark import build_file_index, read

pytest.importorskip("moto.server")
s3fs = pytest.importorskip("s3fs")

BUCKET = "orcidx-read"


@pytest.fixture(scope="module")
def s3() -> Iterator[tuple[dict[str, Any], RequestLog]]:
    with s3_bucket(BUCKET) as (options, log):
        filesystem = s3fs.S3FileSystem(**options)
        for part in range(4):
            sink = io.BytesIO()
            numbers = range(part * 500, part * 500 + 500)
            orc.write_table(pa.table({"n": numbers, "k": [n * 7919 % 10_007 for n in numbers]}), sink)
            filesystem.pipe_file(f"{BUCKET}/t/day={part % 2}/{part}.orc", sink.getvalue())
        yield options, log


def test_directories_files_and_globs(spark: Any, s3: tuple[dict[str, Any], RequestLog]) -> None:
    options, _ = s3
    root = f"s3://{BUCKET}/t"
    found = read(spark, root, where="n >= 490 AND n < 510 AND day = 0", storage_options=options)
    assert sorted(tuple(row) for row in found.collect()) == [(n, n * 7919 % 10_007, 0) for n in range(490, 500)]
    assert read(spark, f"{root}/*/1.orc", ["n"], storage_options=options).count() == 500
    assert read(spark, [f"{root}/day=0/0.orc", f"{root}/day=0/2.orc"], storage_options=options).count() == 1000


def test_an_indexed_directory(spark: Any, s3: tuple[dict[str, Any], RequestLog]) -> None:
    options, log = s3
    root = f"s3://{BUCKET}/t"
    built = build_file_index(spark, root, {"bitmap": {"k": {}}}, progress=False, storage_options=options)
    assert {row.status for row in built.collect()} == {"built"}
    log.requests.clear()
    frame = read(spark, root, ["n"], f"k = {777 * 7919 % 10_007} AND n < 1000", storage_options=options)
    assert [row.n for row in frame.collect()] == [777]
    touched = {key.rpartition("/")[2] for _, key, _ in log.requests if key.endswith(".orc")}
    assert touched <= {"0.orc", "1.orc"}, "the catalog rules out all files except 1.orc; 0.orc is read for the schema"
