"""The catalog of a directory of ORC files. It is an ORC file with a row for each file of the directory. Plans and
totals use the catalog without opening the files.

    path      the path of the file below the directory, with "/"
    size, mtime (ns), etag    the version of the file in the listing
    tail      a checksum of the tail of the file
    rows      the number of rows in the file; null if the file could not be read
    error     the reason why there is no index, if the file itself is the reason
    index     the name of the file index in ``_orcidx/``
    index_size    the bytes of the file index
    embedded  the content of the file index, if it is small; then ``index`` is null
    indexes   list of (column, kind, bytes, type): the contents of the index; ``type`` is Paimon's SQL text
    tails, tail_at, tail_length, tail_crc    where the last bytes are stored (see ``kept_tails``); may be missing
    spec      the key of the spec with which the index was built
    read_bytes, millis    the bytes and the time that building the index took
    s0, s1 …  statistics of one column in one ORC type, for the files in which the column has this type: count of
              values, flags, low, high, and the sum of integers or of unscaled decimals. The sum is null if the
              statistics of the file do not prove it, or if it does not fit in 64 bits.

The metadata of the catalog (key ``orcidx.rollup``) has the version of the format, the time when the catalog was made,
the spec, and the column and type of each ``s``. It also has the time of a listing, if the catalog has all files of that
listing. Low and high are whole numbers (days, nanoseconds, unscaled decimals), doubles, or texts of at most 64 bytes. A
truncated upper text is increased, so it is still an upper bound. Low and high bound every value, even in files of
writers with known faults. With the flag ``_ATTAINED``, low and high are values of the column. With the flag
``_COUNTED``, the count is the number of the column's values (see ``orc.stored_totals``). A plan reads only the columns
that its predicate names.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.aggregation.column_totals import Wanted
from orcidx.errors import CorruptFile
from orcidx.index_directory.catalog_file import CatalogFile, written_catalog
from orcidx.index_directory.kept_tails import TAIL_FIELDS, TAILS
from orcidx.options import ReadOptions
from orcidx.orc.bounds import BytesBounds, NumberBounds, StatisticsColumn, TypedBounds, bound_statistics
from orcidx.orc.kinds import TypeKind
from orcidx.orc.metadata import FileTail
from orcidx.orc.statistics import file_statistics
from orcidx.orc.stored_totals import StoredTotals, stored_totals
from orcidx.orc.timezones import Zone, clock_zone
from orcidx.orc.types import SPARK_TYPE, OrcType, decimal_digits, reads_as_timestamp
from orcidx.pruning.bounds import successor

__all__ = [
    "FILE_FIELDS",
    "INDEX_FOLDER",
    "OBSERVED",
    "STATISTICS_OPTIONS",
    "Catalog",
    "StatisticsKey",
    "observe",
    "proved_values",
    "statistics_column",
]

INDEX_FOLDER = "index"
"""The folder in ``_orcidx/`` with the indexes that are not embedded in the catalog."""
VERSION = 2
STATISTICS_OPTIONS = ReadOptions()
"""The options with which the statistics were read. A scan with options that read values differently cannot use the
statistics."""
MOST_OBSERVED_COLUMNS = 32
"""The number of columns of a file whose statistics are stored in a catalog, in addition to the columns with an index.
With this number 100,000 files are planned within a second."""
LONGEST_KEPT_BOUND = 64
"""The maximum number of bytes of a bound. Longer bounds are truncated."""
_NANOS_PER_SECOND = 1_000_000_000
_FARTHEST_CLOCK = (1 << 63) - 2 * 86400 * _NANOS_PER_SECOND
"""Local times beyond this limit might overflow 64 bits when they are converted to instants."""
_MAY_NULL, _ALL_NULL, _MAY_NAN, _LOW_EXACT, _HIGH_EXACT, _ATTAINED, _COUNTED = 1, 2, 4, 8, 16, 32, 64
"""Bits of the flags of a column in a row of the catalog."""

_INDEX = pa.struct([("column", pa.string()), ("kind", pa.string()), ("bytes", pa.int64()), ("type", pa.string())])
FILE_FIELDS = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("mtime", pa.int64()),
        ("etag", pa.string()),
        ("tail", pa.int64()),
        ("rows", pa.int64()),
        ("error", pa.string()),
        ("index", pa.string()),
        ("index_size", pa.int64()),
        ("embedded", pa.binary()),
        ("indexes", pa.list_(_INDEX)),
        ("spec", pa.string()),
        ("read_bytes", pa.int64()),
        ("millis", pa.int64()),
        *TAIL_FIELDS,
    ]
)
"""The columns about a file, without its statistics."""

OBSERVED = pa.list_(
    pa.struct(
        [
            ("column", pa.string()),
            ("type", pa.string()),
            ("count", pa.int64()),
            ("flags", pa.int32()),
            ("low_integer", pa.int64()),
            ("high_integer", pa.int64()),
            ("low_double", pa.float64()),
            ("high_double", pa.float64()),
            ("low_bytes", pa.binary()),
            ("high_bytes", pa.binary()),
            ("sum", pa.int64()),
        ]
    )
)
"""The statistics of one file as a task reports them."""

_KINDS = {
    "boolean": TypeKind.BOOLEAN,
    "tinyint": TypeKind.BYTE,
    "smallint": TypeKind.SHORT,
    "int": TypeKind.INT,
    "bigint": TypeKind.LONG,
    "timestamp_ntz": TypeKind.LONG,
    "float": TypeKind.FLOAT,
    "double": TypeKind.DOUBLE,
    "string": TypeKind.STRING,
    "varchar": TypeKind.VARCHAR,
    "char": TypeKind.CHAR,
    "decimal": TypeKind.DECIMAL,
    "date": TypeKind.DATE,
    "timestamp": TypeKind.TIMESTAMP,
    "timestamp with local time zone": TypeKind.TIMESTAMP_INSTANT,
    "binary": TypeKind.BINARY,
}
_TYPE = re.compile(r"([a-z_ ]+)(?:\((\d+)(?:,(\d+))?\))?")
_VALUES = {"integer": pa.int64(), "double": pa.float64(), "bytes": pa.binary()}


# ---------------------------------------------------------------------- observing a file


def observe(tail: FileTail, columns: Mapping[str, OrcType], wanted: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The statistics (rows of ``OBSERVED``) of top-level columns of a file. The columns are those in ``wanted``, and
    the first ``MOST_OBSERVED_COLUMNS`` columns of the file."""
    first = [*wanted, *columns][: MOST_OBSERVED_COLUMNS + len(wanted)]
    found = []
    for name, node in columns.items():
        if name not in first or node.kind not in _KINDS.values():
            continue
        try:
            raw = file_statistics(tail, node)
            column = bound_statistics(raw, tail.facts, STATISTICS_OPTIONS)
            values = stored_totals(raw, tail.facts, STATISTICS_OPTIONS)
        except CorruptFile:  # without readable statistics there are no bounds
            continue
        found.append({"column": name, "type": _type_text(node), **_observed(column, values)})
    return found


