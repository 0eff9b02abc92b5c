"""Backend over an obstore store: one GET carries the bytes, the size and the version, on any of its storages."""

from __future__ import annotations

import asyncio
from typing import Any

import obstore

from orcidx.storage.failures import AFTER_THEIRS, classify
from orcidx.storage.fingerprint import Fingerprint, mtime_of, plain_etag
from orcidx.storage.ranges import TAKEN_AT_ONCE, GapDiscardingBuffer
from orcidx.storage.remote import Answer, shared_loop

__all__ = ["ObstoreBackend"]


class ObstoreBackend:
    """``get`` with range and ``if_match``; never ``get_ranges``, which cannot notice a changed object."""

    answers_identity = True
    sifts = True
    retries = AFTER_THEIRS

    def __init__(self, store: Any, path: str) -> None:
        self._store = store
        self._path = path
        self._etag: str | None = None  # as the storage wrote it, quotes and all
        self.storage = f"obstore {store!r}"

    def loop(self) -> asyncio.AbstractEventLoop:
        return shared_loop()

    async def stat(self) -> Fingerprint:
        return self._fingerprint(await obstore.head_async(self._store, self._path))

    async def get(self, offset: int, length: int, buffer: GapDiscardingBuffer | None = None) -> Answer:
        options: dict[str, Any] = {"range": (offset, offset + length)}
        if self._etag:
            options["if_match"] = self._etag
        return await self._get(options, buffer)

    async def get_tail(self, length: int) -> Answer:
        try:
            return await self._get({"range": {"suffix": max(length, 1)}})
        except Exception as error:  # obstore has no type for a refused range, and no range fits an empty object
            if classify(error) != "permanent":
                raise
            found = await self.stat()
            if found.size:
                raise
            return Answer(b"", found)

    def close(self) -> None:
        pass

    async def _get(self, options: dict[str, Any], buffer: GapDiscardingBuffer | None = None) -> Answer:
        result = await obstore.get_async(self._store, self._path, options=options)
        if buffer is not None:
            async for piece in result.stream(min_chunk_size=TAKEN_AT_ONCE):
                buffer.take(memoryview(piece))
            return Answer(b"", self._fingerprint(result.meta))
        return Answer(await result.bytes_async(), self._fingerprint(result.meta))

    def _fingerprint(self, meta: Any) -> Fingerprint:
        etag = meta.get("e_tag")
        self._etag = self._etag or etag
        return Fingerprint(meta["size"], plain_etag(etag), mtime_of(meta.get("last_modified")))
