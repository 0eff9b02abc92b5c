"""Reads and writes files of deletion vectors. A file is an index file of Paimon or a Puffin file. The module
``deletion_vector`` describes the layout of index files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from orcidx.errors import CorruptFile, located
from orcidx.paimon.deletion_vector import FRAME_BYTES, MAGIC32, DeletionVector, read_entry, shifted
from orcidx.paimon.puffin import PUFFIN_MAGIC, DeletionBlob, deletion_blobs
from orcidx.paimon.small_files import read_part, read_whole
from orcidx.storage import OneSource, describe_source
from orcidx.storage.sink import write_file

__all__ = [
    "Range",
    "encode_deletion_vectors",
    "read_deletion_vector",
    "read_deletion_vectors",
    "write_deletion_vectors",
]

FILE_VERSION = 1
"""The first byte of an index file."""


@dataclass(frozen=True)
class Range:
    """The position of a vector, as it is stored in a manifest. ``path`` is the index file. The docstring of the module
    ``deletion_vector`` describes ``length``."""

    offset: int
    length: int
    cardinality: int
    path: str | None = field(default=None, compare=False)


def read_deletion_vector(
    source: OneSource,
    offset: int,
    length: int,
    *,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object = None,
) -> DeletionVector:
    """Reads one deletion vector. The source is an index file or a Puffin file. For an index file, ``offset`` and
    ``length`` are stored in a manifest. For a Puffin file, they are stored in its footer.

    Parameters
    ----------
    source : path, URL, bytes, file object or source
        The index file or the Puffin file, as for ``orcidx.open``.
    offset, length : int
        The range in bytes that the manifest or the footer gives.
    storage_options : mapping, optional
        Options of the file system of a URL.
    filesystem : object, optional
        A file system of fsspec, pyarrow.fs or obstore, in which ``source`` is a path.

    Returns
    -------
    DeletionVector

    Raises
    ------
    CorruptFile
        The range is not in the file, the range does not fit the entry, or the entry is damaged.

    Examples
    --------
    >>> from orcidx import paimon
    >>> found = paimon.write_deletion_vectors("deletions", {"a.orc": paimon.DeletionVector([1, 5])})["a.orc"]
    >>> paimon.read_deletion_vector(found.path, found.offset, found.length).positions.tolist()
    [1, 5]
    """
    described = describe_source(source, storage_options=storage_options, filesystem=filesystem)
    with located(file=described.name), shifted(offset):
        if offset < 0 or length < len(MAGIC32):
            raise CorruptFile(
                f"offset must not be negative, and length must be at least {len(MAGIC32)}, but offset "
                f"is {offset} and length is {length}",
                offset=0,
            )
        vector, end = read_entry(read_part(described, offset, length + FRAME_BYTES), 0)
        if length != (end if vector.bitmap64 else end - FRAME_BYTES):
            raise CorruptFile(
                f"the deletion vector has the length {end if vector.bitmap64 else end - FRAME_BYTES}, but the given "
                f"length is {length}",
                offset=0,
            )
        return vector


def read_deletion_vectors(
    source: OneSource, *, storage_options: Mapping[str, Any] | None = None, filesystem: object = None
) -> list[tuple[int, DeletionVector]]:
    """Reads all vectors of an index file or a Puffin file. Each vector comes with the offset of its size field.

    Parameters
    ----------
    source : path, URL, bytes, file object or source
        The file, as for ``orcidx.open``.
    storage_options : mapping, optional
        Options of the file system of a URL.
    filesystem : object, optional
        A file system of fsspec, pyarrow.fs or obstore, in which ``source`` is a path.

    Returns
    -------
    list of (int, DeletionVector)

    Raises
    ------
    CorruptFile
        The file is damaged.

    Examples
    --------
    >>> from orcidx import paimon
    >>> vectors = {"a.orc": paimon.DeletionVector([1, 5]), "b.orc": paimon.DeletionVector([2])}
    >>> _ = paimon.write_deletion_vectors("deletions", vectors)
    >>> [(offset, len(vector)) for offset, vector in paimon.read_deletion_vectors("deletions")]
    [(1, 2), (33, 1)]
    """
    described = describe_source(source, storage_options=storage_options, filesystem=filesystem)
    with located(file=described.name):
        data = read_whole(described)
        if data[:4] == PUFFIN_MAGIC:
            return [(blob.offset, _read_blob(data, blob)) for blob in deletion_blobs(data)]
        if not data:
            raise CorruptFile("the file is empty, but a file of deletion vectors starts with a version")
        if data[0] != FILE_VERSION:
            raise CorruptFile(
                f"the file has version {data[0]}, but a file of deletion vectors has version {FILE_VERSION}"
            )
        vectors = []
        at = 1
        while at < len(data):
            vector, end = read_entry(data, at)
            vectors.append((at, vector))
            at = end
        return vectors


def write_deletion_vectors(
    path: str | os.PathLike[str],
    vectors: Mapping[str, DeletionVector],
    *,
    bitmap64: bool | None = None,
    target_size: int | None = None,
) -> dict[str, Range]:
    """Writes the vectors of data files and returns the range of each vector, in the order of ``vectors``.

    Parameters
    ----------
    path : str or os.PathLike
        The index file. With ``target_size`` the files are ``path-0``, ``path-1`` and so on.
    vectors : mapping of str to DeletionVector
        The vector of each data file.
    bitmap64 : bool, optional
        Converts all vectors to the 64-bit kind (True) or the 32-bit kind (False). None: each vector keeps its kind.
    target_size : int, optional
        Starts a new file after each vector that ends beyond this number of bytes. Without ``target_size`` one file has
        all vectors. This file has only the version byte if there are no vectors. With ``target_size`` and no vectors,
        no file is written.

    Returns
    -------
    dict of str to Range
        The position of each data file's vector.

    Raises
    ------
    ValueOutOfRange
        Positions do not fit the kind. In this case nothing is written.

    Examples
    --------
    >>> from orcidx import paimon
    >>> vectors = {"a.orc": paimon.DeletionVector([1, 5]), "b.orc": paimon.DeletionVector([2])}
    >>> paimon.write_deletion_vectors("deletions", vectors)["b.orc"]
    Range(offset=33, length=22, cardinality=1, path='deletions')
    """
    ranges: dict[str, Range] = {}
    files = encode_deletion_vectors(vectors, bitmap64=bitmap64, target_size=target_size)
    for number, (data, found) in enumerate(files):
        name = os.fspath(path) if target_size is None else f"{os.fspath(path)}-{number}"
        write_file(name, data)
        ranges |= {data_file: replace(where, path=name) for data_file, where in found.items()}
    return ranges


def encode_deletion_vectors(
    vectors: Mapping[str, DeletionVector], *, bitmap64: bool | None = None, target_size: int | None = None
) -> list[tuple[bytes, dict[str, Range]]]:
    """Returns the bytes of each file that ``write_deletion_vectors`` writes, together with the ranges of the vectors in
    the file."""
    files: list[tuple[list[bytes], dict[str, Range]]] = []
    end = 0
    for data_file, given in vectors.items():
        vector = given if bitmap64 is None else given.as_kind(bitmap64)
        entry = vector.to_bytes()
        if not files or (target_size is not None and end > target_size):
            files.append(([bytes([FILE_VERSION])], {}))
            end = 1
        parts, ranges = files[-1]
        length = len(entry) if vector.bitmap64 else len(entry) - FRAME_BYTES
        ranges[data_file] = Range(end, length, len(vector))
        parts.append(entry)
        end += len(entry)
    if not files and target_size is None:
        files.append(([bytes([FILE_VERSION])], {}))
    return [(b"".join(parts), ranges) for parts, ranges in files]


def _read_blob(data: memoryview, blob: DeletionBlob) -> DeletionVector:
    with shifted(blob.offset):
        return DeletionVector.from_bytes(data[blob.offset : blob.offset + blob.length])
