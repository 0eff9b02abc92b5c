"""Opens and compares the files that a rewrite reads, and refuses those that rewriting would damage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.options import ReadOptions
from orcidx.orc.hive_acid import is_acid_file
from orcidx.orc.metadata import SPARK_VERSION
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.reader import OrcReader
from orcidx.orc.types import OrcType
from orcidx.orc_writer.file_layout import Identity
from orcidx.storage import Source, Sources, list_sources

__all__ = ["InputFile", "WriterFacts", "find_sources", "open_inputs", "read_options", "same_schema"]


class InputFile(NamedTuple):
    """A file that is read. Its reader is open during ``open_inputs``."""

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
    """What the trust in statistics and bloom filters, and the meaning of days, depend on. Stripes of files that agree
    in it may go into one file with their indexes."""

    identity: Identity
    hybrid_calendar: bool
    by_spark: bool
    version: tuple[int, ...]

    @classmethod
    def of(cls, reader: OrcReader) -> WriterFacts:
        footer, facts = reader.tail.footer, reader.facts
        identity = Identity(
            writer=int(footer.writer),
            writer_version=facts.writer_version,
            software_version=footer.software_version,
            calendar=footer.calendar,
        )
        return cls(identity, facts.hybrid_calendar, facts.by_spark, reader.tail.postscript.version)


def find_sources(sources: Sources, storage_options: Mapping[str, Any] | None, filesystem: object) -> list[Source]:
    """The files of paths, lists, directories and globs, without hidden files and, in directories, empty ones."""
    found = list_sources(sources, storage_options=storage_options, filesystem=filesystem)
    files = [source for source in found if source.size != 0 or source.root is None]
    if not files:
        raise InvalidQuery(f"no files to rewrite in {sources!r:.200}")
    for source in files:
        if source.kind in ("object", "reader"):
            raise InvalidQuery(f"{source.name}: an open file is read once only; give its path, URL or bytes")
    return files


@contextmanager
def open_inputs(sources: Sequence[Source], options: ReadOptions) -> Iterator[list[InputFile]]:
    """Opens the files, and refuses those that cannot be rewritten."""
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
            "a file of a Hive ACID table: Hive knows rows by their places in the file, so only Hive can rewrite it",
            file=one.name,
        )
    if footer.encryption is not None:
        raise Unsupported(
            "its columns are encrypted, and a copy without keys would hold masked values only; rewrite it with the "
            "engine that has the keys",
            file=one.name,
        )


def same_schema(inputs: Sequence[InputFile]) -> None:
    """Raises ``InvalidQuery`` naming two files whose columns differ, and the first that does."""
    first = inputs[0]
    for other in inputs[1:]:
        if other.reader.schema_key == first.reader.schema_key:
            continue
        if difference := _difference(first.reader.root, other.reader.root):
            raise InvalidQuery(
                f"{first.name} and {other.name} have different columns ({difference}); give schema= to read both "
                "into one, or rewrite them by themselves"
            )


def _difference(one: OrcType, other: OrcType) -> str | None:
    left, right = dict(zip(one.names, one.children)), dict(zip(other.names, other.children))
    for name in left.keys() - right.keys():
        return f"only the first has {name!r}"
    for name in right.keys() - left.keys():
        return f"only the second has {name!r}"
    if list(left) != list(right):
        return f"{', '.join(one.names)} and {', '.join(other.names)}: another order"
    for name, child in left.items():
        if str(child) != str(right[name]):
            return f"{name!r} is {child} and {right[name]}"
    return None if str(one) == str(other) else f"{one} and {other}"


def read_options(inputs: Sequence[InputFile], options: ReadOptions) -> ReadOptions:
    """The options for reading rows so that writing them gives the same file: nothing is converted. Files of Spark are
    read in microseconds, which is all that Spark keeps, and which hold every year."""
    unit = options.timestamp_unit
    if unit == "ns" and all(SPARK_VERSION in one.reader.tail.footer.user_metadata for one in inputs):
        unit = "us"
    return options.override(
        strings="string", char="padded", calendar="proleptic", timestamp_ntz=False, wall_clock_zone=None,
        timestamp_unit=unit, encrypted="error",
    )  # fmt: skip
