"""Range readers: merged byte ranges from local files, bytes, file objects and object storage.

``open_reader`` opens anything that has bytes; ``describe_source`` says what a source is in a picklable way.
"""

from orcidx.storage.ranges import (
    Fingerprint,
    MergedRange,
    RangeReader,
    ReadMetrics,
    RecordingReader,
    Request,
    merge_ranges,
)
from orcidx.storage.sources import Source, describe_source, open_reader

__all__ = [
    "Fingerprint",
    "MergedRange",
    "RangeReader",
    "ReadMetrics",
    "RecordingReader",
    "Request",
    "Source",
    "describe_source",
    "merge_ranges",
    "open_reader",
]
