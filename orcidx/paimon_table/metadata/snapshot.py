"""Snapshots: ``snapshot/LATEST`` and ``snapshot/EARLIEST`` hold numbers, ``snapshot/snapshot-N`` is JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from orcidx.errors import CorruptFile
from orcidx.paimon.json_object import parse_json_object

__all__ = ["FIELDS", "Snapshot", "is_file_name", "parse_hint", "parse_snapshot", "snapshot_of"]

FIELDS = frozenset(
    """version uuid id schemaId baseManifestList baseManifestListSize deltaManifestList deltaManifestListSize
    changelogManifestList changelogManifestListSize indexManifest commitUser commitIdentifier commitKind timeMillis
    logOffsets totalRecordCount deltaRecordCount changelogRecordCount watermark statistics properties nextRowId
    writerVersion operation""".split()  # noqa: SIM905
)
"""Paimon 0.8 to 2.1."""
_LONG = 1 << 63
_Kind = TypeVar("_Kind", int, str)


@dataclass(frozen=True)
class Snapshot:
    """One version of a table: the manifest lists hold its files, ``index_manifest`` its index files.

    ``time_millis`` since 1970-01-01 UTC. ``None``: not recorded. ``unknown``: fields that are not
    known here and say something.
    """

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    index_manifest: str | None
    commit_kind: str | None
    total_record_count: int | None
    time_millis: int | None
    unknown: tuple[str, ...] = ()


def parse_snapshot(data: bytes | memoryview) -> Snapshot:
    """A snapshot file. Raises ``CorruptFile``."""
    return snapshot_of(parse_json_object(data, "snapshot"))


def snapshot_of(document: Mapping[str, Any]) -> Snapshot:
    """A snapshot, by the JSON object that its file holds. Raises ``CorruptFile``."""

    def required(name: str, kind: type[_Kind]) -> _Kind:
        value = document.get(name)
        if type(value) is not kind or (isinstance(value, int) and not -_LONG <= value < _LONG):
            raise CorruptFile(f"snapshot has {name} {value!r:.60}")
        return value

    def entry(name: str, kind: type[_Kind]) -> _Kind | None:
        return None if document.get(name) is None else required(name, kind)

    def file_name(name: str) -> str:
        value = required(name, str)
        if not is_file_name(value):
            raise CorruptFile(f"snapshot has {name} {value!r:.60}, which is no name of a manifest")
        return value

    return Snapshot(
        id=required("id", int),
        schema_id=required("schemaId", int),
        base_manifest_list=file_name("baseManifestList"),
        delta_manifest_list=file_name("deltaManifestList"),
        index_manifest=None if document.get("indexManifest") is None else file_name("indexManifest"),
        commit_kind=entry("commitKind", str),
        total_record_count=entry("totalRecordCount", int),
        time_millis=entry("timeMillis", int),
        unknown=tuple(sorted(name for name, value in document.items() if name not in FIELDS and value is not None)),
    )


def is_file_name(text: str) -> bool:
    """Whether it names a file within its directory. JSON can hold half a surrogate pair, which no path has."""
    if text in ("", ".", "..") or any(mark in text for mark in ("/", "\\", "\0")):
        return False
    return text.encode("utf-8", "replace").decode() == text


def parse_hint(data: bytes | memoryview) -> int | None:
    """The number in LATEST or EARLIEST; ``None`` when it is damaged, for it is only a hint."""
    text = bytes(data).strip()
    return int(text) if text.isdigit() and len(text) <= 19 else None
