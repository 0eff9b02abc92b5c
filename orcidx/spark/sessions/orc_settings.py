"""The settings and the metadata of columns that Spark's ORC source reads, and the effect of each in orcidx.

``SETTINGS`` has the settings from three sources: the classes of Spark 4.1's ``datasources.orc``; Spark's ``SQLConf``
(only settings about files, ORC, directories and CHAR); and ``org.apache.orc.OrcConf`` (only settings of readers). If a
setting changes values, orcidx applies the setting or turns off a feature. orcidx turns off "pruning" if the statistics
and indexes describe other values than the values that Spark reads. It turns off its own "tasks" if these tasks would
read other values than Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["CASE", "INFERENCE", "SETTINGS", "ZONE", "Gates", "Setting", "gates_of"]

CASE = "spark.sql.caseSensitive"
ZONE = "spark.sql.session.timeZone"
INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
Effect = Literal["honoured", "alike", "told", "pruning", "tasks"]


@dataclass(frozen=True)
class Setting:
    """The effect of a setting.

    ``default``: the value that changes nothing, in lower case. ``effect``: "honoured" if orcidx applies the setting;
    "alike" if rows do not depend on it; "told" if orcidx's tasks raise an error that says what to do; "pruning" if
    every value except the default turns off pruning; "tasks" if every value except the default turns off orcidx's
    tasks. ``why``: the reason for this effect, as the end of a sentence."""

    default: str
    effect: Effect
    why: str


SETTINGS: Mapping[str, Setting] = {
    CASE: Setting("false", "honoured", "names are compared with this rule, also at the action"),
    ZONE: Setting("", "honoured", "literals of times, and times in names of directories"),
    INFERENCE: Setting("true", "honoured", "types of directories"),
    "spark.sql.ansi.enabled": Setting("true", "honoured", "Spark analyses the condition"),
    "spark.sql.parser.escapedStringLiterals": Setting("false", "honoured", "Spark analyses the condition"),
    "spark.sql.ansi.doubleQuotedIdentifiers": Setting("false", "honoured", "Spark analyses the condition"),
    "spark.sql.orc.filterPushdown": Setting("true", "alike", "which stripes Spark skips"),
    "spark.sql.orc.aggregatePushdown": Setting("false", "alike", "for which files Spark uses only the footers"),
    "spark.sql.orc.enableVectorizedReader": Setting("true", "alike", "how Spark decodes"),
    "spark.sql.orc.enableNestedColumnVectorizedReader": Setting("true", "alike", "how Spark decodes"),
    "spark.sql.orc.columnarReaderBatchSize": Setting("4096", "alike", "how Spark decodes"),
    "spark.sql.files.maxPartitionBytes": Setting("", "alike", "how Spark cuts tasks"),
    "spark.sql.files.openCostInBytes": Setting("", "alike", "how Spark cuts tasks"),
    "spark.sql.files.minPartitionNum": Setting("", "alike", "how Spark cuts tasks"),
    "spark.sql.files.maxPartitionNum": Setting("", "alike", "how Spark cuts tasks"),
    "spark.sql.sources.useV1SourceList": Setting("", "alike", "which of Spark's two sources reads"),
    "spark.sql.sources.validatePartitionColumns": Setting("true", "alike", "an error of Spark about directories"),
    "spark.sql.legacy.noCharPaddingInPredicate": Setting("false", "alike", "conditions on CHAR skip nothing"),
    "orc.use.zerocopy": Setting("false", "alike", "how bytes are read"),
    "orc.min.disk.seek.size": Setting("0", "alike", "how bytes are read"),
    "orc.min.disk.seek.size.tolerance": Setting("0.0", "alike", "how bytes are read"),
    "orc.max.disk.range.chunk.limit": Setting("", "alike", "how bytes are read"),
    "orc.row.batch.size": Setting("", "alike", "how ORC decodes"),
    "orc.row.child.limit": Setting("", "alike", "how ORC decodes"),
    "orc.sarg.to.filter": Setting("false", "alike", "which of the rows that Spark filters are skipped by ORC"),
    "orc.filter.use.selected": Setting("false", "alike", "which of the rows that Spark filters are skipped by ORC"),
    "orc.bloom.filter.ignore.non-utf8": Setting("false", "alike", "which bloom filters ORC's reader uses"),
    "orc.key.provider": Setting("hadoop", "alike", "orcidx itself refuses encrypted columns"),
    "orc.tolerate.missing.schema": Setting("true", "alike", "an error of ORC about files without types"),
    "spark.sql.files.ignoreCorruptFiles": Setting("false", "told", "a damaged file is an error that names the option"),
    "spark.sql.files.ignoreMissingFiles": Setting("false", "told", "a missing file is an error"),
    "spark.sql.files.ignoreInvalidPartitionPaths": Setting("false", "told", "inconsistent directories are an error"),
    "orc.skip.corrupt.data": Setting("false", "told", "a damaged file is an error that names the option"),
    "orc.force.positional.evolution": Setting(
        "false", "pruning", "makes Spark find columns by position, but orcidx finds them by name"
    ),
    "orc.force.positional.evolution.level": Setting(
        "1", "alike", "has an effect only with orc.force.positional.evolution"
    ),
    "orc.max.file.length": Setting("9223372036854775807", "pruning", "makes Spark read files as if they ended earlier"),
    "spark.sql.orc.impl": Setting("native", "pruning", "makes Hive's reader find the columns"),
    "spark.sql.orc.mergeSchema": Setting(
        "false", "tasks", "makes Spark read the columns of all files, but orcidx's tasks read those of the first file"
    ),
    "orc.filter.plugin": Setting("false", "tasks", "makes filters of a plug-in skip rows"),
    "orc.proleptic.gregorian": Setting("false", "tasks", "makes Spark shift dates of old calendars"),
    "orc.proleptic.gregorian.default": Setting("false", "tasks", "makes Spark interpret dates in another calendar"),
    "orc.schema.evolution.case.sensitive": Setting("true", "tasks", "makes ORC ignore the case of struct fields"),
    "spark.sql.readSideCharPadding": Setting("true", "tasks", "makes Spark return CHAR as it is stored"),
    "spark.sql.legacy.charVarcharAsString": Setting("false", "tasks", "makes Spark treat CHAR as STRING"),
    "spark.sql.preserveCharVarcharTypeInfo": Setting("false", "tasks", "makes Spark keep CHAR as a type"),
}  # fmt: skip
_RESTRICTING = {name: one for name, one in SETTINGS.items() if one.effect in ("pruning", "tasks")}


@dataclass(frozen=True)
class Gates:
    """Reasons for turning off features. ``pruning``: the reason why no file may be skipped. ``tasks``: the reason why
    orcidx's tasks would read other rows than Spark. Each is None if there is no reason."""

    pruning: str | None = None
    tasks: str | None = None


def gates_of(value_of: Callable[[str], str | None]) -> Gates:
    """The features that the settings turn off. ``value_of`` returns the value of a setting, or None if the setting is
    not set."""
    found: dict[str, str] = {}
    for name, one in _RESTRICTING.items():
        value = value_of(name)
        if value is not None and value.strip().lower() != one.default:
            found.setdefault(one.effect, f"{name} {one.why}")
    return Gates(found.get("pruning"), found.get("pruning") or found.get("tasks"))
