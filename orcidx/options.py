"""``ReadOptions``: how a scan decodes, batches and fetches. Frozen, picklable, every option documented.

The options come in four groups. A function that needs those of one group takes that group, and a scan's options are
all four.

``OptionsByName`` are the same as keywords of ``scan`` and its like, so that a type checker finds a misspelt one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
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
    """How stored values become values of Arrow, and those that an index or statistics are compared with."""

    strings: Literal["string", "dictionary", "view"] = "string"
    """Arrow type of STRING, CHAR and VARCHAR columns. "dictionary" keeps columns whose every stripe is
    dictionary-encoded as Arrow dictionaries; the others come as strings."""
    timestamp_unit: Literal["s", "ms", "us", "ns"] = "ns"
    """Arrow unit of timestamps. A value that does not fit raises ``ValueOutOfRange``; finer digits are floored."""
    timestamp_ntz: bool = True
    """Read a bigint that Spark marked as timestamp_ntz (type attribute) as a timestamp instead of microseconds."""
    timezone: str | None = None
    """Force the writer's time zone, for files that name none or a wrong one (IANA name or "GMT+hh:mm")."""
    wall_clock_zone: str | None = None
    """Read TIMESTAMP columns as instants (Arrow timestamps in UTC): their wall clocks are taken for those of this zone
    (IANA name or "GMT+hh:mm"), as Spark does with the zone of its JVM. None leaves them wall clocks, without a zone."""
    char: Literal["stored", "padded", "trimmed"] = "stored"
    """CHAR(n) values as the writer stored them, padded with spaces to n characters, or right-trimmed."""
    utf8: Literal["strict", "replace", "unchecked"] = "strict"
    """Invalid UTF-8 in a string column: raise ``CorruptFile``, put U+FFFD in its place, or hand out as it is."""
    decimal_rounding: Literal["error", "truncate", "half_up"] = "error"
    """A stored decimal with non-zero digits beyond the scale of its type, which only programs write that fill ORC
    Java's vectors themselves: ``ValueOutOfRange`` ("error"), cut as ORC C++ and pyarrow do ("truncate"), or rounded as
    ORC Java and Spark do ("half_up"). With "truncate" and "half_up" bloom filters of decimals, which hold the digits as
    given, are asked of files that Spark wrote only, since it rounds before. In a DECIMAL of precision 0 "error" cuts.
    """
    decimal_zero_precision: tuple[int, int] = (38, 6)
    """Precision and scale of a DECIMAL of precision 0, as Hive 0.11 and 0.12 wrote it; the default is that of ORC C++
    and pyarrow. Raise the scale when values have more digits: (38, 18) was Hive's own."""
    calendar: Literal["proleptic", "stored"] = "proleptic"
    """Dates of hybrid-calendar files: shift to the same label in the proleptic calendar, or leave day numbers."""


@dataclass(frozen=True, kw_only=True)
class MeaningOptions:
    """What names and conditions mean, and what may answer them."""

    case_sensitive: bool = True
    """Match column names by exact case."""
    nan: Literal["ieee", "largest"] = "ieee"
    """NaN in predicates: every comparison false, as pyarrow.compute; or equal to itself and above all, as Spark."""
    encrypted: Literal["masked", "error"] = "masked"
    """Encrypted columns: the masked values that the file keeps for readers without keys (nulls, redacted text or
    hashes, as its writer chose), or ``Unsupported`` when a scan wants one, since no keys can be given."""
    row_index: bool = True
    """Use statistics and row indexes to skip; False reads every row (to rule an index out)."""
    bloom_filters: bool = True
    """Use bloom filters to skip."""
    strict_index: bool = False
    """Raise on a damaged index instead of keeping its rows and saying so in the explanation."""


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """How much is decoded and fetched at once."""

    batch_size: int = 65536
    """Most rows of one record batch, after filtering."""
    batch_bytes: int = 64 << 20
    """Aim for at most this many bytes of decoded data in one batch; a single huge value may exceed it."""
    use_threads: bool = True
    """Decode the columns of a batch in parallel (pool of ``pyarrow.cpu_count()`` threads); never inside Spark tasks."""
    mmap: bool = False
    """Map local files instead of ``pread``. A mapped file that shrinks kills the process."""
    io_bytes: int = 64 << 20
    """Budget of bytes fetched ahead and not yet decoded, over all streams of a scan. What a remote stripe needs comes
    in few requests as far as this goes, and in pieces beyond."""
    ahead_bytes: int = 64 << 20
    """Most bytes of batches that threads decode, and of chunks that they decompress, while the batch before is in use;
    0: none, threads only share each batch among them. Nothing of a later batch is begun before a second one is asked
    for."""
    merge_gap: int | None = None
    """Ranges closer than this many bytes are fetched as one; None: 8 KiB locally, 1 MiB remotely, where the smallest
    wider gaps are closed too: for a scan with a predicate or a selection until a stripe takes no more than four
    requests, for any other while more than two are left and at most 4 MiB are over-read. With a number no wider
    gap is closed, which takes more requests and fewer bytes."""
    merge_size: int | None = None
    """Largest merged range in bytes; None: 8 MiB locally, 16 MiB remotely (or half of ``io_bytes``, and all of it where
    gaps are closed for the sake of few requests)."""


