"""Changes manifests of a table in place, so that they look as if an unknown writer or damage had changed them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
from paimon_invariants import snapshot, snapshot_numbers

Change = Callable[[list[Any]], Any]


def edit_snapshot(folder: Path, **fields: Any) -> None:
    path = folder / "snapshot" / f"snapshot-{snapshot_numbers(folder)[-1]}"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def edit_avro(path: Path, change: Change) -> None:
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema, found = reader.writer_schema, list(reader)
    change(found)
    with path.open("wb") as file:
        fastavro.writer(file, schema, found, codec="deflate")


def edit_manifest(folder: Path, change: Change) -> None:
    """Changes the only manifest, and corrects its size in the lists and in the snapshot."""
    (path,) = (folder / "manifest").glob("manifest-[0-9a-f]*")
    edit_avro(path, change)
    for name in ("baseManifestList", "deltaManifestList"):
        listed = folder / "manifest" / snapshot(folder)[name]
        edit_avro(listed, lambda found: [one.update(_FILE_SIZE=path.stat().st_size) for one in found])
        edit_snapshot(folder, **{f"{name}Size": listed.stat().st_size})


def edit_index(folder: Path, change: Change) -> None:
    """Changes the index manifest of the newest snapshot."""
    edit_avro(folder / "manifest" / snapshot(folder)["indexManifest"], change)
