"""HTTP and S3 requests that orcidx sends itself, through fsspec's file systems.

The response to such a request has the bytes, the size and the version. With fsspec's interface, two requests would be
needed to get all three. The requests for HTTP and for S3 use the session, credentials and settings of the file system.
"""

from __future__ import annotations

import asyncio
import errno
from typing import Any

from orcidx.errors import StorageError
from orcidx.storage.failures import RETRIES, RETRIES_AFTER_LIBRARY, ShortBody, classify
from orcidx.storage.fingerprint import Fingerprint, mtime_of, plain_etag
from orcidx.storage.ranges import TAKEN_AT_ONCE, GapDiscardingBuffer
from orcidx.storage.remote import StoreAnswer

__all__ = ["HttpBackend", "S3Backend"]

# A server that does not support range requests sends the whole object. An object of up to this size is accepted and
# kept in memory.
_LARGEST_WHOLE = 64 << 20


def _total_of(content_range: str | None) -> int | None:
    """Returns the object's size from a Content-Range such as ``bytes 0-99/1234``."""
    total = (content_range or "").rpartition("/")[2]
    return int(total) if total.isascii() and total.isdigit() else None


class HttpBackend:
    """HTTP GET with a Range header, over the session of fsspec's HTTP file system (aiohttp)."""

    answers_identity = True
    discards_gaps = True
    retries = RETRIES

    def __init__(self, filesystem: Any, url: str) -> None:
        self._filesystem = filesystem
        self._url = url
        self._whole: StoreAnswer | None = None
        self.storage = "http"

    def loop(self) -> asyncio.AbstractEventLoop:
        return self._filesystem.loop  # type: ignore[no-any-return]

    async def stat(self) -> Fingerprint:
        answer = await self.get_tail(1)
        assert answer.fingerprint is not None
        return answer.fingerprint

    async def get(self, offset: int, length: int, buffer: GapDiscardingBuffer | None = None) -> StoreAnswer:
        answer = await self._request(f"bytes={offset}-{offset + length - 1}", offset, length, buffer)
        if answer is self._whole:
            return StoreAnswer(answer.data[offset : offset + length], answer.fingerprint)
        return answer

    async def get_tail(self, length: int) -> StoreAnswer:
        length = max(length, 1)
        answer = await self._request(f"bytes=-{length}", None, length)
        if answer is self._whole:
            return StoreAnswer(answer.data[-length:], answer.fingerprint)
        return answer

    def close(self) -> None:
        self._whole = None

    async def _request(
        self, wanted: str, offset: int | None, length: int, buffer: GapDiscardingBuffer | None = None
    ) -> StoreAnswer:
        if self._whole is not None:
            return self._whole
        keywords = dict(self._filesystem.kwargs)
        headers = {"Accept-Encoding": "identity", **(keywords.pop("headers", None) or {}), "Range": wanted}
        session = await self._filesystem.set_session()
        url = self._filesystem.encode_url(self._url)
        async with session.get(url, headers=headers, **keywords) as response:
            total = _total_of(response.headers.get("Content-Range"))
            # The object has no bytes in the requested range. It is empty, or has become shorter.
            if response.status == 416:
                if total is None:
                    raise StorageError(
                        "the server rejected the range and did not report the object's size; download the object first"
                    )
                return StoreAnswer(b"", self._fingerprint(response, total))
            if response.status in (404, 410):
                raise FileNotFoundError(errno.ENOENT, "no such object", self._url)
            response.raise_for_status()
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise StorageError(
                    "the server compresses the transfer, but range requests need the stored bytes; download the object "
                    "first"
                )
            if response.status != 206:
                return await self._take_whole(response)
            start = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
            if total is None or (offset is not None and start != str(offset)):
                raise StorageError(
                    f"the request has the header 'Range: {wanted}', but the Content-Range of the response is "
                    f"{response.headers.get('Content-Range')!r}, which is another range or lacks the object's size"
                )
            data = await _read_body(response, length, buffer)
            return StoreAnswer(data, self._fingerprint(response, total))

    async def _take_whole(self, response: Any) -> StoreAnswer:
        total = response.content_length
        if total is not None and total > _LARGEST_WHOLE:
            raise StorageError(
                f"the server does not support range requests, and the object has {total} bytes, but orcidx reads at "
                f"most {_LARGEST_WHOLE} bytes from such a server; download the object first"
            )
        data = await _read_body(response, _LARGEST_WHOLE if total is None else total)
        if total is not None and len(data) != total:
            raise ShortBody(f"only {len(data)} of {total} bytes arrived")
        self._whole = StoreAnswer(memoryview(data), self._fingerprint(response, len(data)))
        return self._whole

    def _fingerprint(self, response: Any, total: int) -> Fingerprint:
        headers = response.headers
        return Fingerprint(total, plain_etag(headers.get("ETag")), mtime_of(headers.get("Last-Modified")))


