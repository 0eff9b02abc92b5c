"""The settings and the metadata of columns that Spark's ORC source reads, and the effect of each in orcidx.

The list has the names in the classes of Spark 4.1's ``datasources.orc``, those in its ``SQLConf`` about files, ORC,
directories and CHAR, and those of readers in ``org.apache.orc.OrcConf``. A setting that changes values is honoured, or
it turns off what would be wrong: "pruning", because the evidence is about other values, or "tasks", because orcidx's
own tasks would read other values than Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["SETTINGS", "Gates", "Setting", "gates_of"]

Effect = Literal["honoured", "alike", "told", "pruning", "tasks"]


@dataclass(frozen=True)
class Setting:
    """``default``: the value that changes nothing, in lower case. ``effect``: "honoured"; "alike" where rows do not
    depend on the setting; "told" where orcidx's tasks raise an error that says what to do; else what any other value
    turns off. ``why``: a sentence about it."""

    default: str
    effect: Effect
    why: str


SETTINGS: Mapping[str, Setting] = {
    "spark.sql.caseSensitive": Setting("false", "honoured", "names are compared so, also at the action"),
    "spark.sql.session.timeZone": Setting("", "honoured", "literals of times, and times in names of directories"),
    "spark.sql.sources.partitionColumnTypeInference.enabled": Setting("true", "honoured", "types of directories"),
    "spark.sql.ansi.enabled": Setting("true", "honoured", "Spark analyses the condition"),
    "spark.sql.parser.escapedStringLiterals": Setting("false", "honoured", "Spark analyses the condition"),
    "spark.sql.ansi.doubleQuotedIdentifiers": Setting("false", "honoured", "Spark analyses the condition"),
    "spark.sql.orc.filterPushdown": Setting("true", "alike", "which stripes Spark passes over"),
    "spark.sql.orc.aggregatePushdown": Setting("false", "alike", "which files Spark answers from their footers"),
    "spark.sql.orc.enableVectorizedReader": Setting("true", "alike", "how Spark decodes"),
    "spark.sql.orc.enableNestedColumnVectorizedReader": Setting("true", "alike", "how Spark decodes"),
    "spark.sql.orc.columnarReaderBatchSize": Setting("4096", "alike", "how Spark decodes"),
    "spark.sql.files.maxPartitionBytes": Setting("", "alike", "how Spark cuts tasks"),
    "spark.sql.files.openCostInBytes": Setting("", "alike", "how Spark cuts tasks"),
    "spark.sql.files.minPartitionNum": Setting("", "alike", "how Spark cuts tasks"),
    "spark.sql.files.maxPartitionNum": Setting("", "alike", "how Spark cuts tasks"),
    "spark.sql.sources.useV1SourceList": Setting("", "alike", "which of Spark's two sources reads"),
    "spark.sql.sources.validatePartitionColumns": Setting("true", "alike", "an error of Spark's for directories"),
    "spark.sql.legacy.noCharPaddingInPredicate": Setting("false", "alike", "a CHAR rules nothing out"),
    "orc.use.zerocopy": Setting("false", "alike", "how bytes are read"),
    "orc.min.disk.seek.size": Setting("0", "alike", "how bytes are read"),
    "orc.min.disk.seek.size.tolerance": Setting("0.0", "alike", "how bytes are read"),
    "orc.max.disk.range.chunk.limit": Setting("", "alike", "how bytes are read"),
    "orc.row.batch.size": Setting("", "alike", "how ORC decodes"),
    "orc.row.child.limit": Setting("", "alike", "how ORC decodes"),
    "orc.sarg.to.filter": Setting("false", "alike", "which rows ORC passes over, of those that Spark filters"),
    "orc.filter.use.selected": Setting("false", "alike", "which rows ORC passes over, of those that Spark filters"),
    "orc.bloom.filter.ignore.non-utf8": Setting("false", "alike", "which filters ORC's reader believes"),
    "orc.key.provider": Setting("hadoop", "alike", "encrypted columns are orcidx's to refuse"),
    "orc.tolerate.missing.schema": Setting("true", "alike", "an error of ORC's for files without types"),
    "spark.sql.files.ignoreCorruptFiles": Setting("false", "told", "a damaged file is an error that names the option"),
    "spark.sql.files.ignoreMissingFiles": Setting("false", "told", "a file that has gone is an error"),
    "spark.sql.files.ignoreInvalidPartitionPaths": Setting("false", "told", "directories that differ are an error"),
    "orc.skip.corrupt.data": Setting("false", "told", "a damaged file is an error that names the option"),
    "orc.force.positional.evolution": Setting(
        "false", "pruning", "has Spark find columns by their places, and orcidx finds them by name"
    ),
    "orc.force.positional.evolution.level": Setting("1", "alike", "of orc.force.positional.evolution"),
    "orc.max.file.length": Setting("9223372036854775807", "pruning", "has Spark read files as if they ended sooner"),
    "spark.sql.orc.impl": Setting("native", "pruning", "has Hive's reader find the columns"),
    "spark.sql.orc.mergeSchema": Setting(
        "false", "tasks", "has Spark read the columns of all files, and orcidx's tasks those of the first"
    ),
    "orc.filter.plugin": Setting("false", "tasks", "has filters of a plug-in leave out rows"),
    "orc.proleptic.gregorian": Setting("false", "tasks", "has Spark shift dates of old calendars"),
    "orc.proleptic.gregorian.default": Setting("false", "tasks", "has Spark take dates for those of another calendar"),
    "orc.schema.evolution.case.sensitive": Setting("true", "tasks", "has ORC find fields of structs by other letters"),
    "spark.sql.readSideCharPadding": Setting("true", "tasks", "has Spark leave CHAR as it is stored"),
    "spark.sql.legacy.charVarcharAsString": Setting("false", "tasks", "has Spark take CHAR for STRING"),
    "spark.sql.preserveCharVarcharTypeInfo": Setting("false", "tasks", "has Spark keep CHAR as a type"),
}  # fmt: skip
_SHUT = {name: one for name, one in SETTINGS.items() if one.effect in ("pruning", "tasks")}


@dataclass(frozen=True)
class Gates:
    """``pruning``: why no file may be left out. ``tasks``: why orcidx's tasks would read other rows than Spark. Each is
    None where there is no reason."""

    pruning: str | None = None
    tasks: str | None = None


def gates_of(value_of: Callable[[str], str | None]) -> Gates:
    """What the settings turn off. ``value_of``: gives the value of a setting, if it is set."""
    found: dict[str, str] = {}
    for name, one in _SHUT.items():
        value = value_of(name)
        if value is not None and value.strip().lower() != one.default:
            found.setdefault(one.effect, f"{name} {one.why}")
    return Gates(found.get("pruning"), found.get("pruning") or found.get("tasks"))
