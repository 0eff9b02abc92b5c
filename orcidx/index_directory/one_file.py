"""``build_file_index`` builds the file index of an ORC file or of Arrow data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import pyarrow as pa

from orcidx.errors import InvalidQuery, ValueOutOfRange
from orcidx.keywords import lists_options
from orcidx.options import USUAL_OPTIONS, OptionsByName, ReadOptions
from orcidx.paimon.build import Spec, build_from_arrow, columns_of
from orcidx.paimon.data_types import DataType
from orcidx.paimon.file_index import FileIndex
from orcidx.paimon.file_index_options import FileIndexOptions
from orcidx.scanner.file import OrcFile, open_file
from orcidx.storage import OneSource

__all__ = ["build_file_index"]


@lists_options(ReadOptions)
def build_file_index(
    source: OneSource,
    spec: Spec | FileIndexOptions,
    *,
    types: Mapping[str, str | DataType] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object = None,
    **options: Unpack[OptionsByName],
) -> FileIndex:
    """Builds the file index of a data file. Row i of the index is row i of the source.

    One batch is processed at a time. Bloom filters take constant memory. The other formats keep the keys of the indexed
    columns in memory. Options that change the values of the rows are refused.

    Parameters
    ----------
    source : path, URL, bytes, file object, source or Arrow data
        An ORC file in any form that ``orcidx.open`` accepts. Or a Table, a record batch, batches, a RecordBatchReader,
        or an object with the Arrow stream interface.
    spec : mapping or FileIndexOptions
        The options for each kind of index and column, such as ``{"bitmap": {"city": {}}, "bloom-filter": {"id":
        {"items": 1000, "fpp": 0.01}}}``, or a table's ``FileIndexOptions``. The key k of a map m is the column
        ``m[k]``.
    types : mapping of str to str or DataType, optional
        The Paimon types of the columns. Missing types follow from the Arrow types. Timestamps of ORC files are in ns.
        They become TIMESTAMP(9), a type that few indexes support.
    storage_options : mapping, optional
        Options of the file system of a URL.
    filesystem : object, optional
        A file system of fsspec, pyarrow.fs or obstore, in which ``source`` is a path.
    **options
        Fields of ``ReadOptions`` by name.

    Returns
    -------
    FileIndex

    Raises
    ------
    InvalidQuery
        For an unknown column or option, for values that do not fit their type, or for an option that changes values.
    Unsupported
        For a type that an index does not support.
    ValueOutOfRange
        For a value that an index cannot represent.

    Examples
    --------
    >>> import orcidx, pyarrow as pa
    >>> from orcidx import paimon
    >>> index = paimon.build_file_index(pa.table({"city": ["Bonn", "Ulm"]}), {"bitmap": {"city": {}}})
    >>> index.evaluate(orcidx.col("city") == "Rom").is_empty
    True
    """
    built = build_from_arrow(source, spec, types=types)
    if built is not None:
        given = {**options, "storage_options": storage_options, "filesystem": filesystem}
        useless = [name for name, value in given.items() if value is not None]
        if useless:
            raise TypeError(
                f"{', '.join(useless)}: options for reading a file cannot be given with Arrow data; leave them out"
            )
        return built
    for name, value in options.items():
        if name in _CHANGING and value != getattr(USUAL_OPTIONS, name) and value != "unchecked":
            raise InvalidQuery(
                f"{name}={value!r} changes values, but an index must have the stored values; leave out the option"
            )
    with open_file(source, storage_options=storage_options, filesystem=filesystem) as file:
        columns = columns_of(spec, file.schema.names)
        _check_digits(file, columns, options)
        reader = file.scan(columns=columns, **options).to_reader()
        built = build_from_arrow(reader, spec, types=types)
    assert built is not None
    return built


_CHANGING = frozenset({"timezone", "utf8", "decimal_rounding", "calendar"})
"""Options that change values. ``timestamp_unit`` may be given if no value has digits below this unit."""


def _check_digits(file: OrcFile, columns: Sequence[str], options: OptionsByName) -> None:
    """Raises ``InvalidQuery`` if the option ``timestamp_unit`` drops digits. Files with timestamps outside of the range
    of nanoseconds are not checked."""
    if options.get("timestamp_unit", "ns") == "ns":
        return
    wanted = file.scan(columns=columns, **options).schema
    times = [field.name for field in wanted if _has_timestamps(field.type)]
    exact: OptionsByName = {**options, "timestamp_unit": "ns"}
    try:
        for batch in file.scan(columns=[(name,) for name in times], **exact) if times else ():
            for name, column in zip(times, batch.columns):
                try:
                    column.cast(wanted.field(name).type)
                except pa.ArrowInvalid as error:
                    raise InvalidQuery(
                        f"an index must have the stored values, but with timestamp_unit={options['timestamp_unit']!r} "
                        f"values lose digits: {error}",
                        column=name,
                    ) from None
    except ValueOutOfRange:
        return


def _has_timestamps(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_timestamps(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_timestamp(kind))
