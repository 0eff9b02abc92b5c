"""Keeps the results of earlier scans: the files that were skipped. A result is used again for a scan with the same
filters, files and indexes.

Spark plans the scan of a table again in every query, often with the same filters as before. For example, every join has
the filter ``key IS NOT NULL``, and users repeat queries. Computing a result takes the driver some four milliseconds.
Finding out that a kept result is still valid takes one listing of the indexes' directory."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from orcidx.index_directory.store import IndexStore, identity_of
from orcidx.spark.choosing.choice import Choice
from orcidx.storage import IdentityCache

__all__ = ["KeptAnswer", "KeptAnswers", "digest_of"]

ANSWERS_BYTES = 4 << 20
"""Bytes of memory for results."""
_CHOICE_BYTES = 2000
"""The approximate number of bytes of memory that a ``Choice`` takes. What is kept of each index takes about as much."""
_EXPRESSION = re.compile(r'"exprId":\{[^{}]*\}')
"""The number that Catalyst gives an expression. The number differs in each query, so it is removed from the text. In a
relation, names are enough to identify columns."""


@dataclass(frozen=True)
class KeptAnswer:
    """The kept result of a scan. ``skipped``: the numbers of the skipped files, separated by commas. ``choice``: what
    ``why`` shows, or None if there is no index."""

    skipped: str
    choice: Choice | None


def digest_of(asked: Sequence[str], listing: str = "") -> bytes:
    """The key under which the result of a scan is kept. It is made from the texts in ``asked``, which describe the
    scan, and from the text of the listing. The last text in ``asked`` has the filters in Catalyst's JSON. Without a
    listing, the key is for a result that is valid for every listing."""
    *about, filters = asked
    digest = hashlib.blake2b(digest_size=32)
    for text in (*about, _EXPRESSION.sub("", filters), listing):
        data = text.encode(errors="surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()


_Held: TypeAlias = tuple[KeptAnswer, tuple[tuple[IndexStore, object], ...]]


class KeptAnswers:
    """The most recently used results of a session. Safe to use from several threads."""

    def __init__(self) -> None:
        self._kept: IdentityCache[_Held] = IdentityCache(ANSWERS_BYTES)

    def of(self, key: bytes, opened: IndexStore) -> KeptAnswer | None:
        """Returns the kept result. Returns None if there is no result, or if one of its indexes has changed.
        ``opened``: the indexes that were just opened."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        answer, stores = kept
        now = identity_of(opened)
        same = all(identity == now or identity_of(store.again()) == identity for store, identity in stores)
        return answer if same else None

    def keep(self, key: bytes, answer: KeptAnswer, stores: Sequence[IndexStore]) -> None:
        """Keeps a result that was computed with these indexes."""
        held = tuple((store.forgotten(), identity_of(store)) for store in stores)
        weight = sys.getsizeof(answer.skipped) + len(key) + _CHOICE_BYTES * (1 + len(held))
        self._kept.put(key, (answer, held), weight)
