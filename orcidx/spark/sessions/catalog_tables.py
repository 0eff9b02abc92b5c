"""Finds the directories of tables in Spark's catalog by the tables' names. Then the indexes of these directories can be
used."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orcidx.errors import InvalidQuery
from orcidx.spark.sessions.spark_session import is_connect
from orcidx.spark.types.argument_types import Paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CatalogTable", "catalog_table"]

_PART = r"(?:\w+|`[^`]+`)"
_NAME = re.compile(rf"{_PART}(?:\.{_PART}){{0,2}}")


@dataclass(frozen=True)
class CatalogTable:
    """A table of the catalog. ``name``: the name in the session's SQL. ``location``: the directory of the table's
    files, or None if Spark does not give it."""

    name: str
    location: str | None


def catalog_table(spark: SparkSession, path: Paths) -> CatalogTable | None:
    """The table that ``path`` names. The result is None if ``path`` is the path of files, or a name that is not in the
    catalog.

    A file or directory of that name has priority. Raises ``InvalidQuery`` for views and for tables of another
    format."""
    if not isinstance(path, str) or not _NAME.fullmatch(path) or os.path.exists(path):
        return None
    if not spark.catalog.tableExists(path):
        return None
    if is_connect(spark):
        return CatalogTable(path, None)
    state = spark._jsparkSession.sessionState()
    parts = re.findall(_PART, path)
    if len(parts) == 3 and parts[0].strip("`").lower() != "spark_catalog":
        raise InvalidQuery(f"{path} is not in Spark's built-in catalog; read it with spark.table({path!r})")
    identifier = state.sqlParser().parseTableIdentifier(".".join(parts[-2:]))
    if state.catalog().isTempView(identifier):
        raise InvalidQuery(f"{path} is a temporary view: read it by spark.table({path!r})")
    found = state.catalog().getTableMetadata(identifier)
    kind = found.tableType().name()
    provider = found.provider().get() if found.provider().isDefined() else "none"
    if kind == "VIEW" or provider.lower() != "orc":
        what = "a view" if kind == "VIEW" else f"of the format {provider}"
        raise InvalidQuery(
            f"{path} is {what}, but orcidx.spark.read supports only ORC: read it by spark.table({path!r})"
        )
    uri = found.location()
    local = uri.getScheme() in (None, "file")
    return CatalogTable(path, uri.getPath() if local else uri.toString())
