"""The choice of an engine from facts, without Spark. Every refusal and every result has a case."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from orcidx.spark.choosing import engine_rules as rules
from orcidx.spark.choosing.engine_rules import (
    ConditionFacts,
    EngineFacts,
    LookupFacts,
    RemainingFacts,
    Sizes,
    decide,
    decided,
    lookup_refusal,
    refusal,
)
from orcidx.spark.conditions.relation import MOST_NAMED

MIB = 1 << 20
GIVEN = ConditionFacts(True)
TESTABLE = replace(GIVEN, is_testable=True)
AUTO = EngineFacts("auto", TESTABLE, has_index=True)
HALF = Sizes(100, 1000 * MIB, 50, 400 * MIB)
FEW = Sizes(100, 1000 * MIB, 10, 100 * MIB)


def kept(sizes: Sizes, *, are_alike: bool = True) -> EngineFacts:
    return replace(AUTO, files=RemainingFacts(sizes, is_listed=True, kept=sizes, are_alike=are_alike))


LOOKUP = replace(kept(FEW), lookup=LookupFacts(True, "k", 8))


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (EngineFacts("auto", ConditionFacts(False)), "the query has no condition"),
        (EngineFacts("auto", GIVEN, gate="x is on"), "x is on"),
        (EngineFacts("spark", GIVEN, gate="x is on"), "x is on"),
        (EngineFacts("orcidx", replace(GIVEN, is_testable=False), gate="x is on"), "x is on"),
        (EngineFacts("auto", GIVEN, is_unplaced=True), "Spark Connect does not give the location of a table"),
        (EngineFacts("auto", GIVEN, has_index=False), rules.NO_INDEX),
        (
            EngineFacts("auto", replace(GIVEN, obstacle="it is random")),
            "no file can be skipped by the condition: it is random",
        ),
        (
            EngineFacts("auto", replace(TESTABLE, skips_nothing=True)),
            "no part of the condition can be evaluated by an index",
        ),
        (
            replace(AUTO, listing_error="no {braces}"),
            "orcidx cannot list the files to look for indexes (no {braces})",
        ),
        (
            replace(AUTO, files=RemainingFacts(Sizes(1000, 1000, 999, 999))),
            "1 of 1,000 files have no matching rows, but a filter on names would cost more than it saves, "
            "so all are read",
        ),
        (replace(AUTO, files=RemainingFacts(HALF, is_listed=False)), "Spark does not list the files of this relation"),
    ],
)
def test_refusals(facts: EngineFacts, reason: str) -> None:
    assert refusal(facts) == reason
    verdict = decided(facts)
    assert (verdict.engine, verdict.reason, verdict.way) == ("spark", reason, "all")


def test_every_refusal_has_a_case() -> None:
    """For each row of the table ``REFUSALS``, some case of ``test_refusals`` must have this row as the first row that
    applies."""
    cases = [mark.args[1] for mark in test_refusals.pytestmark]  # type: ignore[attr-defined]
    first = {next(row for row in rules.REFUSALS if row.holds(facts)) for facts, _ in cases[0]}
    assert first == set(rules.REFUSALS)


@pytest.mark.parametrize(
    "facts",
    [
        EngineFacts("auto", GIVEN),
        EngineFacts("auto", ConditionFacts(False, has_keys=True)),
        EngineFacts("orcidx", GIVEN, gate="x is on"),
        EngineFacts("auto", replace(GIVEN, has_keys=True, obstacle="it is random")),
        AUTO,
        replace(AUTO, files=RemainingFacts(HALF)),
        replace(AUTO, files=RemainingFacts(Sizes(100, 1000, 100, 1000))),
        replace(AUTO, files=RemainingFacts(Sizes(1000, 1000, MOST_NAMED, 999))),
        replace(AUTO, files=RemainingFacts(Sizes(1000, 1000, 999, 999), has_reader_options=True)),
        replace(AUTO, files=RemainingFacts(Sizes(1000, 1000, 999, 500))),
    ],
)
def test_what_asks_for_more_facts(facts: EngineFacts) -> None:
    assert refusal(facts) is None
    assert decide(facts) is None


def test_tasks_that_the_caller_asks_for() -> None:
    asked = EngineFacts("orcidx", TESTABLE)
    assert decided(asked).way == "tasks"
    assert decided(asked).engine == "orcidx"
    assert decided(replace(asked, gate="x is on")).engine == "orcidx"
    assert decided(replace(asked, condition=replace(TESTABLE, skips_nothing=True))).engine == "orcidx"
    assert decide(replace(asked, condition=replace(TESTABLE, is_testable=False))) is None


@pytest.mark.parametrize(
    ("facts", "way", "reason"),
    [
        (kept(Sizes(100, 1000, 100, 1000)), "all", rules.NO_FILE_SKIPPED),
        (kept(Sizes(0, 0, 0, 0)), "all", rules.NO_FILE_SKIPPED),
        (kept(Sizes(100, 1000, 0, 0)), "none", "no file has matching rows"),
        (kept(FEW), "named", "the remaining files are few, and Spark reads them by name"),
        (kept(FEW, are_alike=False), "filtered", "the remaining files are selected by a filter on their names"),
        (kept(HALF), "filtered", "the remaining files are selected by a filter on their names"),
        (
            kept(Sizes(100, 1000, 20, 501), are_alike=False),
            "all",
            "a filter on the names of files would cost more than it saves, so all are read",
        ),
        (kept(Sizes(100, 1000, 20, 500), are_alike=False), "filtered", None),
    ],
)
def test_ways(facts: EngineFacts, way: str, reason: str | None) -> None:
    verdict = decided(facts)
    assert (verdict.engine, verdict.way) == ("spark", way)
    assert reason is None or verdict.reason == reason


def test_keys_are_looked_up() -> None:
    assert lookup_refusal(LOOKUP) is None
    verdict = decided(LOOKUP)
    assert (verdict.engine, verdict.way) == ("orcidx", "tasks")
    assert verdict.reason == "a few keys of k are looked up, and 8 columns are decoded only for their rows"
    assert LOOKUP.lookup is not None
    for changed in (
        {"may_read": False},
        {"column": None},
        {"columns": rules.LATE_COLUMNS - 1},
        {"may_be_old": True},
    ):
        facts = replace(LOOKUP, lookup=replace(LOOKUP.lookup, **changed))
        assert lookup_refusal(facts) == ""
        assert decided(facts).way == "named"
    assert decided(replace(LOOKUP, condition=replace(TESTABLE, is_testable=False))).engine == "spark"
    facts = replace(LOOKUP, lookup=replace(LOOKUP.lookup, access_problem="tasks have no key"))
    assert lookup_refusal(facts) == "a few keys of k could be looked up, but tasks have no key"
    assert decided(facts).way == "named"


@pytest.mark.parametrize(
    ("bytes_left", "is_looked_up"),
    [
        (rules.LEAST_LOOKUP_BYTES - 1, False),
        (rules.LEAST_LOOKUP_BYTES, True),
        (500 * MIB, True),
        (500 * MIB + 1, False),
    ],
)
def test_how_much_is_worth_a_lookup(bytes_left: int, is_looked_up: bool) -> None:
    facts = replace(kept(Sizes(100, 1000 * MIB, 10, bytes_left)), lookup=LOOKUP.lookup)
    assert (decided(facts).engine == "orcidx") == is_looked_up


def test_the_rules_need_no_spark() -> None:
    code = "import sys, orcidx.spark.choosing.engine_rules; assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
