"""ORC Java's own writer over py4j. The given values go into its vectors directly, without Spark's conversions."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class JavaWriter:
    """Writes batches of a schema over py4j. It fills columns value by value, so the batches should be short."""

    def __init__(self, spark: Any, path: Path, schema: str, **settings: Any) -> None:
        jvm = spark._jvm
        self.spark, self.jvm = spark, jvm
        self.schema = jvm.org.apache.orc.TypeDescription.fromString(schema)
        conf = jvm.org.apache.hadoop.conf.Configuration(spark._jsc.hadoopConfiguration())
        for name, value in settings.items():
            conf.set(name.replace("__", "."), str(value))
        options = jvm.org.apache.orc.OrcFile.writerOptions(conf).setSchema(self.schema)
        self.writer = jvm.org.apache.orc.OrcFile.createWriter(jvm.org.apache.hadoop.fs.Path(path.as_uri()), options)

    def write(self, rows: list[tuple[Any, ...]]) -> None:
        batch = self.schema.createRowBatch(len(rows))
        set_field(batch, "size", len(rows))
        children = self.schema.getChildren()
        for at, vector in enumerate(get_field(batch, "cols")):
            self.fill(vector, children[at], [row[at] for row in rows])
        self.writer.addRowBatch(batch)
        self.writer.close()

    def fill(self, vector: Any, schema: Any, values: list[Any]) -> None:
        kind = schema.getCategory().getName()
        for i, value in enumerate(values):
            if value is None:
                set_field(vector, "noNulls", False)
                get_field(vector, "isNull")[i] = True
        if kind == "uniontype":
            self._fill_union(vector, schema, values)
            return
        if kind == "struct":
            for place, (child, below) in enumerate(zip(get_field(vector, "fields"), schema.getChildren())):
                self.fill(child, below, [None if value is None else value[place] for value in values])
            return
        if kind == "array":
            self._fill_list(vector, schema, values)
            return
        for i, value in enumerate(values):
            if value is None:
                continue
            if kind in ("string", "char", "varchar", "binary"):
                vector.setVal(i, bytearray(value if isinstance(value, bytes) else value.encode()))
            elif kind == "decimal":
                vector.set(i, self.jvm.org.apache.hadoop.hive.common.type.HiveDecimal.create(str(value)))
            elif kind.startswith("timestamp"):
                seconds, nanos = divmod(value, 10**9)
                get_field(vector, "time")[i] = seconds * 1000 + nanos // 10**6
                get_field(vector, "nanos")[i] = nanos
            else:
                get_field(vector, "vector")[i] = value

    def _fill_union(self, vector: Any, schema: Any, values: list[Any]) -> None:
        tags = get_field(vector, "tags")
        for i, value in enumerate(values):
            if value is not None:
                tags[i] = value[0]
        for tag, (child, below) in enumerate(zip(get_field(vector, "fields"), schema.getChildren())):
            chosen = [None if value is None or value[0] != tag else value[1] for value in values]
            self.fill(child, below, chosen)

    def _fill_list(self, vector: Any, schema: Any, values: list[Any]) -> None:
        items = [item for value in values for item in value or []]
        get_field(vector, "child").ensureSize(len(items), False)
        at = 0
        for i, value in enumerate(values):
            get_field(vector, "offsets")[i] = at
            get_field(vector, "lengths")[i] = len(value or [])
            at += len(value or [])
        set_field(vector, "childCount", at)
        self.fill(get_field(vector, "child"), schema.getChildren()[0], items)


def get_field(target: Any, name: str) -> Any:
    from py4j.java_gateway import get_field

    return get_field(target, name)


def set_field(target: Any, name: str, value: Any) -> None:
    from py4j.java_gateway import set_field

    set_field(target, name, value)
