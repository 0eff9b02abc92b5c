"""Fixtures of all tests with Spark. Warnings that pyspark itself causes do not fail the tests.

pyspark does not close its sockets, so the garbage collector closes them and warns. Versions 4.2 and 4.3 warn on import
that they do not know pandas 3. Version 3.5 uses distutils to compare versions.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
OF_PYSPARK = (
    "ignore:unclosed <socket:ResourceWarning",
    "ignore:PySpark does not yet:FutureWarning",
    "ignore:distutils Version classes are deprecated:DeprecationWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(*OF_PYSPARK))


@pytest.fixture(autouse=True, scope="module")
def sockets_of_pyspark() -> Iterator[None]:
    """Collects pyspark's sockets here, so that tests of another folder do not get their warnings."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


OF_OWN_TASKS = ("test_spark_read", "test_spark_indexed", "test_index_in_s3", "test_spark_s3", "test_build_index")
"""Modules that test reads by orcidx's own tasks. The engine "auto" could choose another engine for them."""


@pytest.fixture(autouse=True, scope="module")
def engine_of_own_tasks(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.module.__name__.rpartition(".")[2] not in OF_OWN_TASKS:
        yield
        return
    session = request.getfixturevalue("spark")
    session.conf.set("spark.orcidx.engine", "orcidx")
    yield
    session.conf.unset("spark.orcidx.engine")


@pytest.fixture(autouse=True, scope="module")
def time_for_indexes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Makes scans use all indexes, even if this takes long. By default, a scan on a busy machine stops using indexes,
    so the number of remaining files would depend on the clock. ``test_survivors`` tests the time limits themselves."""
    if request.module.__name__.endswith("test_survivors"):
        yield
        return
    survivors = pytest.importorskip("orcidx.spark.conditions.survivors")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(survivors, "UNNOTICED_SECONDS", 600.0)
        patch.setattr(survivors, "FAR_UNNOTICED_SECONDS", 600.0)
        yield
