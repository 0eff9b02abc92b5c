"""Cached results of an enabled session, without Spark. The tests check when a result is still valid, and when
it is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from indexed_directory import index_here
from pyarrow import orc

from orcidx.spark import sql_queries
from orcidx.spark.choosing import kept_answers
from orcidx.spark.choosing.kept_answers import KeptAnswer, KeptAnswers, digest_of
from orcidx.spark.sql_queries import _Answers

CATALYST = "org.apache.spark.sql.catalyst.expressions."


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for number in range(3):
        orc.write_table(pa.table({"id": range(number * 100, number * 100 + 50)}), tmp_path / f"{number}.orc")
    index_here(tmp_path, {"bloom-filter": {"id": {}}})
    return tmp_path


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Returns a list. Each search for files that can be skipped adds its store to the list."""
    asked: list[Any] = []
    original = sql_queries.find_survivors

    def find(store: Any, *rest: Any, **more: Any) -> Any:
        asked.append(store)
        return original(store, *rest, **more)

    monkeypatch.setattr(sql_queries, "find_survivors", find)
    return asked


def question(root: Path, value: int, expression: int, name: str = "EqualTo") -> str:
    number = {"product-class": f"{CATALYST}ExprId", "id": expression, "jvmId": f"j{expression}"}
    column = {"class": f"{CATALYST}AttributeReference", "num-children": 0, "name": "id", "dataType": "long"}
    literal = {"class": f"{CATALYST}Literal", "num-children": 0, "value": str(value), "dataType": "long"}
    whole = {"class": f"{CATALYST}{name}", "num-children": 2, "left": 0, "right": 1}
    nodes = [whole, {**column, "nullable": True, "metadata": {}, "exprId": number, "qualifier": []}, literal]
    text = json.dumps([nodes], separators=(",", ":"))  # in the form that Jackson writes
    return "\x02".join([f"file:{root}", "", "", "path", "UTC\x01true\x012", text])


def listing(root: Path) -> str:
    files = sorted(root.glob("*.orc"))
    sizes, times = ([*map(f, files)] for f in (lambda one: one.stat().st_size, lambda one: one.stat().st_mtime_ns))
    numbers = (",".join(map(str, one)) for one in (sizes, [time // 1_000_000 for time in times]))
    return "\x02".join(["\x01".join(f"file:{one}" for one in files), *numbers, ""])


@pytest.fixture
def ask(directory: Path) -> Callable[..., str]:
    answers = _Answers(None, KeptAnswers())  # type: ignore[arg-type]
    return lambda value, expression=1, **more: answers.skipped_files(
        question(directory, value, expression, **more), lambda: listing(directory)
    )


def test_a_question_of_another_query_has_the_same_answer(ask: Callable[..., str], counted: list[Any]) -> None:
    assert [ask(117, number) for number in range(3)] == ["0,2"] * 3
    assert len(counted) == 1
    assert sql_queries.last_scans()[-1].files_left == 1
    assert ask(17) == "1,2"
    assert ask(117, name="GreaterThan") == "0"
    assert len(counted) == 3


def test_a_file_that_changed_is_read(ask: Callable[..., str], directory: Path, counted: list[Any]) -> None:
    assert ask(17) == "1,2"
    orc.write_table(pa.table({"id": [17, 18, 19]}), directory / "1.orc")
    assert ask(17) == "2"
    (directory / "0.orc").rename(directory / "5.orc")
    assert ask(17) == "1"  # 2.orc is at position 1 of 1.orc, 2.orc, 5.orc
    assert len(counted) == 3


def test_an_index_that_was_built_again_is_asked(ask: Callable[..., str], directory: Path, counted: list[Any]) -> None:
    assert ask(17) == "1,2"
    orc.write_table(pa.table({"id": [500]}), directory / "1.orc")
    assert ask(17) == "2"
    index_here(directory, {"bloom-filter": {"id": {}}})
    assert ask(17) == "1,2"
    assert len(counted) == 3


def test_what_could_not_be_read_is_read_the_next_time(
    ask: Callable[..., str], counted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError("the disk is busy")

    with monkeypatch.context() as broken:
        broken.setattr("orcidx.spark.conditions.survivors.plan_known_files", fails)
        with pytest.warns(RuntimeWarning, match="not used"):
            assert ask(117) == ""
    assert ask(117) == "0,2"
    assert len(counted) == 2


def test_a_condition_that_asks_nothing_needs_no_listing_twice(directory: Path) -> None:
    answers, listed = _Answers(None, KeptAnswers()), []  # type: ignore[arg-type]

    def told() -> str:
        listed.append(directory)
        return listing(directory)

    for number in range(3):
        assert answers.skipped_files(question(directory, 1, number, name="Unheard"), told) == ""
        assert "no part of the condition" in str(sql_queries.last_scans()[-1])
    assert len(listed) == 1


def test_a_name_that_reads_like_an_expression_is_a_name() -> None:
    paths = [f'file:/x/"exprId":{{{number}}}' for number in (1, 2)]
    assert digest_of([paths[0], "[]"]) != digest_of([paths[1], "[]"])
    texts = [json.dumps({"value": f'"exprId":{{{number}}}'}) for number in (1, 2)]
    assert digest_of(["x", texts[0]]) != digest_of(["x", texts[1]])
    assert digest_of(["a", "b", "c"]) != digest_of(["ab", "", "c"])
    assert digest_of(["x", '"exprId":{"id":1}']) == digest_of(["x", '"exprId":{"id":22}'])


def test_answers_are_weighed(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = sql_queries.store_above(str(directory))
    assert store is not None
    kept = KeptAnswers()
    skipped = ",".join(map(str, range(100_000)))
    for number in range(50):
        kept.keep(b"%d" % number, KeptAnswer(skipped, None), [store])
    held = [number for number in range(50) if kept.of(b"%d" % number, store) is not None]
    assert held == list(range(50 - len(held), 50))
    assert 1 <= len(held) <= kept_answers.ANSWERS_BYTES // len(skipped)
