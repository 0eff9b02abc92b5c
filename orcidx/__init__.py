"""orcidx: ORC and Apache Paimon data, fast and explainable from Python."""

from orcidx.errors import CorruptFile, InvalidQuery, OrcidxError, StorageError, Unsupported, ValueOutOfRange
from orcidx.options import ReadOptions

__version__ = "0.1.0"

__all__ = [
    "CorruptFile",
    "InvalidQuery",
    "OrcidxError",
    "ReadOptions",
    "StorageError",
    "Unsupported",
    "ValueOutOfRange",
]
