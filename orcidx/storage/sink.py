"""``open_sink`` opens one object that is written from start to end. The object appears complete or not at all.

    local path        a hidden temporary file beside it, which is renamed at the end; links are followed, modes are kept
    object store      a multipart upload that is completed at the end
    other fsspec      a hidden temporary file that is moved at the end
    file object       only ``write`` is called, never seek, read or close; data that was written before an error stays

``close`` publishes the object. ``abort`` discards all data, except data that was written to a file object. If a sink is
garbage-collected before ``close``, its data is discarded in the same way.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from orcidx.errors import InvalidQuery
from orcidx.storage.failures import translating
from orcidx.storage.local_writing import LocalSink, shared_mode
from orcidx.storage.sources import describe_target, file_name
from orcidx.storage.stores import Sink, Source, store_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["SupportsWrite", "Target", "fill_sink", "mode_of", "narrow_for", "open_sink", "sources_of", "write_file"]

PART_BYTES = 8 << 20
"""Size in bytes of a part of an upload. S3 accepts parts of at least 5 MiB, and at most 10,000 parts. So with parts of
this size an object can have 80 GB."""


class SupportsWrite(Protocol):
    """An object with a ``write`` method. The caller has opened it and will close it."""

    def write(self, data: Any, /) -> object: ...


Target: TypeAlias = "str | os.PathLike[str] | tuple[object, str] | Source | SupportsWrite"
"""The targets that ``open_sink`` accepts. The tuple is ``(store, path)`` of obstore."""


def open_sink(
    where: Target,
    *,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object = None,
    made_of: Sequence[Source] = (),
) -> Sink:
    """Opens a target for writing: a path, a URL (fsspec), ``(store, path)`` of obstore, a path in ``filesystem``, or an
    object with ``write``. ``made_of``: the sources of the data. A user can read a new local file only if the user may
    read all local files among the sources.

    Raises ``FileNotFoundError``, ``PermissionError``, ``IsADirectoryError``, ``StorageError``, ``InvalidQuery``.
    """
    if isinstance(where, LocalSink):
        return where
    if hasattr(where, "write") and not isinstance(where, str | os.PathLike):
        return _FileObjectSink(where)
    source = describe_target(where, storage_options=storage_options, filesystem=filesystem)
    if not source.in_store:
        raise InvalidQuery(
            f"{source.name}: this is not a target to which a file can be written; give a path, a URL or an object "
            "with write()"
        )
    with translating(source.name):
        if made_of and source.kind == "path":
            return LocalSink(source.name, source.location, mode=mode_of(made_of))
        store, path = store_of(source)
        return store.sink(path, name=source.name, part_bytes=PART_BYTES)


def sources_of(data: object) -> list[Source]:
    """The files from which the rows of ``data`` come. They are known if ``data`` is a scan, a scan of a table, or an
    open file. Otherwise the list is empty."""
    jobs, plan, own = getattr(data, "jobs", None), getattr(data, "plan", None), getattr(data, "source", None)
    if not jobs and plan is None:  # ``data`` is, for example, a table or batch of Arrow
        return [own] if isinstance(own, Source) else []
    found = [*(getattr(one, "source", None) for one in jobs or [task.file for task in getattr(plan, "tasks", ())]), own]
    return [one for one in found if isinstance(one, Source)]


def mode_of(sources: Sequence[Source]) -> int:
    """The mode of a new local file with data from these sources."""
    return shared_mode([source.location for source in sources if source.kind == "path"])


def narrow_for(sink: Sink, data: object) -> None:
    """Must be called if rows of ``data`` are written to the sink. A user can then read the new local file only if the
    user may read the local files of ``data``."""
    if isinstance(sink, LocalSink) and (made_of := sources_of(data)):
        with translating(sink.name):
            sink.narrow(mode_of(made_of))


def write_file(path: str | os.PathLike[str], data: bytes, *, made_of: Sequence[Source] = ()) -> None:
    """Writes a local file through a temporary file. Writes directly to a pipe or a device, such as /dev/stdout."""
    name = os.fspath(path)
    if os.path.exists(name) and not os.path.isfile(name) and not os.path.isdir(name):
        with translating(name), open(name, "wb") as file:
            file.write(data)
        return
    fill_sink(open_sink(path, made_of=made_of), [data])


def fill_sink(sink: Sink, pieces: Iterable[bytes]) -> None:
    """Writes pieces and closes the sink. After an error the sink is aborted, and no part of the object remains."""
    try:
        for piece in pieces:
            sink.write(piece)
    except BaseException:
        sink.abort()
        raise
    sink.close()


class _FileObjectSink:
    def __init__(self, file: Any) -> None:
        self.name = file_name(file)
        self._file = file

    def write(self, data: Buffer) -> None:
        view = memoryview(data).cast("B")
        while len(view):
            with translating(self.name):
                written = self._file.write(view)
            # write() of a buffered file returns the number of bytes that were written. write() of some other files
            # returns None.
            if written is None or written >= len(view):
                return
            if written <= 0:
                raise InvalidQuery(
                    f"{self.name}: write() wrote no bytes. If the file is non-blocking, give a blocking file"
                )
            view = view[written:]

    def close(self) -> None:
        if hasattr(self._file, "flush"):
            with translating(self.name):
                self._file.flush()

    def abort(self) -> None:
        pass
