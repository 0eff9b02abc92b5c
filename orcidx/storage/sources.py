"""Where the bytes of one object are: ``Source``, made from whatever the caller gives, and opened as a range reader."""

from __future__ import annotations

import io
import os
import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, TypeAlias

from orcidx.errors import InvalidQuery
from orcidx.options import ReadOptions
from orcidx.storage.fingerprint import Fingerprint
from orcidx.storage.given import BytesReader, FileObjectReader
from orcidx.storage.ranges import LentReader, RangeReader, as_expected
from orcidx.storage.stores import in_filesystem, of_object, of_text, store_class

__all__ = ["OneSource", "Source", "Sources", "describe_source", "describe_target", "hive_partition", "open_reader"]

_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

IN_NO_STORE = frozenset({"bytes", "object", "reader"})
AT_HAND = IN_NO_STORE | {"path"}
"""The kinds of sources that no request is made for."""


@dataclass(frozen=True)
class Source:
    """One object: ``name`` as the caller gave it, and all that is needed to open it.

    ``kind`` says which store it is in (``stores.STORES``); "bytes", "object" (a file object) and "reader" are in none.
    Pickles unless it stands for an open file object or reader (``InvalidQuery``); ``to_dict`` gives paths and URLs as
    JSON, without ``storage_options`` (they hold secrets). ``root`` is the directory whose listing found it, if any;
    ``size`` what the listing said, in bytes, and ``listed`` what it said of the version.
    """

    name: str
    kind: str
    location: Any = field(repr=False)
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    filesystem: Any = field(default=None, repr=False, hash=False)
    root: str | None = None
    size: int | None = field(default=None, compare=False)
    listed: Fingerprint | None = field(default=None, compare=False, repr=False)

    def open(self, options: ReadOptions | None = None, *, expected: Fingerprint | None = None) -> RangeReader:
        """A reader of the object; see ``open_reader``.

        ``expected`` is the version that was seen before, such as a footer's or a split's. A local file that differs
        raises ``StorageError`` here; a remote object is trusted to be that version, with no request, until its first
        answer says otherwise.
        """
        if self.kind not in IN_NO_STORE:
            store, path = store_class(self.kind).of(self)
            return store.open(path, name=self.name, options=options, expected=expected)
        reader = self._open_given(options)
        return reader if expected is None else as_expected(reader, self.name, expected)

    def _open_given(self, options: ReadOptions | None) -> RangeReader:
        if self.kind == "bytes":
            return BytesReader(self.location, name=self.name, options=options)
        if self.kind == "object":
            return FileObjectReader(self.location, name=self.name, options=options)
        return LentReader(self.location)

    def below(self, path: str) -> Source:
        """The object at a path, with slashes, below this directory."""
        name, location = f"{self.name.rstrip('/')}/{path}", f"{str(self.location).rstrip('/')}/{path}"
        return Source(name, self.kind, location, self.storage_options, self.filesystem, self.root)

    @property
    def in_store(self) -> bool:
        """Whether it has a path or URL, beside which others may lie: it is no bytes, file object or reader."""
        return self.kind not in IN_NO_STORE

    @property
    def partition(self) -> dict[str, str | None]:
        """The ``key=value`` directories between ``root`` and the object (see ``hive_partition``)."""
        return hive_partition(self.location, self.root) if self.root is not None else {}

    def to_dict(self) -> dict[str, Any]:
        """``{"name", "location", "root"}``; ``InvalidQuery`` for what has no path or URL that works elsewhere."""
        location = store_class(self.kind).address(self.location, self.filesystem) if self.in_store else None
        if location is None:
            raise InvalidQuery(f"{self.name}: only paths and URLs can be written as JSON")
        return {"name": self.name, "location": location, "root": self.root}

    @staticmethod
    def from_dict(value: Mapping[str, Any], *, storage_options: Mapping[str, Any] | None = None) -> Source:
        """The way back from ``to_dict``."""
        found = describe_source(value["location"], storage_options=storage_options)
        return replace(found, name=value["name"], root=value.get("root"))

    def __getstate__(self) -> dict[str, Any]:
        if self.kind in ("object", "reader"):
            raise InvalidQuery(f"{self.name}: an open file cannot go to another process; give its path, URL or bytes")
        state = dict(self.__dict__)
        if self.kind == "bytes":
            state["location"] = bytes(self.location)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


