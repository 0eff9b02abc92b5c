"""Reads snapshots. ``snapshot/LATEST`` and ``snapshot/EARLIEST`` contain numbers, ``snapshot/snapshot-N`` is JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from orcidx.errors import CorruptFile
from orcidx.paimon.json_object import parse_json_object

__all__ = [
    "LONG_LIMIT",
    "Snapshot",
    "is_file_name",
    "parse_document",
    "parse_hint",
    "parse_snapshot",
    "snapshot_of",
]

_FIELDS = frozenset(
    """version uuid id schemaId baseManifestList baseManifestListSize deltaManifestList deltaManifestListSize
    changelogManifestList changelogManifestListSize indexManifest commitUser commitIdentifier commitKind timeMillis
    logOffsets totalRecordCount deltaRecordCount changelogRecordCount watermark statistics properties nextRowId
    writerVersion operation""".split()  # noqa: SIM905
)
"""The fields of snapshots of Paimon 0.8 to 2.1."""
_KINDS: Mapping[str, Any] = {
    **dict.fromkeys(("id", "schemaId", "totalRecordCount", "timeMillis"), int),
    **dict.fromkeys(("baseManifestList", "deltaManifestList", "indexManifest", "commitKind"), str),
}
"""The fields that orcidx reads."""
_OPTIONAL = frozenset(("indexManifest", "commitKind", "totalRecordCount", "timeMillis"))
_FILE_NAMES = frozenset(("baseManifestList", "deltaManifestList", "indexManifest"))
KEPT_SNAPSHOTS, LARGEST_KEPT_SNAPSHOT = 8, 16 << 10
"""How many parsed snapshots are kept, and the largest text of a kept snapshot in bytes."""
LONG_LIMIT = 1 << 63
"""A Java long is at least ``-LONG_LIMIT`` and less than ``LONG_LIMIT``."""


@dataclass(frozen=True)
class Snapshot:
    """One version of a table. The data files are found through the snapshot's manifest lists, and the index files
    through ``index_manifest``.

    ``time_millis``: milliseconds since 1970-01-01 UTC. ``None`` means that the snapshot file does not have the value.
    ``unknown``: fields that orcidx does not know and that have a value. ``document``: the JSON object of the file."""

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    index_manifest: str | None
    commit_kind: str | None
    total_record_count: int | None
    time_millis: int | None
    unknown: tuple[str, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


def parse_snapshot(data: bytes | memoryview) -> Snapshot:
    """Reads a snapshot file. Raises ``CorruptFile`` if the file is damaged."""
    return snapshot_of(parse_document(data))


def parse_document(data: bytes | memoryview) -> dict[str, Any]:
    """Reads the JSON object of a snapshot file. Raises ``CorruptFile`` for a damaged file. The objects that were read
    last are cached, because a change reads the same snapshot several times. So the caller must not change the
    object."""
    text = bytes(data)
    return _kept_document(text) if len(text) <= LARGEST_KEPT_SNAPSHOT else _kept_document.__wrapped__(text)


@lru_cache(KEPT_SNAPSHOTS)
def _kept_document(text: bytes) -> dict[str, Any]:
    return parse_json_object(text, "the snapshot")


def snapshot_of(document: Mapping[str, Any]) -> Snapshot:
    """Makes a snapshot from the JSON object of a snapshot file. Raises ``CorruptFile`` if a value of the object is not
    valid."""

    for name, kind in _KINDS.items():
        value: Any = document.get(name)
        if value is None and name in _OPTIONAL:
            continue
        if type(value) is not kind or (kind is int and not -LONG_LIMIT <= value < LONG_LIMIT):
            raise CorruptFile(f"the snapshot has an invalid {name}: {value!r:.60}")
        if name in _FILE_NAMES and not is_file_name(value):
            raise CorruptFile(f"the snapshot has {name} {value!r:.60}, which is not the name of a manifest")
    return Snapshot(
        id=document["id"],
        schema_id=document["schemaId"],
        base_manifest_list=document["baseManifestList"],
        delta_manifest_list=document["deltaManifestList"],
        index_manifest=document.get("indexManifest"),
        commit_kind=document.get("commitKind"),
        total_record_count=document.get("totalRecordCount"),
        time_millis=document.get("timeMillis"),
        unknown=tuple(sorted([name for name in document.keys() - _FIELDS if document[name] is not None])),
        document=document,
    )


def is_file_name(text: str) -> bool:
    """Whether the text can be the name of a file, without a directory. A JSON string can have half a surrogate pair,
    but a path cannot."""
    if text in ("", ".", "..") or "/" in text or "\\" in text or "\0" in text:
        return False
    return text.encode("utf-8", "replace").decode() == text


def parse_hint(data: bytes | memoryview) -> int | None:
    """The number in LATEST or EARLIEST. The result is ``None`` if the file is damaged. A damaged file is not an error,
    because the file is only a hint."""
    text = bytes(data).strip()
    return int(text) if text.isdigit() and len(text) <= 19 else None
