"""Finds the cheapest way for a requested rewrite, and the reasons why a cheaper way is not possible.

    copy        stripes are copied byte for byte
    recompress  streams are cut into other chunks and positions are changed; nothing is decoded
    index       data stays; bloom filters are added or all indexes are made again, from decoded columns
    encode      rows are read and written

Recompressing and indexing can be combined. The new file names the same writer as its source if a statistic or a filter
in it comes from that writer. If the sources have several writers, all indexes are computed again. Otherwise the new
file would contain one writer's statistics under another writer's name. A reader that does not trust the statistics of
the first writer might then use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from orcidx.errors import CorruptFile, InvalidQuery, Unsupported
from orcidx.orc.file_statistics import column_statistics
from orcidx.orc.kinds import CompressionKind, TypeKind, WriterKind
from orcidx.orc.metadata import SPARK_VERSION
from orcidx.orc.reader import OrcReader
from orcidx.orc.statistics import ColumnStatistics
from orcidx.orc.types import OrcType
from orcidx.orc_writer.bloom_columns import FILTERED
from orcidx.orc_writer.codecs import compression_kind, open_compressor
from orcidx.orc_writer.compressors import Compressor
from orcidx.orc_writer.file_layout import Identity, own_identity
from orcidx.orc_writer.framing import Framing
from orcidx.orc_writer.options import WriteOptions, utf8_metadata
from orcidx.rewriting.indexing import bloom_columns_of, bloom_nodes, has_indexes, has_no_scale, is_trusted
from orcidx.rewriting.merged_statistics import has_counts
from orcidx.rewriting.ordering import Order
from orcidx.rewriting.sources import InputFile, field_id_notes

__all__ = ["RewritePlan", "RewriteRequest", "plan_rewrite"]

ENCODE_OPTIONS = frozenset(
    {"stripe_size", "dictionary_key_size_threshold", "types", "uint64", "time", "null_type", "spark"}
)
"""Options that require all rows to be encoded."""
_READ_ONLY = frozenset({CompressionKind.LZO, CompressionKind.BROTLI})
_NAMES = {kind: kind.name.lower() for kind in CompressionKind} | {CompressionKind.NONE: "uncompressed"}


@dataclass(frozen=True)
class RewriteRequest:
    """The request of the caller of ``rewrite``. ``given`` has the options of ``WriteOptions`` by name. Options that are
    left out are taken from the sources."""

    order: Order
    given: Mapping[str, Any]
    bloom_filters: tuple[str | int, ...] = ()
    schema: Any = None

    def option(self, name: str) -> Any:
        return self.given[name] if name in self.given else getattr(WriteOptions(), name)


@dataclass(frozen=True, kw_only=True)
class RewritePlan:
    """``way`` is one of the four ways in the docstring of the module, or "recompress and index". ``reasons`` says why
    no cheaper way is possible, and ``notes`` has other remarks. ``blooms`` has the ids of the columns that get bloom
    filters. ``everything`` says that all indexes are computed again."""

    way: str
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    framing: Framing
    level: int | None
    stride: int
    identity: Identity
    recompress: frozenset[int] = frozenset()
    """The numbers of the inputs whose streams are recompressed."""
    index: bool = False
    everything: bool = False
    blooms: frozenset[int] = frozenset()
    bloom_names: tuple[str, ...] = ()
    user_metadata: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def compression(self) -> str:
        return _NAMES[self.framing.kind]


def plan_rewrite(inputs: Sequence[InputFile], request: RewriteRequest) -> RewritePlan:
    """Makes the plan. Raises ``InvalidQuery`` for columns that do not exist."""
    if request.schema is None:
        request.order.check_names(inputs[0].reader.root.names)
    asked = bloom_nodes(inputs[0].reader.root, request.bloom_filters)
    kind, level, framing = _framing(inputs, request)
    strides = {one.reader.facts.row_index_stride for one in inputs if one.stripes}
    stride = request.given.get("row_index_stride", max(strides, default=10_000))
    first = inputs[0].facts
    agree = all(one.facts == first for one in inputs)
    metadata, notes = _user_metadata(inputs, request)
    if request.schema is None:
        notes += field_id_notes(inputs)
    existing = frozenset().union(*(bloom_columns_of(one.reader, one.stripes[:1]) for one in inputs))
    nodes = {node.id: node for node in inputs[0].reader.root.walk()}
    # Other writers also make bloom filters for boolean and nested columns. No reader uses these filters, so they are
    # dropped.
    existing = frozenset(id for id in existing if id not in nodes or nodes[id].kind in FILTERED)
    if request.given.get("row_index_stride") == 0 and asked:
        raise InvalidQuery(
            "row_index_stride is 0, but bloom_filters needs row groups, because each row group has its own bloom "
            "filter; give a row_index_stride above 0, or no bloom_filters"
        )
    if request.given.get("row_index_stride") == 0 and existing:
        names = ", ".join(repr(nodes[id].dotted) for id in sorted(existing) if id in nodes)
        notes += (f"the bloom filters of {names} are left out, because a file without row groups has none",)
        existing = frozenset()
    blooms = existing | {node.id for node in asked}
    plan = RewritePlan(
        way="copy",
        reasons=(),
        notes=notes,
        framing=framing,
        level=level,
        stride=stride,
        identity=first.identity,
        bloom_names=tuple(nodes[id].dotted for id in sorted(blooms) if id in nodes),
        user_metadata=metadata,
    )
    if reasons := tuple(_why_encode(inputs, request, strides, stride)):
        return encoded(plan, reasons)
    forced = kind is not None and (level is not None or "compression_block_size" in request.given)
    recompress = frozenset(
        number
        for number, one in enumerate(inputs)
        if forced
        or one.reader.facts.compression is not framing.kind
        or (framing.compressor is not None and one.reader.facts.block_size > framing.block_size)
    )
    without, notes = _left_out(nodes[id] for id in sorted(blooms) if id in nodes)
    blooms, plan = blooms - without, replace(plan, notes=(*plan.notes, *notes))
    everywhere = [bloom_columns_of(one.reader, one.stripes) for one in inputs if one.stripes]
    missing = {id for id in blooms if any(id not in here for here in everywhere)}
    why_anew = _why_new_indexes(inputs, agree, [nodes[id] for id in sorted(missing)])
    everything = why_anew is not None
    if (everything or missing) and not all(has_indexes(one.reader, one.stripes) for one in inputs):
        return encoded(plan, ((why_anew or "bloom filters are added") + ", but a file has no row index",))
    return _patched(plan, recompress, blooms if everything else frozenset(missing), why_anew)


def _left_out(nodes: Iterable[OrcType]) -> tuple[frozenset[int], tuple[str, ...]]:
    """The ids of the columns that get no bloom filter if their streams are kept, and a note for each column."""
    found = {node.id: node.dotted for node in nodes if has_no_scale(node)}
    return frozenset(found), tuple(
        f"{name!r} gets no bloom filter unless rows are encoded, because the digits of a DECIMAL of precision 0 depend "
        "on the options of the reader"
        for name in found.values()
    )


def _patched(
    plan: RewritePlan, recompress: frozenset[int], blooms: frozenset[int], why_anew: str | None
) -> RewritePlan:
    index = why_anew is not None or bool(blooms)
    ways = [name for name, does in (("recompress", bool(recompress)), ("index", index)) if does]
    reasons = []
    if recompress:
        compressed = plan.framing.kind is not CompressionKind.NONE
        reasons.append(f"streams are compressed as {plan.compression}" if compressed else "streams are decompressed")
    if index:
        reasons.append(why_anew or "bloom filters are added")
    identity, metadata = plan.identity, plan.user_metadata
    if why_anew is not None:
        identity = own_identity()
        metadata = without_spark(metadata)
    return replace(
        plan,
        way=" and ".join(ways) or "copy",
        reasons=tuple(reasons),
        recompress=recompress,
        index=index,
        everything=why_anew is not None,
        blooms=blooms,
        identity=identity,
        user_metadata=metadata,
    )


def encoded(plan: RewritePlan, reasons: Iterable[str]) -> RewritePlan:
    """Changes the plan to encode all rows."""
    framing = plan.framing
    if framing.kind in _READ_ONLY:
        kind = CompressionKind.ZSTD
        framing = Framing(kind, open_compressor(kind, plan.level), framing.block_size)
    return replace(
        plan, way="encode", reasons=tuple(reasons), framing=framing, identity=own_identity(), index=False,
        everything=False, recompress=frozenset(), user_metadata=without_spark(plan.user_metadata),
    )  # fmt: skip


def unions_without_nulls(inputs: Sequence[InputFile], request: RewriteRequest) -> tuple[str, ...]:
    """Returns a note for each union if its statistics do not say whether it has nulls. Raises ``Unsupported`` for a
    union that has nulls. Arrow has no nulls of unions, so encoding would turn these nulls into nulls of the first
    variant."""
    names: dict[str, None] = {}
    for one in inputs:
        for node, struct in _with_structs(one.reader.root):
            if node.kind is not TypeKind.UNION or not _is_wanted(node.dotted, request.schema):
                continue
            nulls = _has_nulls(one.reader, node, struct)
            if nulls:
                raise Unsupported(
                    "the union has nulls, but unions in Arrow cannot have nulls, so each null would become a null of "
                    "the union's first variant. To keep the nulls, rewrite without sort_by= and cluster_by=, and with "
                    "the same number of rows in a row group. Or leave the column out by schema=",
                    file=one.name,
                    column=node.dotted,
                )
            if nulls is None:
                names[node.dotted] = None
    return tuple(
        f"nulls of the union {name!r}, if any, become nulls of its first variant, because Arrow has no nulls of unions"
        for name in names
    )


def _is_wanted(dotted: str, schema: pa.Schema | None) -> bool:
    return schema is None or any(dotted == name or dotted.startswith(f"{name}.") for name in schema.names)


def _with_structs(node: OrcType, struct: OrcType | None = None) -> Iterator[tuple[OrcType, OrcType | None]]:
    """All columns. For each field of a struct below the top level, this struct is returned, too."""
    yield node, struct
    for child in node.children:
        yield from _with_structs(child, node if node.id and node.kind is TypeKind.STRUCT else None)


def _has_nulls(reader: OrcReader, node: OrcType, struct: OrcType | None) -> bool | None:
    """Whether a column has nulls according to the statistics of the file. Nulls of ``struct``, which contains the
    column, do not count. The result is None if the statistics have no information on nulls."""
    known = _statistics(reader, node)
    if known is None or not known.has_null or struct is None:
        return None if known is None else known.has_null
    # If the struct has nulls, writers set has_null for the field, too, even if the field itself has no nulls. So the
    # numbers of values are compared: the field has no nulls of its own if it has as many values as the struct.
    outer = _statistics(reader, struct)
    return outer is None or known.count is None or outer.count != known.count


def _statistics(reader: OrcReader, node: OrcType) -> ColumnStatistics | None:
    try:
        return column_statistics(reader, node.id, None, None)
    except (CorruptFile, Unsupported):  # the data may be intact
        return None


def without_spark(metadata: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns the user metadata without the entry for Spark's version. With this entry, readers assume that Spark
    computed the statistics."""
    return {key: value for key, value in metadata.items() if key != SPARK_VERSION}