OneSource: TypeAlias = (
    "str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | RangeReader | Source | tuple[object, str]"
)
"""What ``describe_source`` takes for one object or directory; the last is ``(store, path)`` of obstore."""
Sources: TypeAlias = "OneSource | Iterable[OneSource]"
"""One, or several."""


def describe_source(
    source: Any, *, storage_options: Mapping[str, Any] | None = None, filesystem: object = None
) -> Source:
    """What ``source`` is, without opening it.

    ``source``: a path or ``os.PathLike``; a URL (fsspec, with ``storage_options``; ``file:`` URLs are local paths);
    bytes or any contiguous buffer; a seekable binary file object; ``(store, path)`` of obstore; a ``RangeReader``. With
    ``filesystem`` (fsspec, pyarrow.fs or an obstore store) it is a path in that. Raises ``TypeError`` for anything
    else, ``InvalidQuery`` for options that do not go together.
    """
    if isinstance(source, str) and filesystem is None:
        return of_text(source, storage_options or {})
    if isinstance(source, Source):
        return source
    if filesystem is not None:
        if storage_options:
            raise InvalidQuery("give storage_options or a filesystem, not both: a filesystem has its options")
        return in_filesystem(text_of(source), filesystem)
    if isinstance(source, os.PathLike):
        return of_text(text_of(source), storage_options or {})
    if isinstance(source, RangeReader):
        return Source(source.name, "reader", source)
    if (found := of_object(source)) is not None:
        return found
    if isinstance(source, io.BytesIO):
        return Source("<bytes>", "bytes", source.getvalue())
    if hasattr(source, "read") and hasattr(source, "seek"):
        if isinstance(source, io.TextIOBase):
            raise InvalidQuery("a text file; open it in binary mode")
        given = getattr(source, "name", None)
        return Source(given if isinstance(given, str) else f"<{type(source).__name__}>", "object", source)
    try:
        memoryview(source)
    except TypeError:
        raise TypeError(
            f"{source!r:.100} is no source, but of type {type(source).__name__}: give a path, URL, bytes, "
            "file object or (store, path)"
        ) from None
    return Source("<bytes>", "bytes", source)


def describe_target(
    target: object, *, storage_options: Mapping[str, Any] | None = None, filesystem: object = None
) -> Source:
    """Where something is to be written, of what ``describe_source`` takes. Raises ``InvalidQuery`` for bytes, too."""
    if isinstance(target, bytes):
        raise InvalidQuery(f"{target!r:.100} is bytes, and a path is text: give os.fsdecode(path)")
    return describe_source(target, storage_options=storage_options, filesystem=filesystem)


def open_reader(
    source: Any,
    *,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object = None,
    options: ReadOptions | None = None,
) -> RangeReader:
    """Opens a source (see ``describe_source``) for reading ranges.

    A remote object is not touched until the first read; a local file is opened at once. A ``RangeReader`` comes back
    as it is. ``options``: ``mmap``, ``merge_gap``, ``merge_size`` and ``io_bytes`` matter here. Raises
    ``FileNotFoundError``, ``PermissionError``, ``IsADirectoryError``, ``StorageError``; ``Unsupported`` naming the
    package that a URL needs.
    """
    if isinstance(source, RangeReader):
        return source
    return describe_source(source, storage_options=storage_options, filesystem=filesystem).open(options)


def hive_partition(path: str, root: str | None) -> dict[str, str | None]:
    """The ``key=value`` directories of ``path`` below ``root``, outermost first; the file's own name does not count.

    ``%XX`` is decoded in both; ``__HIVE_DEFAULT_PARTITION__`` is ``None``.
    """
    path = path.replace(os.sep, "/")
    if root is not None:
        base = root.replace(os.sep, "/").rstrip("/") + "/"
        path = path.removeprefix(base)
    partition: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        key, equals, value = part.partition("=")
        if key and equals:
            partition[_unescape(key)] = None if value == _NULL_PARTITION else _unescape(value)
    return partition


def _unescape(text: str) -> str:
    """Hive escapes single characters below 128; pyarrow the UTF-8 of any. What is not UTF-8 stays as it was written."""
    try:
        return urllib.parse.unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text


def text_of(source: object) -> str:
    """A path as text."""
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"a path is wanted, not a {type(source).__name__}")
    text = os.fspath(source)
    return os.fsdecode(text)
