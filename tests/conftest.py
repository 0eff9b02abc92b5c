"""Fixtures shared by all tests: golden files, a Spark session, Paimon's Java, seeds, and the house's strictness.

A test that cannot run here (no Java, no jar, no golden files) skips and says what to install. ``ORCIDX_REQUIRE_ALL=1``
turns every skip into a failure; ``.ci/run`` sets it, so that CI can not pass by leaving things out. With
``ORCIDX_REQUIRE_ALL=but-golden`` only those may skip that need golden files, which a public runner does not have.
"""

from __future__ import annotations

import gc
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from goldens import GOLDEN_ORC, GOLDEN_PAIMON, absent

from orcidx.spark.sessions.spark_session import java_problem, spark_version

ROOT = Path(__file__).resolve().parent.parent
SEED = int(os.environ.get("ORCIDX_SEED", "20261121"))
REQUIRE_ALL = os.environ.get("ORCIDX_REQUIRE_ALL", "") not in ("", "0")
BUT_GOLDEN = os.environ.get("ORCIDX_REQUIRE_ALL", "") == "but-golden"
WITHOUT = os.environ.get("ORCIDX_WITHOUT", "")
"""Levels of ``pruning/levels`` that are off in the whole run, separated by commas; "all"."""
TURNED_OFF = "which ORCIDX_WITHOUT turns off"
PAIMON_JAR = "paimon-bundle-1.4.2.jar"
CONNECTOR_JAR = "paimon-spark-3.5-0.9.0.jar"
CONNECTOR_SPARK = (3, 5)
"""The version of Spark that the connector is built for; the bundle, whose classes it has too, stays out of it."""
MOST_WORKERS = 4
SHORT_LIVED = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Options of a JVM that soon ends: without the second compiler the Spark tests take 28 s of its processor, not 63."""

hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "dev")

_MARKER_OF_FIXTURE = {
    "spark": "java",
    "paimon_java": "maven",
    "paimon_sql": "connector",
    "golden_orc": "golden",
    "golden_paimon": "golden",
}


def pytest_report_header() -> list[str]:
    strict = ", skips fail (ORCIDX_REQUIRE_ALL)" if REQUIRE_ALL else ""
    off = f", without {WITHOUT} (ORCIDX_WITHOUT)" if WITHOUT else ""
    return [f"orcidx: seed {SEED} (ORCIDX_SEED){strict}{off}"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for fixture, marker in _MARKER_OF_FIXTURE.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(marker)
    if hasattr(config, "workerinput"):  # the longest part first, so that nobody waits for it at the end
        items.sort(key=lambda item: not _needs_jvm(item))


def _needs_jvm(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A worker for each core, at most four; none for a single test or file, which would only wait for their start."""
    if len(config.args) == 1 and config.args[0].partition("::")[0].endswith(".py"):
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_WORKERS) if cores > 1 else 0


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Whole files go to a worker, and all that have tests with the JVM to one; the controller knows files alone."""
    from xdist.scheduler import LoadFileScheduling

    @cache
    def scope_of(file: str) -> str:
        asks = re.search(r"^def \w+\([^)]*\b(spark|paimon_java)\b", (config.rootpath / file).read_text(), re.MULTILINE)
        return "jvm" if asks else file

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid.partition("::")[0])

    return Scheduling(config, log)


def _may_skip(reason: object) -> bool:
    """Whether a test that skipped for this reason is not a failure although ``ORCIDX_REQUIRE_ALL`` is set."""
    said = str(reason[-1] if isinstance(reason, tuple) else reason)
    if WITHOUT and said.endswith(TURNED_OFF):
        return True
    return BUT_GOLDEN and any(absent(folder) in said for folder in (GOLDEN_ORC, GOLDEN_PAIMON))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail") and not _may_skip(report.longrepr):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} skipped, and ORCIDX_REQUIRE_ALL is set: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    report = yield
    if REQUIRE_ALL and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid} skipped, and ORCIDX_REQUIRE_ALL is set: {report.longrepr}"
    return report


@pytest.fixture(autouse=True)
def no_ignored_exception() -> Iterator[None]:
    """Fails the test in which an exception was swallowed ("Exception ignored in ..."), as a nogil kernel could do."""
    ignored: list[str] = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda args: ignored.append(f"{args.err_msg or 'Exception ignored in'} {args.exc_value!r}")
    try:
        yield
    finally:
        sys.unraisablehook = before
    assert not ignored, ignored


@pytest.fixture(autouse=WITHOUT != "", scope="session")
def levels_off() -> Iterator[None]:
    """With ``ORCIDX_WITHOUT``, for random suites: what the levels give must be what is read without them."""
    from pruning.levels import LEVELS, without

    with without(*(LEVELS if WITHOUT == "all" else WITHOUT.split(","))):
        yield


def _levels_off(*levels: str) -> list[str]:
    """Which of these levels are off in the whole run."""
    from pruning.levels import LEVELS

    assert not set(levels) - set(LEVELS), f"{levels} are no levels"
    off = LEVELS if WITHOUT == "all" else WITHOUT.split(",")
    return [level for level in levels if level in off]


@pytest.fixture
def saves() -> Callable[..., bool]:
    """``if saves("catalog"): assert ...``: what a test says of the work that levels save, or of where a total comes
    from. It says nothing of that where ``ORCIDX_WITHOUT`` turns one of them off; rows and totals it compares all the
    same. A test that is about levels alone has the marker ``levels``."""
    return lambda *levels: not _levels_off(*levels)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("levels"):
        if off := _levels_off(*marker.args):
            pytest.skip(f"it is about the {', '.join(off)}, {TURNED_OFF}")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that depend on ``ORCIDX_SEED`` and on the test's name, not on the order of the tests."""
    return np.random.default_rng([SEED, zlib.crc32(request.node.nodeid.encode())])


