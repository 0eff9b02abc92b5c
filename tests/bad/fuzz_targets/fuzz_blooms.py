"""Fuzzes the reader of BLOOM_FILTER streams. The input is the message."""

from bad.fuzz_targets.harness import fuzz, instrumented

with instrumented():
    from orcidx.errors import OrcidxError
    from orcidx.orc.bloom import BloomFilters

KEYS = [0, 1, -1, 5, 2**63 - 1, -(2**63)]


def one(data: bytes) -> None:
    try:
        filters = BloomFilters(data)
        assert filters.may_contain(KEYS).shape == (len(filters), len(KEYS))
    except OrcidxError:
        pass


if __name__ == "__main__":
    fuzz(one)
