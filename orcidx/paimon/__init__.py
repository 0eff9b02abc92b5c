"""Apache Paimon's formats: file indexes, deletion vectors, hash indexes and tables."""

from orcidx.paimon.build import build_file_index
from orcidx.paimon.file_index import FileIndex, read_file_index
from orcidx.paimon.file_index_options import FileIndexOptions
from orcidx.paimon.index import Index
from orcidx.paimon.registry import build_index, read_index

__all__ = [
    "FileIndex",
    "FileIndexOptions",
    "Index",
    "build_file_index",
    "build_index",
    "read_file_index",
    "read_index",
]