async def _read_body(response: Any, most: int, buffer: GapDiscardingBuffer | None = None) -> bytes:
    """Reads the body. Raises an error for more than ``most`` bytes, so a server that sends too much cannot fill the
    memory. The result is empty if the bytes were written to ``buffer``."""
    chunks: list[bytes] = []
    have = 0
    async for chunk in response.content.iter_any():
        have += len(chunk)
        if have > most:
            raise StorageError(f"the server sent more than {most} bytes, the most that orcidx accepts for this request")
        if buffer is None:
            chunks.append(chunk)
        else:
            buffer.take(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


class S3Backend:
    """GetObject with Range and If-Match through the client of s3fs (aiobotocore)."""

    answers_identity = True
    discards_gaps = True
    retries = RETRIES_AFTER_LIBRARY

    def __init__(self, filesystem: Any, path: str) -> None:
        self._filesystem = filesystem
        self._bucket, self._key, self._version = filesystem.split_path(path)
        self._etag: str | None = None  # the etag as the storage wrote it, including its quotes
        self.storage = f"s3 {getattr(filesystem, 'endpoint_url', None)}"

    def loop(self) -> asyncio.AbstractEventLoop:
        return self._filesystem.loop  # type: ignore[no-any-return]

    def _object(self) -> dict[str, str]:
        version = {"VersionId": self._version} if self._version else {}
        return {"Bucket": self._bucket, "Key": self._key, **version}

    async def stat(self) -> Fingerprint:
        head = await self._filesystem._call_s3("head_object", **self._object())
        return self._fingerprint(head, head["ContentLength"])

    async def get(self, offset: int, length: int, buffer: GapDiscardingBuffer | None = None) -> StoreAnswer:
        match = {"IfMatch": self._etag} if self._etag else {}
        return await self._request(f"bytes={offset}-{offset + length - 1}", length, match, buffer)

    async def get_tail(self, length: int) -> StoreAnswer:
        try:
            return await self._request(f"bytes=-{max(length, 1)}", max(length, 1), {})
        except OSError as error:
            if classify(error) != "permanent":
                raise
            found = await self.stat()  # S3 refuses every range of an empty object
            if found.size:
                raise
            return StoreAnswer(b"", found)

    def close(self) -> None:
        pass

    async def _request(
        self, wanted: str, length: int, match: dict[str, str], buffer: GapDiscardingBuffer | None = None
    ) -> StoreAnswer:
        response = await self._filesystem._call_s3("get_object", **self._object(), Range=wanted, **match)
        body = response["Body"]
        try:
            if response["ContentLength"] > length:
                raise StorageError(
                    f"the server returned {response['ContentLength']} bytes, but at most {length} bytes were requested "
                    f"(Range: {wanted})"
                )
            data = await body.read() if buffer is None else b""
            while buffer is not None and (piece := await body.read(TAKEN_AT_ONCE)):
                buffer.take(piece)
        finally:
            body.close()
        total = _total_of(response.get("ContentRange"))
        size = len(data) if buffer is None else buffer.seen
        return StoreAnswer(data, self._fingerprint(response, size if total is None else total))

    def _fingerprint(self, response: dict[str, Any], size: int) -> Fingerprint:
        etag = response.get("ETag")
        self._etag = self._etag or etag
        return Fingerprint(size, plain_etag(etag), mtime_of(response.get("LastModified")))
