"""What a caller may say in the options of a read, before any file is looked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from orcidx.errors import InvalidQuery

if TYPE_CHECKING:
    from orcidx.spark.query.plan import Query

__all__ = ["check_words"]


def check_words(query: Query) -> None:
    """Raises ``InvalidQuery`` for the first option of a ``Query`` that cannot be meant."""
    if query.format not in (None, "orc", "paimon"):
        raise InvalidQuery(f"format is 'orc' or 'paimon', not {query.format!r}")
    for name, least in (("target_bytes", 1), ("limit", 0), ("snapshot_id", 0)):
        value = getattr(query, name)
        if value is None and name != "target_bytes":
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidQuery(f"{name} is a whole number, not {value!r:.80}")
        if value < least:
            refused = "negative" if not least else f"below {least}"
            raise InvalidQuery(f"{name} must not be {refused}, and is {value}")
    for name in ("deletion_vector", "file_index", "storage_options"):
        value = getattr(query, name)
        if value is not None and not isinstance(value, Mapping):
            key = "option" if name == "storage_options" else "path"
            raise InvalidQuery(f"{name} is {{{key}: ...}}, not {value!r:.80}")
    if isinstance(query.columns, str):
        raise InvalidQuery(f"columns is a list: give [{query.columns!r}]")
    if isinstance(query.top, str):
        raise InvalidQuery(f"top is a list: give [{query.top!r}]")
    if query.top is not None and query.limit is None:
        raise InvalidQuery("top gives the first rows in an order; say how many by limit")
