"""Reads the rows of files and writes these rows again, in the same or in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from orcidx.errors import Unsupported
from orcidx.options import ReadOptions
from orcidx.orc.kinds import TypeKind
from orcidx.orc_writer.arrow_types import WriteNode, describe_schema
from orcidx.orc_writer.bloom_columns import FILTERED
from orcidx.orc_writer.options import WriteOptions
from orcidx.orc_writer.writer import OrcWriter
from orcidx.planner.request import FileJob
from orcidx.rewriting.plan import RewritePlan, RewriteRequest
from orcidx.rewriting.row_hashes import RowsSeen
from orcidx.rewriting.sources import InputFile, rows_in
from orcidx.rewriting.z_order import SAMPLE_ROWS
from orcidx.scanner.scan import Scan

if TYPE_CHECKING:
    from orcidx.storage.stores import Sink

__all__ = ["SinkFile", "encode_rows"]

ORDERED_BLOCK_BYTES = 1 << 16
"""The maximum size of a chunk before compression, if rows are sorted or clustered. A lookup reads whole chunks, and a
row group of 10,000 packed numbers takes only a twelfth of a chunk of 256 KiB. In a file of 600,000 rows with six
columns, a lookup of one value reads 1.33 MB with chunks of 256 KiB, and 0.69 MB with chunks of ``ORDERED_BLOCK_BYTES``.
With the smaller chunks, the file is 1.014 times as large (decision 0045)."""

_COPIED_ONLY = frozenset({TypeKind.GEOMETRY, TypeKind.GEOGRAPHY})


def encode_rows(
    inputs: Sequence[InputFile],
    plan: RewritePlan,
    request: RewriteRequest,
    sink: Sink,
    *,
    options: ReadOptions,
    advance: Callable[[int], None],
) -> RowsSeen:
    """Writes the file into the sink, and closes the sink. Returns a summary of the rows. ``advance(rows)`` is called
    while rows are read."""
    for node in inputs[0].reader.root.walk():
        if node.kind in _COPIED_ONLY:
            raise Unsupported(
                f"orcidx can copy a {node.kind.name.lower()} column to another file, but cannot encode its values",
                file=inputs[0].name,
                column=node.dotted,
            )
    scan = _scan_of(inputs, None, request.schema, options)
    schema = scan.schema
    request.order.check(schema)
    seen = RowsSeen()
    root = describe_schema(schema, WriteOptions().override(**request.given))

    def rows() -> Iterator[pa.RecordBatch]:
        nonlocal seen
        for batch in scan:
            seen = seen.with_batch(_stored_rows(batch, root))
            advance(batch.num_rows)
            yield batch

    ordered: Any = rows()
    if request.order:
        ordered = request.order.apply(ordered, scan.schema, lambda: _sample(inputs, request, options))
    plain = schema.remove_metadata()
    with OrcWriter(SinkFile(sink), plain, options=_write_options(plan, request, schema)) as writer:
        for batch in ordered:
            writer.write(pa.RecordBatch.from_arrays(_retyped(batch, schema), schema=schema))
        writer.close()
    sink.close()
    return seen


class SinkFile:
    """A file object for ``OrcWriter`` that supports only writing."""

    def __init__(self, sink: Sink) -> None:
        self.name = sink.name
        self._sink = sink

    def write(self, data: bytes | memoryview) -> None:
        self._sink.write(data)


def _retyped(batch: pa.RecordBatch, schema: pa.Schema) -> list[Any]:
    """The columns in the types of the schema. The columns' own types may differ from these only in the metadata of
    fields."""
    return [
        column if column.type.equals(field.type, check_metadata=True) or not pa.types.is_nested(field.type)
        else column.cast(field.type)
        for column, field in zip(batch.columns, schema)
    ]  # fmt: skip


def _stored_rows(batch: pa.RecordBatch, root: WriteNode) -> pa.RecordBatch:
    """The rows in the form in which the written file returns them. For example, values of a new CHAR column are
    padded."""
    if not any(node.convert for node in root.all_nodes):
        return batch
    try:
        columns = [_stored(column, node) for column, node in zip(batch.columns, root.children)]
    except pa.ArrowInvalid:  # the writer will raise an error that names the row
        return batch
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _stored(array: Any, node: WriteNode) -> Any:
    for convert in node.convert:
        array = convert(array)
    if not any(below.convert for below in node.all_nodes[1:]) or node.kind is TypeKind.UNION:
        return array
    mask = array.is_null()
    if node.kind is TypeKind.STRUCT:
        children = [_stored(array.field(i), child) for i, child in enumerate(node.children)]
        return pa.StructArray.from_arrays(children, list(node.names), mask=mask)
    # pyarrow accepts no mask if the array of offsets is a slice, so the offsets are copied.
    offsets = pa.array(array.offsets.to_numpy().copy())
    if node.kind is TypeKind.MAP:
        keys, items = (_stored(one, child) for one, child in zip((array.keys, array.items), node.children))
        return pa.MapArray.from_arrays(offsets, keys, items, mask=mask)
    cls = pa.LargeListArray if pa.types.is_large_list(array.type) else pa.ListArray
    return cls.from_arrays(offsets, _stored(array.values, node.children[0]), mask=mask)


def _scan_of(inputs: Sequence[InputFile], columns: Any, schema: Any, options: ReadOptions) -> Scan:
    jobs = [FileJob(one.source, fingerprint=one.reader.fingerprint) for one in inputs]
    return rows_in(jobs, columns, schema=schema, options=options)


def _sample(inputs: Sequence[InputFile], request: RewriteRequest, options: ReadOptions) -> pa.Table:
    """A sample of evenly spread rows. The sample has only the columns to cluster by."""
    names = list(request.order.cluster_by)
    step = max(1, sum(one.rows for one in inputs) // SAMPLE_ROWS)
    kept = []
    at = 0
    for batch in _scan_of(inputs, [(name,) for name in names], request.schema, options):
        places = range(-at % step, batch.num_rows, step)
        kept.append(batch.take(pa.array(places, pa.int64())))
        at += batch.num_rows
    return pa.Table.from_batches(kept)


def _write_options(plan: RewritePlan, request: RewriteRequest, schema: pa.Schema) -> WriteOptions:
    options = WriteOptions().override(**request.given)
    # If a column has a bloom filter in the source, the caller's schema may lack this column, or give it a type without
    # bloom filters.
    nodes = describe_schema(schema, options).all_nodes
    known = {node.dotted for node in nodes if node.kind in FILTERED} | set(request.bloom_filters)
    blooms = [name for name in plan.bloom_names if name in known]
    block = min(max(plan.framing.block_size, 1 << 10), (1 << 23) - 1)
    if request.order and "compression_block_size" not in request.given:
        block = min(block, ORDERED_BLOCK_BYTES)
    return replace(
        options,
        compression=plan.compression,
        compression_level=plan.level,
        compression_block_size=block,
        row_index_stride=plan.stride or (WriteOptions().row_index_stride if blooms else 0),
        bloom_filter_columns=blooms,
        metadata=plan.user_metadata,
    )