def _type_text(node: OrcType) -> str:
    return "timestamp_ntz" if reads_as_timestamp(node, STATISTICS_OPTIONS) else str(node)


def _observed(column: StatisticsColumn, proved: StoredTotals) -> dict[str, Any]:
    low, low_exact = _low(column.lower)
    high, high_exact = _high(column.upper)
    kept = low is not None and high is not None and low_exact and high_exact
    flags = _MAY_NULL * column.may_null[0] + _ALL_NULL * column.all_null[0] + _MAY_NAN * column.may_nan[0]
    flags += _LOW_EXACT * (low_exact and column.lower.exact[0]) + _HIGH_EXACT * (high_exact and column.upper.exact[0])
    flags += _ATTAINED * (kept and proved.minima.known[0]) + _COUNTED * (proved.count[0] >= 0)
    total = int(proved.sums.values[0]) if proved.sums.known[0] else None
    total = total if total is not None and -(1 << 63) <= total < 1 << 63 else None
    values = _value_kind(column.node)
    found = {"count": int(column.count[0]), "flags": int(flags), "sum": total}
    return {**found, f"low_{values}": low, f"high_{values}": high}


def _value_kind(node: OrcType) -> str:
    if node.kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        return "double"
    return "bytes" if node.kind in (TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR, TypeKind.BINARY) else "integer"


def _number(bounds: NumberBounds) -> int | float | None:
    """The bound in the form that the catalog stores. The result is None if there is no bound, or if it needs more than
    64 bits."""
    if not bounds.valid[0]:
        return None
    value = bounds.values[0].item() if isinstance(bounds.values[0], np.generic) else bounds.values[0]
    return value if isinstance(value, float) or -(1 << 63) <= value < 1 << 63 else None


def _low(bounds: TypedBounds) -> tuple[Any, bool]:
    if isinstance(bounds, NumberBounds):
        return _number(bounds), True
    value = bounds.value(0)
    return (value, True) if value is None or len(value) <= LONGEST_KEPT_BOUND else (value[:LONGEST_KEPT_BOUND], False)


