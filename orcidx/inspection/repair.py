"""Writes the sound rows of a damaged file: row groups of which each value was decoded, and which their own statistics
do not contradict.

The rows are encoded anew, with new statistics, positions and bloom filters. Those of a damaged file cannot be trusted,
and new ones for damaged values would hide the damage. Rows are read from the start of their stripe, never by its row
index."""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby
from typing import Any, Literal

from orcidx.errors import CorruptFile, InvalidQuery, Unsupported
from orcidx.inspection.check import FileCheck
from orcidx.inspection.sizes import BLOOM_KINDS
from orcidx.orc.bounds import within_nanoseconds
from orcidx.orc.kinds import TypeKind
from orcidx.orc.row_index import usual_bounds
from orcidx.orc_writer.writer import OrcWriter, WriteResult
from orcidx.scanner.file import OrcFile
from orcidx.storage import Source

__all__ = ["write_whole"]

_TIMES = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)
_CODECS = {"NONE": "uncompressed", "ZLIB": "zlib", "SNAPPY": "snappy", "LZ4": "lz4", "ZSTD": "zstd"}


def write_whole(check: FileCheck, source: Source, out: Any, **arguments: Any) -> WriteResult:
    """Writes the whole row groups of ``source``, which ``check`` is about, to ``out`` (``arguments`` as of
    ``OrcWriter``), in their order. Timestamps keep their nanoseconds, unless some lie beyond the years 1677 to 2262.

    Raises ``InvalidQuery`` where not even the types are known, which stand at the end of a file.
    """
    if any(problem.what in ("tail", "file") for problem in check.problems):
        raise InvalidQuery("nothing of it can be written: the types of its columns stand at its end", file=source.name)
    with OrcFile(source) as file:
        wanted = _whole_ranges(check, file)
        times = [node for node in file.reader.root.walk() if node.kind in _TIMES]
        near = all(within_nanoseconds(file.tail, node, file.options) for node in times)
        unit: Literal["us", "ns"] = "ns" if near else "us"
        scan = file.scan(row_index=False, timestamp_unit=unit)
        with OrcWriter(out, scan.schema.remove_metadata(), **{**_options_like(file), **arguments}) as writer:
            for row_range in wanted:
                writer.write(file.scan(row_range=row_range, row_index=False, timestamp_unit=unit))
            return writer.close()


def _whole_ranges(check: FileCheck, file: OrcFile) -> list[tuple[int, int]]:
    """Ranges of rows of the file that consist of neighbouring sound row groups of one stripe."""
    ranges = []
    first = 0
    lost = check.broken | check.disproved
    if not file.tail.footer.row_index_stride:  # the statistics of a stripe are all that there are
        lost |= {
            (problem.stripe, 0)
            for problem in check.problems
            if problem.what == "statistics" and problem.stripe is not None
        }
    for stripe, information in enumerate(file.stripes):
        bounds = usual_bounds(file.tail, stripe).tolist()
        states = [((stripe, group) not in lost, group) for group in range(len(bounds) - 1)]
        for whole, run in groupby(states, key=lambda state: state[0]):
            groups = [group for _, group in run]
            if whole:
                ranges.append((first + bounds[groups[0]], first + bounds[groups[-1] + 1]))
        first += information.rows
    return ranges


def _options_like(file: OrcFile) -> dict[str, Any]:
    """The options of the file's writer, as far as they can be given to a new one."""
    reader = file.reader
    filtered = set()
    for stripe in range(len(file.stripes)):
        with suppress(CorruptFile, Unsupported):  # its rows are lost; other stripes have the same options
            filtered |= {column for (column, kind), _ in reader.extents(stripe).items() if kind in BLOOM_KINDS}
    types = {
        node.path[0]: f"{node.kind.name.lower()}({node.max_length})"
        for node in file.columns
        if node.kind in (TypeKind.CHAR, TypeKind.VARCHAR) and node.path
    }
    return {
        "compression": _CODECS.get(file.compression, "zstd"),
        "row_index_stride": file.tail.footer.row_index_stride,
        "bloom_filter_columns": [node.dotted for node in reader.root.walk() if node.id in filtered and node.path],
        "types": types,
        "metadata": dict(file.user_metadata),
    }
