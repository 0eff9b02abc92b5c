"""orcidx reads and writes ORC files and Apache Paimon tables, and explains which data a query skips.

``open`` opens a file, ``scan`` reads many files, and ``col`` builds predicates. ``orcidx.paimon`` has Paimon's index
formats and tables. The module of a name is imported when the name is first used, so importing orcidx is fast.
"""

from __future__ import annotations

import importlib

from orcidx.errors import (
    CommitConflict,
    CommitUncertain,
    CorruptFile,
    FileGone,
    InvalidQuery,
    OrcidxError,
    StorageError,
    Unsupported,
    ValueOutOfRange,
)

# Type checkers treat TYPE_CHECKING as True. The name is not imported from typing, because importing typing takes longer
# than all other imports of this module together.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from orcidx import paimon
    from orcidx.engines.arrow_dataset import dataset
    from orcidx.engines.duckdb import register_duckdb
    from orcidx.engines.polars.lazy_scan import scan_polars
    from orcidx.explain.explanation import Explanation
    from orcidx.index_directory.scan_files import aggregate, read_table, scan
    from orcidx.options import ReadOptions
    from orcidx.orc_writer.memory import WriterMemory
    from orcidx.orc_writer.options import WriteOptions
    from orcidx.orc_writer.writer import OrcWriter, WriteResult, write_table
    from orcidx.predicate import col
    from orcidx.pruning.evaluate import Verdict
    from orcidx.pruning.selection import RowSelection
    from orcidx.rewriting.dataset import WrittenDataset, write_dataset
    from orcidx.rewriting.rewrite import Rewritten, rewrite
    from orcidx.scanner.file import OrcFile
    from orcidx.scanner.file import open_file as open
    from orcidx.scanner.key_search import KeyAnswers
    from orcidx.scanner.scan import Scan, Split
    from orcidx.scanner.shortcuts import FileMetadata, read_metadata, read_schema
    from orcidx.storage.secrets import with_secrets

__version__ = "0.1.0"

__all__ = [
    "CommitConflict",
    "CommitUncertain",
    "CorruptFile",
    "Explanation",
    "FileGone",
    "FileMetadata",
    "InvalidQuery",
    "KeyAnswers",
    "OrcFile",
    "OrcWriter",
    "OrcidxError",
    "ReadOptions",
    "Rewritten",
    "RowSelection",
    "Scan",
    "Split",
    "StorageError",
    "Unsupported",
    "ValueOutOfRange",
    "Verdict",
    "WriteOptions",
    "WriteResult",
    "WriterMemory",
    "WrittenDataset",
    "aggregate",
    "col",
    "dataset",
    "open",
    "paimon",
    "read_metadata",
    "read_schema",
    "read_table",
    "register_duckdb",
    "rewrite",
    "scan",
    "scan_polars",
    "with_secrets",
    "write_dataset",
    "write_table",
]

_HOMES = {
    "Explanation": ("orcidx.explain.explanation", "Explanation"),
    "FileMetadata": ("orcidx.scanner.shortcuts", "FileMetadata"),
    "KeyAnswers": ("orcidx.scanner.key_search", "KeyAnswers"),
    "OrcFile": ("orcidx.scanner.file", "OrcFile"),
    "OrcWriter": ("orcidx.orc_writer.writer", "OrcWriter"),
    "ReadOptions": ("orcidx.options", "ReadOptions"),
    "RowSelection": ("orcidx.pruning.selection", "RowSelection"),
    "Rewritten": ("orcidx.rewriting.rewrite", "Rewritten"),
    "Scan": ("orcidx.scanner.scan", "Scan"),
    "Split": ("orcidx.scanner.scan", "Split"),
    "Verdict": ("orcidx.pruning.evaluate", "Verdict"),
    "WriteOptions": ("orcidx.orc_writer.options", "WriteOptions"),
    "WriteResult": ("orcidx.orc_writer.writer", "WriteResult"),
    "WriterMemory": ("orcidx.orc_writer.memory", "WriterMemory"),
    "WrittenDataset": ("orcidx.rewriting.dataset", "WrittenDataset"),
    "aggregate": ("orcidx.index_directory.scan_files", "aggregate"),
    "col": ("orcidx.predicate", "col"),
    "dataset": ("orcidx.engines.arrow_dataset", "dataset"),
    "open": ("orcidx.scanner.file", "open_file"),
    "read_metadata": ("orcidx.scanner.shortcuts", "read_metadata"),
    "read_schema": ("orcidx.scanner.shortcuts", "read_schema"),
    "read_table": ("orcidx.index_directory.scan_files", "read_table"),
    "register_duckdb": ("orcidx.engines.duckdb", "register_duckdb"),
    "rewrite": ("orcidx.rewriting.rewrite", "rewrite"),
    "scan": ("orcidx.index_directory.scan_files", "scan"),
    "scan_polars": ("orcidx.engines.polars.lazy_scan", "scan_polars"),
    "with_secrets": ("orcidx.storage.secrets", "with_secrets"),
    "write_dataset": ("orcidx.rewriting.dataset", "write_dataset"),
    "write_table": ("orcidx.orc_writer.writer", "write_table"),
}


# Type checkers do not see this function. If they saw it, they would accept misspelt names.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            module, attribute = _HOMES[name]
            value = getattr(importlib.import_module(module), attribute)
        else:
            from orcidx.spellings import FUNCTIONS, missing_attribute

            raise missing_attribute("module 'orcidx'", name, FUNCTIONS)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
