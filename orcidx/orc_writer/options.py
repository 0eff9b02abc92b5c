"""``WriteOptions``: the options for writing a file. An option that also exists in pyarrow.orc has the same name as in
pyarrow.orc.

``WriteOptionsByName`` has the same options as keywords of ``write_table`` and similar functions, so a type checker
finds misspelt options.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypedDict, Unpack

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.keywords import lists_options
from orcidx.orc.kinds import CompressionKind
from orcidx.orc_writer.codecs import compression_kind, open_compressor
from orcidx.orc_writer.memory import WriterMemory
from orcidx.spellings import WRITING, unknown_keyword

__all__ = ["EncodingOptionsByName", "WriteOptions", "WriteOptionsByName"]


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """Options of ``write_table``, ``OrcWriter`` and ``write_dataset``. A wrong option raises ``InvalidQuery``.

    Examples
    --------
    >>> import orcidx, pyarrow as pa
    >>> options = orcidx.WriteOptions(compression="zlib", bloom_filter_columns=["id"])
    >>> _ = orcidx.write_table(pa.table({"id": [1, 2, 3]}), "ids.orc", options=options)
    >>> orcidx.open("ids.orc").compression
    'ZLIB'
    """

    compression: str = "zstd"
    """The codec: "uncompressed", "zlib", "snappy", "lz4" or "zstd", in upper or lower case."""
    compression_level: int | None = None
    """Level of zstd (up to 22), zlib (1 to 12) or lz4 (1 to 12, in its slow format). None means zstd 3 or 1 (whichever
    suits each stream better), zlib 4, or fast lz4."""
    compression_block_size: int = 262_144
    """The most bytes of a chunk before compression, 1 KiB to 8 MiB. A reader decompresses whole chunks."""
    stripe_size: int = 64 << 20
    """A stripe ends when it has this many bytes, counting compressed bytes and bytes that still wait for compression.
    At least 4 KiB."""
    max_memory: int | WriterMemory | None = None
    """The most bytes of memory that the open stripe may hold, at least 1 MiB. Several writers can share a
    ``WriterMemory``. If their stripes together hold more, the largest stripes are ended early. None means that only
    ``stripe_size`` ends a stripe."""
    row_index_stride: int = 10_000
    """Number of rows of a row group, which is the smallest unit that a reader can skip, or 0 to write no index. ORC
    Java writes only 1,000 and more, but reads any number."""
    dictionary_key_size_threshold: float | Literal["auto"] = "auto"
    """The largest share of distinct values for which a dictionary is written (0 never, 1 always), or "auto", which
    measures for each column of each stripe whether a dictionary is smaller."""
    bloom_filter_columns: Sequence[str | int] | None = ()
    """Columns that get bloom filters: names (dotted for nested columns), "*" for all columns that can have one, or ORC
    column ids. As in pyarrow, the first field has id 1. None, which is pyarrow's default, means no column."""
    bloom_filter_fpp: float = 0.01
    """The share of absent values for which a bloom filter gives a false positive."""
    use_threads: bool = True
    """Encodes columns in parallel. The file has the same bytes as without threads."""
    metadata: Mapping[str, bytes | str] = field(default_factory=dict, hash=False)
    """User metadata of the file."""
    types: Mapping[str, str] = field(default_factory=dict, hash=False)
    """ORC types of string columns, by name: "char(10)", "varchar(20)"."""
    uint64: Literal["error", "long", "decimal"] = "error"
    """What to do with unsigned 64-bit integers, which ORC does not have: write bigint if all values fit, write
    decimal(20, 0), or raise an error."""
    time: Literal["error", "long"] = "error"
    """What to do with times of day and durations, which ORC does not have: write a bigint in their unit, or raise an
    error."""
    null_type: Literal["error", "string"] = "error"
    """What to do with columns of Arrow's null type: write a string column without values, or raise an error."""
    spark: bool = False
    """Writes types as Spark does: timestamps without a zone as bigint marked timestamp_ntz, and timestamps with a zone
    as timestamp in UTC."""
    batch_size: int | None = None
    """Ignored. In pyarrow it is the number of rows that are copied at once."""
    compression_strategy: str | None = None
    """Ignored. In pyarrow it selects speed or size. Use ``compression_level`` instead."""
    padding_tolerance: float | None = None
    """Ignored, as in pyarrow: stripes are not padded."""
    file_version: str = "0.12"
    """The version of the ORC format: only "0.12", which every reader supports."""

    def __post_init__(self) -> None:
        kind = compression_kind(self.compression)
        if self.compression_level is not None and type(self.compression_level) is not int:
            raise InvalidQuery(f"compression_level={self.compression_level!r} is not an integer")
        if self.compression_level is not None or kind is not CompressionKind.NONE:
            open_compressor(kind, self.compression_level)
        for name, lowest, highest in _RANGES:
            value = getattr(self, name)
            if type(value) is not int or not lowest <= value <= highest:
                raise InvalidQuery(f"{name}={value!r} is not an integer from {lowest} to {highest}")
        for name in ("use_threads", "spark"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidQuery(f"{name}={getattr(self, name)!r} is neither True nor False")
        if self.max_memory is not None and not isinstance(self.max_memory, WriterMemory):
            WriterMemory(self.max_memory)
        threshold = self.dictionary_key_size_threshold
        if threshold != "auto" and not (_is_number(threshold) and 0 <= threshold <= 1):
            raise InvalidQuery(
                f"dictionary_key_size_threshold={threshold!r} is neither 'auto' nor a number from 0 to 1"
            )
        if not (_is_number(self.bloom_filter_fpp) and 0 < self.bloom_filter_fpp < 1):
            raise InvalidQuery(f"bloom_filter_fpp={self.bloom_filter_fpp!r} is not a number above 0 and below 1")
        self._check_collections()
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InvalidQuery(f"{name}={getattr(self, name)!r} is not one of {', '.join(map(repr, allowed))}")
        if self.file_version != "0.12":
            raise Unsupported(
                f"file_version={self.file_version!r} cannot be written; use '0.12', which every reader supports"
            )

    def _check_collections(self) -> None:
        columns = () if self.bloom_filter_columns is None else self.bloom_filter_columns
        object.__setattr__(self, "bloom_filter_columns", columns)
        if isinstance(columns, str | bytes) or not isinstance(columns, Collection):
            raise InvalidQuery(f"bloom_filter_columns={columns!r} is not a list of names or column ids")
        for column in columns:
            if type(column) not in (str, int):
                raise InvalidQuery(f"bloom_filter_columns= has {column!r}, which is neither a name nor a column id")
        if columns and not self.row_index_stride:
            raise InvalidQuery(
                "row_index_stride=0 writes no row groups, but bloom_filter_columns= needs them, because each row group "
                "has its own bloom filter; give row_index_stride= above 0, or leave out bloom_filter_columns="
            )
        for name, kinds in (("metadata", (str, bytes)), ("types", (str,))):
            entries = getattr(self, name)
            if not isinstance(entries, Mapping):
                raise InvalidQuery(f"{name}={entries!r} is not a mapping from names to values")
            for key, value in entries.items():
                if not (_is_text(key) and (isinstance(value, bytes) or _is_text(value)) and isinstance(value, kinds)):
                    raise InvalidQuery(f"{name}= must map names to text in UTF-8, but maps {key!r} to {value!r}")

    def override(self, **options: Unpack[WriteOptionsByName]) -> WriteOptions:
        """A copy with some options changed.

        Parameters
        ----------
        **options
            Fields of ``WriteOptions`` by name.

        Returns
        -------
        WriteOptions

        Raises
        ------
        InvalidQuery
            A name is unknown (the error names the most similar one), or a value is not allowed.
        """
        if unknown := sorted(options.keys() - _NAMES):
            raise unknown_keyword(unknown[0], _NAMES, WRITING)
        if not options:
            return self
        changed = copy(self)
        changed.__dict__.update(options)
        changed.__post_init__()
        return changed


lists_options(WriteOptions, stay_as_they_are=True)(WriteOptions.override)


class EncodingOptionsByName(TypedDict, total=False):
    """The fields of ``WriteOptions``, except the options that some function has as named parameters of its own."""

    compression: str
    compression_level: int | None
    compression_block_size: int
    stripe_size: int
    row_index_stride: int
    dictionary_key_size_threshold: float | Literal["auto"]
    bloom_filter_columns: Sequence[str | int] | None
    bloom_filter_fpp: float
    use_threads: bool
    metadata: Mapping[str, bytes | str]
    types: Mapping[str, str]
    uint64: Literal["error", "long", "decimal"]
    time: Literal["error", "long"]
    null_type: Literal["error", "string"]
    batch_size: int | None
    compression_strategy: str | None
    padding_tolerance: float | None
    file_version: str


class WriteOptionsByName(EncodingOptionsByName, total=False):
    """The fields of ``WriteOptions`` as keywords. A test checks that both classes have the same fields."""

    max_memory: int | WriterMemory | None
    spark: bool


def utf8_metadata(metadata: Mapping[str, bytes | str]) -> dict[str, bytes]:
    """User metadata as it is stored. Texts become UTF-8."""
    return {key: value.encode() if isinstance(value, str) else bytes(value) for key, value in metadata.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    """Whether a value is text that can be written as UTF-8."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


_RANGES = (
    ("compression_block_size", 1 << 10, (1 << 23) - 1),
    ("stripe_size", 4 << 10, 1 << 40),
    ("row_index_stride", 0, (1 << 31) - 1),
)
_CHOICES: dict[str, tuple[str, ...]] = {
    "uint64": ("error", "long", "decimal"),
    "time": ("error", "long"),
    "null_type": ("error", "string"),
}
_NAMES = frozenset(field.name for field in fields(WriteOptions))
USUAL_WRITE_OPTIONS = WriteOptions()
