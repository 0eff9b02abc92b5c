"""Where the bytes of one object are: ``Source``, made from whatever the caller gives, and opened as a range reader.

fsspec is imported when something remote is opened, the other storage libraries never: whoever has one of their objects
has imported them.
"""

from __future__ import annotations

import io
import os
import re
import sys
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.options import ReadOptions
from orcidx.storage.fingerprint import Fingerprint
from orcidx.storage.given import BytesReader, FileObjectReader
from orcidx.storage.local import LocalReader
from orcidx.storage.ranges import LentReader, RangeReader, changed

if TYPE_CHECKING:
    from orcidx.storage.remote import Backend

__all__ = ["Source", "describe_source", "hive_partition", "open_reader"]

# A scheme has at least two letters (one is a Windows drive); "::" chains fsspec file systems.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+(://|::)")
_LOCAL_URL = re.compile(r"(file|local):(//)?", re.IGNORECASE)

_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

Kind = Literal["path", "url", "fsspec", "obstore", "arrow", "bytes", "object", "reader"]


@dataclass(frozen=True)
class Source:
    """One object: ``name`` as the caller gave it, and all that is needed to open it.

    Pickles unless it stands for an open file object or reader (``InvalidQuery``); ``to_dict`` gives paths and URLs as
    JSON, without ``storage_options`` (they hold secrets). ``root`` is the directory whose listing found it, if any;
    ``size`` what the listing said, in bytes, and ``listed`` what it said of the version.
    """

    name: str
    kind: Kind
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
        if self.kind in ("path", "bytes", "object", "reader"):
            reader = self._open_here(options)
            if expected is not None and not reader.fingerprint().matches(expected):
                found = reader.fingerprint()
                if self.kind != "reader":
                    reader.close()
                raise changed(self.name, expected, found)
            return reader
        from orcidx.storage.remote import RemoteReader

        return RemoteReader(self._backend(), name=self.name, options=options, expected=expected)

    def _open_here(self, options: ReadOptions | None) -> RangeReader:
        if self.kind == "path":
            return LocalReader(self.location, name=self.name, options=options)
        if self.kind == "bytes":
            return BytesReader(self.location, name=self.name, options=options)
        if self.kind == "object":
            return FileObjectReader(self.location, name=self.name, options=options)
        return LentReader(self.location)

    def _backend(self) -> Backend:
        if self.kind == "obstore":
            from orcidx.storage.obstore_backend import ObstoreBackend

            return ObstoreBackend(self.filesystem, self.location)
        if self.kind == "arrow":
            from orcidx.storage.arrow_backend import ArrowBackend

            return ArrowBackend(self.filesystem, self.location)
        from orcidx.storage.fsspec_backend import fsspec_backend

        filesystem, path = self.filesystem, self.location
        if self.kind == "url":
            filesystem, path = filesystem_of(path, self.storage_options)
        return fsspec_backend(filesystem, path)

    @property
    def partition(self) -> dict[str, str | None]:
        """The ``key=value`` directories between ``root`` and the object (see ``hive_partition``)."""
        return hive_partition(self.location, self.root) if self.root is not None else {}

    def to_dict(self) -> dict[str, Any]:
        """``{"name", "location", "root"}``; ``InvalidQuery`` for what has no path or URL that works elsewhere."""
        location = self.location
        if self.kind == "fsspec":
            location = self.filesystem.unstrip_protocol(location)
        elif self.kind not in ("path", "url"):
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


def describe_source(source: Any, *, storage_options: Mapping[str, Any] | None = None, filesystem: Any = None) -> Source:
    """What ``source`` is, without opening it.

    ``source``: a path or ``os.PathLike``; a URL (fsspec, with ``storage_options``; ``file:`` URLs are local paths);
    bytes or any contiguous buffer; a seekable binary file object; ``(store, path)`` of obstore; a ``RangeReader``. With
    ``filesystem`` (fsspec, pyarrow.fs or an obstore store) it is a path in that. Raises ``TypeError`` for anything
    else, ``InvalidQuery`` for options that do not go together.
    """
    if isinstance(source, str) and filesystem is None:
        return _of_text(source, dict(storage_options or {}))
    if isinstance(source, Source):
        return source
    if filesystem is not None:
        if storage_options:
            raise InvalidQuery("give storage_options or a filesystem, not both: a filesystem has its options")
        return _in_filesystem(_text_of(source), filesystem)
    if isinstance(source, tuple) and len(source) == 2 and is_obstore(source[0]):
        return _in_filesystem(_text_of(source[1]), source[0])
    if isinstance(source, os.PathLike):
        return _of_text(_text_of(source), dict(storage_options or {}))
    if isinstance(source, RangeReader):
        return Source(source.name, "reader", source)
    if _is_from("fsspec.core", "OpenFile", source) or _is_from("fsspec.spec", "AbstractBufferedFile", source):
        return _in_filesystem(source.path, source.fs)  # the file's own cache would be in the way
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
            f"cannot read from a {type(source).__name__}: give a path, URL, bytes, file object or (store, path)"
        ) from None
    return Source("<bytes>", "bytes", source)


