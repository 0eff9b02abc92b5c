"""Classifies failed requests, and decides how often a request is sent again.

The storage libraries have no common base class for errors and are not imported here. An error is classified by its
type, its HTTP status and its errno. The errors that caused it are examined in the same way."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from orcidx.errors import FileGone, OrcidxError, StorageError
from orcidx.storage.secrets import without_secrets

__all__ = [
    "RETRIES",
    "RETRIES_AFTER_LIBRARY",
    "Retries",
    "ShortBody",
    "chain",
    "classify",
    "error_numbers",
    "gone",
    "showable",
    "status_of",
    "translated_error",
    "translating",
]

Failure = Literal["missing", "denied", "changed", "transient", "permanent"]

_STATUS: dict[int, Failure] = {
    401: "denied",
    403: "denied",
    404: "missing",
    410: "missing",
    412: "changed",
    408: "transient",
    425: "transient",
    429: "transient",
    500: "transient",
    502: "transient",
    503: "transient",
    504: "transient",
    509: "transient",
}


def error_numbers(*names: str) -> frozenset[int]:
    """The error numbers with these names. Not every system has all of them."""
    return frozenset(getattr(errno, name) for name in names if hasattr(errno, name))


_TRANSIENT_ERRNO = error_numbers(
    "EAGAIN", "EBUSY", "EHOSTUNREACH", "ENETRESET", "ENETUNREACH", "EREMOTEIO", "ETIMEDOUT"
)
# Names of base classes of errors for broken connections and incomplete bodies. They are from aiohttp, botocore and the
# http module. Some of aiohttp's payload and connection errors are not subclasses of OSError.
_TRANSIENT_KINDS = frozenset(
    {"ClientConnectionError", "ClientPayloadError", "HTTPClientError", "IncompleteRead", "IncompleteReadError"}
)
# Names of obstore's exceptions. These exceptions have no HTTP status.
_KINDS: dict[str, Failure] = {
    "PreconditionError": "changed",
    "PermissionDeniedError": "denied",
    "UnauthenticatedError": "denied",
}


class ShortBody(OSError):
    """A response that ended early."""


@dataclass(frozen=True)
class Retries:
    """At most ``attempts`` requests are sent. The first wait is ``first_delay`` seconds. Each later wait is twice as
    long, with jitter."""

    attempts: int = 4
    first_delay: float = 0.1
    longest_delay: float = 2.0

    def delay(self, attempt: int) -> float:
        """The number of seconds to wait after the failure of request number ``attempt``, counted from 1."""
        return min(self.first_delay * 2.0 ** (attempt - 1), self.longest_delay) * random.uniform(0.5, 1.0)


RETRIES = Retries()
# The retries of orcidx for libraries that retry by themselves. When such a library raises an error, it has already
# tried several times.
RETRIES_AFTER_LIBRARY = Retries(attempts=2)


def chain(error: BaseException) -> Iterator[BaseException]:
    """The error and its chain of causes."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__


def status_of(error: BaseException) -> int | None:
    """The HTTP status of an error, if it has one."""
    for name in ("status", "status_code", "code"):
        value = getattr(error, name, None)
        if isinstance(value, int) and 100 <= value < 600:
            return value
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore
        value = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return value if isinstance(value, int) else None
    return None


def classify(error: BaseException) -> Failure:
    """The kind of an error: missing, denied, changed (a precondition failed), transient (another request may succeed)
    or permanent."""
    for link in chain(error):
        if isinstance(link, FileNotFoundError):
            return "missing"
        if isinstance(link, PermissionError):
            return "denied"
        if isinstance(link, (TimeoutError, ConnectionError, ShortBody)):
            return "transient"
        if (status := status_of(link)) is not None:
            return _STATUS.get(status, "permanent")
        if isinstance(link, OSError) and link.errno in _TRANSIENT_ERRNO:
            return "transient"
        if (known := _KINDS.get(type(link).__name__)) is not None:
            return known
        if not _TRANSIENT_KINDS.isdisjoint(kind.__name__ for kind in type(link).__mro__):
            return "transient"
    return "permanent"


def _named(error: OSError, name: str) -> OSError:
    """The error with the object's path in its text. Some libraries leave the path out, or name only the bucket."""
    number = error.errno or (errno.ENOENT if isinstance(error, FileNotFoundError) else errno.EACCES)
    reason = without_secrets(error.strerror or str(error)) or "no such object"
    named = type(error)(number, reason, name)
    named.__cause__ = showable(error)
    return named


def translated_error(
    error: Exception, failure: Failure, *, name: str, what: str, offset: int | None = None, doing: str = "reading"
) -> Exception:
    """The error to raise for ``error``. If ``error`` has a type that orcidx documents, ``error`` itself is returned.
    Otherwise the result is an error of such a type, usually a ``StorageError`` that names the range."""
    if isinstance(error, (OrcidxError, Warning)):  # a warning filter of the caller may turn warnings into errors
        return error
    if isinstance(error, (FileNotFoundError, IsADirectoryError, PermissionError)):
        return error if name in str(error) and showable(error) else _named(error, name)
    if failure == "missing":
        return FileNotFoundError(errno.ENOENT, "no such object", name)
    if failure == "denied":
        return PermissionError(errno.EACCES, f"access denied: {without_secrets(str(error))}", name)
    if failure == "changed":
        return StorageError("the object has changed since it was opened; open it again", file=name, offset=offset)
    reason = f"{type(error).__name__}: {without_secrets(str(error))}" if str(error) else type(error).__name__
    return StorageError(f"{doing} {what}: {reason}", file=name, offset=offset)


def showable(error: BaseException) -> BaseException | None:
    """Returns the error for use as the cause of another error. Returns None if the text of the error contains a secret,
    because a traceback would show the text."""
    return None if any(without_secrets(str(link)) != str(link) for link in chain(error)) else error


def gone(name: str) -> FileGone:
    """The error for an object that existed when it was listed, opened or planned, and does not exist any more."""
    text = "no longer exists: it was deleted or replaced after it was listed or opened; make the scan again"
    return FileGone(text, file=name)


@contextmanager
def translating(name: str, *, what: str = "the object", doing: str = "writing") -> Iterator[None]:
    """Turns the errors of storage libraries, which may be of any type, into the errors that orcidx documents."""
    try:
        yield
    except Exception as error:
        known = translated_error(error, classify(error), name=name, what=what, doing=doing)
        if known is error:
            raise
        raise known from showable(error)
