"""Writes and reads tables with Paimon's own Spark connector, by SQL in the session of the test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orcidx.spark import read

NAMED = "paimon.db."


class PaimonSql:
    """Tables of the database ``db`` in the session's catalog ``paimon``."""

    def __init__(self, spark: Any) -> None:
        self.spark = spark
        self.warehouse = Path(spark.conf.get("spark.sql.catalog.paimon.warehouse").removeprefix("file://"))
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {NAMED[:-1]}")

    def path(self, name: str) -> Path:
        """The table's folder."""
        return self.warehouse / "db.db" / name

    def create(self, name: str, columns: str, *, partitions: str = "", options: Mapping[str, str]) -> Path:
        """Makes a table of ORC files."""
        given = ", ".join(f"'{key}' = '{value}'" for key, value in {"file.format": "orc", **options}.items())
        parted = f"PARTITIONED BY ({partitions})" if partitions else ""
        self.run(f"CREATE TABLE {NAMED}{name} ({columns}) {parted} TBLPROPERTIES ({given})")
        return self.path(name)

    def run(self, *statements: str) -> None:
        """Runs statements, in which ``{db}`` stands for the database."""
        for statement in statements:
            self.spark.sql(statement.replace("{db}", NAMED[:-1])).collect()

    def insert(self, name: str, select: str) -> None:
        self.run(f"INSERT INTO {NAMED}{name} {select}")

    def table(self, name: str, snapshot_id: int | None = None) -> Any:
        """Reads a table with the connector."""
        if snapshot_id is None:
            return self.spark.table(NAMED + name)
        return self.spark.sql(f"SELECT * FROM {NAMED}{name} VERSION AS OF {snapshot_id}")

    def check(
        self,
        name: str,
        where: str | None = None,
        columns: list[str] | None = None,
        *,
        pushed: bool = True,
        **given: Any,
    ) -> int:
        """Compares the schema and the rows of ``orcidx.spark.read`` with those of the connector. Returns the number of
        rows.

        With ``pushed=False`` the connector reads all rows, and Spark filters them.
        """
        expected = self.table(name, given.get("snapshot_id"))
        expected = expected if pushed else expected.localCheckpoint()
        expected = expected if where is None else expected.where(where)
        expected = expected if columns is None else expected.select(*columns)
        found = read(self.spark, self.path(name), columns, where, jvm_zone="UTC", **given)
        assert found.schema.simpleString() == expected.schema.simpleString()
        rows, wanted = counted(found), counted(expected)
        missing, surplus = list((wanted - rows).items())[:3], list((rows - wanted).items())[:3]
        assert rows == wanted, f"{where}: {wanted.total()} rows wanted, missing {missing}, surplus {surplus}"
        return rows.total()


def counted(frame: Any) -> Counter[str]:
    """Returns the rows as texts, because as text NaN equals NaN and -0.0 differs from 0.0."""
    return Counter(map(repr, frame.collect()))