def _high(bounds: TypedBounds) -> tuple[Any, bool]:
    if isinstance(bounds, NumberBounds):
        return _number(bounds), True
    value = bounds.value(0)
    if value is None or len(value) <= LONGEST_KEPT_BOUND:
        return value, True
    return successor(value[:LONGEST_KEPT_BOUND]), False


# ---------------------------------------------------------------------- the table


@dataclass(frozen=True)
class StatisticsKey:
    """A column in one ORC type. The column may have other types in other files."""

    column: str
    type: str

    @property
    def node(self) -> OrcType:
        """The column as an ``OrcType``, the form in which a file's schema has it. Raises ``CorruptFile`` if the catalog
        has an unknown type."""
        match = _TYPE.fullmatch(self.type)
        if match is None or match[1] not in _KINDS:
            message = f"the catalog has statistics of the unknown type {self.type!r}; build the indexes again"
            raise CorruptFile(message, column=self.column)
        kind, number, scale = _KINDS[match[1]], int(match[2] or 0), int(match[3] or 0)
        decimal = kind is TypeKind.DECIMAL
        return OrcType(
            id=1,
            kind=kind,
            path=(self.column,),
            max_length=0 if decimal else number,
            precision=number if decimal else 0,
            scale=scale if decimal else 0,
            attributes=((SPARK_TYPE, "timestamp_ntz"),) if match[1] == "timestamp_ntz" else (),
        )

    @property
    def storage(self) -> pa.StructType:
        """The Arrow type in which the catalog stores the statistics."""
        values = _VALUES[_value_kind(self.node)]
        known = [("count", pa.int64()), ("flags", pa.int16()), ("low", values), ("high", values), ("sum", pa.int64())]
        return pa.struct(known)


