"""Uses Paimon file indexes as evidence, in addition to ORC's own statistics and bloom filters. Each kind of index gives
its own evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from orcidx.errors import CorruptFile, InvalidQuery, OrcidxError, Unsupported
from orcidx.options import USUAL_OPTIONS, ReadOptions
from orcidx.orc.kinds import TypeKind
from orcidx.orc.reader import OrcReader
from orcidx.orc.types import OrcType
from orcidx.paimon.data_types import DataType, parse_type
from orcidx.paimon.file_index import FileIndex, read_file_index
from orcidx.paimon.registry import FORMATS
from orcidx.predicate import BoundLeaf, BoundPredicate, Domain, Op, Predicate, bind, keep_bindable
from orcidx.pruning.findings import Finding, Note, NoteKind
from orcidx.pruning.reasons import Fact
from orcidx.pruning.selection import RowSelection
from orcidx.storage import Source

__all__ = ["IndexEvidence", "StoredIndex", "bind_to_index", "index_evidence", "opened_index", "paimon_types"]

_UNUSED_TYPES = ("TIMESTAMP", "TIMESTAMP_LTZ", "MAP")


@dataclass(frozen=True)
class StoredIndex:
    """A file index that the catalog of a directory lists. The object has the bytes of the index or their place, the
    checksum of the tail of the data file, and the Paimon types of the columns."""

    data: bytes | Source
    tail: int | None
    types: Mapping[str, str]


def bind_to_index(predicate: Predicate, types: Mapping[str, str], options: ReadOptions) -> BoundPredicate:
    """Returns the part of the predicate that an index can decide without the file. ``types`` has the Paimon types of
    the index's columns. Other parts are replaced by True. Conditions on times are also replaced, because their zones
    are known only during a scan. With ``utf8="replace"`` conditions on text are also replaced, because the index
    may have other values. If ``decimal_zero_precision`` is not the default, conditions on decimals that may have the
    precision 0 in the file are replaced, too."""
    parsed = {column: parse_type(sql) for column, sql in types.items()}
    kinds = {column: kind for column, kind in parsed.items() if kind.root not in _UNUSED_TYPES}
    if options.utf8 == "replace":
        kinds = {column: kind for column, kind in kinds.items() if not pa.types.is_string(kind.arrow_type)}
    zero = USUAL_OPTIONS.decimal_zero_precision
    if tuple(options.decimal_zero_precision) != zero:
        kinds = {c: kind for c, kind in kinds.items() if kind.root != "DECIMAL" or (kind.precision, kind.scale) != zero}
    schema = pa.schema([(column, kind.arrow_type) for column, kind in kinds.items()])
    chars: dict[tuple[str, ...], int] = {
        (column,): kind.length for column, kind in kinds.items() if kind.root == "CHAR"
    }
    asked = keep_bindable(predicate, schema, case_sensitive=options.case_sensitive)
    return bind(asked, schema, nan=options.nan, case_sensitive=options.case_sensitive, char_lengths=chars)


class IndexEvidence:
    """Evidence from the indexes of one kind, such as bitmap indexes, of a file."""

    def __init__(self, index: FileIndex, kind: str, rows: int, options: ReadOptions) -> None:
        self.name = f"Paimon {kind} index"
        self.notes: list[Note] = []
        self._index = index
        self._kind = kind
        self._rows = rows
        self._options = options

    def test(self, leaf: BoundLeaf, alive: RowSelection) -> Finding | None:
        """See ``pruning.Evidence``. If the index is damaged, the rows are kept and a note is added. If the index is
        strict, an error is raised instead."""
        column = leaf.path[0]
        if len(leaf.path) != 1 or self._kind not in self._index.columns.get(column, ()):
            return None
        option = _changing_option(leaf, self._options)
        if option is not None:
            text = f"the index is not used, because the option {option} may give other values than the index has"
            self._note("off", text, column)
            return None
        try:
            index = self._index.index(column, self._kind)
            assert index is not None
            if index.rows not in (None, self._rows):
                raise CorruptFile(f"the index has {index.rows} rows, but the file has {self._rows}")
            if _has_other_type(leaf, index.data_type):
                raise Unsupported(
                    f"the index has the type {index.data_type}, but the column is read as {leaf.type}, so the index "
                    "is not used"
                )
            verdict = index.test(leaf)
            if verdict.rows is None:
                return None
            rows = RowSelection.from_bitmap(verdict.rows, self._rows)
        except (CorruptFile, Unsupported, InvalidQuery) as error:
            if self._index.strict and isinstance(error, CorruptFile):
                raise
            self._doubt(column, error)
            return None
        must = rows if verdict.exact else RowSelection.none(self._rows)
        kept = Fact(f"the index keeps {rows.count} of {self._rows} rows of the file")
        return Finding(rows, must, self.name, kept)

    def _doubt(self, column: str, error: OrcidxError) -> None:
        self._note("damaged" if isinstance(error, CorruptFile) else "silent", str(error), column)

    def _note(self, kind: NoteKind, text: str, column: str) -> None:
        note = Note(self.name, kind, text, column)
        if note not in self.notes:
            self.notes.append(note)


def _changing_option(leaf: BoundLeaf, options: ReadOptions) -> str | None:
    """The option that may give the column of the leaf other values than its index has. None if there is no such option.
    No option changes which rows are null, so the result for IS_NULL is None."""
    if leaf.op is Op.IS_NULL:
        return None
    if leaf.domain is Domain.TIMESTAMP:
        return None if options.timezone is None else "timezone"
    return 'utf8="replace"' if leaf.domain is Domain.STRING and options.utf8 == "replace" else None


def _has_other_type(leaf: BoundLeaf, indexed: DataType) -> bool:
    """Whether the keys of the index differ from the values that are read. There are two such cases. First, timestamps
    have a time zone in the index and none in the scan, or the reverse. Second, decimals have another scale. The file
    does not store the scale of a DECIMAL of precision 0, so the index may have been built with a smaller scale."""
    if leaf.domain is Domain.TIMESTAMP:
        return (leaf.type.tz is None) is (indexed.root == "TIMESTAMP_LTZ")
    is_decimal = leaf.op is not Op.IS_NULL and leaf.domain is Domain.DECIMAL and pa.types.is_decimal(leaf.type)
    return is_decimal and leaf.type.scale != indexed.scale


def index_evidence(index: FileIndex, rows: int, options: ReadOptions) -> tuple[IndexEvidence, ...]:
    """Evidence from the indexes of a file with ``rows`` rows, for each kind of index. ``options``: the options with
    which the file is read."""
    return tuple(IndexEvidence(index, kind, rows, options) for kind in FORMATS)


def _file_index(index: Any, reader: OrcReader, *, strict: bool) -> FileIndex:
    root, rows = reader.root, reader.tail.footer.rows
    if isinstance(index, FileIndex):
        return index
    if isinstance(index, StoredIndex):
        return read_file_index(index.data, types=index.types, strict=strict, rows=rows)
    return read_file_index(index, types=paimon_types(root.names, root.children), strict=strict, rows=rows)


def opened_index(index: Any, reader: OrcReader, notes: list[Note], *, strict: bool) -> FileIndex | None:
    """Opens the indexes of an open file. ``index`` is a ``FileIndex``, a ``StoredIndex`` of this file, or the bytes or
    the path of an index. For bytes and paths, the types of the file's own columns are used. Returns None and adds a
    note if the indexes are damaged, or belong to another version of the file. With ``strict``, damage is an error.

    If the index is given as bytes or a path, its timestamp columns are not used. The keys of such columns depend on the
    precision, which only the table's schema has. To use these columns, open the index with ``paimon.read_file_index``
    and its types.
    """
    stored = isinstance(index, StoredIndex)
    if stored and index.tail is not None and index.tail != reader.tail.checksum:
        notes.append(Note("Paimon file index", "stale", "the file's tail differs from the tail that was indexed"))
        return None
    try:
        return _file_index(index, reader, strict=strict)
    except (CorruptFile, Unsupported, FileNotFoundError) as error:
        missing = isinstance(error, FileNotFoundError)
        if strict or (missing and not stored):
            raise
        notes.append(Note("Paimon file index", "absent" if missing else "damaged", str(error)))
        return None


_SQL = {
    TypeKind.BOOLEAN: "BOOLEAN",
    TypeKind.BYTE: "TINYINT",
    TypeKind.SHORT: "SMALLINT",
    TypeKind.INT: "INT",
    TypeKind.LONG: "BIGINT",
    TypeKind.FLOAT: "FLOAT",
    TypeKind.DOUBLE: "DOUBLE",
    TypeKind.STRING: "STRING",
    TypeKind.BINARY: "BYTES",
    TypeKind.DATE: "DATE",
}


def paimon_types(names: Iterable[str], columns: Iterable[OrcType]) -> dict[str, str]:
    """Paimon's SQL types of the top-level columns of an ORC file. A column is left out if more than one type is
    possible."""
    found = {}
    for name, child in zip(names, columns):
        if child.kind in _SQL:
            found[name] = _SQL[child.kind]
        elif child.kind is TypeKind.DECIMAL and child.precision:
            found[name] = f"DECIMAL({child.precision}, {child.scale})"
        elif child.kind in (TypeKind.CHAR, TypeKind.VARCHAR) and child.max_length:
            found[name] = f"{child.kind.name}({child.max_length})"
    return found
