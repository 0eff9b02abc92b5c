"""Files in memory with the methods of ``hadoop_store.Files``, for tests of Hadoop file systems without a Spark
session."""

from __future__ import annotations

import itertools
import threading

from orcidx.storage import Fingerprint, Source
from orcidx.storage.stores import Found

_NUMBERS = itertools.count()


class MemoryFiles:
    """Files in memory, by URL. ``refuses``: whether a conditional create fails if the name exists, as s3a promises."""

    def __init__(self, *, refuses: bool = True) -> None:
        self.name = f"memory {next(_NUMBERS)}"  # not the id(), because a later object can have the same id
        self.held: dict[str, bytes] = {}
        self.refuses = refuses
        self.ways: list[str] = []
        self.beside: Source | None = None
        self._lock = threading.Lock()

    def list(self, url: str) -> list[Found]:
        base = url.rstrip("/") + "/"
        return [self._found(name) for name in sorted(self.held) if name.startswith(base)]

    def status(self, url: str) -> Found | None:
        if url in self.held:
            return self._found(url)
        if any(name.startswith(url.rstrip("/") + "/") for name in self.held):
            raise IsADirectoryError(21, "a directory, not a file", url)
        return None

    def _found(self, url: str) -> Found:
        return Found(url, Fingerprint(len(self.held[url]), str(hash(self.held[url]))))

    def read(self, url: str, offset: int, length: int, *, size: int | None = None) -> bytes:
        return self.held[url][offset : offset + length]

    def write(self, url: str, data: bytes, how: str, temporary: str | None) -> bool:
        with self._lock:
            self.ways.append(how)
            if url in self.held and (how == "rename" or (how == "conditional" and self.refuses)):
                return False
            self.held[url] = bytes(data)
            return True

    def rename(self, url: str, to: str) -> None:
        self.held[to] = self.held.pop(url)

    def delete(self, url: str) -> None:
        self.held.pop(url, None)

    def make_directory(self, url: str) -> None:
        pass

    def refuses_second(self, url: str) -> bool:
        return self.refuses

    def in_tasks(self, url: str) -> Source | None:
        return self.beside
