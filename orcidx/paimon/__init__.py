"""Apache Paimon: file indexes, deletion vectors, the dynamic-bucket hash index, and whole tables.

Names load when they are first used: a table needs the scan, which reads single formats of this package itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orcidx.paimon.build_file import build_file_index
    from orcidx.paimon.deletion_vector import (
        DeletionVector,
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
    from orcidx.paimon.table import Table, open_table
    from orcidx.paimon.table_plan import DeletionFile, FileTask, TableFile, TablePlan

__all__ = [
    "BucketAssigner",
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
    "BucketAssigner": "hash_index",
    "DeletionFile": "table_plan",
    "DeletionVector": "deletion_vector",
    "FileIndex": "file_index",
    "FileIndexOptions": "file_index_options",
    "FileTask": "table_plan",
    "HashIndex": "hash_index",
    "Index": "index",
    "Range": "deletion_vector",
    "Table": "table",
    "TableFile": "table_plan",
    "TablePlan": "table_plan",
    "build_file_index": "build_file",
    "build_index": "registry",
    "key_hash": "hash_index",
    "open_table": "table",
    "read_deletion_vector": "deletion_vector",
    "read_deletion_vectors": "deletion_vector",
    "read_file_index": "file_index",
    "read_index": "registry",
    "write_deletion_vectors": "deletion_vector",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'orcidx.paimon' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"orcidx.paimon.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
