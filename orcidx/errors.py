"""The errors of orcidx. Each error says where in the *data* the problem is.

* ``CorruptFile``: the bytes break a rule of the format.
* ``Unsupported``: the bytes are legal, but orcidx does not support them.
* ``StorageError``: the storage failed.
* ``FileGone``: a file that existed before no longer exists.
* ``InvalidQuery``: the request is not valid.
* ``ValueOutOfRange``: a legal value does not fit the Arrow type that the caller chose.
* ``CommitConflict``: a table was not changed, because another commit conflicts with this change.
* ``CommitUncertain``: it is not known whether a table was changed.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not imported from typing; orcidx/__init__.py gives the reason
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
    """Base class of every error that orcidx raises on purpose.

    The attributes say where the problem is. An attribute that does not apply is ``None``. ``file`` is the name as it
    was given. ``stripe`` and ``row_group`` are numbers from 0. ``column`` is a dotted path. ``stream`` is a kind such
    as ``"PRESENT"``. ``offset`` is in bytes from the start of the stream, or of the file if ``stream`` is ``None``.

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
        """Sets attributes of an error. An attribute that is already set is kept, because code nearer to the cause has
        set it.

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
            An error has no attribute of this name.
        """
        for name, value in places.items():
            if name not in _PLACES:
                raise TypeError(
                    f"{name!r} is not an attribute of orcidx's errors; the attributes are {', '.join(_PLACES)}"
                )
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
    """The bytes are legal, but this feature is not supported. The message says what to do instead."""


class StorageError(OrcidxError, OSError):
    """The storage failed after all retries. The message names the byte range."""


class FileGone(StorageError, FileNotFoundError):
    """A file no longer exists. It existed earlier, because a listing or a snapshot named it, or because orcidx had
    opened it. The message says what to do."""


class InvalidQuery(OrcidxError, ValueError):
    """The request is not valid: an unknown column, a literal of another type, or text that cannot be parsed."""


class ValueOutOfRange(OrcidxError, ValueError):
    """A legal value does not fit the chosen Arrow type. The message names the option to change."""


_NAMED_FILES = 5
"""The number of files that the message of a conflict names."""


class _CommitError(OrcidxError):
    """Base class of errors of a commit. ``commit_user`` and ``identifier`` name the change that failed. ``other_user``
    and ``snapshot_id`` name the conflicting commit. ``files`` are the files that both commits change. ``left_behind``
    are the written files that remain, if any."""

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
    """The change conflicts with another commit to the table. Nothing was changed, and the call can be repeated. The
    message has the names of the first files in ``left_behind``."""

    def __str__(self) -> str:
        if not self.left_behind:
            return super().__str__()
        more = len(self.left_behind) - _NAMED_FILES
        others = f" and {more} more (see left_behind)" if more > 0 else ""
        return f"{super().__str__()}; files left behind: {', '.join(self.left_behind[:_NAMED_FILES])}{others}"


class CommitUncertain(_CommitError):
    """It is not known whether the change was committed. Nothing was deleted. The message names the file to look at. It
    is safe to repeat the call with the same ``commit_user`` and ``identifier``, because the same change is never
    committed twice."""


class located:
    """Sets attributes such as ``file`` on each orcidx error raised inside ``with located(file=name, stripe=3):``."""

    __slots__ = ("_places",)

    def __init__(self, **places: Any) -> None:
        self._places = places

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OrcidxError):
            error.at(**self._places)
