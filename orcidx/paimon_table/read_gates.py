"""Checks the options of a table before a scan. An option is refused if it makes Paimon's Java return other rows than
orcidx would return. A note lists unknown options.

A change accepts only the options in its allow-list (``option_gates``). A scan accepts every option that is not known to
change the rows. So orcidx can scan tables of newer versions of Paimon."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orcidx.errors import Unsupported
from orcidx.paimon_table.commit.option_gates import is_known
from orcidx.paimon_table.metadata.schema import TableSchema
from orcidx.pruning.findings import Note

__all__ = ["check_reading", "unknown_notes"]

_BRANCHES = "the table also has rows of another branch"
_OTHERS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "type": (("table", "materialized-table"), "a table of this type stores no rows of its own"),
    "branch": (("main", ""), "the table shows the rows of that branch; open the directory branch/branch-NAME"),
    "data-evolution.enabled": (("false",), "the columns of a row are spread over several files"),
    "chain-table.enabled": (("false",), _BRANCHES),
    "query-auth.enabled": (("false",), "a catalog decides who may see which rows; read the table through the catalog"),
    "scan.fallback-branch": ((), _BRANCHES),
    "scan.primary-branch": ((), _BRANCHES),
    "scan.fallback-snapshot-branch": ((), _BRANCHES),
    "scan.fallback-delta-branch": ((), _BRANCHES),
}
"""Each of these options changes the rows unless it has one of the values. The text is the reason in the error."""
_CHOOSES = "with this option, queries of the table do not read the newest snapshot; choose a snapshot by snapshot_id="
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
    """Raises ``Unsupported`` if an option makes Paimon's Java return other rows than orcidx would return. ``latest``:
    whether the newest snapshot is read because the caller has not chosen a snapshot."""
    for option, value in schema.options.items():
        wanted, why = _OTHERS.get(option, (None, ""))
        if wanted is None and latest:
            wanted, why = _OF_NEWEST.get(option), _CHOOSES
        if wanted is not None and value.strip().lower() not in wanted:
            raise Unsupported(f"the table option {option} = {value!r:.60} is not supported: {why}")


def unknown_notes(schema: TableSchema, keys: Iterable[str]) -> list[Note]:
    """Returns a note about the names that orcidx does not know: options of the table, keys of the table's schema, and
    the names in ``keys`` (from the snapshot and the manifests). The result is empty if there are no such names."""
    options = [f"option {name!r}" for name in schema.options if not is_known(name)]
    found = [*options, *(f"key {key!r} of schema {schema.id}" for key in schema.unknown), *keys]
    if not found:
        return []
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return [Note("table", "distrusted", f"orcidx does not know and ignores: {', '.join(found[:5])}{more}")]