def _framing(
    inputs: Sequence[InputFile], request: RewriteRequest
) -> tuple[CompressionKind | None, int | None, Framing]:
    level = request.given.get("compression_level")
    asked = compression_kind(request.given["compression"]) if "compression" in request.given else None
    if asked is None and (level is not None or "compression_block_size" in request.given):
        asked = inputs[0].reader.facts.compression
    kind = inputs[0].reader.facts.compression if asked is None else asked
    if asked in _READ_ONLY:
        raise InvalidQuery(
            f"{inputs[0].name} is compressed as {_NAMES[kind]}, which orcidx cannot write; give compression="
        )
    blocks = [one.reader.facts.block_size for one in inputs if one.reader.facts.compressed]
    block = request.given.get("compression_block_size", max(blocks, default=WriteOptions().compression_block_size))
    compressor = open_compressor(kind, level) if kind not in _READ_ONLY else _stored()
    return asked, level, Framing(kind, compressor, block)


def _stored() -> Compressor:
    """The compressor for footers if orcidx cannot write the codec of the file. This compressor stores the chunks
    uncompressed. The format allows uncompressed chunks with every codec."""
    return Compressor(name="stored", through=lambda raw: bytes(raw))


def _why_encode(inputs: Sequence[InputFile], request: RewriteRequest, strides: set[int], stride: int) -> Iterable[str]:
    if request.order:
        yield f"rows are {request.order}"
    if request.schema is not None:
        yield "rows are read into another schema"
    for name in sorted(ENCODE_OPTIONS & request.given.keys()):
        yield f"{name} is given"
    if strides - {stride}:
        if "row_index_stride" not in request.given:
            yield f"the files have row groups of {' and '.join(map(str, sorted(strides)))} rows"
        else:
            yield f"row groups of {stride} rows are requested" if stride else "a file without row groups is requested"
    if any(one.reader.facts.decimal64 for one in inputs):
        yield "the file has the draft version 2 of the format"


