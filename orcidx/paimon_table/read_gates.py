"""Options of a table that a scan does not support: they are refused where Paimon's Java would give other rows, else
noted.

A change has an allow-list (``option_gates``). A scan refuses only options that are known to change rows, so that a
table of a newer Paimon stays readable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orcidx.errors import Unsupported
from orcidx.paimon_table.commit.option_gates import is_known
from orcidx.paimon_table.metadata.schema import TableSchema
from orcidx.pruning.findings import Note

__all__ = ["check_reading", "unknown_notes"]

_BRANCHES = "its rows come from another branch as well"
_OTHERS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "type": (("table", "materialized-table"), "it has no rows of its own"),
    "branch": (("main", ""), "its rows are those of the branch: open the directory branch/branch-NAME"),
    "data-evolution.enabled": (("false",), "rows are spread over several files"),
    "chain-table.enabled": (("false",), _BRANCHES),
    "query-auth.enabled": (("false",), "a catalog decides who may see which rows; go through it"),
    "scan.fallback-branch": ((), _BRANCHES),
    "scan.primary-branch": ((), _BRANCHES),
    "scan.fallback-snapshot-branch": ((), _BRANCHES),
    "scan.fallback-delta-branch": ((), _BRANCHES),
}
"""Options that change the rows, unless they have one of these values."""
_CHOOSES = "queries of the table then read other rows than those of the newest snapshot; choose one by snapshot_id="
_OF_NEWEST: Mapping[str, tuple[str, ...]] = {
    "scan.mode": ("default", "latest", "latest-full", "full"),
    **dict.fromkeys(
        """scan.snapshot-id scan.tag-name scan.timestamp scan.timestamp-millis scan.version scan.watermark scan.bucket
        scan.creation-time-millis scan.file-creation-time-millis incremental-between incremental-between-timestamp
        incremental-between-tag-to-snapshot incremental-to-auto-tag""".split(),  # noqa: SIM905
        (),
    ),
}


def check_reading(schema: TableSchema, *, latest: bool) -> None:
    """Raises ``Unsupported`` naming an option with which Paimon's Java gives other rows. ``latest``: the caller
    has not chosen a snapshot."""
    for option, value in schema.options.items():
        wanted, why = _OTHERS.get(option, (None, ""))
        if wanted is None and latest:
            wanted, why = _OF_NEWEST.get(option), _CHOOSES
        if wanted is not None and value.strip().lower() not in wanted:
            raise Unsupported(f"the table has the option {option} = {value!r:.60}: {why}")


def unknown_notes(schema: TableSchema, keys: Iterable[str]) -> list[Note]:
    """A note that names what orcidx does not know: options, keys of the schema, and ``keys`` of snapshot and
    manifests."""
    options = [f"option {name!r}" for name in schema.options if not is_known(name)]
    found = [*options, *(f"key {key!r} of schema {schema.id}" for key in schema.unknown), *keys]
    if not found:
        return []
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return [Note("table", "distrusted", f"not known, and ignored: {', '.join(found[:5])}{more}")]
