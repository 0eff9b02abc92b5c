"""``FileIndexOptions``: the ``file-index.*`` options of a table, with Paimon's names.

file-index.<kind>.columns                a list with commas; ``m[key]`` is a key of a map column
file-index.<kind>.<column>.<option>      an option of one column, of ``m[key]``, or of all keys of the map ``m``
file-index.in-manifest-threshold         larger indexes become a sidecar file (default 500 B)
file-index.read.enabled                  default true
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from orcidx.errors import InvalidQuery
from orcidx.paimon.registry import parse_size

__all__ = ["DEFAULT_THRESHOLD", "FileIndexOptions", "for_every_reader"]

_PREFIX = "file-index."
_COLUMNS = "columns"
_THRESHOLD = "in-manifest-threshold"
_READ = "read.enabled"
DEFAULT_THRESHOLD = 500
"""The default of the option ``in-manifest-threshold`` in bytes, as in Paimon."""


@dataclass(frozen=True)
class FileIndexOptions:
    """The options of a table's file indexes.

    ``spec``: the options of each kind of index and each column, as for ``build_file_index``. The names of
    the options are short, such as ``fpp``. Their values are text in Paimon's form.

    Examples
    --------
    >>> from orcidx.paimon import FileIndexOptions
    >>> given = {"file-index.bloom-filter.columns": "id", "file-index.bloom-filter.id.fpp": "0.01"}
    >>> options = FileIndexOptions.parse(given)
    >>> dict(options.spec["bloom-filter"]["id"])
    {'fpp': '0.01'}
    """

    spec: Mapping[str, Mapping[str, Mapping[str, Any]]]
    in_manifest_threshold: int = DEFAULT_THRESHOLD
    """The largest size in bytes of an index that is embedded in the manifest."""
    read_enabled: bool = True
    """Whether readers use the table's file indexes."""

    def is_embedded(self, size: int) -> bool:
        """Whether an index is embedded in the manifest. If not, the index is stored in a separate file.

        Parameters
        ----------
        size : int
            The size of the index in bytes.

        Returns
        -------
        bool
        """
        return size <= self.in_manifest_threshold

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> FileIndexOptions:
        """Reads the options of file indexes from a table's options.

        Parameters
        ----------
        options : mapping of str to str
            All options of the table. Options that are not for file indexes are ignored.

        Returns
        -------
        FileIndexOptions

        Raises
        ------
        InvalidQuery
            A list of columns has an empty item, an option is for a column that is in no list, or a value is not valid.

        Examples
        --------
        >>> from orcidx.paimon import FileIndexOptions
        >>> options = FileIndexOptions.parse({"file-index.bloom-filter.columns": "id"})
        >>> options.is_embedded(100), options.is_embedded(10_000)
        (True, False)
        """
        threshold = parse_size(_PREFIX + _THRESHOLD, options.get(_PREFIX + _THRESHOLD, DEFAULT_THRESHOLD))
        spec = _declared(options)
        for name, value in options.items():
            parts = name.removeprefix(_PREFIX).split(".")
            # If a column name contains a dot, the option's name has more than three parts. Paimon ignores such options,
            # too.
            if not name.startswith(_PREFIX) or len(parts) != 3:
                continue
            kind, column, option = parts
            _configure(spec.get(kind, {}), column, option, value, name)
        frozen = {
            kind: MappingProxyType({column: MappingProxyType(_plain(given)) for column, given in columns.items()})
            for kind, columns in spec.items()
        }
        return cls(MappingProxyType(frozen), threshold, _flag(options.get(_PREFIX + _READ, "true")))


# Maps the kind of index, the column and the name of an option to a pair (value, own). ``own`` is True if the option was
# given for this column. It is False if the option was given for a map, and the column is a key of this map.
_Columns = dict[str, dict[str, tuple[Any, bool]]]
_Spec = dict[str, _Columns]


def _declared(options: Mapping[str, str]) -> _Spec:
    spec: _Spec = {}
    for name, value in options.items():
        parts = name.removeprefix(_PREFIX).split(".")
        if not name.startswith(_PREFIX) or len(parts) != 2 or parts[1] != _COLUMNS:
            continue
        columns = [column.strip() for column in value.split(",")]
        if "" in columns:
            raise InvalidQuery(f"{name} has an empty item: {value!r}")
        spec[parts[0]] = {column: {} for column in columns}
    return spec


def _configure(columns: _Columns, column: str, option: str, value: Any, name: str) -> None:
    keys = [other for other in columns if other.startswith(f"{column}[")]
    if column in columns:
        columns[column][option] = (value, True)
    elif not keys:
        raise InvalidQuery(f"{name} is given, but the option {_PREFIX}<kind>.columns does not list {column!r}")
    for key in keys:
        if not columns[key].get(option, (None, False))[1]:
            columns[key][option] = (value, False)


def _plain(given: Mapping[str, tuple[Any, bool]]) -> dict[str, Any]:
    return {option: value for option, (value, _) in given.items()}


def _flag(text: str) -> bool:
    lowered = str(text).strip().lower()
    if lowered not in ("true", "false"):
        raise InvalidQuery(f"{_PREFIX}{_READ} is {text!r}, but must be true or false")
    return lowered == "true"


def for_every_reader(
    spec: Mapping[str, Mapping[str, Mapping[str, Any] | None]],
) -> dict[str, dict[str, dict[str, Any]]]:
    """Sets version 1 for each bitmap index of a spec, unless the spec gives the version of the index.

    Paimon itself writes version 2 by default since Paimon 1.1. Paimon versions before 1.1 cannot read version 2. If a
    table has such an index, every query with a filter fails in these versions of Paimon.
    """
    found = {kind: {name: dict(given or {}) for name, given in columns.items()} for kind, columns in spec.items()}
    for given in found.get("bitmap", {}).values():
        # A block size needs version 2, because version 1 has no blocks.
        if not given.keys() & {"version", "index-block-size"}:
            given["version"] = 1
    return found
