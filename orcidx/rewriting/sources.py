"""Opens and compares the files that a rewrite reads. An error is raised for files that a rewrite would damage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import pyarrow as pa

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.options import USUAL_OPTIONS, ReadOptions
from orcidx.orc.hive_acid import is_acid_file
from orcidx.orc.kinds import WriterKind
from orcidx.orc.metadata import SPARK_VERSION
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.reader import OrcReader
from orcidx.orc.types import OrcType, reads_as_timestamp
from orcidx.orc_writer.file_layout import Identity
from orcidx.planner.request import FileJob
from orcidx.planner.schema_mapping import field_id_of
from orcidx.predicate import Predicate
from orcidx.scanner.file import make_scan
from orcidx.scanner.scan import Scan
from orcidx.storage import Source, Sources, list_sources

__all__ = [
    "InputFile",
    "WriterFacts",
    "field_id_notes",
    "find_sources",
    "open_inputs",
    "read_options",
    "rows_in",
    "same_partition",
    "same_schema",
    "stored_value_options",
]


class InputFile(NamedTuple):
    """A file to read. Its reader is open during ``open_inputs``."""

    source: Source
    reader: OrcReader

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def rows(self) -> int:
        return self.reader.tail.footer.rows

    @property
    def stripes(self) -> list[int]:
        """The numbers of the stripes that have rows."""
        return [number for number, stripe in enumerate(self.reader.stripes) if stripe.rows]

    @property
    def facts(self) -> WriterFacts:
        return WriterFacts.of(self.reader)


class WriterFacts(NamedTuple):
    """The facts that determine which statistics and bloom filters are trusted, and which calendar the stored days have.
    If files have the same facts, their stripes may be put into one file with their indexes."""

    identity: Identity
    hybrid_calendar: bool
    by_spark: bool

    @classmethod
    def of(cls, reader: OrcReader) -> WriterFacts:
        footer, facts = reader.tail.footer, reader.facts
        identity = Identity(
            writer=int(footer.writer),
            writer_version=facts.writer_version,
            software_version=footer.software_version,
            calendar=footer.calendar,
            format_version=reader.tail.postscript.version,
        )
        return cls(identity, facts.hybrid_calendar, facts.by_spark)


def find_sources(sources: Sources, storage_options: Mapping[str, Any] | None, filesystem: object) -> list[Source]:
    """The files of paths, lists, directories and globs. Hidden files are left out. Empty files in directories are left
    out, too."""
    found = list_sources(sources, storage_options=storage_options, filesystem=filesystem)
    files = [source for source in found if source.size != 0 or source.root is None]
    if not files:
        raise InvalidQuery(f"there are no files to rewrite in {sources!r:.200}")
    for source in files:
        if source.kind in ("object", "reader"):
            raise InvalidQuery(f"{source.name}: an open file can be read only once; give its path, URL or bytes")
    return files


def same_partition(inputs: Sequence[InputFile]) -> None:
    """Raises ``InvalidQuery`` if files that will be merged are in different partitions of a directory, and not all of
    the files store the partition columns. The merged file would lose the values in the names of the directories."""
    first, *others = (one.source for one in inputs)
    stored = set(inputs[0].reader.root.names).intersection(*(one.reader.root.names for one in inputs))
    for other in others:
        for name in dict.fromkeys((*first.partition, *other.partition)):
            if name not in stored and first.partition.get(name) != other.partition.get(name):
                raise InvalidQuery(
                    f"{first.name} and {other.name} are in different partitions. A merged file would not contain the "
                    f"values of {name}, because only the names of the directories contain them. Merge the files of "
                    "each partition separately. Or, to merge the files without these values, give a list of the files"
                )


@contextmanager
def open_inputs(sources: Sequence[Source], options: ReadOptions) -> Iterator[list[InputFile]]:
    """Opens the files, and raises an error for files that cannot be rewritten."""
    with ExitStack() as stack:
        inputs = []
        for source in sources:
            storage = source.open(options)
            stack.callback(storage.close)
            one = InputFile(source, OrcReader(storage, MetadataLimits.of(options)))
            _refuse(one)
            inputs.append(one)
        yield inputs


def _refuse(one: InputFile) -> None:
    footer, root = one.reader.tail.footer, one.reader.root
    if is_acid_file(root, footer.user_metadata):
        raise Unsupported(
            "the file belongs to a Hive ACID table, in which other files refer to its rows by position; so only Hive "
            "can rewrite it",
            file=one.name,
        )
    if footer.encryption is not None:
        raise Unsupported(
            "the file has encrypted columns, and a copy without keys would have only masked values; use the "
            "engine that has the keys",
            file=one.name,
        )


def same_schema(inputs: Sequence[InputFile]) -> None:
    """Raises ``InvalidQuery`` if two files have different columns. The error names both files and the first different
    column."""
    first = inputs[0]
    for other in inputs[1:]:
        if other.reader.schema_key == first.reader.schema_key:
            continue
        if difference := _difference(first.reader.root, other.reader.root):
            raise InvalidQuery(
                f"{first.name} and {other.name} have different columns ({difference}); give schema= to read both "
                "into one schema, or rewrite each file separately"
            )


def _difference(one: OrcType, other: OrcType) -> str | None:
    left, right = dict(zip(one.names, one.children)), dict(zip(other.names, other.children))
    for name in left.keys() - right.keys():
        return f"only the first has {name!r}"
    for name in right.keys() - left.keys():
        return f"only the second has {name!r}"
    if list(left) != list(right):
        return f"the order is {', '.join(one.names)} and {', '.join(other.names)}"
    for name, child in left.items():
        if str(child) != str(right[name]):
            return f"the type of {name!r} is {child} and {right[name]}"
    if str(one) != str(other):
        return f"{one} and {other}"
    for node, twin in zip(one.walk(), other.walk()):
        marked = [reads_as_timestamp(of, USUAL_OPTIONS) for of in (node, twin)]
        if marked[0] != marked[1]:
            kinds = ["timestamp_ntz" if mark else "bigint" for mark in marked]
            return f"the type of {node.dotted!r} is {kinds[0]} and {kinds[1]}"
        ids = field_id_of(node), field_id_of(twin)
        if ids[0] is None and ids[1] is not None:
            return (
                f"only the second has a field id of {node.dotted!r}; name the second file first to give this id to all "
                "rows"
            )
        if None not in ids and ids[0] != ids[1]:
            return f"the field id of {node.dotted!r} is {ids[0]} and {ids[1]}"
    return None


def field_id_notes(inputs: Sequence[InputFile]) -> tuple[str, ...]:
    """A note for each file without a field id that the merged file has. The merged file has the first file's ids."""
    first = inputs[0].reader.root
    ids = {node.id: field_id_of(node) for node in first.walk()}
    notes = []
    for other in inputs[1:]:
        without = [node for node in other.reader.root.walk() if field_id_of(node) is None and ids[node.id] is not None]
        if without:
            notes.append(
                f"{other.name} has no field id of {without[0].dotted!r}, so its rows get the id {ids[without[0].id]} "
                "that this column has in the first file"
            )
    return tuple(notes)


