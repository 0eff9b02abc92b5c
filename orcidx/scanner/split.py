"""Cuts a scan into tasks, and converts tasks to JSON. The class ``Split`` is in the module ``scan``, because a split
creates scans.

A task is a run of stripes of one file, or a part of one large stripe that begins and ends at row groups. A task also
has the version of its file, and the rows that remain after a selection and a deletion vector.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyroaring import BitMap, BitMap64

from orcidx.errors import InvalidQuery
from orcidx.fetching.drive import run_value
from orcidx.options import USUAL_OPTIONS
from orcidx.orc.kinds import StreamKind
from orcidx.planner.index_evidence import StoredIndex
from orcidx.planner.request import FileJob, ScanRequest, as_selection
from orcidx.planner.schema_mapping import column_path
from orcidx.predicate import predicate_from_json, predicate_to_json
from orcidx.pruning.selection import RowSelection
from orcidx.scanner.file_queue import OpenFile
from orcidx.scanner.file_scan import FileScan
from orcidx.storage import Fingerprint, Source
from orcidx.storage.inside import is_inside

__all__ = [
    "FilePart",
    "count_from_json",
    "job_from_json",
    "job_to_json",
    "plan_parts",
    "refuse_outside",
    "request_from_json",
    "request_to_json",
]

BITMAP_ROWS = 1 << 32
"""A selection over more rows than this has 64-bit row numbers."""


@dataclass(frozen=True)
class FilePart:
    """A task. ``rows``: the number of its rows, before any predicate. ``estimated_bytes``: the number of stored bytes
    of its columns."""

    job: FileJob
    rows: int
    estimated_bytes: int


def plan_parts(files: Iterable[OpenFile], target_bytes: int) -> Iterator[FilePart]:
    """Cuts all files into parts of about ``target_bytes`` each, and returns the parts in order. Data that statistics
    rule out is left out.

    Reads tails, and also stripe footers if only some columns are wanted. Raises ``InvalidQuery`` for a target below 1.
    """
    if target_bytes < 1:
        raise InvalidQuery(f"target_bytes is {target_bytes}, but must be at least 1")
    for file in files:
        yield from _parts_of(file, target_bytes)


def _parts_of(file: OpenFile, target: int) -> Iterator[FilePart]:
    scan = file.scan
    sizes = _stripe_sizes(file)
    waiting: list[int] = []
    for stripe, size in sizes.items():
        if waiting and sum(sizes[one] for one in waiting) + size > target:
            yield _part(scan, waiting, sizes)
            waiting = []
        pieces = _pieces(scan, stripe, size, target)
        if pieces:
            yield from pieces
        else:
            waiting.append(stripe)
    if waiting:
        yield _part(scan, waiting, sizes)


def _stripe_sizes(file: OpenFile) -> dict[int, int]:
    """For every remaining stripe, the number of stored bytes of the columns that are read."""
    scan = file.scan
    stripes = scan.stripe_numbers()
    columns = {
        node.id for column in (*scan.columns.plan.output, *scan.columns.plan.predicate) for node in column.walk()
    }
    if columns >= scan.reader.root.ids:
        return {stripe: scan.reader.stripes[stripe].data_length for stripe in stripes}
    run_value(scan.fetch_footers(stripes), file.storage)
    return {
        stripe: sum(
            length
            for (column, kind), (_, length) in scan.reader.extents(stripe).items()
            if column in columns and kind <= StreamKind.SECONDARY
        )
        for stripe in stripes
    }


def _part(scan: FileScan, stripes: list[int], sizes: Mapping[int, int]) -> FilePart:
    bounds = scan.reader.stripe_bounds
    first, last = int(bounds[stripes[0]]), int(bounds[stripes[-1] + 1])
    job = _job(scan, first, last, stripes)
    rows = sum(scan.reader.stripes[stripe].rows for stripe in stripes)
    return FilePart(job, rows, sum(sizes[stripe] for stripe in stripes))


def _pieces(scan: FileScan, stripe: int, size: int, target: int) -> list[FilePart]:
    """If a stripe is much larger than the target, cuts it at row groups. Returns an empty list if the stripe is small
    or has no row groups."""
    first, last = (int(row) for row in scan.reader.stripe_bounds[stripe : stripe + 2])
    stride = scan.reader.facts.row_index_stride
    groups = -(-(last - first) // stride) if stride else 1
    count = min(groups, round(size / target))
    if count < 2:
        return []
    edges = [first + stride * (groups * i // count) for i in range(count)] + [last]
    low, high = scan.job.row_range or (first, last)
    parts = []
    for start, stop in pairwise(edges):
        cut = (max(start, low), min(stop, high))
        if cut[0] < cut[1]:
            job = replace(_job(scan, start, stop, [stripe]), row_range=cut)
            parts.append(FilePart(job, stop - start, size * (stop - start) // (last - first)))
    return parts


def _job(scan: FileScan, start: int, stop: int, stripes: list[int]) -> FileJob:
    """Returns the job for the rows [start, stop), with the part of the selection that lies in these rows."""
    job = replace(scan.job, stripes=tuple(stripes), fingerprint=scan.reader.fingerprint)
    if job.selection is None and job.deleted is None:
        return job
    rows = int(scan.reader.stripe_bounds[-1])
    wanted = scan.rows.wanted & RowSelection.from_runs([(start, stop)], rows)
    return replace(job, selection=wanted, deleted=None)


# ---------------------------------------------------------------------- JSON


def job_to_json(job: FileJob) -> dict[str, Any]:
    """Converts a job to a value that ``json.dumps`` accepts. Raises ``InvalidQuery`` for a source or an index that
    cannot be written as text."""
    if job.deleted is not None or not isinstance(job.selection, RowSelection | None):
        raise InvalidQuery(
            "a selection cannot be written as JSON before the scan is cut into splits", file=job.source.name
        )
    return {
        "source": job.source.to_dict(),
        "fingerprint": None if job.fingerprint is None else job.fingerprint.to_dict(),
        "stripes": None if job.stripes is None else list(job.stripes),
        "row_range": None if job.row_range is None else list(job.row_range),
        "selection": None if job.selection is None else _selection_to_json(job.selection),
        "file_index": None if job.file_index is None else _index_to_json(job.file_index, job.source.name),
        "constants": _constants_to_json(job.constants),
    }


def job_from_json(data: Any) -> FileJob:
    """Makes a job from the value of ``job_to_json``. Raises ``InvalidQuery`` for any other value."""
    try:
        fingerprint, stripes, row_range = data["fingerprint"], data["stripes"], data["row_range"]
        return FileJob(
            _source_from_json(data["source"]),
            stripes=None if stripes is None else _numbers(stripes, "stripes"),
            row_range=None if row_range is None else _row_range(row_range),
            selection=None if data["selection"] is None else _selection_from_json(data["selection"]),
            file_index=None if data["file_index"] is None else _index_from_json(data["file_index"]),
            constants=_constants_from_json(data["constants"]),
            fingerprint=None if fingerprint is None else _fingerprint_from_json(fingerprint),
        )
    except _NOT_JSON_OF_OURS as error:
        raise _not_a_split(error) from error


def refuse_outside(job: FileJob, within: str) -> None:
    """Raises ``InvalidQuery`` if the file or its index is not inside ``within``, which is a directory or URL prefix."""
    index = job.file_index.data if isinstance(job.file_index, StoredIndex) else job.file_index
    index = index.location if isinstance(index, Source) else index
    for place in [job.source.location, *([index] if isinstance(index, str) else [])]:
        if not isinstance(place, str) or not is_inside(place, within):
            raise InvalidQuery(f"the split reads {place!r:.200}, which is not inside {within!r}")


def count_from_json(value: object, name: str) -> int:
    """Checks that a value is a non-negative integer, and returns it. Raises ``InvalidQuery`` for any other value."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise InvalidQuery(
            f"the text is not the JSON of a split: {name} is {value!r:.100}, but must be an integer from 0 on"
        )
    return value


