"""What a kind of storage has to do: ``Lister`` and ``Writer``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from orcidx.storage.fingerprint import Fingerprint

__all__ = ["Found", "Lister", "Writer"]


@dataclass(frozen=True)
class Found:
    """A file: its path in its storage, and its size and version as far as the listing tells."""

    path: str
    version: Fingerprint | None

    @property
    def size(self) -> int | None:
        return None if self.version is None else self.version.size


class Lister(Protocol):
    """What a storage has to answer: is this one file, and which files are below this directory or prefix."""

    def file(self, path: str) -> Found | None: ...

    def walk(self, path: str) -> list[Found]: ...


class Writer(Protocol):
    """What a storage has to do; paths are the storage's own."""

    def put(self, path: str, data: bytes) -> None: ...

    def create(self, path: str, data: bytes, *, single_writer: bool) -> bool: ...

    def exists(self, path: str) -> bool: ...

    def read(self, path: str) -> bytes: ...

    def delete(self, path: str) -> None: ...

    def list(self, path: str) -> list[tuple[str, Fingerprint]]: ...
