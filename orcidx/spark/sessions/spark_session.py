"""The facts about a Spark session that orcidx needs, and a function that starts a session.

The functions work with classic sessions and with Spark Connect. With Spark Connect there is no JVM in this process, so
the facts come from SQL functions.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.extras import needed
from orcidx.spark.sessions.orc_settings import CASE, INFERENCE, SETTINGS, ZONE, Gates, gates_of
from orcidx.spark.types.argument_types import JavaObject

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "JAVA_PACKAGE",
    "SessionFacts",
    "facts_of",
    "hadoop_has",
    "java_problem",
    "require_spark",
    "session",
    "spark_version",
]

JAVA_PACKAGE = "openjdk-17-jre-headless"
OLDEST_JAVA = 17
OLDEST_SPARK = (3, 5)
"""The oldest supported versions of Java and Spark."""


@dataclass(frozen=True)
class SessionFacts:
    """The facts about a session that planning needs.

    ``clock_zone``: the JVM's time zone, in which Spark reads ORC's TIMESTAMP. ``session_zone``: the zone of
    ``spark.sql.session.timeZone``, in which literals are written. ``slots``: how many tasks run at once, if known.
    ``gates``: the features that the settings of Spark's ORC source turn off."""

    clock_zone: str
    session_zone: str
    case_sensitive: bool
    infers_partitions: bool
    slots: int
    gates: Gates = field(default_factory=Gates)

    @property
    def of_query(self) -> dict[str, Any]:
        """The facts that ``Query`` needs. The keys are the names of the fields of ``Query``."""
        return {
            "clock_zone": self.clock_zone,
            "session_zone": self.session_zone,
            "case_sensitive": self.case_sensitive,
            "infer_partitions": self.infers_partitions,
            "other_values": self.gates.tasks,
        }


def java_problem() -> str | None:
    """The reason why Spark cannot start on this machine, with the package to install. The result is None if Java 17 or
    later is found."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java") if home else shutil.which("java")
    if java is None:
        return (
            f"there is no Java runtime here, but Spark needs Java {OLDEST_JAVA} or later: "
            f"install Debian's {JAVA_PACKAGE}"
        )
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', shown)
    if version is None or int(version[1]) < OLDEST_JAVA:
        first = shown.splitlines()[0] if shown else "its version is unknown"
        return (
            f"Spark needs Java {OLDEST_JAVA} or later, and {java} is older ({first}): install Debian's {JAVA_PACKAGE}"
        )
    return None


def require_spark() -> None:
    """Raises ``Unsupported`` if pyspark is missing or too old. The message names the package to install."""
    found = spark_version()
    if found < OLDEST_SPARK:
        raise Unsupported(f"orcidx.spark needs pyspark 3.5 or later, but {found[0]}.{found[1]} is installed")


def spark_version() -> tuple[int, int]:
    """Major and minor version of the installed pyspark. Raises ``Unsupported`` if pyspark is not installed."""
    with needed("pyspark"):
        import pyspark
    major, minor = re.findall(r"\d+", pyspark.__version__)[:2]
    return int(major), int(minor)


def session(master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Returns the running Spark session. If there is none, starts a session whose tasks run this Python.

    Parameters
    ----------
    master
        The master of a new session. None: ``local[*]``, unless Spark is configured otherwise.
    settings
        Settings of a new session.

    Returns
    -------
    pyspark.sql.SparkSession

    Raises
    ------
    Unsupported
        pyspark or Java 17 is missing. The message names the package to install.

    Examples
    --------
    >>> spark = orcidx.spark.session("local[2]")  # doctest: +SKIP
    """
    require_spark()
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        if master is not None or settings:
            raise InvalidQuery("a Spark session is already running: stop it first, or leave out master= and settings=")
        return active
    if problem := java_problem():
        raise Unsupported(problem)
    # Without this variable, tasks run the first python3 in PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("orcidx")
    if master is not None:
        builder = builder.master(master)
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is connected to a Spark Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def hadoop_has(spark: SparkSession, path: str) -> bool | None:
    """Whether Hadoop finds a path. The result is None if this cannot be found out."""
    if is_connect(spark):
        return None
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    try:
        found = spark._jvm.org.apache.hadoop.fs.Path(path)
        return bool(found.getFileSystem(spark._jsc.hadoopConfiguration()).exists(found))
    except Py4JJavaError:
        return None


@lru_cache(maxsize=1)
def _time_zones(jvm: JavaObject) -> JavaObject:
    """The Java class for time zones. It is kept, because py4j needs three round trips to look up its name."""
    return jvm.java.util.TimeZone


def facts_of(spark: SparkSession) -> SessionFacts:
    """Gets the facts from the session. Raises ``InvalidQuery`` for an object that is not a session."""
    require_spark()
    conf = getattr(spark, "conf", None)
    if conf is None or not hasattr(spark, "createDataFrame"):
        raise InvalidQuery(
            f"the first argument must be a SparkSession, not a {type(spark).__name__}; orcidx.spark.session() returns "
            "one"
        )
    if is_connect(spark):
        row = spark.sql("SELECT java_method('java.time.ZoneId', 'systemDefault')").first()
        zone, slots = str(row[0]), int(conf.get("spark.sql.leafNodeDefaultParallelism", None) or 0)
    else:
        zone = str(_time_zones(spark._jvm).getDefault().getID())
        slots = int(spark.sparkContext.defaultParallelism)
    settings = _settings_of(spark)
    return SessionFacts(
        clock_zone=zone,
        session_zone=settings(ZONE) or zone,  # by default, Spark uses the JVM's zone
        case_sensitive=(settings(CASE) or SETTINGS[CASE].default).lower() == "true",
        infers_partitions=(settings(INFERENCE) or SETTINGS[INFERENCE].default).lower() == "true",
        slots=max(1, slots),
        gates=gates_of(settings),
    )


def _settings_of(spark: SparkSession) -> Callable[[str], str | None]:
    """The configuration of Spark's ORC source: Hadoop's configuration, overridden by the session's settings. A setting
    that is not set is None.

    All settings of the session are fetched as one text, because a call of the JVM for each of them takes longer."""
    if is_connect(spark):
        return lambda name: spark.conf.get(name, None)
    found: dict[str, str] = {}
    hadoop = spark._jsc.hadoopConfiguration().getPropsWithPrefix("orc.").toString()
    for one in hadoop.strip("{}").split(", "):
        name, _, value = one.partition("=")
        found["orc." + name] = value
    for one in spark._jsparkSession.conf().getAll().mkString("\0").split("\0"):
        name, _, value = one.partition(" -> ")
        found[name] = value
    return found.get
