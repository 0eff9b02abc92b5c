"""Writes local files. The data goes to a hidden temporary file beside the target. At the end this file is renamed to
the target.

A symbolic link is followed, and the file to which it leads is replaced. A pipe, a device or a socket raises an error,
because the rename would replace it with a file. A new file that replaces another file gets the mode of that file, and
its owner if the system permits it. Before the rename, only the user who writes the temporary file can read it.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import warnings
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from orcidx.errors import StorageError
from orcidx.storage.failures import error_numbers, translating
from orcidx.storage.writers import refused, temporary_name

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "LocalSink", "Place", "create_file", "give_name", "open_temporary", "put_file", "shared_mode", "sync_directory",
]  # fmt: skip

WRITE_BUFFER_BYTES = 1 << 20
"""Size in bytes of the buffer that joins small writes."""
_NEW_FILE_MODE = 0o666
"""The mode of a new file, before the system removes the bits of the umask."""
_NOT_PERMITTED = error_numbers("EPERM", "EACCES", "EINVAL", "ENOTSUP", "EOPNOTSUPP", "ENOSYS")
"""Errors of file systems without modes or owners, and of processes that may not change them."""
_WITHOUT_LINKS = error_numbers("EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK")


class Place(NamedTuple):
    """The place where a file is written. ``path``: the target, with its symbolic links resolved. ``replaced``: the
    status of the file that exists there, or None if there is no file."""

    path: str
    replaced: os.stat_result | None

    @classmethod
    def of(cls, path: str, name: str) -> Place:
        """The place for the target ``path``. Raises ``IsADirectoryError`` for a directory, and ``StorageError`` for
        anything else that is not a regular file. ``name``: the target's name in messages."""
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return cls(os.path.realpath(path) if os.path.islink(path) else path, None)
        except (PermissionError, NotADirectoryError):
            raise
        except (OSError, ValueError) as error:  # e.g. a cycle of links, a name too long, a NUL in the path
            raise StorageError(f"the file cannot be written: {error}", file=name) from error
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, "the path is a directory, but a file is expected", name)
        if not stat.S_ISREG(status.st_mode):
            raise StorageError(
                "the path is not a regular file but a pipe, a device or a socket, and a new file would replace it. "
                'To write into it, give the open file: open(path, "wb")',
                file=name,
            )
        return cls(os.path.realpath(path) if os.path.islink(path) else path, status)


def shared_mode(paths: Iterable[str]) -> int:
    """The mode of a new file with data of several files. A permission is set only if all of these files have it. The
    owner of the new file may always read and write it. Paths without a file are ignored.

    No execute bit is set, because the new file contains data and not a program.
    """
    mode = _NEW_FILE_MODE
    for path in paths:
        try:
            mode &= stat.S_IMODE(os.stat(path).st_mode)
        except (OSError, ValueError):
            continue
    return mode | stat.S_IWUSR | stat.S_IRUSR


def open_temporary(place: Place, temporary: str, mode: int) -> int:
    """Opens a new file and returns its descriptor. If the new file will replace another file, at first only the owner
    of the new file can read it. Later the new file gets the mode of the other file."""
    first = mode if place.replaced is None else 0o600
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    return os.open(temporary, flags, first)


def give_name(temporary: str, place: Place, name: str) -> None:
    """Gives a finished file the mode and owner of its target, and renames it over the target. Then syncs the directory
    to disk."""
    try:
        # The target's mode may have changed since it was first read.
        replaced: os.stat_result | None = os.stat(place.path)
    except FileNotFoundError:
        replaced = place.replaced
    if replaced is not None:
        _take_over(temporary, replaced, name)
    os.replace(temporary, place.path)
    sync_directory(os.path.dirname(place.path) or os.curdir)


def _take_over(temporary: str, old: os.stat_result, name: str) -> None:
    mode = stat.S_IMODE(old.st_mode) & 0o777
    own = os.stat(temporary)
    if hasattr(os, "chown") and (own.st_uid, own.st_gid) != (old.st_uid, old.st_gid):
        mode = _change_owner(temporary, old, mode, name)
    try:
        os.chmod(temporary, mode)
    except OSError as error:
        if error.errno not in _NOT_PERMITTED:
            raise
        warnings.warn(f"{name}: its mode {mode:04o} could not be kept: {error}", RuntimeWarning, stacklevel=2)


def _change_owner(temporary: str, old: os.stat_result, mode: int, name: str) -> int:
    """Gives a file the owner and the group of the old file. Returns ``mode``. If the group could not be set, the
    permissions of the group are removed from the result."""
    for owner in (old.st_uid, -1):  # changing only the group is often permitted when changing the owner is not
        try:
            os.chown(temporary, owner, old.st_gid)
        except OSError as error:
            if error.errno not in _NOT_PERMITTED:
                raise
            continue
        if owner == -1:
            warnings.warn(f"{name}: its owner {old.st_uid} could not be kept", RuntimeWarning, stacklevel=2)
        return mode
    group = "" if os.stat(temporary).st_gid == old.st_gid else f", nor its group {old.st_gid}; the group has no rights"
    warnings.warn(f"{name}: its owner {old.st_uid} could not be kept{group}", RuntimeWarning, stacklevel=2)
    return mode & ~0o070 if group else mode


