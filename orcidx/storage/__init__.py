"""Range readers for local files, bytes, file objects and object storage. Neighbouring ranges are merged.

``open_reader`` opens any source of bytes. ``describe_source`` describes a source by an object that can be pickled.
"""

from orcidx.storage.cache import IdentityCache
from orcidx.storage.fingerprint import Fingerprint
from orcidx.storage.hive_paths import hive_partition
from orcidx.storage.listing import list_sources
from orcidx.storage.ranges import MergedRange, RangeReader, ReadMetrics, merge_ranges, start_read
from orcidx.storage.read_log import Request
from orcidx.storage.reader_file import ReaderFile
from orcidx.storage.recording import RecordingReader
from orcidx.storage.sources import OneSource, Sources, describe_source, open_reader
from orcidx.storage.stores import Source
from orcidx.storage.text_options import options_of_text

__all__ = [
    "Fingerprint",
    "IdentityCache",
    "MergedRange",
    "OneSource",
    "RangeReader",
    "ReadMetrics",
    "ReaderFile",
    "RecordingReader",
    "Request",
    "Source",
    "Sources",
    "describe_source",
    "hive_partition",
    "list_sources",
    "merge_ranges",
    "open_reader",
    "options_of_text",
    "start_read",
]
