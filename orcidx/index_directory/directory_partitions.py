"""The partition columns of listed files, and what they prove about the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.predicate import BoundLeaf
from orcidx.predicate.evaluation import evaluate_predicate
from orcidx.pruning.findings import Finding, Note
from orcidx.pruning.reasons import same_value_text
from orcidx.pruning.selection import RowSelection
from orcidx.scanner.many_files import partition_values
from orcidx.storage import Source

__all__ = ["PartitionEvidence", "Partitions"]

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Partitions:
    """The ``key=value`` directories of files. ``values[key][codes[i]]`` is the value of file ``i``.

    ``keys`` has all keys, including keys whose type is not known.
    """

    codes: Int64s
    values: Mapping[str, pa.Array]
    keys: frozenset[str] = frozenset()

    @staticmethod
    def none(files: int) -> Partitions:
        return Partitions(np.zeros(files, np.int64), {})

    @staticmethod
    def of(paths: pa.Array, schema: pa.Schema | None = None) -> Partitions:
        """The partitions of paths below the listed directory.

        The values have the types in ``schema``. A key that is not in the schema has no type. Without a schema
        ``partition_values`` finds the types. Keys that differ only in case have no type, because the reader may treat
        them as the same column.
        """
        codes, sources = _directories(paths)
        if not any("=" in source.name for source in sources):
            return Partitions.none(len(paths))
        keys = frozenset(key for source in sources for key in source.partition)
        constants = partition_values(sources, schema)
        counts = Counter(key.casefold() for key in keys)
        typed = {key for key in keys if counts[key.casefold()] == 1 and (schema is None or key in schema.names)}
        values = {key: pa.array([one[key] for one in constants], constants[0][key].type) for key in typed}
        return Partitions(codes, values, keys)

    @staticmethod
    def as_columns(paths: pa.Array, schema: pa.Schema | None, *, case_sensitive: bool) -> Partitions:
        """The partitions of a scan. Each key is a column. If the schema has the key, the column has the type in the
        schema."""
        codes, sources = _directories(paths)
        constants = partition_values(sources, schema, case_sensitive=case_sensitive)
        names = constants[0] if constants else {}
        values = {name: pa.array([one[name] for one in constants], names[name].type) for name in names}
        return Partitions(codes, values, frozenset(values))

    @cached_property
    def _folded(self) -> frozenset[str]:
        return frozenset(key.casefold() for key in self.keys)

    def hides(self, column: str) -> bool:
        """Whether the values of a column may come from directories. Then statistics of the stored values do not apply
        to the column. Names may differ in case, because it is not known here whether the reader ignores case."""
        return bool(self.keys) and column.casefold() in self._folded

    def constants_of(self, file: int) -> dict[str, pa.Scalar]:
        """The partition columns of one file."""
        return {key: values[int(self.codes[file])] for key, values in self.values.items()}


def _directories(paths: pa.Array) -> tuple[Int64s, list[Source]]:
    """For each path, the number of its directory, and an example of a file in each directory."""
    directories = pc.replace_substring_regex(paths, r"[^/]*$", "").dictionary_encode()
    distinct = directories.dictionary.to_pylist()
    sources = [Source(directory, "path", f"/{directory}file", root="/") for directory in distinct]
    return directories.indices.to_numpy().astype(np.int64), sources


class PartitionEvidence:
    """Evidence from partition columns, which have one value in all rows of a file."""

    name = "partition"

    def __init__(self, partitions: Partitions) -> None:
        self.notes: list[Note] = []
        self._partitions = partitions

    def test(self, leaf: BoundLeaf, alive: RowSelection) -> Finding | None:
        """See ``pruning.Evidence``. The finding is exact."""
        if len(leaf.path) != 1 or leaf.path[0] not in self._partitions.values:
            return None
        values = self._partitions.values[leaf.path[0]]
        schema = pa.schema([(leaf.path[0], values.type)])
        matches = evaluate_predicate(leaf, pa.RecordBatch.from_arrays([values], schema=schema), schema)
        rows = RowSelection.from_mask(matches[self._partitions.codes])
        return Finding(rows, rows, self.name, _Value(self._partitions, leaf.path[0]))


@dataclass(frozen=True)
class _Value:
    partitions: Partitions
    key: str

    def __call__(self, files: Int64s) -> list[str]:
        values = self.partitions.values[self.key].take(pa.array(self.partitions.codes[files]))
        return list(map(same_value_text, values))
