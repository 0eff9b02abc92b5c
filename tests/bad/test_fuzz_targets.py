"""Runs each coverage-guided fuzz target without a fuzzer, with each of its seeds and with some damaged seeds."""

import importlib
from random import Random
from types import ModuleType

import pytest
from bad.fuzz_targets.seeds import LARGEST, TARGETS, WHOLE_FILES, seeds
from goldens import GOLDEN_PAIMON, needs

from orcidx.errors import CorruptFile, OrcidxError

MOST = 40
GOLDEN = {"containers", "manifests"}
"""Targets whose seeds are golden files."""


def target(name: str) -> ModuleType:
    return importlib.import_module(f"bad.fuzz_targets.fuzz_{name}")


@pytest.mark.parametrize("name", [needs(GOLDEN_PAIMON, name) if name in GOLDEN else name for name in TARGETS])
def test_a_target_takes_its_seeds_and_damaged_ones(name: str) -> None:
    random = Random(5)
    found = [seed for seed in seeds(name) if seed]
    assert found
    assert all(len(seed) <= max(LARGEST, WHOLE_FILES) for seed in found)
    module = target(name)
    for seed in random.sample(found, min(MOST, len(found))):
        module.one(seed)
        damaged = bytearray(seed)
        for _ in range(3):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        module.one(bytes(damaged))
        module.one(seed[: random.randrange(len(seed))])


def test_files_of_the_own_writer_are_seeds() -> None:
    assert any(b"orcidx" in seed for seed in seeds("files")), "no whole file whose footer names orcidx as its software"


@pytest.mark.parametrize("error", [IndexError("x"), MemoryError(), RecursionError(), AssertionError()])
def test_what_is_no_error_of_orcidx_gets_out_of_a_target(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise error

    module = target("blooms")
    monkeypatch.setattr(module, "BloomFilters", fails)
    with pytest.raises(type(error)):
        module.one(b"")


def test_errors_of_orcidx_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise CorruptFile("damaged")

    module = target("blooms")
    monkeypatch.setattr(module, "BloomFilters", fails)
    assert issubclass(CorruptFile, OrcidxError)
    module.one(b"")
