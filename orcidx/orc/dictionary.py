"""Reads the dictionaries of string columns of one stripe, without the rows."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from orcidx.errors import located
from orcidx.fetching.drive import Fetch
from orcidx.options import ReadOptions
from orcidx.orc.column_readers import open_column
from orcidx.orc.columns.text import DictionaryStrings
from orcidx.orc.kinds import StreamKind
from orcidx.orc.reader import OpenStripe, OrcReader, stripe_limits
from orcidx.orc.stripe_streams import PlannedStream, priming_request
from orcidx.orc.types import OrcType

__all__ = ["Dictionaries", "StreamBuffers", "fetch_dictionaries"]

READ_AHEAD_BYTES = 1 << 20
"""How many bytes of each stream of a dictionary one request reads. It equals
``planner.dictionary_choice.LARGEST_DICTIONARY``."""

StreamBuffers = dict[tuple[int, StreamKind], Any]
"""The stored bytes of whole streams, by column id and kind."""


@dataclass(frozen=True)
class Dictionaries:
    """``entries``: the entries of each column as a string array. None for a column without a dictionary in the stripe.
    ``streams``: the streams that were fetched to read the dictionaries."""

    entries: list[pa.Array | None]
    streams: StreamBuffers = field(default_factory=dict)


def fetch_dictionaries(
    reader: OrcReader, stripe: int, nodes: Sequence[OrcType], options: ReadOptions
) -> Generator[Fetch, Any, Dictionaries]:
    """Reads the dictionaries of columns."""
    limits = stripe_limits(reader.stripes[stripe], options)
    opened = OpenStripe(reader, stripe, index=None, read_ahead=READ_AHEAD_BYTES, limits=limits)
    columns: list[DictionaryStrings | None] = []
    streams: dict[PlannedStream, tuple[int, StreamKind]] = {}
    for node in nodes:
        with located(file=reader.name, stripe=stripe, column=node.dotted):
            column = open_column(node, opened, options, file=reader.facts)
        columns.append(column if isinstance(column, DictionaryStrings) else None)
        if isinstance(column, DictionaryStrings):
            for kind in (StreamKind.LENGTH, StreamKind.DICTIONARY_DATA):
                streams.update(dict.fromkeys(opened.streams.sources(node.id, kind), (node.id, kind)))
    for source in streams:
        source.plan([(0, source.length)])
    wanted = priming_request(list(streams), budget=2 * READ_AHEAD_BYTES * len(nodes)) if streams else []
    answer = (yield Fetch(tuple(source.absolute(piece) for source, piece in wanted), "index")) if wanted else ()
    whole: StreamBuffers = {}
    for (source, piece), buffer in zip(wanted, answer, strict=True):
        source.put(piece[0], buffer)
        if piece == (0, source.length):
            whole[streams[source]] = buffer
    entries = []
    for node, dictionary in zip(nodes, columns, strict=True):
        with located(file=reader.name, stripe=stripe, column=node.dotted):
            entries.append(None if dictionary is None else dictionary.dictionary())
    return Dictionaries(entries, whole)
