"""``FileIndex``: all indexes of one data file, evaluated together.

No rows are lost because of a damaged index. If an index cannot be read, all rows are kept and a note is added. With
``strict`` an error is raised instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from orcidx.errors import CorruptFile, InvalidQuery, OrcidxError, Unsupported, located
from orcidx.paimon.body import Body
from orcidx.paimon.container import Container, Entry, entry_names, read_container, split_map_key, write_container
from orcidx.paimon.data_types import DataType, as_data_type
from orcidx.paimon.index import EmptyIndex, Index, as_bitmap
from orcidx.paimon.registry import FORMATS, read_index
from orcidx.predicate import Bound, BoundLeaf, BoundPredicate, Constant, External, Where, bind, parse
from orcidx.predicate.fold import Part, fold
from orcidx.pruning.evaluate import Verdict
from orcidx.storage import Fingerprint, OneSource, ReadMetrics, Source, open_reader

__all__ = ["Answer", "FileIndex", "OtherRows", "read_file_index"]

_ORDER = {kind: place for place, kind in enumerate(FORMATS)}
_BYTES_READ_AT_ONCE = 1 << 20
"""A container of at most this number of bytes is read by one request, because a second round trip costs as much as
reading these bytes (decision 0017)."""


class OtherRows(CorruptFile):
    """Raised if an index and its data file have different numbers of rows."""


@dataclass(frozen=True)
class Answer:
    """The results of a column's indexes for one leaf: the combined verdict, the verdict of each index, and the reasons
    why some indexes gave no verdict."""

    verdict: Verdict
    parts: tuple[tuple[str, Verdict], ...] = ()
    notes: tuple[str, ...] = ()


class FileIndex:
    """The indexes of one data file, made by ``read_file_index`` and ``build_file_index``.

    ``notes``: the indexes that were not used so far because they are damaged or cannot be trusted. ``reads``: the
    counts of what was read from the source so far, or None if the bytes were given. ``close()`` (or
    ``with``) closes the source. The parts of the index that were already read can still be used.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from orcidx import paimon
    >>> index = paimon.build_file_index(pa.table({"city": ["Bonn", "Ulm", "Bonn"]}), {"bitmap": {"city": {}}})
    >>> index.evaluate("city = 'Bonn'").rows
    BitMap([0, 2])
    >>> index.index("city", "bitmap").evaluate("isnull").is_empty
    True
    """

    def __init__(
        self,
        container: Container,
        types: Mapping[str, str | DataType],
        *,
        strict: bool = False,
        rows: int | None = None,
        source: Any = None,
        reads: ReadMetrics | None = None,
    ) -> None:
        self.strict = strict
        self.reads = reads
        self.rows = rows
        self.notes: list[str] = []
        self._container = container
        self._types = {name: as_data_type(given) for name, given in types.items()}
        self._entries = {(entry.column, entry.kind): entry for entry in container.entries}
        self._indexes: dict[tuple[str, str], Index] = {}
        self._source = source

    def __reduce__(self) -> tuple[Any, ...]:
        # The whole container is pickled. The source is not pickled, because another process may not be able to read it.
        return _from_bytes, (self.to_bytes(), self._types, self.strict, self.rows)

    @cached_property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """The kinds of index of each column, in file order. The key ``k`` of a map ``m`` is the column ``m[k]``."""
        return MappingProxyType(entry_names(self._container.entries))

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every index with its size, in file order."""
        return self._container.entries

    def index(self, column: str, kind: str) -> Index | None:
        """One index of one column.

        Parameters
        ----------
        column : str
            The column's name.
        kind : str
            Paimon's name of the format, such as "bitmap" or "bloom-filter".

        Returns
        -------
        Index or None
            None if the container has no such index. If the index is stored as EMPTY, an index without values is
            returned.

        Raises
        ------
        InvalidQuery
            ``types`` does not have the column.
        Unsupported
            orcidx does not know the kind.
        CorruptFile
            The index is damaged.
        """
        entry = self._entries.get((column, kind))
        if entry is None:
            return None
        if (column, kind) not in self._indexes:
            with located(column=column):
                self._indexes[column, kind] = self._open(entry)
        return self._indexes[column, kind]

    def _open(self, entry: Entry) -> Index:
        data_type = self._type_of(entry.column)
        if data_type is None:
            raise InvalidQuery(
                f"types= has no type for the column {entry.column!r}, which has an index", column=entry.column
            )
        if entry.payload is None:
            return EmptyIndex(entry.kind, data_type)
        index = read_index(entry.kind, entry.payload, data_type)
        if self.rows is not None and index.rows not in (None, self.rows):
            raise OtherRows(f"the {entry.kind} index has {index.rows} rows, but the data file has {self.rows}")
        return index

    def _type_of(self, column: str) -> DataType | None:
        name, key = split_map_key(column, self._types)
        data_type = self._types.get(name)
        if key is None or data_type is None:
            return data_type
        return data_type.children[1] if data_type.root == "MAP" else None

    # ------------------------------------------------------------------ evaluation

    def evaluate(self, where: Where, *, nan: str = "ieee") -> Verdict:
        """The rows for which a predicate may be true, according to all indexes of its columns.

        Parameters
        ----------
        where : Predicate, str, pyarrow.compute.Expression, list of tuples, BoundPredicate or None
            A predicate over the columns of ``types``, as in ``orcidx.col``. A ``str`` is SQL, and a list is in
            disjunctive normal form. The key ``k`` of a map ``m`` is ``col("m[k]")``. None means every row.
        nan : str
            "ieee": every comparison with NaN is false. "largest": NaN equals itself and is above every number.

        Returns
        -------
        Verdict
            The row numbers count from 0 in the data file.

        Raises
        ------
        InvalidQuery
            The predicate uses a column that ``types`` does not have, or a value in the predicate does not fit the type
            of its column.
        CorruptFile
            An index is damaged and the container was read with ``strict``. Without ``strict`` the index is not used,
            and ``notes`` names it.
        """
        if where is None:
            return Verdict.remain()
        if isinstance(where, BoundPredicate):
            return self._tree(where.root)
        schema, chars = self._schema()
        root = bind(parse(where), schema, nan=nan, char_lengths=chars).root  # type: ignore[arg-type]
        return self._tree(root)

    def _schema(self) -> tuple[pa.Schema, dict[tuple[str, ...], int]]:
        types = dict(self._types)
        for column in self.columns:
            data_type = self._type_of(column)
            if data_type is not None:
                types[column] = data_type
        fields = []
        for name, data_type in types.items():
            try:
                fields.append(pa.field(name, data_type.arrow_type))
            except Unsupported:  # without an Arrow type, a column can only be tested for null
                fields.append(pa.field(name, pa.struct([])))
        chars: dict[tuple[str, ...], int] = {
            (name,): data_type.length for name, data_type in types.items() if data_type.root == "CHAR"
        }
        return pa.schema(fields), chars

    def _tree(self, node: Bound) -> Verdict:
        return fold(node, self._part, both=_of_all, either=_of_any)

    def _part(self, node: Part) -> Verdict:
        if isinstance(node, BoundLeaf):
            return self.test(node).verdict
        if isinstance(node, External):
            verdict = self._tree(node.may)
            return verdict if verdict.rows is None or verdict.kind == "skip" else Verdict.of(verdict.rows)
        assert isinstance(node, Constant)
        return Verdict.remain() if node.value else Verdict.skip()

    def test(self, leaf: BoundLeaf) -> Answer:
        """Evaluates a leaf with the indexes of its column. Stops after an index whose verdict is exact or excludes
        every row.

        Parameters
        ----------
        leaf : BoundLeaf
            A comparison that is bound to the column's type.

        Returns
        -------
        Answer
            The verdict of all indexes together, the verdict of each index that was used, and notes on unused indexes.

        Raises
        ------
        CorruptFile
            An index is damaged and the container was read with ``strict``.
        """
        if len(leaf.path) != 1:
            return Answer(Verdict.remain())
        column = leaf.path[0]
        kinds = self.columns.get(column, ())
        verdict, parts, notes = Verdict.remain(), [], []
        for kind in sorted(kinds, key=lambda kind: _ORDER.get(kind, len(_ORDER))):
            try:
                with located(column=column):
                    index = self.index(column, kind)
                    assert index is not None
                    part = index.test(leaf)
            except (CorruptFile, Unsupported, InvalidQuery) as error:
                if self._is_fatal(kind, error):
                    raise
                notes.append(self._note(column, kind, error))
                continue
            parts.append((kind, part))
            verdict = verdict.refine(part)
            if verdict.is_empty or verdict.exact:
                break
        return Answer(verdict, tuple(parts), tuple(notes))

    def _is_fatal(self, kind: str, error: OrcidxError) -> bool:
        # An unknown kind of index is not damage. A later version of Paimon may have written it.
        return self.strict and not (isinstance(error, Unsupported) and kind not in FORMATS)

    def _note(self, column: str, kind: str, error: OrcidxError) -> str:
        note = f"{kind} index of {column} not used: {error}"
        if note not in self.notes:
            self.notes.append(note)
        return note

    def top_k(
        self,
        column: str,
        k: int,
        *,
        descending: bool,
        nulls_first: bool,
        selection: object = None,
        strict: bool = True,
    ) -> Verdict:
        """Finds the first ``k`` rows in the order of a column.

        Parameters
        ----------
        column : str
            The column's name.
        k : int
            The number of rows.
        descending : bool
            Whether the largest values are first.
        nulls_first : bool
            Whether nulls are before all values.
        selection : BitMap or RowSelection, optional
            Only these rows are considered.
        strict : bool
            If False, all rows with the same value as the last of the ``k`` rows are also returned. Set it to False if
            there is a further sort column.

        Returns
        -------
        Verdict
            The verdict is exact if ``strict`` is True and the column has a range-bitmap. Without a range-bitmap, the
            verdict contains all rows of the selection.

        Raises
        ------
        InvalidQuery
            ``k`` is negative.
        CorruptFile
            The index is damaged and the container was read with ``strict``.
        """
        if k < 0:
            raise InvalidQuery(f"k must not be negative, but is {k}")
        given = None if selection is None else as_bitmap(selection, self.rows if self.rows is not None else (1 << 32))
        if given is not None and len(given) <= k:
            return Verdict.of(given, True)
        try:
            index = self.index(column, "range-bitmap")
            if index is not None and index.rows is not None:
                order = {"descending": descending, "nulls_first": nulls_first, "strict": strict}
                return Verdict.of(index.top_k(k, selection=given, **order), strict)
        except (CorruptFile, Unsupported) as error:
            if self._is_fatal("range-bitmap", error):
                raise
            self._note(column, "range-bitmap", error)
        return Verdict.remain() if given is None else Verdict.of(given)

    # ------------------------------------------------------------------ bytes

    def to_bytes(self) -> bytes:
        """The container as it is stored. Indexes of unknown kinds are included unchanged.

        Returns
        -------
        bytes

        Raises
        ------
        CorruptFile
            The bytes of an index are cut off.
        """
        return write_container(self._container)

    def check(self) -> None:
        """Reads everything. Raises ``CorruptFile`` for damage in any index of a known kind."""
        for column, kinds in self.columns.items():
            for kind in kinds:
                if kind in FORMATS and (index := self.index(column, kind)) is not None:
                    with located(column=column):
                        index.check()

    def close(self) -> None:
        """Closes the source, if this object opened it."""
        if self._source is not None:
            self._source.close()
            self._source = None

    def __enter__(self) -> FileIndex:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        shown = ", ".join(f"{column}: {', '.join(kinds)}" for column, kinds in self.columns.items())
        return f"FileIndex({shown})"


