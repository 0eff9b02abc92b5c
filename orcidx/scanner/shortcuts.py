"""``read_schema`` and ``read_metadata``, two functions that read only the tail of a file. pyarrow has functions with
the same names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from orcidx.scanner.file import OrcFile, Writer, open_file
from orcidx.storage import OneSource

__all__ = ["FileMetadata", "read_metadata", "read_schema"]


@dataclass(frozen=True)
class FileMetadata:
    """The metadata in the tail of an ORC file, which ``read_metadata`` returns.

    ``num_columns``: the number of top-level columns. ``orc_schema``: the schema as Hive writes it. ``size``: the size
    of the file in bytes. The other fields have the same meaning as in ``OrcFile``.

    Examples
    --------
    >>> import orcidx, pyarrow as pa
    >>> _ = orcidx.write_table(pa.table({"id": [1, 2, 3]}), "ids.orc")
    >>> metadata = orcidx.read_metadata("ids.orc")
    >>> metadata.num_rows, metadata.compression, metadata.orc_schema
    (3, 'ZSTD', 'struct<id:bigint>')
    """

    num_rows: int
    num_columns: int
    num_stripes: int
    compression: str
    writer: Writer
    schema: pa.Schema
    orc_schema: str
    user_metadata: Mapping[str, bytes]
    size: int

    @staticmethod
    def of(file: OrcFile) -> FileMetadata:
        """The metadata of an open file.

        Parameters
        ----------
        file : OrcFile
            The file.

        Returns
        -------
        FileMetadata
        """
        return FileMetadata(
            num_rows=file.num_rows,
            num_columns=len(file.columns),
            num_stripes=len(file.stripes),
            compression=file.compression,
            writer=file.writer,
            schema=file.schema,
            orc_schema=file.orc_schema,
            user_metadata=file.user_metadata,
            size=file.tail.size,
        )


def read_metadata(
    source: OneSource, *, storage_options: Mapping[str, Any] | None = None, filesystem: object = None
) -> FileMetadata:
    """The metadata in the tail of a file. Nothing else is read.

    Parameters
    ----------
    source, storage_options, filesystem
        As in ``orcidx.open``.

    Returns
    -------
    FileMetadata
        Rows, columns, stripes, compression, writer, schema and user metadata.

    Examples
    --------
    >>> import orcidx, pyarrow as pa
    >>> result = orcidx.write_table(pa.table({"id": [1, 2, 3]}), "ids.orc")
    >>> orcidx.read_metadata("ids.orc").num_rows
    3
    """
    with open_file(source, storage_options=storage_options, filesystem=filesystem) as file:
        return FileMetadata.of(file)


def read_schema(
    source: OneSource, *, storage_options: Mapping[str, Any] | None = None, filesystem: object = None
) -> pa.Schema:
    """The Arrow schema of a file. Only the tail of the file is read.

    Parameters
    ----------
    source, storage_options, filesystem
        As in ``orcidx.open``.

    Returns
    -------
    pyarrow.Schema
        The same schema as ``orcidx.open(source).schema``.

    Examples
    --------
    >>> import orcidx, pyarrow as pa
    >>> result = orcidx.write_table(pa.table({"id": [1, 2, 3]}), "ids.orc")
    >>> orcidx.read_schema("ids.orc").names
    ['id']
    """
    with open_file(source, storage_options=storage_options, filesystem=filesystem) as file:
        return file.schema
