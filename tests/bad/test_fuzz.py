"""Runs the fuzzer for a short time. Other tests check that it reports unexpected errors and excessive use of memory."""

import io
from random import Random

import pyarrow as pa
import pyarrow.orc
import pytest
from bad import fuzz
from bad.corpus import Sample, corpus
from bad.orc_parts import OrcParts
from bad.protobuf_edit import Message, damage

SAMPLES = corpus()


COUNTS = {"orc": 90, "index": 80, "container": 60, "deletion-vector": 60, "hash": 20}


def test_damaged_inputs_raise_our_errors_only() -> None:
    cases = (fuzz.Number(number, kind) for kind, count in COUNTS.items() for number in range(count))
    results, findings = fuzz.fuzz(1, cases, workers=2)
    assert not findings, "\n".join(findings)
    for kind, count in COUNTS.items():
        found = {name: times for name, times in results.items() if name.startswith(f"{kind}: ")}
        assert sum(found.values()) == count
        assert kind == "hash" or f"{kind}: CorruptFile" in found, "nothing was damaged"


@pytest.mark.parametrize("error", [ValueError("x"), MemoryError(), AssertionError("y"), IndexError("z")])
def test_another_error_is_a_finding(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def target(data: bytes, facts: object) -> None:
        raise error

    monkeypatch.setitem(fuzz.TARGETS, "orc", target)
    assert fuzz.run_case(fuzz.Case(Sample("s", "orc", b""), "none", b"")).startswith(f"! {type(error).__name__}")


def test_memory_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fuzz.TARGETS, "orc", lambda data, facts: bytearray(b"x" * (56 << 20)))
    monkeypatch.setattr(fuzz, "MEGABYTES", 51)
    monkeypatch.setattr(fuzz, "SANITIZED", False)
    assert "MB" in fuzz.run_case(fuzz.Case(Sample("s", "orc", b""), "none", b""))


def test_cases_depend_on_the_seed_and_the_number_alone() -> None:
    first = [fuzz.build_case(SAMPLES, 7, number).data for number in range(20)]
    assert first == [fuzz.build_case(SAMPLES, 7, number).data for number in range(20)]
    assert first != [fuzz.build_case(SAMPLES, 8, number).data for number in range(20)]


WRITTEN_HERE = [sample for sample in SAMPLES if sample.name.startswith(("py", "orcidx"))]


@pytest.mark.parametrize("sample", WRITTEN_HERE, ids=lambda sample: sample.name)
def test_an_undamaged_file_put_together_again_reads_the_same(sample: Sample) -> None:
    again = OrcParts.parse(sample.data).to_bytes()
    assert pa.orc.read_table(io.BytesIO(again)).equals(pa.orc.read_table(io.BytesIO(sample.data)))


def test_messages_come_back_as_they_were() -> None:
    data = bytes.fromhex("0803 1201 61 19 0000000000000000 25 00000000 c0f00301".replace(" ", ""))
    assert Message.parse(data).to_bytes() == data
    assert damage(data, Random(1)) != data