def _present(folder: Path) -> Path:
    if not folder.is_dir():
        pytest.skip(absent(folder))
    return folder


@pytest.fixture(scope="session")
def golden_orc() -> Path:
    """ORC's example files with their expected rows (JSON lines in ``expected/``)."""
    return _present(GOLDEN_ORC)


@pytest.fixture(scope="session")
def golden_paimon() -> Path:
    """Index files, deletion vectors, hash files and tables that Paimon's Java wrote, with its answers."""
    return _present(GOLDEN_PAIMON)


def jar_cache() -> Path:
    """Where ``.ci/fetch-paimon`` puts jars."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("ORCIDX_JARS") or cache / "orcidx" / "jars")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One local Spark session of two cores and little memory, with Paimon's jar when ``.ci/fetch-paimon`` got it: the
    bundle, or in a session of Spark 3.5 the connector, with a catalog ``paimon``."""
    if problem := java_problem():
        pytest.skip(problem)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Workers start in the checkout, whose sources must not stand in for the installed package.
    os.environ["PYTHONSAFEPATH"] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*_source_tree(), os.environ.get("PYTHONPATH")]))
    os.environ["SPARK_SUBMIT_OPTS"] = SHORT_LIVED  # for the sessions of processes that tests start, too
    from pyspark.sql import SparkSession

    scratch = tmp_path_factory.mktemp("spark")
    jar = jar_cache() / (CONNECTOR_JAR if spark_version() == CONNECTOR_SPARK else PAIMON_JAR)
    settings = {
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.local.dir": f"{scratch}/local",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch}/derby",
        "spark.jars": os.environ.get("ORCIDX_HADOOP_JARS") or (str(jar) if jar.is_file() else ""),
    }
    if jar.is_file() and jar.name == CONNECTOR_JAR:
        settings["spark.sql.extensions"] = "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions"
        settings["spark.sql.catalog.paimon"] = "org.apache.paimon.spark.SparkCatalog"
        settings["spark.sql.catalog.paimon.warehouse"] = (scratch / "paimon").as_uri()
    builder = SparkSession.builder.master("local[2,4]").appName("orcidx-tests")
    for name, value in settings.items():
        if value:
            builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
    gc.collect()


def _source_tree() -> list[str]:
    """The checkout, when orcidx is imported from it (an in-place build), so that Spark's workers import it too."""
    import orcidx

    return [str(ROOT)] if Path(orcidx.__file__).is_relative_to(ROOT) else []


@pytest.fixture(scope="session")
def paimon_java(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Released Paimon in Spark's JVM: makes, fills and reads tables (see ``interop/paimon_java.py``)."""
    if not (jar_cache() / PAIMON_JAR).is_file():
        pytest.skip(f"no {PAIMON_JAR} in {jar_cache()}: run .ci/fetch-paimon (it needs Maven)")
    if spark_version() == CONNECTOR_SPARK:
        pytest.skip("a session of Spark 3.5 has Paimon's connector, which the bundle's classes would clash with")
    from interop.paimon_java import PaimonJava

    return PaimonJava(spark, tmp_path_factory.mktemp("paimon"))


@pytest.fixture
def jvm_in(spark: Any) -> Callable[[str], AbstractContextManager[None]]:
    """``with jvm_in("Asia/Kolkata"):`` sets the zone of the JVM."""

    @contextmanager
    def zone(name: str) -> Iterator[None]:
        zones = spark._jvm.java.util.TimeZone
        before = zones.getDefault()
        zones.setDefault(zones.getTimeZone(name))
        try:
            yield
        finally:
            zones.setDefault(before)

    return zone


@pytest.fixture(scope="session")
def paimon_sql(spark: Any) -> Any:
    """Paimon's own Spark connector, by the SQL of a session of Spark 3.5 (see ``interop/paimon_sql.py``)."""
    if spark_version() != CONNECTOR_SPARK:
        pytest.skip(f"the connector is built for Spark 3.5, and this is {spark.version}: see CONTRIBUTING.md")
    if not (jar_cache() / CONNECTOR_JAR).is_file():
        pytest.skip(f"no {CONNECTOR_JAR} in {jar_cache()}: run .ci/fetch-paimon connector (it needs Maven)")
    from interop.paimon_sql import PaimonSql

    return PaimonSql(spark)
