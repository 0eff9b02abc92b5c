"""``SETTINGS`` has every setting that Spark's ORC source reads, and its effect. Settings that can change rows must be
in the documentation."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orcidx.spark.sessions.orc_settings import SETTINGS, gates_of

DOCS = Path(__file__).parents[2] / "docs" / "tutorials" / "spark.md"
OF_WRITERS = re.compile(
    r"orc\.(base|block|bloom\.filter\.(columns|fpp|write)|buffer|column|compress|create|default|dictionary|encoding|"
    r"encrypt|mask|memory|overwrite|row\.index|rows|stripe|write)|spark\.sql\.(orc\.(compression|columnarWriter)|"
    r"files\.maxRecords)"
)
OF_READERS_OWN_CALLS = {
    "orc.filter.plugin.allowlist",
    "orc.include.columns",
    "orc.kryo.sarg",
    "orc.kryo.sarg.buffer",
    "orc.mapred.input.schema",
    "orc.sarg.column.names",
    "spark.sql.files.supportSecondOffsetFormat",
    "spark.sql.charAsVarchar",
}
"""Settings that Spark itself sets for each read, that have an effect only with another setting, or that concern table
definitions."""
METADATA = {"EXISTS_DEFAULT", "CURRENT_DEFAULT", "__CHAR_VARCHAR_TYPE_STRING", "__COLLATIONS", "comment"}
"""Keys of a column's metadata that Spark uses. All other keys belong to the caller."""


def constants(data: bytes) -> Iterator[str]:
    """Yields the texts in a class file (Java Virtual Machine Specification, 4.4)."""
    count, at, number = struct.unpack_from(">H", data, 8)[0], 10, 1
    sizes = {7: 3, 8: 3, 16: 3, 19: 3, 20: 3, 15: 4, 3: 5, 4: 5, 9: 5, 10: 5, 11: 5, 12: 5, 17: 5, 18: 5, 5: 9, 6: 9}
    while number < count:
        kind = data[at]
        if kind == 1:
            size = struct.unpack_from(">H", data, at + 1)[0]
            yield data[at + 3 : at + 3 + size].decode("utf-8", "replace")
            at += 3 + size
        else:
            at += sizes[kind]
        number += 2 if kind in (5, 6) else 1


def texts_of(jar: str, name: str) -> set[str]:
    pyspark = pytest.importorskip("pyspark")
    (found,) = (Path(pyspark.__file__).parent / "jars").glob(jar)
    with zipfile.ZipFile(found) as archive:
        return set(constants(archive.read(name)))


def test_settings_of_spark_and_of_orc_are_listed() -> None:
    of_spark = texts_of("spark-catalyst_*.jar", "org/apache/spark/sql/internal/SQLConf$.class")
    of_orc = texts_of("orc-core-*.jar", "org/apache/orc/OrcConf.class")
    names = {one for one in of_spark if re.fullmatch(r"spark\.sql\.(orc|files)\.[\w.]+", one)}
    names |= {one for one in of_spark if re.fullmatch(r"spark\.sql\..*(Char[A-Z]|charVarchar|CharVarchar)\w*", one)}
    names |= {one for one in of_orc if re.fullmatch(r"orc\.[\w.-]+", one) and ".output." not in one}
    names -= {one for one in names if OF_WRITERS.match(one)} | OF_READERS_OWN_CALLS
    assert len(names) > 25
    assert not {one for one in names if one not in SETTINGS and not one.startswith("orc.mapred.")}


def test_the_documentation_has_what_changes_rows() -> None:
    text = DOCS.read_text()
    told = {name for name, one in SETTINGS.items() if one.effect not in ("alike",)} | METADATA
    assert not {name for name in told if f"`{name}" not in text}


def test_what_settings_shut() -> None:
    assert gates_of({}.get) == gates_of({name: one.default for name, one in SETTINGS.items()}.get)
    for name, one in SETTINGS.items():
        gates = gates_of({name: "else"}.get)
        assert (gates.pruning is not None) == (one.effect == "pruning"), name
        assert (gates.tasks is not None) == (one.effect in ("pruning", "tasks")), name
        assert all(name in text for text in (gates.pruning, gates.tasks) if text), name
