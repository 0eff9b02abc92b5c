"""Released Apache Paimon, driven over py4j inside Spark's JVM: an independent writer and reader of tables.

Paimon's bundle jar holds its whole table layer (catalog, writers, compaction, readers, file indexes). Rows travel as
ORC files, so that no value crosses py4j; the row loops are in ``PaimonBridge.java``, compiled by Spark's own Janino.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc

BRIDGE = Path(__file__).with_name("PaimonBridge.java")


class PaimonJava:
    """Tables under one warehouse folder; ``table(name)`` gives the Java object for anything not offered here."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.jvm = spark._jvm
        self.paimon = self.jvm.org.apache.paimon
        self._numbers = itertools.count()
        compiler = self.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(self.jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.setSourceVersion(8)
        compiler.setTargetVersion(8)
        compiler.cook(BRIDGE.read_text())
        bridge = compiler.getClassLoader().loadClass("orcidx.interop.PaimonBridge")
        self._methods = {method.getName(): method for method in bridge.getMethods()}
        options = self.paimon.options.Options()
        options.set("warehouse", (folder / "warehouse").as_uri())
        context = self.paimon.catalog.CatalogContext.create(options)
        self.catalog = self.paimon.catalog.CatalogFactory.createCatalog(context)
        self.catalog.createDatabase("db", True)

    def path(self, name: str) -> Path:
        """The table's folder, as ``orcidx.paimon.open_table`` takes it."""
        return self.folder / "warehouse" / "db.db" / name

    def table(self, name: str) -> Any:
        return self.catalog.getTable(self.paimon.catalog.Identifier.create("db", name))

    def create(
        self,
        name: str,
        columns: Mapping[str, str],
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> Path:
        """Makes a table of ORC files; ``columns`` maps names to Paimon's SQL types ("BIGINT NOT NULL")."""
        schema = self.paimon.schema.Schema.newBuilder()
        for column, text in columns.items():
            schema = schema.column(column, self.data_type(text))
        schema = schema.primaryKey(self._list(primary_keys)).partitionKeys(self._list(partition_keys))
        for option, value in {"file.format": "orc", **(options or {})}.items():
            schema = schema.option(option, value)
        self.catalog.createTable(self.paimon.catalog.Identifier.create("db", name), schema.build(), False)
        return self.path(name)

    def write(self, name: str, rows: pa.Table, *, kind: str = "INSERT", compact: bool = False) -> int:
        """Commits ``rows`` (columns in the table's order) as INSERT or DELETE; returns how many."""
        source = self._scratch("in.orc")
        pyarrow.orc.write_table(rows, source)
        return int(self._call("write", self.table(name), str(source), kind, compact, str(self._scratch("io"))))

    def read(self, name: str, where: Any = None, *, exact: bool = True) -> pa.Table:
        """The rows Paimon returns; ``where`` from ``leaf``. ``exact=False`` leaves out its row-by-row filter."""
        target = self._scratch("out.orc")
        self._call("read", self.table(name), where, exact, str(target), str(self._scratch("io")))
        return pyarrow.orc.read_table(target)

    def leaf(self, types: Any, column: str, operation: str, *literals: str) -> Any:
        """One comparison, literals as text; ``operation`` is a method of Paimon's PredicateBuilder ("lessThan", "in").

        ``types`` is a table's name or a mapping of column names to SQL types. Join leaves with ``both`` and ``either``.
        """
        row_type = self.table(types).rowType() if isinstance(types, str) else self.row_type(types)
        return self._call("leaf", row_type, column, operation, self._list(literals))

    def both(self, *predicates: Any) -> Any:
        return getattr(self.paimon.predicate.PredicateBuilder, "and")(self._list(predicates))

    def either(self, *predicates: Any) -> Any:
        return getattr(self.paimon.predicate.PredicateBuilder, "or")(self._list(predicates))

    def evaluate(self, index_file: Path, types: Mapping[str, str], where: Any) -> tuple[str, list[int]]:
        """Paimon's own file-index reader on one index file: ("REMAIN" | "SKIP" | "ROWS", positions)."""
        kind, *positions = str(self._call("evaluate", str(index_file), self.row_type(types), where)).split()
        return kind, [int(position) for position in positions]

    def data_type(self, text: str) -> Any:
        return self.paimon.types.DataTypeJsonParser.parseAtomicTypeSQLString(text)

    def row_type(self, types: Mapping[str, str]) -> Any:
        builder = self.paimon.types.RowType.builder()
        for column, text in types.items():
            builder = builder.field(column, self.data_type(text))
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

    def _call(self, method: str, *arguments: Any) -> Any:
        array = self.spark.sparkContext._gateway.new_array(self.jvm.java.lang.Object, len(arguments))
        for i, argument in enumerate(arguments):
            array[i] = argument
        return self._methods[method].invoke(None, array)