def file_index_of(indexes: Iterable[tuple[str, str, Index | None]], types: Mapping[str, str | DataType]) -> FileIndex:
    """Makes a file index from tuples (column, kind, index), in the given order. If ``index`` is None, the index is
    EMPTY."""
    entries = [
        Entry(column, kind, None if index is None else Body.of(index.to_bytes())) for column, kind, index in indexes
    ]
    return FileIndex(Container(tuple(entries)), types)


def _from_bytes(data: bytes, types: Mapping[str, DataType], strict: bool, rows: int | None) -> FileIndex:
    return read_file_index(data, types=types, strict=strict, rows=rows)


def read_file_index(
    source: OneSource,
    *,
    types: Mapping[str, str | DataType],
    strict: bool = False,
    rows: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object = None,
) -> FileIndex:
    """Opens the file index of one data file.

    A small file is read completely. This takes one request if ``source`` is a ``Source`` that knows its size. For a
    large file, only the head is read at first. The other parts are read when they are needed.

    Parameters
    ----------
    source : path, URL, bytes, file object or source
        The sidecar file, or the bytes of the index that is embedded in a manifest. All kinds of sources of
        ``orcidx.open`` are accepted.
    types : mapping of str to str or DataType
        The columns' types as Paimon's SQL text, in the schema with which the data file was written. For a map's key
        ``m[k]``, the type of the values of ``m``.
    strict : bool
        Whether a damaged index raises an error. If False, a damaged index is not used, and does not exclude rows.
    rows : int, optional
        The number of rows of the data file. An index with another number of rows is treated as damaged.
    storage_options : mapping, optional
        Options of the file system of a URL.
    filesystem : object, optional
        A file system of fsspec, pyarrow.fs or obstore, in which ``source`` is a path.

    Returns
    -------
    FileIndex

    Raises
    ------
    CorruptFile
        The source is not a file index with a valid head.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from orcidx import paimon
    >>> data = paimon.build_file_index(pa.table({"id": [1, 2]}), {"bitmap": {"id": {}}}).to_bytes()
    >>> paimon.read_file_index(data, types={"id": "BIGINT"}).evaluate("id = 2").rows
    BitMap([1])
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return FileIndex(read_container(Body.of(source)), types, strict=strict, rows=rows)
    known = source.size if isinstance(source, Source) else None
    at_once = known is not None and known <= _BYTES_READ_AT_ONCE
    if isinstance(source, Source) and known is not None and at_once and source.kind != "path":
        # The size is known, so it is not requested from the store. The file's version is not needed either.
        # Versions are only compared between the responses of several requests, and here there is only one request.
        reader = source.open(expected=Fingerprint(known))
    else:
        reader = open_reader(source, storage_options=storage_options, filesystem=filesystem)
    own = reader is not source
    try:
        with located(file=str(source) if isinstance(source, (str, os.PathLike)) else None):
            if at_once:
                data, size = reader.read_tail(_BYTES_READ_AT_ONCE)
            else:
                size = reader.size()
                data = reader.read_ranges([(0, size)])[0] if 0 < size <= _BYTES_READ_AT_ONCE else memoryview(b"")
            if size <= _BYTES_READ_AT_ONCE:
                container = read_container(Body.of(data))
                if own:
                    reader.close()
                return FileIndex(container, types, strict=strict, rows=rows, reads=reader.metrics)
            container = read_container(Body(reader, 0, size))
    except BaseException:
        if own:
            reader.close()
        raise
    opened = reader if own else None
    return FileIndex(container, types, strict=strict, rows=rows, source=opened, reads=reader.metrics)


def _of_all(verdicts: Iterator[Verdict]) -> Verdict:
    combined = next(verdicts)
    while not combined.is_empty and (verdict := next(verdicts, None)) is not None:
        combined = combined & verdict
    return combined


def _of_any(verdicts: Iterator[Verdict]) -> Verdict:
    combined = next(verdicts)
    while combined.kind != "remain" and (verdict := next(verdicts, None)) is not None:
        combined = combined | verdict
    return combined