def rows_in(
    jobs: Sequence[FileJob],
    columns: Sequence[str | Sequence[str]] | None = None,
    where: Predicate | None = None,
    *,
    limit: int | None = None,
    schema: pa.Schema | None = None,
    options: ReadOptions,
) -> Scan:
    """The rows of files or stripes, without row numbers."""
    return make_scan(jobs, columns, where, limit=limit, row_numbers=False, schema=schema, options=options)


def read_options(inputs: Sequence[InputFile], options: ReadOptions) -> ReadOptions:
    """The options for reading rows that are encoded again. The new rows have the same values, unless the caller's
    ``options`` change values. Files of Spark are read in microseconds."""
    unit = options.timestamp_unit
    if unit == "ns" and _are_by_spark(inputs):
        unit = "us"
    return options.override(
        strings="string", char="padded", calendar="proleptic", timestamp_ntz=False, wall_clock_zone=None,
        timestamp_unit=unit, encrypted="error",
    )  # fmt: skip


def stored_value_options(inputs: Sequence[InputFile], options: ReadOptions) -> ReadOptions:
    """The options for reading rows of streams that are kept. Indexes of these streams must describe the stored values,
    so options of the caller that change values are not used."""
    return read_options(inputs, options).override(
        timestamp_unit="us" if _are_by_spark(inputs) else "ns", timezone=None, utf8="strict", decimal_rounding="error"
    )


def _are_by_spark(inputs: Sequence[InputFile]) -> bool:
    """Whether Spark wrote all files. Spark keeps no digits below microseconds, and microseconds cover every year. Spark
    writes with ORC Java. A file of another writer may also have Spark's version in its user metadata. Such a file may
    have finer digits."""
    return all(
        SPARK_VERSION in one.reader.tail.footer.user_metadata and one.reader.facts.writer == WriterKind.JAVA
        for one in inputs
    )
