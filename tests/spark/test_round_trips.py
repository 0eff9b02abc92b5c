"""The number of calls from the driver to the JVM, for ``read`` and for an enabled session when no file is skipped.

A call of py4j takes about 0.3 ms. Calls that only release Java objects ("m") are not counted, because they occur when
Python collects garbage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orcidx.spark import build_file_index, disable, enable, read, why

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def directories(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[bool, str]:
    """Writes one directory with an index and one without."""
    found = {}
    for indexed in (True, False):
        found[indexed] = str(tmp_path_factory.mktemp("trips") / "t")
        spark.range(0, 400, 1, 4).selectExpr("id", "id % 10 AS k").write.orc(found[indexed])
    build_file_index(spark, found[True], {"bitmap": {"k": {}}}, progress=False).collect()
    return found


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """Returns a function that counts the calls to the JVM in the second run of another function."""
    from py4j.clientserver import JavaClient
    from py4j.java_gateway import GatewayClient

    sent: list[str] = []

    def counting(send: Callable[..., Any]) -> Callable[..., Any]:
        def counted(self: object, command: str, *rest: Any, **named: Any) -> Any:
            sent.append(command)
            return send(self, command, *rest, **named)

        return counted

    client = JavaClient if "send_command" in vars(JavaClient) else GatewayClient
    monkeypatch.setattr(client, "send_command", counting(client.send_command))

    def count(function: Callable[[], object]) -> int:
        function()
        sent.clear()
        function()
        return sum(not one.startswith("m\n") for one in sent)

    return count


def test_an_enabled_session(spark: Any, directories: dict[bool, str], calls: Any) -> None:
    def query(indexed: bool) -> Callable[[], object]:
        return lambda: spark.sql(f"SELECT count(*) FROM orc.`{directories[indexed]}` WHERE k = 3").collect()

    disable(spark)
    plain = calls(query(True))
    enable(spark)
    try:
        assert calls(query(False)) <= plain
        assert calls(query(True)) <= plain + 16
        assert why()[-1].files_left is None
    finally:
        disable(spark)


def test_read(spark: Any, directories: dict[bool, str], calls: Any) -> None:
    plain = calls(lambda: spark.read.orc(directories[True]))
    assert calls(lambda: read(spark, directories[True])) <= plain + 16
    filtered = calls(lambda: spark.read.orc(directories[False]).where("k = 3"))
    with pytest.warns(RuntimeWarning, match="no index"):
        assert calls(lambda: read(spark, directories[False], where="k = 3")) <= filtered + 17
    assert calls(lambda: read(spark, directories[True], where="k = 3")) <= filtered + 45
