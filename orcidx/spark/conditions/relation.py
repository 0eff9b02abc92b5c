"""Spark's own relation of a read, and the same relation without some of its files.

If few files remain, Spark reads them by their explicit paths, and no filter is needed. If many files remain, a filter
on ``_metadata.file_path`` selects them. Spark evaluates the filter when it plans, and again for each row."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from orcidx.spark.conditions.listed_files import Listing, listing_of
from orcidx.spark.sessions.catalog_tables import CatalogTable
from orcidx.spark.sessions.hadoop_files import SessionFiles
from orcidx.spark.sessions.spark_session import is_connect
from orcidx.spark.types.argument_types import Schema
from orcidx.spark.types.column_names import quoted
from orcidx.spark.types.spark_types import json_of_schema
from orcidx.storage import Source
from orcidx.storage.hadoop_store import HadoopStore
from orcidx.storage.listing import is_pattern
from orcidx.storage.stores import is_url

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


__all__ = ["LONGEST_FILTER", "MOST_NAMED", "Relation", "escaped", "paths_of", "relation_of"]

MOST_NAMED = 32
"""The maximum number of files that are read by explicit paths. Spark took 13.6 s to look up 2,000 paths."""
LONGEST_FILTER = 20_000
"""The maximum number of characters of a filter on names. The text of a plan contains the filter four times, and should
stay under 100 kB."""
FILES_A_CALL, FEW_FETCHED_FILES = 12, 120
"""If there are at most ``FEW_FETCHED_FILES`` files, one call to Spark returns ``FILES_A_CALL`` of them. An answer of
py4j above 8 kB takes 40 ms longer, because its second packet waits for an acknowledgement that the kernel delays (22
files take 0.4 ms, 24 files 43 ms)."""
COMPILED_ABOVE_FILES = 1000
"""With more files than this, a Java class of orcidx returns the paths, sizes and times. Compiling the class takes
0.3 s, once in a process. The class returns 20,000 files in 35 ms. Spark's text of the files' statuses takes 400 ms."""
LISTED_PER_LOOKUP = 4
"""Looking up one path costs as much as listing this many files. 17 of 24 files took 37 ms by their paths, and 14 ms by
a glob of their names."""
_MOST_UNUSUAL = 200
"""The maximum number of names with unusual characters that the JVM encodes, by one call each."""
_KNOWN = ("file:/", "hdfs://", "s3a://")
"""Schemes for which the encoding of names in ``_spelled`` was tested, with and without partitions."""
_SERVER = re.compile(r"\w+://[^/]*/")
_STATUS = re.compile(
    r"(?:^|\x01)\w*\{path=([^\x01]*?); isDirectory=false; length=(\d+);[^\x01]*?modification_time=(\d+);"
)
_GLOB = re.compile(r"([{}\[\]*?\\])")
_IN_GLOB = re.compile(r"[A-Za-z0-9_.=+-]+")
_PLAIN = re.compile(r"[A-Za-z0-9_.!~'()*:@&=+$,;/-]+")
"""Characters that ``java.net.URI`` does not encode in a path."""


@dataclass(frozen=True)
class Relation:
    """Spark's relation of a read. ``frame``: the DataFrame of the whole relation. ``root``: the directory of the
    relation, or None if the relation has several directories. ``options``: the options of Spark's reader. ``table``:
    the catalog's table, whose partitions may be anywhere."""

    spark: SparkSession
    frame: DataFrame
    root: str | None
    options: Mapping[str, str] = field(default_factory=dict)
    table: CatalogTable | None = None
    files: SessionFiles | None = None

    @cached_property
    def _files_relation(self) -> Any:
        """Spark's own relation of files, or None if the plan is not such a relation. Each step is a call to the JVM."""
        plan = self.frame._jdf.queryExecution().analyzed().collectLeaves().head()
        return plan.relation() if plan.getClass().getSimpleName() == "LogicalRelation" else None

    @cached_property
    def _location(self) -> Any:
        """Spark's file index, or None if this kind of file index does not give its files."""
        if self._files_relation is None:
            return None
        location = self._files_relation.location()
        if self.table is not None and location.getClass().getSimpleName() == "CatalogFileIndex":
            nothing = self.spark._jvm.java.lang.Class.forName("scala.collection.immutable.Nil$").getField("MODULE$")
            location = location.filterPartitions(nothing.get(None))
        return location

    @cached_property
    def listing(self) -> Listing | None:
        """The listing of the files, made with few calls to the JVM, or None if Spark does not give the files."""
        location = self._location
        if location is None:
            return None
        files = location.allFiles()
        if self.files is not None:
            return listing_of(self.files.columns(files))
        count = files.size()
        if count > COMPILED_ABOVE_FILES:
            return listing_of(SessionFiles(self.spark).columns(files))
        step = FILES_A_CALL if count <= FEW_FETCHED_FILES else count
        parts = [files.slice(at, at + step) for at in range(0, count, step)] if count > step else [files]
        slices = [part.mkString("\x01") for part in parts]
        text = "\x01".join(slices)
        found = _STATUS.findall(text)
        # A file's name may contain text that looks like a part of a status. Then the text cannot be split into
        # statuses, and orcidx's Java class returns them.
        if len(found) != count or text.count("; isDirectory=") != count:
            return listing_of(SessionFiles(self.spark).columns(files))
        names, sizes, times = zip(*found) if found else ((), (), ())
        return Listing(tuple(names), np.array(sizes, np.int64), np.array(times, np.int64))

    @cached_property
    def partition_columns(self) -> frozenset[str] | None:
        """The columns whose values come from directories or the catalog, or None if Spark does not give these
        columns."""
        if is_connect(self.spark) or self._files_relation is None:
            return None
        return frozenset(self._files_relation.partitionSchema().fieldNames())

    @property
    def named_files_are_alike(self) -> bool:
        """Whether files that are given by name get the same partition columns as in the whole relation."""
        if is_connect(self.spark):
            return self.root is not None and self.table is None
        if self.table is None and self.root is not None:
            return True
        unpartitioned = self._location.partitionSchema().isEmpty()
        if self.table is None:
            return bool(unpartitioned)
        # The partition values of a table come from Spark's catalog, and may differ from the directory names. Spark pads
        # CHAR values in the plan of the table, but not in a read of its files.
        return unpartitioned and not any("CHAR" in str(one.metadata) for one in self.frame.schema.fields)

    def of_files(self, names: Sequence[str], dropped: Sequence[str]) -> DataFrame:
        """The relation of some of the files, with the schema and the partitions of the whole relation."""
        reader = self.spark.read.options(**self.options)
        if is_connect(self.spark):
            reader = reader.schema(self.frame.schema)
        else:  # uses the JVM's own schema object, without a conversion to text
            reader._jreader = reader._jreader.schema(self.frame._jdf.schema())
        pattern = self._pattern(names, dropped)
        if pattern is not None and self.root is not None:
            return self._in_order(reader.option("pathGlobFilter", pattern).orc(paths_of(self.root)))
        if self.root is not None and not any(name.casefold() == "basepath" for name in self.options):
            reader = reader.option("basePath", self.root)
        return self._in_order(reader.orc([escaped(name) for name in names]))

    def _in_order(self, frame: DataFrame) -> DataFrame:
        """The relation with its columns in the order of the whole relation. For a given schema Spark puts the columns
        of directories last, even if the files store them between other columns."""
        columns = self.frame.columns
        if frame.columns == columns:
            return frame
        return frame.select(*map(quoted, columns))

    def _pattern(self, names: Sequence[str], dropped: Sequence[str]) -> str | None:
        """A glob of the files' names, if listing their directory again takes less time than looking up each path."""
        if is_connect(self.spark) or self.root is None or self.table is not None or self.options:
            return None
        if len(names) + len(dropped) > LISTED_PER_LOOKUP * len(names):
            return None
        last = {name.rpartition("/")[2] for name in names}
        if not last.isdisjoint(name.rpartition("/")[2] for name in dropped) or not all(map(_IN_GLOB.fullmatch, last)):
            return None
        return "{" + ",".join(sorted(last)) + "}"

    def by_names(self, kept: Sequence[str], dropped: Sequence[str]) -> DataFrame | None:
        """The relation with a filter on the names of its files. The filter has the names in ``kept`` or in ``dropped``,
        whichever are fewer.

        The result is None if such a filter is impossible. There are four reasons: there are too many names, a column
        has the name ``_metadata``, Spark may encode the names of this scheme differently, or a name has a quote. The
        meaning of a quote in SQL depends on a setting of the session."""
        names, word = (kept, "IN") if len(kept) <= len(dropped) else (dropped, "NOT IN")
        if any(one.casefold() == "_metadata" for one in self.frame.columns):
            return None
        base = self._base(names)
        spelled = self._spelled([base, *names]) if 2 * len(names) < LONGEST_FILTER else None
        if spelled is None or not all(name.startswith(spelled[0]) for name in spelled):
            return None
        start = len(spelled[0])
        texts = ", ".join(f"'{name[start:]}'" for name in spelled[1:])
        if len(texts) > LONGEST_FILTER:
            return None
        return self.frame.where(f"substring(_metadata.file_path, {start + 1}) {word} ({texts})")

    def _base(self, names: Sequence[str]) -> str:
        """The common prefix of all names."""
        if self.root is not None:
            return f"{self.root}/" if is_url(self.root) else f"file:{self.root}/"
        match = _SERVER.match(names[0]) if names else None
        return "file:/" if match is None else match[0]

    def _spelled(self, names: Iterable[str]) -> list[str] | None:
        """The names as ``_metadata.file_path`` has them, encoded like ``java.net.URI``. The result is None if the
        encoding is not known."""
        connect = is_connect(self.spark)
        paths: Any = None if connect else self.spark._jvm.org.apache.hadoop.fs
        spelled, unusual = [], 0
        for name in names:
            if not name.startswith(_KNOWN) or "'" in name or "\\" in name:
                return None
            if _PLAIN.fullmatch(name):
                spelled.append(name)
                continue
            unusual += 1
            if unusual > _MOST_UNUSUAL or connect:
                return None
            spelled.append(paths.Path(name).toUri().toString() + "/" * name.endswith("/"))
        return spelled


