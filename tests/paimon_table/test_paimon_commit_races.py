"""Another writer commits after the snapshots were listed and before the next snapshot is created. The commit is
tried again, and does not raise ``CommitUncertain``.

``.ci/stores`` runs these tests with the lowest and the newest version of each storage library.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from paimon_soak import SPEC, rows
from s3_server import obstore_of, s3_bucket

from orcidx.paimon import open_table
from orcidx.predicate import col
from orcidx.storage.folder import Folder

memory = pytest.importorskip("fsspec.implementations.memory")

OPERATIONS: dict[str, Callable[..., Any]] = {
    "append": lambda table: table.append(rows(1000, 10)),
    "delete": lambda table: table.delete(col("id") < 10),
    "rewrite": lambda table: table.rewrite_file_index(spec=SPEC),
}
AFTER = {"append": [*range(100), *range(1000, 1010)], "delete": list(range(10, 100)), "rewrite": list(range(100))}
OPTIONS = {"bucket": "-1", "file.format": "orc", "deletion-vectors.enabled": "true"}
SCHEMA = {
    "id": 0,
    "fields": [{"id": 0, "name": "id", "type": "BIGINT"}, {"id": 1, "name": "city", "type": "STRING"}],
    "options": OPTIONS,
}


class Remembering(memory.MemoryFileSystem):  # type: ignore[name-defined,misc]
    """A memory file system that caches its listings, as s3fs does since 2026.6. The size of an object comes from the
    cached listing, and an object that is not in the listing counts as missing."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.listed: dict[str, list[dict[str, Any]]] = {}

    def ls(self, path: str, detail: bool = True, **named: Any) -> list[Any]:
        path = self._strip_protocol(path)
        if path not in self.listed:
            self.listed[path] = super().ls(path, detail=True, **named)
        found = self.listed[path]
        return found if detail else [one["name"] for one in found]

    def info(self, path: str, **named: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        listing = self.listed.get(path.rpartition("/")[0])
        if listing is None:
            return super().info(path, **named)
        for one in listing:
            if one["name"] == path:
                return one
        raise FileNotFoundError(path)

    def cat_file(self, path: str, start: Any = None, end: Any = None, **named: Any) -> bytes:
        size = self.info(path)["size"]
        return bytes(super().cat_file(path, start, size if end is None else end, **named))

    def invalidate_cache(self, path: str | None = None) -> None:
        self.listed.clear()


def new_bucket() -> str:
    """Returns a new bucket name. moto keeps the objects of a bucket until the process ends, so a name is used only
    once."""
    return f"races-{uuid.uuid4().hex[:12]}"


Opened = tuple[Any, Any, Callable[[], None]]


@contextmanager
def in_memory() -> Iterator[Opened]:
    remembering = Remembering(skip_instance_cache=True)
    other = memory.MemoryFileSystem()
    path = "/races/t"
    other.pipe_file(f"{path}/schema/schema-0", json.dumps(SCHEMA).encode())
    try:
        yield (
            lambda: open_table(path, filesystem=remembering),
            lambda: open_table(path, filesystem=other),
            lambda: remembering.ls(f"{path}/snapshot"),
        )
    finally:
        other.rm("/races", recursive=True)


@contextmanager
def by_s3fs() -> Iterator[Opened]:
    import s3fs

    bucket = new_bucket()
    with s3_bucket(bucket) as (options, _):
        ours = s3fs.S3FileSystem(**options)
        other = s3fs.S3FileSystem(**options, use_listings_cache=False, skip_instance_cache=True)
        other.pipe_file(f"{bucket}/t/schema/schema-0", json.dumps(SCHEMA).encode())
        yield (
            lambda: open_table(f"s3://{bucket}/t", storage_options=options),
            lambda: open_table(f"{bucket}/t", filesystem=other),
            lambda: ours.ls(f"{bucket}/t/snapshot"),
        )


@contextmanager
def by_obstore() -> Iterator[Opened]:
    bucket = new_bucket()
    with s3_bucket(bucket) as (options, _):
        import obstore

        stores = [obstore_of(options["endpoint_url"], bucket) for _ in range(2)]
        obstore.put(stores[0], "t/schema/schema-0", json.dumps(SCHEMA).encode())
        yield (
            lambda: open_table("t", filesystem=stores[0]),
            lambda: open_table("t", filesystem=stores[1]),
            lambda: list(obstore.list(stores[0], "t/snapshot")),
        )


STORES = {"memory": in_memory, "s3fs": by_s3fs, "obstore": by_obstore}


@pytest.mark.parametrize(
    ("store", "operation"), [*(("memory", one) for one in OPERATIONS), ("s3fs", "delete"), ("obstore", "append")]
)
def test_a_foreign_commit_between_listing_and_create(
    monkeypatch: pytest.MonkeyPatch, store: str, operation: str
) -> None:
    if store == "obstore":
        pytest.importorskip("obstore")
    create = Folder.create
    with STORES[store]() as (ours, theirs, listing):
        theirs().append(rows(0))
        others = [rows(2000, 5), rows(3000, 5)]

        def overtaken(self: Folder, name: str, data: bytes, **named: Any) -> bool:
            if name.startswith("snapshot/snapshot-") and len(others) > 0:
                monkeypatch.setattr(Folder, "create", create)
                listing()
                theirs().append(others.pop(0))
                monkeypatch.setattr(Folder, "create", overtaken)
            return create(self, name, data, **named)

        monkeypatch.setattr(Folder, "create", overtaken)
        result = OPERATIONS[operation](ours())
        monkeypatch.undo()
        assert (result.snapshot_id, result.attempts) == (4, 3)
        expected = sorted([*AFTER[operation], *range(2000, 2005), *range(3000, 3005)])
        for table in (ours(), theirs()):
            assert sorted(table.scan().to_table()["id"].to_pylist()) == expected
