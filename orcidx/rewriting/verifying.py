"""Reads the written file before it gets its name, and compares it with the sources."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from orcidx.errors import CorruptFile, StorageError
from orcidx.inspection.check import check_file
from orcidx.options import ReadOptions
from orcidx.orc.compression import decompressed_chunks, open_codec
from orcidx.orc.kinds import STREAM_NAMES, StreamKind
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.reader import OrcReader
from orcidx.orc.row_index import build_row_index
from orcidx.planner.request import FileJob
from orcidx.predicate import col
from orcidx.rewriting.patching import stripe_digest
from orcidx.rewriting.row_hashes import RowsSeen, rows_seen
from orcidx.rewriting.sources import InputFile, rows_in
from orcidx.spellings import counted
from orcidx.storage import Source

__all__ = ["verify_patched", "verify_rows", "verify_sources"]

_SAMPLED_STRIPES = 4
_SAMPLED_VALUES = 5
"""The number of stripes that are checked, and the number of values per stripe that are looked up in new bloom filters.
A few values are enough to find a wrong filter."""


def _wrong(name: str, what: str) -> StorageError:
    return StorageError(f"the written file differs from the sources: {what}; no file was published", file=name)


def verify_patched(
    draft: Source,
    name: str,
    inputs: Sequence[InputFile],
    digests: Sequence[int | dict[tuple[int, int], int]],
    *,
    blooms: Sequence[str],
    options: ReadOptions,
    read: ReadOptions,
) -> None:
    """Raises ``StorageError`` unless each stripe has the streams and rows of its source, and usable indexes. Raises
    ``CorruptFile`` for a source with a value that cannot be decoded, or that contradicts its statistics or filters.

    The new indexes were computed with ``options``. ``read`` are the options of the caller."""
    storage = draft.open(options)
    try:
        reader = OrcReader(storage, MetadataLimits.of(options))
        rows = sum(one.rows for one in inputs)
        if reader.tail.footer.rows != rows or len(reader.stripes) != len(digests):
            raise _wrong(
                name,
                f"the written file has {reader.tail.footer.rows} rows in {len(reader.stripes)} stripes, but {rows} "
                f"rows in {len(digests)} stripes were written",
            )
        if str(reader.root) != str(inputs[0].reader.root):
            raise _wrong(name, f"it has the type {reader.root} instead of {inputs[0].reader.root}")
        sources = [(one.reader, stripe) for one in inputs for stripe in one.stripes]
        for number, (digest, (source, stripe)) in enumerate(zip(digests, sources, strict=True)):
            if isinstance(digest, int):
                if stripe_digest(reader, number) != digest:
                    raise _wrong(name, f"stripe {number} has other bytes")
                reader.footer(number)
            else:
                _verify_streams(reader, number, digest, name)
                _verify_index(reader, number, source, stripe, name)
        _verify_blooms(draft, reader, blooms, name, options)
    except CorruptFile as error:
        raise _wrong(name, str(error)) from error
    finally:
        storage.close()
    _verify_values(draft, read, [(one.name, stripe) for one in inputs for stripe in one.stripes])


def verify_sources(inputs: Sequence[InputFile], options: ReadOptions) -> None:
    """Raises ``CorruptFile`` for a source with a value that cannot be decoded, or that contradicts its statistics or
    filters. The new statistics of the encoded file would hide such a value."""
    for one in inputs:
        _verify_values(one.source, options, [(one.name, stripe) for stripe in range(len(one.reader.stripes))])


def _verify_values(made: Source, options: ReadOptions, origins: Sequence[tuple[str, int]]) -> None:
    """Decodes stripes that were copied as bytes, or that will be encoded. Without this step, damage could be copied
    into a file that counts as verified. ``origins`` has the file and the stripe from which each stripe comes."""
    problems = check_file(made, options=options).problems
    if not problems:
        return
    first = problems[0]
    several = f", and {counted(len(problems) - 1, 'more problem')}" if len(problems) > 1 else ""
    file, stripe = (origins[0][0] if origins else made.name, None) if first.stripe is None else origins[first.stripe]
    text = f"{replace(first, stripe=stripe)}{several}; no file was published; run orcidx check for details"
    raise CorruptFile(text, file=file)


def _verify_streams(reader: OrcReader, stripe: int, digests: dict[tuple[int, int], int], name: str) -> None:
    codec = open_codec(reader.facts.compression)
    extents = reader.extents(stripe)
    for (column, kind), digest in digests.items():
        stored = column < 0
        offset, length = extents.get((-1 - column if stored else column, kind), (0, 0))
        data = reader.storage.read_ranges([(offset, length)])[0] if length else b""
        found = zlib.crc32(data)
        if not stored:
            found = 0
            title = STREAM_NAMES[StreamKind(kind)]
            for _, chunk in decompressed_chunks(data, codec, reader.facts.block_size, name=title):
                found = zlib.crc32(chunk, found)
        if found != digest:
            raise _wrong(name, f"stream {STREAM_NAMES[StreamKind(kind)]} of stripe {stripe} differs")


def _verify_index(reader: OrcReader, stripe: int, source: OrcReader, number: int, name: str) -> None:
    """Checks that every row index that is usable in the source is also usable in the written file."""
    here, there = (_unseekable(one, at) for one, at in ((reader, stripe), (source, number)))
    if here - there:
        raise _wrong(name, f"the row index of column id {min(here - there)} in stripe {stripe} cannot be used")


def _unseekable(reader: OrcReader, stripe: int) -> set[int]:
    footer = reader.footer(stripe)
    places = {column: at for (column, kind), at in footer.streams.items() if kind == StreamKind.ROW_INDEX and at[1]}
    nodes = [node for node in reader.root.walk() if node.id in places]
    buffers = dict(zip(places, reader.storage.read_ranges(list(places.values()))))
    index = build_row_index(reader.tail, stripe, footer, nodes, buffers)
    return {node.id for node in nodes if index.unseekable([node.id]) is not None}


def _verify_blooms(draft: Source, reader: OrcReader, blooms: Sequence[str], name: str, options: ReadOptions) -> None:
    """Checks that the filters contain a sample of the values of each column."""
    tops = {top.path[0]: top for top in reader.root.children}
    step = max(1, len(reader.stripes) // _SAMPLED_STRIPES)
    for column in blooms:
        if column not in tops:
            continue  # a nested column, which predicates cannot reach by this name
        for stripe in range(0, len(reader.stripes), step):
            job = FileJob(draft, stripes=(stripe,))
            for value in _sampled(job, column, options):
                where = col(column) == value
                with_filters, without = (
                    rows_in([job], [(column,)], where, options=options.override(bloom_filters=use)).count_rows()
                    for use in (True, False)
                )
                if with_filters != without:
                    raise _wrong(name, f"the bloom filter of {column} in stripe {stripe} lacks the value {value!r}")


def _sampled(job: FileJob, column: str, options: ReadOptions) -> Iterator[Any]:
    for batch in rows_in([job], [(column,)], limit=1 << 14, options=options):
        values = batch.column(0).drop_null()
        if len(values):
            places = np.linspace(0, len(values) - 1, min(_SAMPLED_VALUES, len(values))).astype(int)
            yield from (values[int(place)] for place in dict.fromkeys(places.tolist()))
        return


def verify_rows(draft: Source, name: str, seen: RowsSeen, *, ordered: bool, options: ReadOptions) -> None:
    """Raises ``StorageError`` unless the file has the rows that were written. With ``ordered``, the order of the rows
    must also be the same."""
    scan = rows_in([FileJob(draft)], options=options)
    try:
        found = rows_seen(scan)
    except CorruptFile as error:
        raise _wrong(name, str(error)) from error
    same = found == seen if ordered else found.same_rows(seen)
    if not same:
        what = f"it has {found.rows} rows instead of {seen.rows}" if found.rows != seen.rows else "other values"
        raise _wrong(name, what)
