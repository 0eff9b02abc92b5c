"""``ReadOptions``: the options of a scan for decoding, for batches and for requests. The options are frozen and can be
pickled.

There are four groups of options, and each group is a class. A function that needs only one group takes an object of
that class. ``ReadOptions`` has all four groups.

``OptionsByName`` has the same options as keywords, for functions such as ``scan``. Type checkers use it to find
misspelt options.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, TypedDict, Unpack

from orcidx.errors import InvalidQuery
from orcidx.keywords import lists_options
from orcidx.spellings import READING, unknown_keyword

__all__ = [
    "USUAL_OPTIONS",
    "LimitOptions",
    "MeaningOptions",
    "OptionsByName",
    "ReadOptions",
    "RequestOptions",
    "ValueOptions",
]


@dataclass(frozen=True, kw_only=True)
class ValueOptions:
    """Options for converting stored values, and the values of statistics and indexes, to Arrow values."""

    strings: Literal["string", "dictionary", "view"] = "string"
    """Arrow type of STRING, CHAR and VARCHAR columns. With "dictionary", a column becomes an Arrow dictionary if every
    stripe stores it with a dictionary. Other columns become strings."""
    timestamp_unit: Literal["s", "ms", "us", "ns"] = "ns"
    """Arrow unit of timestamps. A value that does not fit raises ``ValueOutOfRange``. A value with digits finer than
    the unit is floored."""
    timestamp_ntz: bool = True
    """Read a bigint that Spark marked as timestamp_ntz (type attribute) as a timestamp. False returns the number of
    microseconds."""
    timezone: str | None = None
    """The writer's time zone (IANA name or "GMT+hh:mm"), in place of the zone of the file. Use it for files that name
    no zone or a wrong zone. None means the zone of the file."""
    wall_clock_zone: str | None = None
    """Read TIMESTAMP columns as instants (Arrow timestamps in UTC). The stored wall clock times are interpreted in this
    zone (IANA name or "GMT+hh:mm"), as Spark interprets them in the zone of its JVM. None returns wall clock times
    without a zone."""
    char: Literal["stored", "padded", "trimmed"] = "stored"
    """CHAR(n) values: as the writer stored them, padded with spaces to n characters, or without spaces at the end."""
    utf8: Literal["strict", "replace", "unchecked"] = "strict"
    """Invalid UTF-8 in a string column: raise ``CorruptFile`` ("strict"), replace it by U+FFFD ("replace"), or return
    the bytes unchanged ("unchecked"). With "strict", strings that are only compared with a literal for equality need
    not be checked."""
    decimal_rounding: Literal["error", "truncate", "half_up"] = "error"
    """What to do with a stored decimal that has non-zero digits beyond the scale of its type: raise ``ValueOutOfRange``
    ("error"), truncate it like ORC C++ and pyarrow ("truncate"), or round it like ORC Java and Spark ("half_up"). Only
    programs that fill ORC Java's vectors themselves write such values. Bloom filters of decimals contain the values
    before rounding. So with "truncate" and "half_up" these filters are used only for files of Spark, which rounds
    before it writes. For a DECIMAL of precision 0, "error" truncates."""
    decimal_zero_precision: tuple[int, int] = (38, 6)
    """Precision and scale of a DECIMAL of precision 0, which Hive 0.11 and 0.12 wrote. The default is that of ORC C++
    and pyarrow. If values have more digits, use a larger scale; Hive itself used (38, 18)."""
    calendar: Literal["proleptic", "stored"] = "proleptic"
    """Dates of files with the hybrid calendar: keep the calendar date in the proleptic calendar ("proleptic"), or
    return the stored day number ("stored")."""


@dataclass(frozen=True, kw_only=True)
class MeaningOptions:
    """Options for the interpretation of names and conditions, and for the use of indexes."""

    case_sensitive: bool = True
    """Compare column names with exact case."""
    nan: Literal["ieee", "largest"] = "ieee"
    """NaN in predicates: every comparison with NaN is false, as in pyarrow.compute ("ieee"), or NaN is equal to itself
    and larger than all other values, as in Spark ("largest"). Polars expressions always have the second meaning."""
    encrypted: Literal["masked", "error"] = "masked"
    """Encrypted columns: return the masked values that the file has for readers without keys ("masked"), or raise
    ``Unsupported`` if a scan reads such a column ("error"). Masked values are nulls, redacted text or hashes, as the
    writer of the file chose. Keys are not supported."""
    row_index: bool = True
    """Use statistics and row indexes to skip rows. False reads every row, for example to find out whether an index is
    wrong."""
    bloom_filters: bool = True
    """Use bloom filters to skip rows."""
    strict_index: bool = False
    """Raise an error for a damaged index. False keeps the rows of a damaged index, and the explanation says so."""


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """Options for the amount of data that is decoded or fetched at once."""

    batch_size: int = 65536
    """Largest number of rows of a record batch, after filtering."""
    batch_bytes: int = 64 << 20
    """Intended largest number of decoded bytes of a batch. A batch with a single large value may exceed it."""
    use_threads: bool = True
    """Decode the columns of a batch in parallel, in a pool of ``pyarrow.cpu_count()`` threads. Spark tasks never use
    threads."""
    mmap: bool = False
    """Map local files into memory instead of reading them with ``pread``. If a mapped file is truncated, the process
    ends."""
    io_bytes: int = 64 << 20
    """Largest number of bytes that are fetched ahead and not yet decoded, over all streams of a scan. If the needed
    data of a remote stripe fits, it is fetched in few requests. Otherwise it is fetched in pieces."""
    ahead_bytes: int = 64 << 20
    """Largest number of bytes that threads prepare while the caller uses a batch. These are the bytes of decoded
    batches and of decompressed chunks. With 0, threads only decode the columns of one batch in parallel. With any
    value, nothing of a later batch is decoded before the caller requests the second batch. For a table or a count with
    a condition, several stripes are read at the same time if a batch of each fits."""
    merge_gap: int | None = None
    """Ranges with a gap of less than this many bytes are fetched together. If a number is given, larger gaps are never
    fetched, so a scan makes more requests and reads fewer bytes than with None. None means 8 KiB for local files and
    1 MiB for remote files. With None, some larger gaps of remote files are fetched, too, the smallest gaps first. A
    scan with a predicate or a selection fetches gaps until a stripe takes at most four requests. Any other scan fetches
    gaps until two requests are left, but at most 4 MiB of gaps."""
    merge_size: int | None = None
    """Largest merged range in bytes. None means 8 MiB for local files and 16 MiB for remote files (or half of
    ``io_bytes``, if this is less). If gaps are fetched to limit the number of requests, a range may have up to
    ``io_bytes`` bytes."""


@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """Limits for a file. A file that exceeds a limit is refused."""

    held_bytes: int = 128 << 20
    """Largest number of bytes that a scan holds for a stripe in addition to its batches: dictionaries, the open chunks
    of streams, and a single row that is larger than ``batch_bytes``. The limit is at least 16 times the stored data of
    the stripe. Beyond the limit, ``Unsupported`` is raised, because so much memory for so few stored bytes usually
    means damage or an attack."""
    metadata_bytes: int = 32 << 20
    """Largest number of decompressed bytes of each of these parts: the footer, the statistics of the stripes, the
    footer of a stripe, its row indexes, and the bloom filters of a column. The limit is at least 16 times the stored
    bytes. It also limits the total number of characters in the names of all columns. The name of a column includes the
    names of the structs that contain it. Beyond the limit, ``Unsupported`` is raised, except that an index counts as
    damaged."""
    metadata_items: int = 250_000
    """Largest number of items in a message of metadata (streams, encodings, statistics, key-value pairs), in the
    footers of the stripes that a scan reads, and in the row indexes of a stripe. The limit is at least one for each 4
    bytes of the file. Beyond the limit, ``Unsupported`` is raised, except that an index counts as
    damaged."""
    metadata_columns: int = 10_000
    """Largest number of columns, including nested columns. The limit is at least one for each 100 bytes of the file.
    Beyond the limit, ``Unsupported`` is raised."""
    metadata_stripes: int = 10_000
    """Largest number of stripes. The limit is at least one for each KiB of the file. Beyond the limit, ``Unsupported``
    is raised."""


@dataclass(frozen=True, kw_only=True)
class ReadOptions(LimitOptions, RequestOptions, MeaningOptions, ValueOptions):
    """Options of a scan. Each option can also be given to ``scan`` by keyword.

    Raises ``InvalidQuery`` for a value that is not allowed.

    Examples
    --------
    >>> import orcidx, pyarrow as pa
    >>> _ = orcidx.write_table(pa.table({"id": [1, 2, 3]}), "ids.orc")
    >>> options = orcidx.ReadOptions(batch_size=2)
    >>> [batch.num_rows for batch in orcidx.scan("ids.orc", options=options)]
    [2, 1]
    """

    def __post_init__(self) -> None:
        self._check(_NAMES)

    def _check(self, names: Collection[str]) -> None:
        """Raises ``InvalidQuery`` for values that are not allowed. Only the options in ``names`` are checked, because
        checking all options takes long compared with reading a small file."""
        for name in names:
            value = getattr(self, name)
            if name in _CHOICES:
                if value not in _CHOICES[name]:
                    choices = ", ".join(map(repr, _CHOICES[name]))
                    raise InvalidQuery(f"{name} is {value!r}, but must be one of {choices}")
            elif name in _LEAST:
                # In the usual case, no method is called. Calls for all options would double the time of this function.
                if type(value) is int and value >= _LEAST[name]:
                    continue
                if value is not None or name not in _OPTIONAL:
                    self._check_count(name, least=_LEAST[name])
            elif name in _FLAGS:
                if not isinstance(value, bool):
                    raise InvalidQuery(f"{name} is {value!r}, of type {type(value).__name__}: give True or False")
            elif name in _ZONES:
                if not isinstance(value, str | None):
                    raise InvalidQuery(f"{name} is {value!r}: give the name of a zone, such as 'Europe/Oslo', or None")
            elif not _is_precision(value):
                raise InvalidQuery(f"decimal_zero_precision is {value!r}: give (precision, scale), two whole numbers")

    def _check_count(self, name: str, *, least: int) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise InvalidQuery(f"{name} is {value!r}, of type {type(value).__name__}: give a whole number")
        if value < least:
            raise InvalidQuery(f"{name} must be at least {least}, but is {value!r}")

    @cached_property
    def key(self) -> str:
        """The values of all options as a text, for use as a key of a cache. Python computes the hash of a text only
        once. Hashing a tuple of the values for each file took 2 % of the time of reading a small file."""
        values = [self.__dict__[name] for name in _NAMES]
        return repr([tuple(value) if isinstance(value, list) else value for value in values])

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in _NAMES}

    def override(self, **options: Unpack[OptionsByName]) -> ReadOptions:
        """A copy with some options changed.

        Parameters
        ----------
        **options
            Fields of ``ReadOptions`` by name.

        Returns
        -------
        ReadOptions

        Raises
        ------
        InvalidQuery
            A name is unknown (the error names the nearest), or a value is not allowed.

        Examples
        --------
        >>> from orcidx import ReadOptions
        >>> ReadOptions().override(batch_size=1000).batch_size
        1000
        """
        if not options:
            return self
        asked = (id(self), *options, *map(id, options.values()))
        known = _CHANGED.pop(asked, None)
        if known is not None:
            # The entry is moved to the end of the dict, because the first entries are dropped first.
            _CHANGED[asked] = known
            return known[2]
        if unknown := [name for name in sorted(options) if name not in _NAMES]:
            raise unknown_keyword(unknown[0], _NAMES, READING)
        # dataclasses.replace is not used here. It sets and checks every field again. This takes a tenth of the time of
        # reading a small file.
        changed = object.__new__(ReadOptions)
        changed.__dict__.update(self.__getstate__())
        changed.__dict__.update(options)
        changed._check(options)
        if _IMMUTABLE.issuperset(map(type, options.values())):
            # ``list`` makes a copy, because other threads may change the dict.
            for oldest in list(_CHANGED)[: len(_CHANGED) + 1 - MOST_CHANGED]:
                _CHANGED.pop(oldest, None)
            _CHANGED[asked] = self, options, changed
        return changed


lists_options(ReadOptions, stay_as_they_are=True)(ReadOptions.override)


def _is_precision(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and [type(number) for number in value] == [int, int]


_CHANGED: dict[tuple[Any, ...], tuple[ReadOptions, OptionsByName, ReadOptions]] = {}
"""Recent results of ``override``. The keys are identities of the arguments, because 1 and True are equal. The values
hold references to the arguments, so the identities stay valid. A caller that reads many small files passes the same
options each time. Checking the options again takes as long as decoding a column of such a file."""
MOST_CHANGED = 32
"""Largest number of kept results, for callers that change options repeatedly."""
_IMMUTABLE = frozenset({bool, int, str, type(None)})

_CHOICES: dict[str, tuple[str, ...]] = {
    "strings": ("string", "dictionary", "view"),
    "timestamp_unit": ("s", "ms", "us", "ns"),
    "char": ("stored", "padded", "trimmed"),
    "utf8": ("strict", "replace", "unchecked"),
    "decimal_rounding": ("error", "truncate", "half_up"),
    "calendar": ("proleptic", "stored"),
    "encrypted": ("masked", "error"),
    "nan": ("ieee", "largest"),
}
_LEAST = {
    "batch_size": 1,
    "batch_bytes": 1,
    "io_bytes": 1,
    "ahead_bytes": 0,
    "merge_gap": 0,
    "merge_size": 1,
    "held_bytes": 1,
    "metadata_bytes": 1,
    "metadata_items": 1,
    "metadata_columns": 1,
    "metadata_stripes": 1,
}
_OPTIONAL = frozenset({"merge_gap", "merge_size"})
_FLAGS = frozenset(
    {"timestamp_ntz", "use_threads", "mmap", "case_sensitive", "row_index", "bloom_filters", "strict_index"}
)
_ZONES = frozenset({"timezone", "wall_clock_zone"})
_NAMES = tuple(field.name for field in fields(ReadOptions))

USUAL_OPTIONS = ReadOptions()
"""The options if no option is given."""


class _ValuesByName(TypedDict, total=False):
    strings: Literal["string", "dictionary", "view"]
    timestamp_unit: Literal["s", "ms", "us", "ns"]
    timestamp_ntz: bool
    timezone: str | None
    wall_clock_zone: str | None
    char: Literal["stored", "padded", "trimmed"]
    utf8: Literal["strict", "replace", "unchecked"]
    decimal_rounding: Literal["error", "truncate", "half_up"]
    decimal_zero_precision: tuple[int, int]
    calendar: Literal["proleptic", "stored"]


class _MeaningByName(TypedDict, total=False):
    case_sensitive: bool
    nan: Literal["ieee", "largest"]
    encrypted: Literal["masked", "error"]
    row_index: bool
    bloom_filters: bool
    strict_index: bool


class _RequestsByName(TypedDict, total=False):
    batch_size: int
    batch_bytes: int
    use_threads: bool
    mmap: bool
    io_bytes: int
    ahead_bytes: int
    merge_gap: int | None
    merge_size: int | None


class _LimitsByName(TypedDict, total=False):
    held_bytes: int
    metadata_bytes: int
    metadata_items: int
    metadata_columns: int
    metadata_stripes: int


class OptionsByName(_ValuesByName, _MeaningByName, _RequestsByName, _LimitsByName, total=False):
    """The fields of ``ReadOptions`` as keywords. A test compares the two classes."""
