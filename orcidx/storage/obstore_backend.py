"""The store for the object stores of the library obstore. In all of them one GET returns the bytes, the size and the
version.

``create`` is exclusive, because ``mode="create"`` of obstore is a conditional PUT, a hard link, or a lock, depending on
the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import obstore

from orcidx.options import RequestOptions
from orcidx.storage.event_loop import shared_loop
from orcidx.storage.failures import RETRIES_AFTER_LIBRARY, classify, translating
from orcidx.storage.fingerprint import Fingerprint, mtime_of, plain_etag
from orcidx.storage.listing import expand_objects
from orcidx.storage.ranges import TAKEN_AT_ONCE, GapDiscardingBuffer, RangeReader
from orcidx.storage.remote import RemoteReader, StoreAnswer
from orcidx.storage.sources import text_of
from orcidx.storage.stores import Found, Sink, Source, Store, Upload
from orcidx.storage.writers import check_then_put, discard_when_collected, prove, refused
from orcidx.threads.tasks import Task, spawn
from orcidx.threads.waiting import Channel

if TYPE_CHECKING:
    from obstore.store import ObjectStore
    from typing_extensions import Buffer

__all__ = ["STORE", "ObstoreBackend", "ObstoreSink", "ObstoreStore"]


class ObstoreBackend:
    """One object in a store of obstore. The object is read by ``get`` with a range and ``if_match``. ``get_ranges`` is
    not used, because it cannot detect a changed object."""

    answers_identity = True
    discards_gaps = True
    retries = RETRIES_AFTER_LIBRARY

    def __init__(self, store: Any, path: str) -> None:
        self._store = store
        self._path = path
        self._etag: str | None = None  # the etag with its quotes, as the storage wrote it
        self.storage = f"obstore {store!r}"

    def loop(self) -> asyncio.AbstractEventLoop:
        return shared_loop()

    async def stat(self) -> Fingerprint:
        return self._fingerprint(await obstore.head_async(self._store, self._path))

    async def get(self, offset: int, length: int, buffer: GapDiscardingBuffer | None = None) -> StoreAnswer:
        options: dict[str, Any] = {"range": (offset, offset + length)}
        if self._etag:
            options["if_match"] = self._etag
        return await self._get(options, buffer)

    async def get_tail(self, length: int) -> StoreAnswer:
        try:
            return await self._get({"range": {"suffix": max(length, 1)}})
        # obstore has no exception type for a refused range. The store refuses every range of an empty object.
        except Exception as error:
            if classify(error) != "permanent":
                raise
            found = await self.stat()
            if found.size:
                raise
            return StoreAnswer(b"", found)

    def close(self) -> None:
        pass

    async def _get(self, options: dict[str, Any], buffer: GapDiscardingBuffer | None = None) -> StoreAnswer:
        result = await obstore.get_async(self._store, self._path, options=options)
        if buffer is not None:
            async for piece in result.stream(min_chunk_size=TAKEN_AT_ONCE):
                buffer.take(memoryview(piece))
            return StoreAnswer(b"", self._fingerprint(result.meta))
        return StoreAnswer(await result.bytes_async(), self._fingerprint(result.meta))

    def _fingerprint(self, meta: Any) -> Fingerprint:
        self._etag = self._etag or meta.get("e_tag")
        return _object_version(meta)


class ObstoreStore:
    """A store of the library obstore: S3, GCS, Azure, a local directory, or memory."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @staticmethod
    def describe(given: object, storage_options: Mapping[str, Any]) -> Source | None:
        if isinstance(given, tuple) and len(given) == 2 and _is_obstore(given[0]):
            return ObstoreStore.in_filesystem(text_of(given[1]), given[0])
        return None

    @staticmethod
    def in_filesystem(text: str, filesystem: object) -> Source | None:
        return Source(text, "obstore", text, filesystem=filesystem) if _is_obstore(filesystem) else None

    @staticmethod
    def address(location: str, filesystem: object) -> str | None:
        return None

    @staticmethod
    def of(source: Source) -> tuple[Store, str]:
        return ObstoreStore(source.filesystem), source.location

    def source(self, path: str) -> Source:
        return Source(path, "obstore", path, filesystem=self._store)

    def open(
        self, path: str, *, name: str, options: RequestOptions | None, expected: Fingerprint | None
    ) -> RangeReader:
        return RemoteReader(ObstoreBackend(self._store, path), name=name, options=options, expected=expected)

    def file(self, path: str) -> Found | None:
        try:
            return Found(path, _object_version(obstore.head(self._store, path)))
        except FileNotFoundError:
            return None

    def walk(self, path: str) -> list[Found]:
        batches = obstore.list(self._store, path.strip("/") or None)
        return [Found(meta["path"], _object_version(meta)) for batch in batches for meta in batch]

    def expand(self, source: Source, path: str) -> list[Source]:
        return expand_objects(self, source, path)

    def put(self, path: str, data: bytes) -> None:
        obstore.put(self._store, path, data)

    def create(self, path: str, data: bytes, *, single_writer: bool) -> bool:
        if single_writer:
            return check_then_put(self, path, data)
        if type(self._store).__name__ not in ("LocalStore", "MemoryStore"):
            bucket = (type(self._store).__name__, self._store.prefix, frozenset(self._store.config.items()))
            prove(bucket, path, self._put_new, self.delete)
        return self._put_new(path, data)

    def _put_new(self, path: str, data: bytes) -> bool:
        from obstore.exceptions import AlreadyExistsError, NotSupportedError

        try:
            obstore.put(self._store, path, data, mode="create")
        except (AlreadyExistsError, FileExistsError):
            return False
        except (NotImplementedError, NotSupportedError) as error:
            what = f"obstore's {type(self._store).__name__} cannot create an object exclusively in this configuration"
            raise refused(what, 'create the store with conditional_put="etag" if the server supports it') from error
        return True

    def exists(self, path: str) -> bool:
        try:
            obstore.head(self._store, path)
        except Exception as error:
            if classify(error) == "missing":
                return False
            raise
        return True

    def read(self, path: str) -> bytes:
        return bytes(obstore.get(self._store, path).bytes())

    def delete(self, path: str) -> None:
        obstore.delete(self._store, path)

    def make_parent(self, path: str) -> None:
        """Does nothing. Either the storage has no directories, or obstore creates them."""

    def uploads(self, path: str) -> list[Upload]:
        return []  # obstore has no function that lists uploads

    def sink(self, path: str, *, name: str, part_bytes: int) -> Sink:
        return ObstoreSink(self._store, path, name=name, part_bytes=part_bytes)


