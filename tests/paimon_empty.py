"""Makes empty Paimon tables without Java: only a schema file, as after CREATE TABLE."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

SCHEMA = {"id": "BIGINT", "city": "STRING"}


def empty_table(
    folder: Path,
    columns: Mapping[str, str] = SCHEMA,
    *,
    partition_keys: Sequence[str] = (),
    primary_keys: Sequence[str] = (),
    **options: str,
) -> Path:
    """Makes an empty table. Option names have ``_`` for ``-`` and ``__`` for ``.``. Without options, it is an ORC table
    without buckets that allows deletes."""
    given = {"bucket": "-1", "file.format": "orc", "deletion-vectors.enabled": "true"}
    given |= {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    document = {
        "version": 3,
        "id": 0,
        "fields": [{"id": i, "name": name, "type": kind} for i, (name, kind) in enumerate(columns.items())],
        "highestFieldId": len(columns) - 1,
        "partitionKeys": list(partition_keys),
        "primaryKeys": list(primary_keys),
        "options": given,
        "timeMillis": 1_790_000_000_000,
    }
    (folder / "schema").mkdir(parents=True)
    (folder / "schema" / "schema-0").write_text(json.dumps(document))
    return folder
