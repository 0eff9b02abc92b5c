"""The dictionary of a string column in one stripe, read by itself."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pyarrow as pa

from orcidx.errors import located
from orcidx.io_loop import Fetch
from orcidx.options import ReadOptions
from orcidx.orc.column_readers import open_column
from orcidx.orc.columns.base import Limits
from orcidx.orc.columns.text import DictionaryStrings
from orcidx.orc.kinds import StreamKind
from orcidx.orc.reader import OpenStripe, OrcReader
from orcidx.orc.stripe_streams import priming_request
from orcidx.orc.types import OrcType

__all__ = ["fetch_dictionary"]

READ_AHEAD = 1 << 20


def fetch_dictionary(
    reader: OrcReader, stripe: int, node: OrcType, options: ReadOptions
) -> Generator[Fetch, Any, pa.Array | None]:
    """The entries of a column as a string array; None where the stripe has no dictionary of it."""
    opened = OpenStripe(reader, stripe, index=None, read_ahead=READ_AHEAD, limits=Limits(options.batch_bytes))
    with located(file=reader.name, stripe=stripe, column=node.dotted):
        column = open_column(node, opened, options, file=reader.facts)
        if not isinstance(column, DictionaryStrings):
            return None
        streams = [opened.source(node.id, kind) for kind in (StreamKind.LENGTH, StreamKind.DICTIONARY_DATA)]
        for source in streams:
            source.plan([(0, source.length)])
        wanted = priming_request(streams, budget=2 * READ_AHEAD)
        answer = (yield Fetch(tuple(source.absolute(piece) for source, piece in wanted), "index")) if wanted else ()
        for (source, piece), buffer in zip(wanted, answer, strict=True):
            source.put(piece[0], buffer)
        return column.dictionary()