def open_reader(
    source: Any,
    *,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
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


def filesystem_of(url: str, storage_options: Mapping[str, Any]) -> tuple[Any, str]:
    """(fsspec file system, path in it) of a URL."""
    import fsspec.core

    try:
        filesystem, path = fsspec.core.url_to_fs(url, **storage_options)
    except ImportError as error:
        raise Unsupported(f"{url}: {error}") from error
    except ValueError as error:
        raise InvalidQuery(f"{url}: {error}") from error
    return filesystem, path


def is_url(text: str) -> bool:
    return _URL.match(text) is not None or _LOCAL_URL.match(text) is not None


def local_path_of(url: str) -> str | None:
    """The path in a ``file:`` URL, ``None`` for other URLs.

    Such URLs are percent-encoded, but fsspec takes and makes them raw: a file of the raw name wins.
    """
    match = _LOCAL_URL.match(url)
    if match is None or "::" in url:
        return None
    path = url[match.end() :]
    path = path.removeprefix("localhost") if path.startswith("localhost/") else path
    return path if "%" not in path or os.path.exists(path) else urllib.parse.unquote(path)


def _text_of(source: Any) -> str:
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"a path is wanted, not a {type(source).__name__}")
    text = os.fspath(source)
    return os.fsdecode(text)


def _of_text(text: str, storage_options: dict[str, Any]) -> Source:
    if not is_url(text):
        return _local(text, text)
    path = local_path_of(text)
    if path is not None:
        return _local(text, path)
    return Source(text, "url", text, storage_options)


def _local(name: str, path: str) -> Source:
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise InvalidQuery(f"{name!r:.200} is no path: it has a character that no file's name can have")
    return Source(name, "path", path if _is_absolute(path) else os.path.abspath(path))


def _is_absolute(path: str) -> bool:
    """Whether ``os.path.abspath`` would leave a path as it is, where that is easily told; it takes four calls."""
    return os.sep == "/" and path[:1] == "/" and path[-1] != "/" and "//" not in path and "/." not in path


def _is_from(module: str, kind: str, value: Any) -> bool:
    """``isinstance`` without the import: nobody has an object of a module that is not loaded."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, kind))


def _in_filesystem(text: str, filesystem: Any) -> Source:
    if _is_from("pyarrow.fs", "PyFileSystem", filesystem):
        handler = filesystem.handler
        if _is_from("pyarrow.fs", "FSSpecHandler", handler):  # it opens files with fsspec's caches
            filesystem = handler.fs
    if _is_from("fsspec.spec", "AbstractFileSystem", filesystem):
        if getattr(filesystem, "asynchronous", False):  # bound to the caller's loop: blocking calls would fail
            keywords = {k: v for k, v in filesystem.storage_options.items() if k not in ("asynchronous", "loop")}
            filesystem = type(filesystem)(*filesystem.storage_args, **keywords)
        path = str(filesystem._strip_protocol(text))
        protocols = filesystem.protocol
        if "file" in ((protocols,) if isinstance(protocols, str) else protocols):
            return _local(text, path)
        return Source(text, "fsspec", path, filesystem=filesystem)
    if _is_from("pyarrow.fs", "FileSystem", filesystem):
        from orcidx.storage.arrow_backend import local_path_in

        local = local_path_in(filesystem, text)
        return Source(text, "arrow", text, filesystem=filesystem) if local is None else _local(text, local)
    if is_obstore(filesystem):
        return Source(text, "obstore", text, filesystem=filesystem)
    raise TypeError(f"not a file system: {type(filesystem).__name__}; give one of fsspec, pyarrow.fs or obstore")


def is_obstore(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "obstore" and hasattr(value, "get_async")
