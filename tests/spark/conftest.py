"""What all tests with Spark share: pyspark leaves sockets to the garbage collector, which warns of them."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOCKETS = "ignore:unclosed <socket:ResourceWarning"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(SOCKETS))


@pytest.fixture(autouse=True, scope="module")
def sockets_of_pyspark() -> Iterator[None]:
    """Collects them before the tests of another folder would see the warnings."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
