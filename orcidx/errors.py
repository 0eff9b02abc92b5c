"""What can go wrong, each error saying where in the *data* it happened.

``CorruptFile`` the bytes break the format; ``Unsupported`` the bytes are legal but not supported here; ``StorageError``
the storage failed, ``FileGone`` a file that was known is not there any more; ``InvalidQuery`` the caller asked for
something that cannot be; ``ValueOutOfRange`` a legal value does not fit the Arrow type that the caller chose;
``CommitConflict`` and ``CommitUncertain`` a change of a table did not happen, or nobody can tell.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in orcidx/__init__
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "CommitConflict",
    "CommitUncertain",
    "CorruptFile",
    "FileGone",
    "InvalidQuery",
    "OrcidxError",
    "StorageError",
    "Unsupported",
    "ValueOutOfRange",
    "located",
]

_PLACES = ("file", "stripe", "row_group", "column", "stream", "offset")


class OrcidxError(Exception):
    """Base of every error that orcidx raises on purpose.

    Attributes (each ``None`` when it does not apply): ``file`` name as given; ``stripe`` and ``row_group`` numbers from
    0; ``column`` dotted path; ``stream`` kind such as ``"PRESENT"``; ``offset`` bytes from the start of that stream (or
    of the file, when no stream is named).

    Examples
    --------
    >>> import orcidx
    >>> try:
    ...     orcidx.open(b"abc")
    ... except orcidx.CorruptFile as error:
    ...     error.file
    '<bytes>'
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        stripe: int | None = None,
        row_group: int | None = None,
        column: str | None = None,
        stream: str | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.stripe = stripe
        self.row_group = row_group
        self.column = column
        self.stream = stream
        self.offset = offset

    def at(self, **places: Any) -> OrcidxError:
        """Fills in places that are not known yet. A place that is known already stays, as it is more exact.

        Parameters
        ----------
        **places
            Attributes by name, such as ``file`` and ``stripe``.

        Returns
        -------
        OrcidxError
            This error.

        Raises
        ------
        TypeError
            There is no place of that name.
        """
        for name, value in places.items():
            if name not in _PLACES:
                raise TypeError(f"no place called {name!r}; the places are {', '.join(_PLACES)}")
            if value is not None and getattr(self, name) is None:
                setattr(self, name, value)
        return self

    def __str__(self) -> str:
        where = ", ".join(
            f"{name.replace('_', ' ')} {value}" for name in _PLACES if (value := getattr(self, name)) is not None
        )
        return f"{self.message} ({where})" if where else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, {name: getattr(self, name) for name in _PLACES})


def _rebuild(kind: type[OrcidxError], message: str, places: dict[str, Any]) -> OrcidxError:
    return kind(message, **places)


class CorruptFile(OrcidxError, ValueError):
    """The bytes break a rule of the format."""


class Unsupported(OrcidxError, NotImplementedError):
    """The bytes are legal, but this feature is not supported; the message says what to do instead."""


class StorageError(OrcidxError, OSError):
    """The storage below failed, after the retries; the message names the byte range."""


class FileGone(StorageError, FileNotFoundError):
    """A file that a listing, a snapshot or an open file named is not there any more; the message says what to do."""


class InvalidQuery(OrcidxError, ValueError):
    """An unknown column, a literal that cannot be of the column's type, or text that does not parse."""


class ValueOutOfRange(OrcidxError, ValueError):
    """A legal value that does not fit the chosen Arrow type; the message names the option to change."""


class _CommitError(OrcidxError):
    """``commit_user`` and ``identifier`` of the change that failed; ``other_user`` and ``snapshot_id`` of the commit
    that it met; ``files`` that the two dispute; ``left_behind`` what was written and stays (``None`` or empty:
    nothing)."""

    def __init__(
        self,
        message: str,
        *,
        commit_user: str | None = None,
        identifier: int | None = None,
        other_user: str | None = None,
        snapshot_id: int | None = None,
        files: tuple[str, ...] = (),
        left_behind: tuple[str, ...] = (),
        **places: Any,
    ) -> None:
        super().__init__(message, **places)
        self.commit_user = commit_user
        self.identifier = identifier
        self.other_user = other_user
        self.snapshot_id = snapshot_id
        self.files = files
        self.left_behind = left_behind

    def __reduce__(self) -> tuple[Any, ...]:
        kind, (_, message, places) = super().__reduce__()
        facts = ("commit_user", "identifier", "other_user", "snapshot_id", "files", "left_behind")
        return kind, (type(self), message, places | {name: getattr(self, name) for name in facts})


class CommitConflict(_CommitError):
    """Another commit to the table stands in the way; nothing was changed, and the call can be made again."""


class CommitUncertain(_CommitError):
    """Nobody can tell whether the change was committed; nothing was deleted. The message says where to look, and the
    same call with the same ``commit_user`` and ``identifier`` is safe: it never commits twice."""


class located:
    """Adds places to any orcidx error that passes through: ``with located(file=name, stripe=3):``."""

    __slots__ = ("_places",)

    def __init__(self, **places: Any) -> None:
        self._places = places

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OrcidxError):
            error.at(**self._places)
