"""Turns a caller's argument into a ``Source``, which can be opened as a range reader."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, BinaryIO, TypeAlias

from orcidx.errors import InvalidQuery
from orcidx.options import RequestOptions
from orcidx.storage.ranges import RangeReader
from orcidx.storage.secrets import WithSecrets
from orcidx.storage.stores import Source, in_filesystem, of_object, of_text

__all__ = ["OneSource", "Sources", "describe_source", "describe_target", "file_name", "open_reader", "text_of"]

OneSource: TypeAlias = (
    "str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | RangeReader | Source | tuple[object, str]"
)
"""The types that ``describe_source`` accepts for one object or directory. The tuple is ``(store, path)`` of obstore."""
Sources: TypeAlias = "OneSource | Iterable[OneSource]"
"""One source, or several."""


def describe_source(
    source: Any, *, storage_options: Mapping[str, Any] | None = None, filesystem: object = None
) -> Source:
    """Describes ``source`` without opening it.

    Parameters
    ----------
    source
        A path or ``os.PathLike``; a URL (``file:`` URLs are local paths, fsspec opens other URLs); bytes or any
        contiguous buffer; a seekable binary file object; ``(store, path)`` of obstore; or a ``RangeReader``.
    storage_options : mapping, optional
        Options of the file system of a URL.
    filesystem : object, optional
        A file system of fsspec, pyarrow.fs or obstore, in which ``source`` is a path.

    Returns
    -------
    Source

    Raises
    ------
    TypeError
        ``source`` is none of these.
    InvalidQuery
        The options cannot be used together.

    Examples
    --------
    >>> from orcidx.storage import describe_source
    >>> describe_source("data/a.orc").kind
    'path'
    """
    if isinstance(storage_options, WithSecrets):
        found = describe_source(source, storage_options=dict(storage_options), filesystem=filesystem)
        return replace(found, ships_secrets=True)
    if isinstance(source, str) and filesystem is None:
        return of_text(source, storage_options or {})
    if isinstance(source, Source):
        return source
    if filesystem is not None:
        if storage_options:
            raise InvalidQuery(
                "storage_options and filesystem are both given, but a filesystem has its own options; give only one "
                "of them"
            )
        return in_filesystem(text_of(source), filesystem)
    if isinstance(source, os.PathLike):
        return of_text(text_of(source), storage_options or {})
    if isinstance(source, RangeReader):
        return Source(source.name, "reader", source)
    if (known := of_object(source)) is not None:
        return known
    if isinstance(source, io.BytesIO):
        return Source("<bytes>", "bytes", source.getvalue())
    if hasattr(source, "read") and hasattr(source, "seek"):
        if isinstance(source, io.TextIOBase):
            raise InvalidQuery("the file is open in text mode; open it in binary mode")
        return Source(file_name(source), "object", source)
    try:
        memoryview(source)
    except TypeError:
        raise TypeError(
            f"{source!r:.100}, of type {type(source).__name__}, cannot be read: give a path, URL, bytes, file object "
            "or (store, path)"
        ) from None
    return Source("<bytes>", "bytes", source)


def describe_target(
    target: object, *, storage_options: Mapping[str, Any] | None = None, filesystem: object = None
) -> Source:
    """The target to which an object is written. It may be anything that ``describe_source`` accepts, except bytes.
    Raises ``InvalidQuery`` for bytes."""
    if isinstance(target, bytes):
        raise InvalidQuery(f"{target!r:.100} is bytes, but a path must be text: give os.fsdecode(path)")
    return describe_source(target, storage_options=storage_options, filesystem=filesystem)


def open_reader(
    source: Any,
    *,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object = None,
    options: RequestOptions | None = None,
) -> RangeReader:
    """Opens a source for reading ranges. A remote object is not accessed before the first read. A local file is opened
    immediately.

    Parameters
    ----------
    source, storage_options, filesystem
        As for ``describe_source``. A ``RangeReader`` is returned unchanged.
    options : RequestOptions, optional
        Only ``mmap``, ``merge_gap``, ``merge_size`` and ``io_bytes`` have an effect.

    Returns
    -------
    RangeReader

    Raises
    ------
    FileNotFoundError, PermissionError, IsADirectoryError, StorageError
        The source cannot be opened.
    Unsupported
        A URL needs a package that is not installed. The message names the package.

    Examples
    --------
    >>> from orcidx.storage import open_reader
    >>> bytes(open_reader(b"abcdef").read_ranges([(2, 3)])[0])
    b'cde'
    """
    if isinstance(source, RangeReader):
        return source
    return describe_source(source, storage_options=storage_options, filesystem=filesystem).open(options)


def file_name(file: object) -> str:
    """The name of a file object, for messages. If the object has no name, the name of its class is used."""
    given = getattr(file, "name", None)
    return given if isinstance(given, str) else f"<{type(file).__name__}>"


def text_of(source: object) -> str:
    """Converts a path to text."""
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"a path must be text or os.PathLike, not a {type(source).__name__}")
    text = os.fspath(source)
    return os.fsdecode(text)
