"""Fixtures that all tests share: golden files, a Spark session, Paimon's Java, and random numbers. Also, the rules for
skipped tests.

A test that cannot run on this machine (no Java, no jar, no golden files) is skipped, and the reason says what to
install. With ``ORCIDX_REQUIRE_ALL=1`` every skipped test counts as a failure. ``.ci/run`` sets this variable, so that
CI cannot pass by skipping tests. With ``ORCIDX_REQUIRE_ALL=but-golden``, tests that need golden files may be skipped,
because a public runner does not have these files.
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
"""The levels of ``pruning/levels`` that are turned off in the whole run, separated by commas, or "all"."""
TURNED_OFF = "which ORCIDX_WITHOUT turns off"
AS_IF_LARGE = os.environ.get("ORCIDX_AS_IF_LARGE", "") not in ("", "0")
"""Whether small files are read as if they were large in the whole run."""
PAIMON_JAR = "paimon-bundle-1.4.2.jar"
CONNECTOR_JAR = "paimon-spark-3.5-0.9.0.jar"
CONNECTOR_SPARK = (3, 5)
"""The version of Spark for which the connector is built. The connector also has the classes of the bundle. So a session
of this version does not load the bundle."""
MOST_WORKERS = 4
SHORT_LIVED = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Options of a JVM that runs only for a short time. Without the JVM's second compiler, the Spark tests take 28 s of
processor time instead of 63 s."""

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
    large = ", small files as large ones (ORCIDX_AS_IF_LARGE)" if AS_IF_LARGE else ""
    return [f"orcidx: seed {SEED} (ORCIDX_SEED){strict}{off}{large}"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for fixture, marker in _MARKER_OF_FIXTURE.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(marker)
    if hasattr(config, "workerinput"):  # tests with the JVM take longest, so they run first
        items.sort(key=lambda item: not _needs_jvm(item))


def pytest_collection_finish() -> None:
    """Excludes the collected tests from garbage collections. They are so many objects that examining them takes a
    second, and longer in a forked process, which copies their memory."""
    gc.collect()
    gc.freeze()


def _needs_jvm(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Returns the number of workers: one for each core, but at most four. A single test or file runs without workers,
    because starting workers would take more time than they save."""
    if len(config.args) == 1 and config.args[0].partition("::")[0].endswith(".py"):
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_WORKERS) if cores > 1 else 0


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Makes the scheduler. All tests of a file run in one worker, and all files with tests that use the JVM run in the
    same worker. The scheduler does not know which fixtures a test uses, so it searches the texts of the files for
    fixtures of the JVM."""
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
    """Whether a test may be skipped for this reason although ``ORCIDX_REQUIRE_ALL`` is set."""
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
    """Fails a test in which Python ignored an exception ("Exception ignored in ..."). Compiled code without the GIL
    could cause this."""
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
    """If ``ORCIDX_WITHOUT`` is set, turns off the levels of ``pruning/levels`` that it names, in the whole run. Random
    tests must find the same rows without these levels."""
    from pruning.levels import LEVELS, without

    with without(*(LEVELS if WITHOUT == "all" else WITHOUT.split(","))):
        yield


@pytest.fixture(autouse=AS_IF_LARGE, scope="session")
def small_as_large() -> Iterator[None]:
    """If ``ORCIDX_AS_IF_LARGE`` is set, small files are read as if they were large in the whole run."""
    from pruning.levels import as_if_large

    with as_if_large():
        yield


def _levels_off(*levels: str) -> list[str]:
    """Returns which of these levels are turned off in the whole run."""
    from pruning.levels import LEVELS

    assert not set(levels) - set(LEVELS), f"{levels} are no levels"
    off = LEVELS if WITHOUT == "all" else WITHOUT.split(",")
    return [level for level in levels if level in off]


@pytest.fixture
def saves() -> Callable[..., bool]:
    """Returns a function for ``if saves("catalog"): assert ...``. The function returns False if ``ORCIDX_WITHOUT``
    turns off one of the given levels. The test then makes no assertions about the work that these levels save, or about
    the origin of totals. It still compares rows and totals. A test that is only about levels has the marker
    ``levels``."""
    return lambda *levels: not _levels_off(*levels)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("levels"):
        if off := _levels_off(*marker.args):
            pytest.skip(f"the test is about the {', '.join(off)}, {TURNED_OFF}")


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
    """The directory into which ``.ci/fetch-paimon`` puts jars."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("ORCIDX_JARS") or cache / "orcidx" / "jars")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One local Spark session with two cores and little memory. If ``.ci/fetch-paimon`` has fetched Paimon's jar, the
    session uses it. In Spark 3.5 this is the jar of the connector, with a catalog ``paimon``. In other versions it is
    the bundle."""
    if problem := java_problem():
        pytest.skip(problem)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Workers start in the checkout, but they must import the installed package.
    os.environ["PYTHONSAFEPATH"] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*_source_tree(), os.environ.get("PYTHONPATH")]))
    os.environ["SPARK_SUBMIT_OPTS"] = SHORT_LIVED  # Spark sessions in processes that tests start use it, too
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
    """The path of the checkout, if orcidx is imported from it (an in-place build), so that Spark's workers also import
    it from there. Otherwise the list is empty."""
    import orcidx

    return [str(ROOT)] if Path(orcidx.__file__).is_relative_to(ROOT) else []


@pytest.fixture(scope="session")
def paimon_java(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A released version of Paimon in Spark's JVM. The fixture makes, fills and reads tables (see
    ``interop/paimon_java.py``)."""
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
    """Paimon's own Spark connector, which runs SQL in a session of Spark 3.5 (see ``interop/paimon_sql.py``)."""
    if spark_version() != CONNECTOR_SPARK:
        pytest.skip(f"the connector is built for Spark 3.5, and this is {spark.version}: see CONTRIBUTING.md")
    if not (jar_cache() / CONNECTOR_JAR).is_file():
        pytest.skip(f"no {CONNECTOR_JAR} in {jar_cache()}: run .ci/fetch-paimon connector (it needs Maven)")
    from interop.paimon_sql import PaimonSql

    return PaimonSql(spark)
