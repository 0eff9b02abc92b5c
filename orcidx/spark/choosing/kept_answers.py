"""Answers about scans that were asked before: the same filters on the same files, by the same indexes.

Spark plans the scan of a table anew in every query, often with filters that were asked before: those of a join
(``key IS NOT NULL``), or of a query that is repeated. An answer takes the driver some four milliseconds; to know that
an answer still holds takes one listing of the indexes' directory."""

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

__all__ = ["Answer", "KeptAnswers", "digest_of"]

ANSWERS_BYTES = 4 << 20
"""Memory for answers, without the ``Choice`` that ``why`` shows."""
_CHOICE_BYTES = 2000
"""Memory of a ``Choice``, about."""
_EXPRESSION = re.compile(r'"exprId":\{[^{}]*\}')
"""The number that Catalyst gives an expression, another in each query. Within a relation, names identify columns."""


@dataclass(frozen=True)
class Answer:
    """``fallen``: the numbers of the files that are left out, separated by commas. ``choice``: what ``why`` shows; None
    where there is no index."""

    fallen: str
    choice: Choice | None


def digest_of(asked: Sequence[str], listing: str = "") -> bytes:
    """The key of a question: its parts, of which the last are the filters in Catalyst's JSON, and the listing's text;
    without a listing the key of an answer that holds for every listing."""
    *about, filters = asked
    digest = hashlib.blake2b(digest_size=32)
    for text in (*about, _EXPRESSION.sub("", filters), listing):
        data = text.encode(errors="surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()


_Held: TypeAlias = tuple[Answer, tuple[tuple[IndexStore, object], ...]]


class KeptAnswers:
    """The most recently used answers of a session. Safe to use from several threads."""

    def __init__(self) -> None:
        self._kept: IdentityCache[_Held] = IdentityCache(ANSWERS_BYTES)

    def of(self, key: bytes, opened: IndexStore) -> Answer | None:
        """The answer, if all indexes that it came from are as they were. ``opened``: the indexes just opened."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        answer, stores = kept
        now = identity_of(opened)
        same = all(identity == now or identity_of(store.again()) == identity for store, identity in stores)
        return answer if same else None

    def keep(self, key: bytes, answer: Answer, stores: Sequence[IndexStore]) -> None:
        """Keeps an answer that came from these indexes."""
        held = tuple((store.forgotten(), identity_of(store)) for store in stores)
        weight = sys.getsizeof(answer.fallen) + len(key) + _CHOICE_BYTES * (1 + len(held))
        self._kept.put(key, (answer, held), weight)