@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """What a file may take at most. Beyond it is refused."""

    held_bytes: int = 128 << 20
    """Most bytes that a stripe may make a scan hold beside its batches: dictionaries, the chunks that its streams have
    open, and a single row that is larger than ``batch_bytes``; 16 times its stored data, if that is more. Beyond,
    ``Unsupported``: so few stored bytes that stand for so many are damage or an attack more often than data."""
    metadata_bytes: int = 32 << 20
    """Most bytes of the footer, of the stripes' statistics, of a stripe's footer, of its row indexes, and of a column's
    bloom filters, each once decompressed; 16 times the stored bytes, if that is more; and most letters of the names of
    all columns, each with those of the structs around it. Beyond, ``Unsupported``; indexes count as damaged then."""
    metadata_items: int = 250_000
    """Most things that a message of metadata lists (streams, encodings, statistics, key-value pairs), that the footers
    of the stripes of a pass list, and most entries of the row indexes of a stripe; one for each 4 bytes of the file, if
    those are more. Beyond, as with ``metadata_bytes``."""
    metadata_columns: int = 10_000
    """Most columns, nested ones too; one for each 100 bytes of the file, if those are more. Beyond, ``Unsupported``."""
    metadata_stripes: int = 10_000
    """Most stripes; one for each KiB of the file, if those are more. Beyond, ``Unsupported``."""


@dataclass(frozen=True, kw_only=True)
class ReadOptions(LimitOptions, RequestOptions, MeaningOptions, ValueOptions):
    """Options of a scan; each may also be given to ``scan`` by keyword.

    Raises ``InvalidQuery`` for a value outside its choices.

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
        """Refuses what these options cannot be; whoever changes one of a small file's pays for that one."""
        for name in names:
            value = getattr(self, name)
            if name in _CHOICES:
                if value not in _CHOICES[name]:
                    raise InvalidQuery(f"{name}={value!r} is none of {', '.join(map(repr, _CHOICES[name]))}")
            elif name in _LEAST:
                if type(value) is int and value >= _LEAST[name]:
                    continue  # nearly always: a call for each takes as long as all the others
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
            raise InvalidQuery(f"{name} must be at least {least}, not {value!r}")

    @property
    def key(self) -> tuple[Any, ...]:
        """All values, to tell options apart in a cache."""
        return tuple({**self.__dict__, "decimal_zero_precision": tuple(self.decimal_zero_precision)}.values())

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
        known = _CHANGED.get(asked)
        if known is not None:
            return known[2]
        if unknown := [name for name in sorted(options) if name not in self.__dict__]:
            raise unknown_keyword(unknown[0], _NAMES, READING)
        # dataclasses.replace sets and checks every field anew: a tenth of a small file's time.
        changed = object.__new__(ReadOptions)
        changed.__dict__.update(self.__dict__)
        changed.__dict__.update(options)
        changed._check(options)
        if _IMMUTABLE.issuperset(map(type, options.values())):
            for oldest in list(_CHANGED)[: len(_CHANGED) + 1 - MOST_CHANGED]:  # other threads change it, too
                _CHANGED.pop(oldest, None)
            _CHANGED[asked] = self, options, changed
        return changed


lists_options(ReadOptions, stay_as_they_are=True)(ReadOptions.override)


def _is_precision(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and [type(number) for number in value] == [int, int]


_CHANGED: dict[tuple[Any, ...], tuple[ReadOptions, OptionsByName, ReadOptions]] = {}
"""What ``override`` made lately, by the identities of what it made it of, which are kept: 1 and True are equal. Who
reads small files one by one asks for the same each time, and to look at the options again takes as long as decoding a
column of such a file."""
MOST_CHANGED = 16
"""Changed copies of options that are kept, for callers that change options again and again."""
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
"""The options of who gave none."""


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
    """The fields of ``ReadOptions`` as keywords; a test holds the two together."""
