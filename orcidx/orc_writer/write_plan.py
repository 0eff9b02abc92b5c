"""``WritePlan``: what all files of one schema and one set of options have in common.

A job often writes many small files with one schema. Describing the schema takes as long as encoding a few rows, so the
plans of the last files are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from orcidx.orc.footer_records import TypeRecord
from orcidx.orc_writer.arrow_types import WriteNode, describe_schema
from orcidx.orc_writer.codecs import compression_kind, open_compressor
from orcidx.orc_writer.file_layout import FileTypes
from orcidx.orc_writer.framing import Framing
from orcidx.orc_writer.options import WriteOptions

__all__ = ["WritePlan", "plan_write"]

KEPT_PLANS = 8
"""The maximum number of plans that are kept. A job that writes data files, changelogs and indexes uses a few schemas by
turns."""
MOST_KEPT_COLUMNS = 1000
"""The most columns of a file whose plan is kept. The plan of a file with more columns would take more than a megabyte
of memory."""


@dataclass(frozen=True)
class WritePlan:
    """``root``: the columns. ``types``: their types in the footer. ``framing``: how streams are compressed."""

    root: WriteNode
    types: FileTypes
    framing: Framing


_kept: tuple[tuple[Any, pa.Schema, WritePlan], ...] = ()
"""For each kept plan the options that it depends on, and its schema. The tuple is replaced as a whole, so threads need
no lock."""


def plan_write(schema: pa.Schema, options: WriteOptions) -> WritePlan:
    """The plan of a file. Raises ``Unsupported`` and ``InvalidQuery``, as ``describe_schema``."""
    global _kept
    used = (
        options.compression, options.compression_level, options.compression_block_size, options.uint64, options.time,
        options.null_type, options.spark, tuple(options.types.items()),
    )  # fmt: skip
    for entry in _kept:
        if used == entry[0] and schema.equals(entry[1], check_metadata=True):
            if entry is not _kept[0]:  # moves the plan to the front, because plans at the end are dropped
                _kept = (entry, *[other for other in _kept if other is not entry])
            return entry[2]
    root = describe_schema(schema, options)
    kind = compression_kind(options.compression)
    compressor = open_compressor(kind, options.compression_level)
    plan = WritePlan(root, FileTypes(type_records(root)), Framing(kind, compressor, options.compression_block_size))
    if len(root.all_nodes) <= MOST_KEPT_COLUMNS:
        _kept = ((used, schema, plan), *_kept[: KEPT_PLANS - 1])
    return plan


def type_records(root: WriteNode) -> list[TypeRecord]:
    """The types of the footer."""
    return [
        TypeRecord(
            kind=node.kind,
            subtypes=tuple([child.id for child in node.children]),
            field_names=node.names,
            max_length=node.max_length,
            precision=node.precision,
            scale=node.scale,
            attributes=node.attributes,
        )
        for node in root.all_nodes
    ]
