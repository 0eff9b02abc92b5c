"""Recognises files of Hive's ACID tables. Each row of such a file describes an insert, an update or a delete. Other
files and the metastore determine which rows are valid.

base_0000005/bucket_00000                           rows of a compaction, as inserts
delta_0000006_0000006_0000/bucket_00000             inserts, and in older tables updates and deletes
delete_delta_0000007_0000007_0000/bucket_00000      deletes, by writer, bucket and row
delta_0000006_0000006_0000/000000_0                 insert-only tables: no ACID columns; the writer may have aborted
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from orcidx.orc.types import OrcType

__all__ = ["ACID_FOLDER", "is_acid_directory", "is_acid_file"]

_METADATA = "hive.acid."
_FIELDS = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row")
_NAME = r"(base_\d+(_v\d+)?|(delete_)?delta_\d+_\d+(_\d+)?(_v\d+)?)"
_DIRECTORY = re.compile(_NAME)
ACID_FOLDER = f"(^|/){_NAME}/[^/]*$"
"""The pattern for the paths of files in base, delta and delete_delta directories."""


def is_acid_file(root: OrcType, user_metadata: Iterable[str]) -> bool:
    """Whether a file has the columns or the metadata of an ACID table."""
    return root.names == _FIELDS or any(key.startswith(_METADATA) for key in user_metadata)


def is_acid_directory(name: str) -> bool:
    """Whether a directory with this name has the files of one transaction of an ACID table."""
    return _DIRECTORY.fullmatch(name) is not None