def sync_directory(path: str) -> None:
    """Syncs a directory, so that a new name is kept after a power failure. Not every system supports this."""
    if sys.platform == "win32":
        return
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:  # the user may create files in the directory, but not open it
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)


def make_directory(path: str) -> None:
    """Makes a directory, and the directories above it that do not exist. Does nothing if the directory exists."""
    if not os.path.isdir(path):  # makedirs makes four system calls for a directory that exists
        os.makedirs(path, exist_ok=True)


def put_file(path: str, data: bytes, *, mode: int = _NEW_FILE_MODE) -> None:
    """Writes a file, and replaces an existing file."""
    make_directory(os.path.dirname(path))
    place = Place.of(path, path)
    temporary = temporary_name(place.path)
    try:
        _write_new(place, temporary, data, mode)
        give_name(temporary, place, path)
    finally:
        _remove(temporary)


def create_file(path: str, data: bytes, *, single_writer: bool, mode: int = _NEW_FILE_MODE) -> bool:
    """Writes a file unless its name exists. A hard link gives the finished file its name, because a hard link cannot
    replace a file."""
    if os.path.lexists(path):
        return False
    make_directory(os.path.dirname(path))
    temporary = temporary_name(path)
    try:
        _write_new(Place(path, None), temporary, data, mode)
        (_rename_if_absent if single_writer else _link)(temporary, path)
        sync_directory(os.path.dirname(path))
    except FileExistsError:
        return False
    finally:
        _remove(temporary)
    return True


def _write_new(place: Place, temporary: str, data: bytes, mode: int) -> None:
    with open(open_temporary(place, temporary, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _remove(temporary: str) -> None:
    if os.path.lexists(temporary):
        os.unlink(temporary)


def _link(temporary: str, path: str) -> None:
    """Gives a finished file its name unless a file with that name exists."""
    if sys.platform == "win32":
        os.rename(temporary, path)  # raises FileExistsError if the name exists
        return
    try:
        os.link(temporary, path)
    except FileExistsError:
        # NFS sends the link request again if the response was lost. Then the first request has created the link.
        if not os.path.samefile(temporary, path):
            raise
    except OSError as error:
        if error.errno not in _WITHOUT_LINKS:
            raise
        raise refused("this file system has no hard links, so orcidx cannot create a file in it exclusively") from error


def _rename_if_absent(temporary: str, path: str) -> None:
    """Renames a file unless a file with the new name exists. No other process may write to the directory during the
    call."""
    if os.path.lexists(path):
        raise FileExistsError(path)
    os.replace(temporary, path)


class LocalSink:
    """A local file that is written from start to end. A sink that is garbage-collected before ``close`` leaves no
    file."""

    def __init__(self, name: str, path: str, *, mode: int = _NEW_FILE_MODE) -> None:
        self.name = name
        self._place = Place.of(path, name)
        self._temporary = temporary_name(self._place.path)
        opened: list[Any] = []
        # The finalizer is registered before the file exists, because an interrupt may come directly after the file is
        # created.
        self._drop = weakref.finalize(self, _discard, opened, self._temporary, os.getpid())

        def descriptor(path: str, _: int) -> int:
            return open_temporary(self._place, path, mode)

        opened.append(open(self._temporary, "wb", buffering=WRITE_BUFFER_BYTES, opener=descriptor))  # noqa: SIM115
        self._file = opened[0]

    def write(self, data: Buffer) -> None:
        with translating(self.name):
            self._file.write(data)

    def narrow(self, mode: int) -> None:
        """Removes the permissions that are not in ``mode`` from a new file. If the file replaces another file, nothing
        is changed."""
        if self._place.replaced is None:
            own = stat.S_IMODE(os.stat(self._temporary).st_mode)
            if own & ~mode:
                os.chmod(self._temporary, own & mode)

    def close(self) -> None:
        try:
            with translating(self.name):
                self._file.flush()
                os.fsync(self._file.fileno())
                self._file.close()
                give_name(self._temporary, self._place, self.name)
        except BaseException:
            self.abort()
            raise
        self._drop.detach()

    def abort(self) -> None:
        self._drop()


def _discard(opened: list[Any], temporary: str, process: int) -> None:
    """Discards the temporary file if it was opened."""
    if os.getpid() != process:  # a copy of the sink in a forked process must not write the buffered bytes again
        nothing = os.open(os.devnull, os.O_WRONLY)
        for file in opened:
            os.dup2(nothing, file.fileno())
        os.close(nothing)
        return
    try:
        for file in opened:
            file.close()
    except OSError:  # the data is discarded anyway
        pass
    _remove(temporary)