def _numbers(values: Any, name: str) -> tuple[int, ...]:
    if not isinstance(values, list):
        raise InvalidQuery(
            f"the text is not the JSON of a split: {name} is {values!r:.100}, but must be a list of numbers"
        )
    found = tuple(count_from_json(value, name) for value in values)
    if any(first >= second for first, second in pairwise(found)):
        raise InvalidQuery(
            f"the text is not the JSON of a split: {name} is {values!r:.100}, but its numbers must ascend and differ"
        )
    return found


def _row_range(values: Any) -> tuple[int, int]:
    if not isinstance(values, list) or len(values) != 2:
        raise InvalidQuery(
            f"the text is not the JSON of a split: row_range is {values!r:.100}, but must be [start, stop]"
        )
    start, stop = (count_from_json(value, "row_range") for value in values)
    if start > stop:
        raise InvalidQuery(f"the text is not the JSON of a split: row_range ends before it begins: {values!r:.100}")
    return start, stop


def _given(value: Any, kind: type, name: str, *, optional: bool = False) -> Any:
    """Returns the value if it has the type ``kind``. Raises ``InvalidQuery`` for any other value."""
    if (value is None and optional) or type(value) is kind:
        return value
    raise InvalidQuery(
        f"the text is not the JSON of a split: {name} is {value!r:.100}, but must be of type {kind.__name__}"
    )


def _source_from_json(data: Any) -> Source:
    for name in ("name", "location"):
        if not _given(data[name], str, name):
            raise InvalidQuery(f"the text is not the JSON of a split: the {name} of its file is empty")
    _given(data["root"], str, "root", optional=True)
    return Source.from_dict(data)


def _fingerprint_from_json(data: Any) -> Fingerprint:
    found = Fingerprint(**data)
    count_from_json(found.size, "size")
    _given(found.etag, str, "etag", optional=True)
    _given(found.mtime, int, "mtime", optional=True)
    return found