STORE: type[Store] = ObstoreStore


def _is_obstore(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == "obstore" and hasattr(value, "get_async")


def _object_version(meta: Any) -> Fingerprint:
    return Fingerprint(meta["size"], plain_etag(meta.get("e_tag")), mtime_of(meta.get("last_modified")))


class _Aborted(Exception):
    """Ends an upload without completing it."""


class _Upload:
    """The state of an upload's thread. This object has no reference to the sink. So the sink can be garbage-collected
    while the thread runs, and the upload then ends."""

    def __init__(self) -> None:
        self.parts: Channel[bytes | None] = Channel(2)
        self.error: BaseException | None = None
        self.aborting = False
        self._ended = False

    def run(self, store: ObjectStore, path: str, part_bytes: int) -> None:
        try:
            obstore.put(store, path, self._iterate(), use_multipart=True, chunk_size=part_bytes)
        except Exception as error:
            self.error = error
            # The writer may be waiting for space in the queue, so the remaining parts are taken out.
            while not self._ended and self.parts.get() is not None:
                pass

    def _iterate(self) -> Iterator[bytes]:
        while (part := self.parts.get()) is not None:
            yield part
        self._ended = True
        if self.aborting:
            raise _Aborted


class ObstoreSink:
    """A multipart upload of obstore. obstore takes the parts from an iterator in a separate thread."""

    def __init__(self, store: ObjectStore, path: str, *, name: str, part_bytes: int) -> None:
        self.name = name
        self._part_bytes = part_bytes
        self._pending = bytearray()
        self._upload = _Upload()
        self._thread = spawn(partial(self._upload.run, store, path, part_bytes))
        self._drop = discard_when_collected(self, _discard, self._upload, self._thread)

    def write(self, data: Buffer) -> None:
        self._pending += data
        if len(self._pending) >= self._part_bytes:
            self._upload.parts.put(bytes(self._pending))
            self._pending.clear()
        self._raise()

    def close(self) -> None:
        self._drop.detach()
        if self._pending:
            self._upload.parts.put(bytes(self._pending))
        self._upload.parts.put(None)
        self._thread.wait()
        self._raise()

    def abort(self) -> None:
        self._drop.detach()
        _discard(self._upload, self._thread)

    def _raise(self) -> None:
        if self._upload.error is not None:
            with translating(self.name):
                raise self._upload.error


def _discard(upload: _Upload, thread: Task[None]) -> None:
    upload.aborting = True
    upload.parts.put(None)
    thread.wait()