@dataclass(frozen=True)
class Catalog:
    """Files and their statistics. ``files`` has some or all of the columns of ``FILE_FIELDS``. Each array of statistics
    has one item for each row of ``files``. ``spec`` is the spec that ``build_file_index`` was given, and
    ``spec_key`` is its key."""

    files: pa.Table
    statistics: Mapping[StatisticsKey, pa.Array]
    spec: Mapping[str, Any] = field(default_factory=dict)
    spec_key: str = ""
    listed: float | None = None
    """The time when the directory was listed, if the catalog has all files of that listing. None if files may be
    missing."""
    origin: npt.NDArray[np.int64] | None = None
    """For each row, its number if the rows of all catalogs are numbered consecutively, from the first catalog to the
    last. None if ``latest`` has left out no row."""

    def __len__(self) -> int:
        return int(self.files.num_rows)

    @staticmethod
    def empty() -> Catalog:
        return Catalog(FILE_FIELDS.empty_table(), {})

    @staticmethod
    def observed(files: pa.Table, observed: pa.Array, spec: Mapping[str, Any], spec_key: str) -> Catalog:
        """Makes the catalog from the results of the tasks. ``observed`` (of type ``OBSERVED``) has the statistics of
        each row of ``files``."""
        return Catalog(files.select(FILE_FIELDS.names).cast(FILE_FIELDS), _pivoted(observed), spec, spec_key)

    def take(self, rows: npt.NDArray[np.int64] | pa.Array) -> Catalog:
        """The rows with these numbers. A null number gives a row of nulls."""
        statistics = {key: array.take(pa.array(rows)) for key, array in self.statistics.items()}
        return replace(self, files=self.files.take(pa.array(rows)), statistics=statistics, origin=None)

    @staticmethod
    def concat(parts: Sequence[Catalog]) -> Catalog:
        """Concatenates catalogs. The result has the spec of the last catalog."""
        if len(parts) == 1:  # returned as it is, because Arrow would copy it
            return parts[0]
        keys = dict.fromkeys(key for part in parts for key in part.statistics)
        statistics = {
            key: pa.concat_arrays(
                [part.statistics[key] if key in part.statistics else pa.nulls(len(part), key.storage) for part in parts]
            )
            for key in keys
        }
        return replace(parts[-1], files=pa.concat_tables([part.files for part in parts]), statistics=statistics)

    def latest(self) -> Catalog:
        """The catalog with only the last row of each path, in the order in which the paths first occur."""
        codes = self.files["path"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
        last = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
        last[codes] = np.arange(len(codes))
        return self if len(last) == len(codes) else replace(self.take(last), origin=last)

    # ------------------------------------------------------------------ bytes

    def to_bytes(self, *, whole: bool = True, listed: float | None = None) -> bytes:
        """The catalog as the bytes of an ORC file. ``whole`` says that readers need no earlier catalog. ``listed`` is
        the time of a listing. It is given only if the catalog has all files of that listing."""
        columns = {name: self.files[name] for name in FILE_FIELDS.names}
        keys = []
        for number, (key, array) in enumerate(self.statistics.items()):
            columns[f"s{number}"] = array
            keys.append({"column": key.column, "type": key.type})
        described = {"version": VERSION, "spec": self.spec, "spec_key": self.spec_key, "statistics": keys}
        described |= {"whole": whole, "made": time.time(), "listed": listed}
        # The random value ensures that two writers never write the same bytes (see Folder.publish).
        described["written"] = uuid.uuid4().hex
        return written_catalog(pa.table(columns), described)

    @staticmethod
    def read(
        source: CatalogFile, *, files: Sequence[str] | None = None, columns: Iterable[str] | None = None
    ) -> Catalog:
        """Reads the file columns ``files`` and the statistics of the data columns ``columns``. None means all columns.
        The case of the names does not matter.

        Raises ``CorruptFile``.
        """
        try:
            described = source.described
            if described["version"] != VERSION:
                message = f"the catalog has version {described['version']}; only version {VERSION} is supported"
                raise CorruptFile(f"{message}; build the indexes again")
            keys = [StatisticsKey(one["column"], one["type"]) for one in described["statistics"]]
            wanted = None if columns is None else {name.lower() for name in columns}
            chosen = {f"s{i}": key for i, key in enumerate(keys) if wanted is None or key.column.lower() in wanted}
            names = list(FILE_FIELDS.names if files is None else files)
            found = source.read(names, lacking=TAIL_FIELDS)
            found = found.cast(pa.schema([FILE_FIELDS.field(name) for name in names]))
            _check_places(found)
            # While the batches of a column are joined into one array, the column is in memory twice. So the columns are
            # read one after the other.
            statistics = {key: _array_of(source.read([name]), key.storage) for name, key in chosen.items()}
            listed = None if described.get("listed") is None else float(described["listed"])
            return Catalog(found, statistics, dict(described["spec"]), described["spec_key"], listed)
        except (pa.ArrowException, KeyError, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, CorruptFile):
                raise
            message = f"the file is not a catalog: {type(error).__name__}: {error}"
            raise CorruptFile(f"{message}; build the indexes again") from error

    @staticmethod
    def rows_of(source: CatalogFile, names: Sequence[str], rows: npt.NDArray[np.int64]) -> pa.Table:
        """The file columns of some rows. The numbers of the rows must be ascending. Raises ``CorruptFile`` for a
        damaged catalog."""
        found = source.read(names, lacking=TAIL_FIELDS, rows=rows)
        try:
            found = found.cast(pa.schema([FILE_FIELDS.field(name) for name in names]))
        except pa.ArrowException as error:
            raise CorruptFile(f"the file is not a catalog: {error}; build the indexes again") from error
        _check_places(found)
        return found

    @staticmethod
    def is_whole(source: CatalogFile) -> bool:
        """Whether a catalog needs no earlier catalogs."""
        return bool(source.described.get("whole", True))


def _array_of(table: pa.Table, kind: pa.DataType) -> pa.Array:
    """The only column of a table."""
    found = table.column(0).combine_chunks()
    return found if found.type == kind else found.cast(kind)


def _check_places(files: pa.Table) -> None:
    """Checks the names in a catalog. The names are not trusted, because a damaged or hostile catalog may have any
    names. An index must be in the folder of indexes, and a tail in the folder of tails."""
    for column, folder in (("index", INDEX_FOLDER), ("tails", TAILS)):
        if column not in files.column_names:
            continue
        names = files[column].drop_null()
        inside = pc.match_substring_regex(names, rf"^{folder}/[^\\]+$")
        climbs = pc.match_substring_regex(names, r"(^|/)\.{0,2}(/|$)")
        wrong = names.filter(pc.or_(pc.invert(inside), climbs))
        if len(wrong):
            what = "an index" if column == "index" else "tails"
            message = f"the catalog names {what} {wrong[0].as_py()!r:.120}, which is outside its folder"
            raise CorruptFile(f"{message}; build the indexes again")


def _pivoted(observed: pa.Array) -> dict[StatisticsKey, pa.Array]:
    """Makes one array for each column and type. The input has one list for each file. A list has one item for each
    column and type."""
    values = observed.flatten()
    parents = pc.list_parent_indices(observed).to_numpy()
    fields = {one.name: values.field(i) for i, one in enumerate(values.type)}
    both = pc.binary_join_element_wise(fields["type"], fields["column"], "\0")
    encoded = both.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    found = {}
    for code, text in enumerate(encoded.dictionary.to_pylist()):
        kind, _, column = text.partition("\0")
        key = StatisticsKey(column, kind)
        items = np.flatnonzero(codes == code)
        place = np.full(len(observed), -1, np.int64)
        place[parents[items]] = items
        take = pa.array(place, mask=place < 0)
        names = ["count", "flags", *(f"{side}_{_value_kind(key.node)}" for side in ("low", "high")), "sum"]
        arrays = [fields[name].take(take).cast(one.type) for name, one in zip(names, key.storage)]
        found[key] = pa.StructArray.from_arrays(arrays, fields=list(key.storage), mask=pa.array(place < 0))
    return found


# ---------------------------------------------------------------------- as evidence


def statistics_column(
    key: StatisticsKey, kept: pa.Array, rows: npt.NDArray[np.int64], options: ReadOptions = STATISTICS_OPTIONS
) -> StatisticsColumn:
    """The statistics of a column in each file. A null in ``kept`` means that the catalog has no statistics of the
    file. ``rows`` is the number of rows of each file.

    Only the option ``wall_clock_zone`` may differ from its default.
    """
    count, flags, low, high, _ = kept.flatten()
    known = _valid(count)
    bits = flags.fill_null(0).to_numpy(zero_copy_only=False)
    lower, upper = _bounds(key.node, low, (bits & _LOW_EXACT) != 0), _bounds(key.node, high, (bits & _HIGH_EXACT) != 0)
    if key.node.kind is TypeKind.TIMESTAMP and (zone := clock_zone(options)) is not None:
        lower, upper = _instants(lower, zone, max), _instants(upper, zone, min)
    return StatisticsColumn(
        node=key.node,
        level="file",
        rows=rows,
        count=np.where(known, count.fill_null(-1).to_numpy(zero_copy_only=False), -1),
        may_null=~known | ((bits & _MAY_NULL) != 0),
        all_null=known & ((bits & _ALL_NULL) != 0),
        may_nan=~known | ((bits & _MAY_NAN) != 0),
        lower=lower,
        upper=upper,
        distrusted=None,
        reasons=(),
    )


def proved_values(kept: pa.Array, wanted: Wanted) -> npt.NDArray[np.bool_]:
    """Returns for each file whether its stored statistics can be used as results. The stored count must be the exact
    number of the column's values. Each total in ``wanted`` (sum, minimum, maximum) must be proved, too."""
    count, flags, _, _, total = kept.flatten()
    bits = flags.fill_null(0).to_numpy(zero_copy_only=False)
    known = (bits & _COUNTED) != 0
    empty = count.fill_null(-1).to_numpy(zero_copy_only=False) == 0
    if wanted.sum:
        known &= _valid(total) | empty
    if wanted.ends:
        known &= ((bits & _ATTAINED) != 0) | empty
    if wanted.order:
        known &= empty
    return np.asarray(known & _valid(count), np.bool_)


def _valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    return array.is_valid().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _bounds(node: OrcType, values: pa.Array, exact: npt.NDArray[np.bool_]) -> TypedBounds:
    valid = _valid(values)
    if _value_kind(node) != "bytes":
        numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
        scale = decimal_digits(node, STATISTICS_OPTIONS)[1] if node.kind is TypeKind.DECIMAL else 0
        return NumberBounds(numbers, valid, exact & valid, scale)
    values = values.fill_null(b"")
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    buffer = b"" if data is None else data.to_pybytes()
    return BytesBounds(buffer, np.stack([ends[:-1], ends[1:]], axis=1), valid, exact & valid)


def _instants(bounds: TypedBounds, zone: Zone, farthest: Callable[[set[int]], int]) -> TypedBounds:
    """Converts bounds of local times (ns) to bounds of the instants with these local times in the zone."""
    assert isinstance(bounds, NumberBounds)
    hours, places = np.unique(bounds.values // (3600 * _NANOS_PER_SECOND), return_inverse=True)
    offsets = np.array([farthest(zone.offsets_near(hour * 3600)) for hour in hours.tolist()], np.int64)
    moved = bounds.values - offsets[places.reshape(-1)] * _NANOS_PER_SECOND
    sound = np.abs(bounds.values) < _FARTHEST_CLOCK
    return replace(bounds, values=moved, valid=bounds.valid & sound, exact=np.zeros_like(bounds.exact))