def _columns_from_json(columns: Any) -> tuple[str | tuple[str, ...], ...]:
    _given(columns, list, "columns")
    return tuple(one if isinstance(one, str) else column_path(one) for one in columns)


def request_to_json(request: ScanRequest) -> dict[str, Any]:
    """Converts a request to a value that ``json.dumps`` accepts. Options that have their default value are left out."""
    defaults = asdict(USUAL_OPTIONS)
    columns = request.columns
    return {
        "columns": None if columns is None else [one if isinstance(one, str) else list(one) for one in columns],
        "where": None if request.where is None else predicate_to_json(request.where),
        "schema": None if request.schema is None else _text(request.schema.serialize()),
        "match": request.match,
        "row_numbers": request.row_numbers,
        "file_path": request.file_path,
        "options": {name: value for name, value in asdict(request.options).items() if value != defaults[name]},
    }


def request_from_json(data: Any) -> ScanRequest:
    """Makes a request from the value of ``request_to_json``. Raises ``InvalidQuery`` for any other value."""
    try:
        columns, where, schema = data["columns"], data["where"], data["schema"]
        options: Any = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data["options"].items()
        }
        return ScanRequest(
            columns=None if columns is None else _columns_from_json(columns),
            where=None if where is None else predicate_from_json(where),
            schema=None if schema is None else pa.ipc.read_schema(pa.py_buffer(_bytes(schema))),
            match=_match_from_json(data["match"]),
            row_numbers=_given(data["row_numbers"], str, "row_numbers", optional=True),
            file_path=_given(data["file_path"], str, "file_path", optional=True),
            options=USUAL_OPTIONS.override(**options),
        )
    except _NOT_JSON_OF_OURS as error:
        raise _not_a_split(error) from error


def _match_from_json(value: Any) -> Any:
    if value not in ("name", "position", "field_id"):
        raise InvalidQuery(
            f"the text is not the JSON of a split: match is {value!r:.100}, but must be 'name', 'position' or "
            "'field_id'"
        )
    return value


_NOT_JSON_OF_OURS = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    RecursionError,
    OSError,
    pa.ArrowException,
)


def _not_a_split(error: Exception) -> InvalidQuery:
    return error if isinstance(error, InvalidQuery) else InvalidQuery(f"the text is not the JSON of a split: {error!r}")


def _text(data: Any) -> str:
    return base64.b64encode(memoryview(data)).decode()


def _bytes(text: Any) -> bytes:
    _given(text, str, "a value that must be base64 text")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise InvalidQuery(f"the text is not the JSON of a split: {error}") from error


def _selection_to_json(selection: RowSelection) -> dict[str, Any]:
    return {"length": selection.length, "bitmap": _text(selection.bitmap().serialize())}


def _selection_from_json(data: Mapping[str, Any]) -> RowSelection:
    length = count_from_json(data["length"], "length")
    kind = BitMap if length <= BITMAP_ROWS else BitMap64
    return as_selection(kind.deserialize(_bytes(data["bitmap"])), length)


def _index_to_json(index: Any, name: str) -> dict[str, Any]:
    if isinstance(index, StoredIndex):
        data = {"source": index.data.to_dict()} if isinstance(index.data, Source) else {"bytes": _text(index.data)}
        return {**data, "tail": index.tail, "types": dict(index.types)}
    if isinstance(index, (str, os.PathLike)):
        return {"path": os.fsdecode(index)}
    if isinstance(index, (bytes, bytearray, memoryview)):
        return {"bytes": _text(index)}
    raise InvalidQuery("a file index cannot be written as JSON: give its path or its bytes", file=name)


def _index_from_json(data: Any) -> str | bytes | StoredIndex:
    _given(data, dict, "file_index")
    if "types" in data:
        types = _given(data["types"], dict, "the index's types")
        for one in types.values():
            _given(one, str, "a type of the index")
        stored = _source_from_json(data["source"]) if "source" in data else _bytes(data["bytes"])
        return StoredIndex(stored, _given(data["tail"], int, "the index's tail", optional=True), types)
    path = _given(data.get("path"), str, "the index's path", optional=True)
    return path or _bytes(data["bytes"])


def _constants_to_json(constants: Mapping[str, Any]) -> str | None:
    """Returns the constants as a record batch of one row, in Arrow's stream format."""
    if not constants:
        return None
    arrays = [pa.repeat(value if isinstance(value, pa.Scalar) else pa.scalar(value), 1) for value in constants.values()]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(constants))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return _text(sink.getvalue())


def _constants_from_json(data: str | None) -> dict[str, pa.Scalar]:
    if data is None:
        return {}
    batch = pa.ipc.open_stream(_bytes(data)).read_next_batch()
    batch.validate(full=True)
    if batch.num_rows != 1:
        raise InvalidQuery(
            f"the text is not the JSON of a split: each of its constants has {batch.num_rows} values, but must have one"
        )
    return {name: batch.column(i)[0] for i, name in enumerate(batch.schema.names)}