def relation_of(
    spark: SparkSession,
    path: str | Sequence[str],
    schema: Schema | None = None,
    *,
    options: Mapping[str, str] | None = None,
    table: CatalogTable | None = None,
    at: object = None,
) -> Relation:
    """Spark's relation for the ``path`` argument of ``orcidx.spark.read``. Raises Spark's own errors."""
    options = dict(options or {})
    if table is not None:
        return Relation(spark, spark.table(table.name), table.location, options, table, _files_of(at))
    reader = spark.read.options(**options)
    if schema is not None:
        from pyspark.sql.types import StructType

        reader = reader.schema(StructType.fromJson(json_of_schema(schema)))
    frame = reader.orc(paths_of(path))
    if isinstance(at, Source):
        location = str(at.location)
        whole = not is_pattern(location) and HadoopStore(at.filesystem).is_directory(location)
        return Relation(spark, frame, location if whole else None, options, files=at.filesystem)
    root = path if isinstance(path, str) and os.path.isdir(path) else None
    return Relation(spark, frame, None if root is None else os.path.abspath(root), options, files=_files_of(at))


def _files_of(at: object) -> SessionFiles | None:
    several = at if isinstance(at, list) else [at]
    return next((one.filesystem for one in several if isinstance(one, Source)), None)


def paths_of(path: str | Sequence[str]) -> list[str]:
    """The texts that Spark gets for one or several paths. Paths that exist are escaped, so Spark does not read them as
    globs."""
    paths = [path] if isinstance(path, str) else list(path)
    return [escaped(one) if os.path.exists(one) else one for one in paths]


def escaped(path: str) -> str:
    """Escapes a path, so that no character of the path is part of a glob."""
    return _GLOB.sub(r"\\\1", path)
