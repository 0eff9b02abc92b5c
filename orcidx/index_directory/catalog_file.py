"""Reads and writes the bytes of a catalog, which is an ORC file. The memory for reading is limited, and checksums are
verified.

A repeated value takes almost no bytes in a file. For example, a name of 10 KB in 200,000 rows makes a file of a few KB,
but 2 GB of Arrow strings. So the rows are counted before reading, and the bytes are counted during reading.

ORC has no checksums, but a damaged catalog must not be used. So the file's metadata (key ``orcidx.rollup``, JSON) has
the CRC-32 of all stripes and types. The key ``orcidx.rollup.crc`` has the CRC-32 of that metadata.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.errors import CorruptFile, InvalidQuery, Unsupported
from orcidx.scanner.file import OrcFile, open_file

__all__ = ["CatalogFile", "written_catalog"]

T = TypeVar("T")

METADATA = "orcidx.rollup"
CHECKSUM = "orcidx.rollup.crc"
_LEAST_ROWS, _LEAST_BYTES = 50_000, 64 << 20
_ROW_BYTES = 4
_BYTES_PER_BYTE = 64
"""The limits on the rows and bytes that a catalog may have in memory: a fixed number for every file, and a number for
each stored byte. Catalogs of 10 to 1,000,000 files, which have up to 5.2 MB, stay below these limits."""


def written_catalog(table: pa.Table, described: Mapping[str, Any]) -> bytes:
    """The bytes of an ORC file with a table and its description. The file is written twice, because its metadata
    contains the checksum of the other bytes."""
    draft = _written(table, b"")
    text = json.dumps({**described, "crc": _content_crc(open_file(draft), draft)}).encode()
    return _written(table, text)


def _written(table: pa.Table, text: bytes) -> bytes:
    from orcidx.orc_writer.writer import write_table  # not at the top: readers do not need its 28 modules

    sink = pa.BufferOutputStream()
    write_table(table, sink, compression="zstd", metadata={METADATA: text, CHECKSUM: str(zlib.crc32(text))})
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _content_crc(file: OrcFile, data: bytes | memoryview) -> int:
    """The checksum of all bytes up to the end of the last stripe, of the types, and of the stripes' positions."""
    footer = file.tail.footer
    places = [(one.offset, one.index_length, one.data_length, one.footer_length, one.rows) for one in footer.stripes]
    ends = [sum(place[:4]) for place in places]
    told = repr((places, footer.type_bytes)).encode()
    return zlib.crc32(told, zlib.crc32(memoryview(data)[: max(ends, default=0)]))


class _DamagedCatalog(CorruptFile):
    """An error whose message already says that a catalog is damaged."""


class CatalogFile:
    """An open catalog. ``described`` is the description in the file. Every error is raised as ``CorruptFile``."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._file: OrcFile = _damage_of(lambda: open_file(data))
        self.described: Mapping[str, Any] = _damage_of(lambda: self._described(data))

    def _described(self, data: bytes | memoryview) -> Mapping[str, Any]:
        metadata = self._file.user_metadata
        try:
            text = metadata[METADATA]
            described = json.loads(text)
            if int(metadata[CHECKSUM]) != zlib.crc32(text) or described["crc"] != _content_crc(self._file, data):
                raise _DamagedCatalog("the checksum of the catalog does not match its bytes")
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, CorruptFile):
                raise
            raise _DamagedCatalog(f"the file is not a catalog: {type(error).__name__}: {error}") from error
        return dict(described)

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        return self._file.tail.size

    @property
    def rows(self) -> int:
        """The number of rows of the catalog."""
        return self._file.num_rows

    def read(
        self, columns: Sequence[str], *, lacking: pa.Schema | None = None, rows: npt.NDArray[np.int64] | None = None
    ) -> pa.Table:
        """Reads the columns with the given names. A column in ``lacking`` may be missing in files of earlier versions,
        and is then null. ``rows`` has the ascending numbers of the wanted rows. None means all rows."""
        names = self._file.schema.names
        absent = [one for one in lacking or () if one.name in columns and one.name not in names]
        without = {one.name for one in absent}
        found = _damage_of(lambda: self._read([name for name in columns if name not in without], rows))
        for one in absent:
            found = found.append_column(one.name, pa.nulls(len(found), one.type))
        return found.select(columns) if absent else found

    def _read(self, columns: Sequence[str], wanted: npt.NDArray[np.int64] | None) -> pa.Table:
        rows = self._file.num_rows
        if rows > (most := max(_LEAST_ROWS, self.size // _ROW_BYTES)):
            raise _DamagedCatalog(
                f"according to its footer the catalog has {rows} rows, but a catalog of {self.size} bytes can have at "
                f"most {most} rows"
            )
        missing = [name for name in columns if name not in self._file.schema.names]
        if missing:
            raise _DamagedCatalog(f"the file is not a catalog: it lacks the column {missing[0]}")
        taken, most = 0, max(_LEAST_BYTES, _BYTES_PER_BYTE * self.size)
        batches = []
        with self._file.scan(columns, selection=wanted).to_batches() as found:
            for batch in found:
                taken += batch.nbytes
                if taken > most:
                    raise _DamagedCatalog(
                        f"the catalog has {self.size} bytes, but its rows take at least {taken} bytes of memory; "
                        f"at most {most} bytes are allowed"
                    )
                batches.append(batch)
        schema = pa.schema([self._file.schema.field(name) for name in columns])
        return pa.Table.from_batches(batches, batches[0].schema if batches else schema)


def _damage_of(call: Callable[[], T]) -> T:
    """Calls a function and returns its result. Every error in the file is raised as an error about a damaged catalog.
    The caller can add the name of the catalog to this error."""
    try:
        return call()
    except (CorruptFile, Unsupported, InvalidQuery) as error:
        kind = "" if isinstance(error, _DamagedCatalog) else "the file is not a catalog: "
        raise CorruptFile(f"{kind}{error.message}; build the indexes again", column=error.column) from error
