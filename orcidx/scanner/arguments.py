"""Types for the keyword arguments (``**arguments``) that public functions pass on to other functions.

With these types mypy and pyright report an error such as ``f.read(batchsize=3)``. Without these types such a call fails
only at run time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

from orcidx.options import OptionsByName, ReadOptions

__all__ = ["FilesArguments", "RowArguments"]


class RowArguments(OptionsByName, total=False):
    """The keywords of ``OrcFile.scan`` except ``columns`` and ``where``."""

    stripes: Iterable[int] | None
    row_range: tuple[int, int] | None
    limit: int | None
    top: Sequence[Any] | None
    row_numbers: bool | str
    selection: Any
    deletion_vector: Any
    file_index: Any
    schema: pa.Schema | None
    options: ReadOptions | None


class FilesArguments(OptionsByName, total=False):
    """The keywords of ``orcidx.scan`` except ``columns`` and ``where``."""

    limit: int | None
    top: Sequence[Any] | None
    row_numbers: bool | str
    file_path: bool | str
    selection: Mapping[Any, Any] | None
    deletion_vector: Mapping[Any, Any] | None
    file_index: Mapping[Any, Any] | None
    schema: pa.Schema | None
    match: Literal["name", "position", "field_id"]
    hive_partitions: bool
    indexes: Literal["auto", "all", "none"]
    fresh: Literal["listing", "catalog"]
    storage_options: Mapping[str, Any] | None
    filesystem: Any
    options: ReadOptions | None
