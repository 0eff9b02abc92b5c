"""Builds the file index of one data file of a directory, and makes the file's row in the catalog.

The result does not depend on the machine or on earlier runs. The index has the same bytes on every machine, and its
name contains the file's version and the spec. A second run uses an index that already has this name.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from orcidx.errors import CorruptFile, InvalidQuery, OrcidxError, StorageError, located
from orcidx.index_directory.catalog import FILE_FIELDS, INDEX_FOLDER, OBSERVED, observe
from orcidx.index_directory.kept_tails import tail_bytes
from orcidx.index_directory.store import whole_object
from orcidx.options import ReadOptions
from orcidx.paimon.body import Body
from orcidx.paimon.build import FileIndexBuilder, Spec, columns_of, plain_spec
from orcidx.paimon.container import read_container, split_map_key
from orcidx.paimon.file_index_options import DEFAULT_THRESHOLD, FileIndexOptions
from orcidx.scanner.file import OrcFile
from orcidx.storage import Fingerprint, Source, describe_source
from orcidx.storage.folder import Folder

__all__ = ["INDEXED", "IndexSpec", "index_file"]

_LONGEST_NAME = 200
"""The maximum number of bytes of a name. File systems allow 255 bytes, but an ending is added to the name of an
index."""
_TICK_NANOS, _COARSE_TICK_NANOS = 100_000_000, 2_000_000_000
"""The resolution of modification times in nanoseconds. Two writes to a file within this time may have the same
modification time, because some file systems store times in whole seconds."""

INDEXED = FILE_FIELDS.append(pa.field("statistics", OBSERVED)).append(pa.field("is_final", pa.bool_()))
"""The schema of the row that ``index_file`` returns. ``is_final`` says that a second run would give the same result, or
the same error."""


@dataclass(frozen=True)
class IndexSpec:
    """The indexes to build. ``spec`` and ``types`` have the form of ``paimon.build_file_index``, as plain JSON values.

    An index of at most ``embedded_bytes`` is stored in the catalog instead of in its own file.
    """

    spec: Spec
    types: Mapping[str, str]
    embedded_bytes: int = DEFAULT_THRESHOLD

    @staticmethod
    def of(
        spec: Spec | FileIndexOptions, types: Mapping[str, Any] | None = None, *, embedded_bytes: int | None = None
    ) -> IndexSpec:
        """Makes a spec. If ``embedded_bytes`` is None, the threshold in the options is used, or Paimon's default.
        Raises ``InvalidQuery`` if there is nothing to build."""
        plain = plain_spec(spec)
        if not any(plain.values()):
            raise InvalidQuery('spec contains no index; give an index such as {"bloom-filter": {"id": {}}}')
        if embedded_bytes is None:
            embedded_bytes = spec.in_manifest_threshold if isinstance(spec, FileIndexOptions) else DEFAULT_THRESHOLD
        return IndexSpec(plain, {name: str(kind) for name, kind in (types or {}).items()}, embedded_bytes)

    @property
    def key(self) -> str:
        """Sixteen hexadecimal digits that identify the spec. The order of kinds in the spec matters, because the bytes
        of an index depend on this order."""
        return _digest([self.spec, sorted(self.types.items()), self.embedded_bytes])

    def to_dict(self) -> dict[str, Any]:
        """The spec as JSON values, from which ``IndexSpec(**d)`` makes the spec again."""
        return {"spec": self.spec, "types": dict(self.types), "embedded_bytes": self.embedded_bytes}

    def pairs(self) -> list[tuple[str, str]]:
        """The pair (column, kind) of each index."""
        return [(column, kind) for kind, columns in self.spec.items() for column in columns]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def index_name(path: str, source: Source, spec: IndexSpec) -> str:
    """The name of the index of one version of a file. The name is relative to ``_orcidx/``."""
    version = source.listed
    known = None if version is None else [version.size, version.etag or version.mtime]
    directory, slash, name = path.rpartition("/")
    if len(name.encode()) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME // 4]}-{_digest(name)}"
    return f"{INDEX_FOLDER}/{directory}{slash}{name}.{_digest([known, spec.key])}.index"


def index_file(
    folder: Folder, source: Source, path: str, spec: IndexSpec, options: ReadOptions, *, reuse: bool = True
) -> dict[str, Any]:
    """Builds the index of a file and writes it. Returns a row of ``INDEXED``. If there was an error, the row has its
    message. ``tail_bytes`` has the last bytes of the file, which ``keep_tails`` writes.

    ``source`` is the file with its listed version. It is an error if the file has another version now. ``path`` is the
    file's path below the directory. ``reuse`` allows using an existing index with the same name.
    """
    started = time.perf_counter()
    row: dict[str, Any] = dict.fromkeys(INDEXED.names)
    row |= {"path": path, "spec": spec.key, "is_final": True, "statistics": [], "indexes": [], "index_size": 0}
    if source.listed is not None:
        row |= {"size": source.listed.size, "mtime": source.listed.mtime, "etag": source.listed.etag}
    try:
        with located(file=source.name):
            _index(folder, source, spec, options, row, reuse)
    except (OrcidxError, OSError, pa.ArrowException) as error:
        row["error"] = f"{type(error).__name__}: {error}"
        row["is_final"] = isinstance(error, OrcidxError) and not isinstance(error, StorageError)
    row["millis"] = round(1000 * (time.perf_counter() - started))
    return row


def _index(
    folder: Folder, source: Source, spec: IndexSpec, options: ReadOptions, row: dict[str, Any], reuse: bool
) -> None:
    if source.size == 0:
        row["rows"] = 0
        return
    _wait_for_next_tick(source.listed)
    reader = source.open(options, expected=source.listed)
    try:
        file = OrcFile(describe_source(reader), options)
        tail = file.tail
        row |= {"rows": file.num_rows, "tail": tail.checksum}
        names = file.schema.names
        present = present_part(spec.spec, names)
        row["tail_bytes"] = tail_bytes(source, reader, tail)
        columns = {name: node for name, node in zip(names, file.columns) if names.count(name) == 1}
        row["statistics"] = observe(tail, columns, columns_of(present, names))
        name = index_name(row["path"], source, spec)
        found = _earlier_index(folder, name, IndexSpec(present, spec.types)) if present and reuse else None
        if present and _build(folder, name, source, file, (present, spec), row, found):
            row["read_bytes"] = reader.metrics.bytes_fetched
    finally:
        reader.close()


def _wait_for_next_tick(version: Fingerprint | None) -> None:
    """Waits if the version of a file has no etag and the file was modified a moment ago. The wait ensures that a
    further change gives the file another modification time."""
    if version is None or version.etag is not None or version.mtime is None:
        return
    age = time.time_ns() - version.mtime
    tick = _COARSE_TICK_NANOS if version.mtime % 1_000_000_000 == 0 else _TICK_NANOS
    if 0 <= age < tick:
        time.sleep((tick - age) / 1e9)


def present_part(spec: Spec, names: list[str]) -> dict[str, dict[str, Any]]:
    """The part of a spec whose columns are in the file. ``names`` has the columns of the file."""
    found = {
        kind: {name: options for name, options in columns.items() if split_map_key(name, names)[0] in names}
        for kind, columns in spec.items()
    }
    return {kind: columns for kind, columns in found.items() if columns}


def _build(
    folder: Folder,
    name: str,
    source: Source,
    file: OrcFile,
    specs: tuple[Spec, IndexSpec],
    row: dict[str, Any],
    found: bytes | None,
) -> bool:
    """Builds the index, or uses the index ``found``, and describes it in the row. Returns whether the index was built.
    ``specs`` has the part of the spec for existing columns, and the whole spec."""
    present, spec = specs
    builder = FileIndexBuilder(present, file.schema, {k: v for k, v in spec.types.items() if k in file.schema.names})
    data = found
    if data is None:
        for batch in file.scan(columns=columns_of(present, file.schema.names)).to_reader():
            builder.add(batch)
        data = builder.finish().to_bytes()
    if len(data) > spec.embedded_bytes:
        # Only users who can read the file may read the index, because the index contains values of the file. An
        # existing index is written again, so that its modification time is new and ``clean`` keeps it.
        folder.put(name, data, made_of=[source])
        row["index"] = name
    else:
        row["embedded"] = data
    row["index_size"] = len(data)
    row["indexes"] = [
        {"column": one.column, "kind": one.kind, "bytes": one.length, "type": str(builder.type_of(one.column))}
        for one in read_container(Body.of(data)).entries
    ]
    return found is None


def _earlier_index(folder: Folder, name: str, wanted: IndexSpec) -> bytes | None:
    """The index that an earlier run wrote. The result is None if this index is missing or damaged, or if it does not
    have exactly the indexes that ``wanted`` names."""
    data = whole_object(folder, name)
    if data is None:
        return None
    try:
        entries = read_container(Body.of(data)).entries
    except CorruptFile:
        return None
    return data if sorted((one.column, one.kind) for one in entries) == sorted(wanted.pairs()) else None
