"""``Fingerprint`` identifies one version of an object. This module also parses the different forms of versions that
storages report."""

from __future__ import annotations

import email.utils
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

__all__ = ["Fingerprint", "fingerprint_of_info", "mtime_of", "plain_etag"]

_NANOS_PER_SECOND = 1_000_000_000
_ETAGS = ("ETag", "etag", "e_tag", "md5Hash", "crc32c")
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")


@dataclass(frozen=True)
class Fingerprint:
    """Identifies one version of an object, by the properties that the storage reports.

    Parameters
    ----------
    size : int
        The size of the object in bytes.
    etag : str, optional
        The ETag without its quotes. None: not known.
    mtime : int, optional
        The time of the last change, in nanoseconds since 1970-01-01 UTC. None: not known.

    Examples
    --------
    >>> from orcidx.storage import Fingerprint
    >>> Fingerprint(10, etag="a").matches(Fingerprint(10, etag="b"))
    False
    """

    size: int
    etag: str | None = None
    mtime: int | None = None

    @property
    def is_version(self) -> bool:
        """Whether the fingerprint can distinguish versions of the same size."""
        return self.etag is not None or self.mtime is not None

    def matches(self, other: Fingerprint) -> bool:
        """Whether both fingerprints may belong to the same version.

        Both must have the same size. If both etags are known, they must be equal. If an etag is not known, but both
        mtimes are known, the mtimes must be equal.

        Some storages give times to the nanosecond. Other storages give times only to the second (HTTP dates). If one of
        the times has no fraction of a second, only the whole seconds are compared.

        Parameters
        ----------
        other : Fingerprint
            The other version.

        Returns
        -------
        bool
        """
        if self.size != other.size:
            return False
        if self.etag is not None and other.etag is not None:
            return self.etag == other.etag
        if self.mtime is None or other.mtime is None or self.mtime == other.mtime:
            return True
        whole = self.mtime % _NANOS_PER_SECOND == 0 or other.mtime % _NANOS_PER_SECOND == 0
        return whole and self.mtime // _NANOS_PER_SECOND == other.mtime // _NANOS_PER_SECOND

    def to_dict(self) -> dict[str, Any]:
        """The fingerprint as JSON values. ``Fingerprint(**d)`` restores it.

        Returns
        -------
        dict
            The keys are "size", "etag" and "mtime".
        """
        return asdict(self)


def mtime_of(value: object) -> int | None:
    """Converts a time to nanoseconds since 1970. Storages give a datetime, a number of seconds, ISO 8601 text or the
    text of an HTTP date."""
    if isinstance(value, str):
        text = value
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            try:
                value = email.utils.parsedate_to_datetime(text)
            except ValueError:
                return None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            value = value.replace(tzinfo=UTC)
        passed: timedelta = value - datetime(1970, 1, 1, tzinfo=UTC)
        return ((passed.days * 86400 + passed.seconds) * 1_000_000 + passed.microseconds) * 1000
    if isinstance(value, int) and not isinstance(value, bool):
        return value * _NANOS_PER_SECOND
    if isinstance(value, float) and math.isfinite(value):
        # A float of the current time is exact only to microseconds, so it is rounded to microseconds. fsspec gives the
        # same time both as a float and as a datetime.
        return round(value * 1_000_000) * 1000
    return None


def plain_etag(value: object) -> str | None:
    """An entity tag without quotes and without ``W/``. Some storages report the tag with quotes and ``W/``, and other
    storages report only the tag."""
    if not isinstance(value, str):
        return None
    return value.removeprefix("W/").strip('"') or None


def fingerprint_of_info(info: Mapping[str, Any]) -> Fingerprint | None:
    """The version of a file, from the ``info`` of an fsspec file system. None if ``info`` has no size."""
    size = info.get("size")
    if not isinstance(size, int):
        return None
    etag = next((info[key] for key in _ETAGS if info.get(key)), None)
    mtime = next((info[key] for key in _TIMES if info.get(key)), None)
    if mtime is None and isinstance(info.get("modificationTime"), int):  # WebHDFS, in milliseconds
        return Fingerprint(size, plain_etag(etag), info["modificationTime"] * 1_000_000)
    return Fingerprint(size, plain_etag(etag), mtime_of(mtime))