def _why_new_indexes(inputs: Sequence[InputFile], agree: bool, missing: Sequence[Any]) -> str | None:
    """The reason why all indexes must be computed again. The result is None if the existing indexes can be kept."""
    first = inputs[0]
    if not agree:
        return "the files come from several writers"
    if len(inputs) > 1:
        if first.reader.facts.writer == WriterKind.JAVA and first.reader.facts.writer_version == 0:
            return "bounds of Java's first writers cannot be merged (HIVE-8732)"
        counted = all(
            has_counts(one.reader.tail.footer.raw_statistics(column))
            for one in inputs
            if one.rows
            for column in range(one.reader.tail.columns)
        )
        if not counted:
            return "a file has no statistics that can be merged"
    for node in missing:
        if not is_trusted(node, first.reader) and node.kind is not TypeKind.FLOAT:
            return f"readers would not trust filters of {node.dotted} under the name of the file's writer"
    return None


def _user_metadata(inputs: Sequence[InputFile], request: RewriteRequest) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """User metadata for which all files have the same value, and the caller's user metadata."""
    joined: dict[str, bytes] = {}
    dropped: dict[str, None] = {}
    for one in inputs:
        for key, value in one.reader.tail.footer.user_metadata.items():
            if joined.setdefault(key, value) != value:
                dropped[key] = None
    given = utf8_metadata(request.option("metadata"))
    differ = [key for key in dropped if key not in given]
    notes = tuple(f"user metadata {key!r} differs between the files and is left out" for key in differ)
    return {key: value for key, value in joined.items() if key not in dropped} | given, notes
