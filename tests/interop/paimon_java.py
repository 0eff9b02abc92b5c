"""Calls a released version of Apache Paimon in Spark's JVM over py4j, as an independent writer and reader of tables.

Paimon's bundle jar has all code for tables (catalog, writers, compaction, readers, file indexes). Rows are passed as
ORC files, so that no single value is passed over py4j. The loops are in Java classes beside this file. Janino, which is
part of Spark, compiles these classes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc

BRIDGES = [Path(__file__).with_name(name) for name in ("PaimonBridge.java", "PaimonIndexBridge.java")]

SEPARATOR = "\x1f"


class PaimonJava:
    """Tables in one warehouse folder. ``table(name)`` returns the Java object, for methods that this class does not
    have."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.jvm = spark._jvm
        self.paimon = self.jvm.org.apache.paimon
        self._numbers = itertools.count()
        self._loader = self.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        self._methods: dict[str, Any] = {}
        for source in BRIDGES:
            self.compile(source)
        options = self.paimon.options.Options()
        options.set("warehouse", (folder / "warehouse").as_uri())
        context = self.paimon.catalog.CatalogContext.create(options)
        self.catalog = self.paimon.catalog.CatalogFactory.createCatalog(context)
        self.catalog.createDatabase("db", True)

    def compile(self, source: Path) -> None:
        """Adds the static methods of a Java class, which may use the classes that were added before. ``call`` runs
        them."""
        compiler = self.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(self._loader)
        compiler.setSourceVersion(8)
        compiler.setTargetVersion(8)
        text = source.read_text()
        compiler.cook(text)
        self._loader = compiler.getClassLoader()
        package = text.partition("package ")[2].partition(";")[0]
        found = self._loader.loadClass(f"{package}.{source.stem}")
        self._methods.update({method.getName(): method for method in found.getDeclaredMethods()})

    def path(self, name: str) -> Path:
        """The table's folder, as ``orcidx.paimon.open_table`` takes it."""
        return self.folder / "warehouse" / "db.db" / name

    def table(self, name: str) -> Any:
        return self.catalog.getTable(self.paimon.catalog.Identifier.create("db", name))

    def create(
        self,
        name: str,
        columns: Mapping[str, Any],
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> Path:
        """Makes a table of ORC files. ``columns`` maps names to types that ``data_type`` takes, such as "BIGINT NOT
        NULL"."""
        schema = self.paimon.schema.Schema.newBuilder()
        for column, kind in columns.items():
            schema = schema.column(column, self.data_type(kind))
        schema = schema.primaryKey(self._list(primary_keys)).partitionKeys(self._list(partition_keys))
        for option, value in {"file.format": "orc", **(options or {})}.items():
            schema = schema.option(option, value)
        self.catalog.createTable(self.paimon.catalog.Identifier.create("db", name), schema.build(), False)
        return self.path(name)

    def write(
        self,
        name: str,
        rows: pa.Table,
        *,
        kind: str = "INSERT",
        compact: bool = False,
        carrier: Callable[[pa.Table, str], Any] = pyarrow.orc.write_table,
    ) -> int:
        """Commits ``rows``, with columns in the table's order, as INSERT or DELETE. Returns the number of rows.

        ``carrier`` is the function that writes the rows to an ORC file, which Java then reads. The default is pyarrow's
        function. For times before 1970, Java refuses the nanoseconds in pyarrow's files.
        """
        source = self._scratch("in.orc")
        carrier(rows, str(source))
        return int(self.call("write", self.table(name), str(source), kind, compact, str(self._scratch("io"))))

    def compact(self, name: str, user: str) -> int:
        """Compacts an append table without buckets. Returns the number of compacted files."""
        return int(self.call("compact", self.table(name), user, str(self._scratch("io"))))

    def read(self, name: str, where: Any = None, *, exact: bool = True) -> pa.Table:
        """Returns the rows that Paimon reads. ``where`` comes from ``leaf``. With ``exact=False``, Paimon does not
        filter single rows, so only its index and statistics exclude rows."""
        target = self._scratch("out.orc")
        self.call("read", self.table(name), where, exact, str(target), str(self._scratch("io")))
        return pyarrow.orc.read_table(target)

    def leaf(self, types: Any, column: str, operation: str, *literals: str) -> Any:
        """Makes one comparison. Literals are texts. ``operation`` is a method of Paimon's PredicateBuilder ("lessThan",
        "in").

        ``types`` is a table's name or a mapping of column names to SQL types. Join leaves with ``both`` and ``either``.
        """
        row_type = self.table(types).rowType() if isinstance(types, str) else self.row_type(types)
        return self.call("leaf", row_type, column, operation, self._list(literals))

    def both(self, *predicates: Any) -> Any:
        return getattr(self.paimon.predicate.PredicateBuilder, "and")(self._list(predicates))

    def either(self, *predicates: Any) -> Any:
        return getattr(self.paimon.predicate.PredicateBuilder, "or")(self._list(predicates))

    def evaluate(self, index_file: Path, types: Mapping[str, Any], where: Any) -> tuple[str, list[int]]:
        """Runs Paimon's file-index reader on one index file. Returns ("REMAIN" | "SKIP" | "ROWS", positions)."""
        kind, *positions = str(self.call("evaluate", str(index_file), self.row_type(types), where)).split()
        return kind, [int(position) for position in positions]

    def answers(
        self, container: bytes | Path, types: Mapping[str, str], questions: Sequence[Sequence[str]]
    ) -> list[tuple[str, list[int]]]:
        """Returns Paimon's answers to many comparisons, in the form of ``evaluate``. A comparison is (column,
        operation, literals as text).

        ``container``: bytes as a manifest embeds them, or a sidecar's path.
        """
        given = container if isinstance(container, bytes) else str(container)
        text = "\n".join(SEPARATOR.join(question) for question in questions)
        found = str(self.call("answers", given, self.row_type(types), text)).splitlines()
        assert len(found) == len(questions)
        return [_answer(line) for line in found]

    def top(
        self,
        container: bytes,
        types: Mapping[str, str],
        column: str,
        k: int,
        *,
        descending: bool,
        nulls_first: bool,
        strict: bool,
        selection: Sequence[int] | None,
    ) -> tuple[str, list[int]]:
        """Returns the rows of Paimon's TopN on one column, within a selection of rows."""
        rows = None if selection is None else " ".join(map(str, selection))
        order = (column, descending, nulls_first, k, strict, rows)
        return _answer(str(self.call("top", container, self.row_type(types), *order)))

    def deleted(
        self, path: str, offset: int, length: int, cardinality: int, candidates: Sequence[int]
    ) -> tuple[str, int, list[int]]:
        """Reads a deletion vector with Paimon. Returns its kind ("32" or "64"), its number of positions, and the
        candidates that it contains."""
        asked = " ".join(map(str, candidates))
        kind, count, *positions = str(self.call("deleted", path, offset, length, cardinality, asked)).split()
        return kind, int(count), [int(position) for position in positions]

    def hashes(self, name: str, file: str) -> list[int]:
        """Returns the hashes that Paimon reads from a file in the table's ``index`` folder."""
        return [int(word) for word in str(self.call("hashes", self.table(name), file)).split()]

    def key_hashes(self, types: Mapping[str, str], rows: pa.Table) -> list[int]:
        """Returns Paimon's hash of every row as a key."""
        source = self._scratch("keys.orc")
        pyarrow.orc.write_table(rows, source)
        return [int(word) for word in str(self.call("keyHashes", self.row_type(types), str(source))).split()]

    def buckets(self, name: str, orc_file: Path) -> list[int]:
        """Returns the bucket of each row of an ORC file that has the table's columns."""
        return [int(word) for word in str(self.call("buckets", self.table(name), str(orc_file))).split()]

    def write_instants(self, name: str, micros: Sequence[int]) -> None:
        """Commits rows to a table with two columns: a number that counts from 0, and an instant."""
        self.call("writeInstants", self.table(name), " ".join(map(str, micros)))

    def commit_file_indexes(self, name: str, indexes: Mapping[str, bytes | str]) -> None:
        """Gives each data file its index: bytes to embed, or the name of a sidecar beside it."""
        given = self.jvm.java.util.HashMap()
        for file, index in indexes.items():
            given.put(file, index)
        self.call("commitFileIndexes", self.table(name), given)

    def commit_deletions(self, name: str, ranges: Mapping[str, Any]) -> None:
        """Commits the files that ``write_deletion_vectors`` wrote to the table's ``index`` folder. They replace the old
        deletion vectors."""
        folder = self.path(name) / "index"
        lines = [
            SEPARATOR.join([Path(where.path).name, file, *map(str, (where.offset, where.length, where.cardinality))])
            for file, where in ranges.items()
        ]
        self.call("commitDeletions", self.table(name), str(folder), "\n".join(lines))

    def data_type(self, kind: Any) -> Any:
        """Returns the Java type of an SQL text. Nested types are not parsed, so pass a Java ``DataType`` for them."""
        return self.paimon.types.DataTypeJsonParser.parseAtomicTypeSQLString(kind) if isinstance(kind, str) else kind

    def row_type(self, types: Mapping[str, Any]) -> Any:
        builder = self.paimon.types.RowType.builder()
        for column, kind in types.items():
            builder = builder.field(column, self.data_type(kind))
        return builder.build()

    def _list(self, items: Sequence[Any]) -> Any:
        values = self.jvm.java.util.ArrayList()
        for item in items:
            values.add(item)
        return values

    def _scratch(self, name: str) -> Path:
        folder = self.folder / f"scratch-{next(self._numbers)}"
        folder.mkdir()
        return folder / name

    def call(self, method: str, *arguments: Any) -> Any:
        """Runs a static method of the compiled classes. Integers arrive as Integer or Long, depending on their size."""
        array = self.spark.sparkContext._gateway.new_array(self.jvm.java.lang.Object, len(arguments))
        for i, argument in enumerate(arguments):
            array[i] = argument
        return self._methods[method].invoke(None, array)


def _answer(line: str) -> tuple[str, list[int]]:
    kind, *positions = line.split()
    return kind, [int(position) for position in positions]
