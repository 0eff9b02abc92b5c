"""Snapshots: ``snapshot/LATEST`` and ``snapshot/EARLIEST`` hold numbers, ``snapshot/snapshot-N`` is JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orcidx.errors import CorruptFile
from orcidx.paimon.json_object import parse_json_object

__all__ = ["Snapshot", "parse_hint", "parse_snapshot"]


@dataclass(frozen=True)
class Snapshot:
    """One version of a table: the manifest lists hold its files, ``index_manifest`` its index files.

    ``time_millis`` since 1970-01-01 UTC. ``None``: not recorded.
    """

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    index_manifest: str | None
    commit_kind: str | None
    total_record_count: int | None
    time_millis: int | None


def parse_snapshot(data: bytes | memoryview) -> Snapshot:
    """A snapshot file. Raises ``CorruptFile``."""
    document = parse_json_object(data, "snapshot")

    def entry(name: str, kind: type, *, required: bool = False) -> Any:
        value = document.get(name)
        if value is None and not required:
            return None
        if type(value) is not kind:
            raise CorruptFile(f"snapshot has {name} {value!r:.60}")
        return value

    return Snapshot(
        id=entry("id", int, required=True),
        schema_id=entry("schemaId", int, required=True),
        base_manifest_list=entry("baseManifestList", str, required=True),
        delta_manifest_list=entry("deltaManifestList", str, required=True),
        index_manifest=entry("indexManifest", str),
        commit_kind=entry("commitKind", str),
        total_record_count=entry("totalRecordCount", int),
        time_millis=entry("timeMillis", int),
    )


def parse_hint(data: bytes | memoryview) -> int | None:
    """The number in LATEST or EARLIEST; ``None`` when it is damaged, for it is only a hint."""
    text = bytes(data).strip()
    return int(text) if text.isdigit() and len(text) <= 19 else None
