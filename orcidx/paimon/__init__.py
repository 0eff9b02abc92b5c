"""Apache Paimon: file indexes, deletion vectors, the dynamic-bucket hash index, and whole tables.

Names are imported when they are first used, to avoid a cycle of imports. Tables import the scan, and the scan imports
formats of this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orcidx.index_directory.one_file import build_file_index
    from orcidx.paimon.deletion_vector import DeletionVector
    from orcidx.paimon.deletion_vector_files import (
        Range,
        read_deletion_vector,
        read_deletion_vectors,
        write_deletion_vectors,
    )
    from orcidx.paimon.file_index import FileIndex, read_file_index
    from orcidx.paimon.file_index_options import FileIndexOptions
    from orcidx.paimon.hash_index import BucketAssigner, HashIndex, key_hash
    from orcidx.paimon.index import Index
    from orcidx.paimon.registry import build_index, read_index
    from orcidx.paimon_table.commit.changed import Changed
    from orcidx.paimon_table.commit.commit_options import CommitOptions
    from orcidx.paimon_table.read.plan import DeletionFile, FileTask, TableFile, TablePlan
    from orcidx.paimon_table.table import Table, open_table

__all__ = [
    "BucketAssigner",
    "Changed",
    "CommitOptions",
    "DeletionFile",
    "DeletionVector",
    "FileIndex",
    "FileIndexOptions",
    "FileTask",
    "HashIndex",
    "Index",
    "Range",
    "Table",
    "TableFile",
    "TablePlan",
    "build_file_index",
    "build_index",
    "key_hash",
    "open_table",
    "read_deletion_vector",
    "read_deletion_vectors",
    "read_file_index",
    "read_index",
    "write_deletion_vectors",
]

_HOMES = {
    "BucketAssigner": "orcidx.paimon.hash_index",
    "Changed": "orcidx.paimon_table.commit.changed",
    "CommitOptions": "orcidx.paimon_table.commit.commit_options",
    "DeletionFile": "orcidx.paimon_table.read.plan",
    "DeletionVector": "orcidx.paimon.deletion_vector",
    "FileIndex": "orcidx.paimon.file_index",
    "FileIndexOptions": "orcidx.paimon.file_index_options",
    "FileTask": "orcidx.paimon_table.read.plan",
    "HashIndex": "orcidx.paimon.hash_index",
    "Index": "orcidx.paimon.index",
    "Range": "orcidx.paimon.deletion_vector_files",
    "Table": "orcidx.paimon_table.table",
    "TableFile": "orcidx.paimon_table.read.plan",
    "TablePlan": "orcidx.paimon_table.read.plan",
    "build_file_index": "orcidx.index_directory.one_file",
    "build_index": "orcidx.paimon.registry",
    "key_hash": "orcidx.paimon.hash_index",
    "open_table": "orcidx.paimon_table.table",
    "read_deletion_vector": "orcidx.paimon.deletion_vector_files",
    "read_deletion_vectors": "orcidx.paimon.deletion_vector_files",
    "read_file_index": "orcidx.paimon.file_index",
    "read_index": "orcidx.paimon.registry",
    "write_deletion_vectors": "orcidx.paimon.deletion_vector_files",
}


if not TYPE_CHECKING:  # hidden from type checkers, so they can find misspelt names

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'orcidx.paimon' has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
