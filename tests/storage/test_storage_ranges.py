"""Merging of ranges, fingerprints, the identity cache, recording, and failures."""

from __future__ import annotations

import errno
import itertools
import json
import os
import threading
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orcidx.storage import Fingerprint, IdentityCache, MergedRange, RecordingReader, merge_ranges, open_reader
from orcidx.storage.failures import Retries, ShortBody, classify
from orcidx.storage.fingerprint import mtime_of, plain_etag
from orcidx.storage.ranges import scatter

SMALL = st.integers(0, 60)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(SMALL, st.integers(0, 20)), max_size=30), st.integers(0, 10), st.integers(0, 40))
def test_merged_ranges_cover_what_was_asked(ranges: list[tuple[int, int]], gap: int, size: int) -> None:
    merged = merge_ranges(ranges, gap=gap, size=size)
    data = bytes(range(100))
    buffers = [memoryview(data)[fetch.offset : fetch.offset + fetch.length] for fetch in merged]
    assert [bytes(b) for b in scatter(len(ranges), merged, buffers)] == [data[o : o + n] for o, n in ranges]
    parts = sorted(index for fetch in merged for index, _, _ in fetch.parts)
    assert parts == [index for index, (_, length) in enumerate(ranges) if length]
    assert [fetch.offset for fetch in merged] == sorted(fetch.offset for fetch in merged)
    for fetch in merged:
        assert fetch.length <= max(size, max(length for _, _, length in fetch.parts))
        holes = set(range(fetch.length))
        for _, within, length in fetch.parts:
            holes -= set(range(within, within + length))
        assert not any(holes.issuperset(range(at, at + gap + 1)) for at in range(fetch.length - gap))
    for left, right in itertools.pairwise(merged):
        near = right.offset - (left.offset + left.length) <= gap
        first = right.parts[0][2]
        assert not near or right.offset + first - left.offset > size, "a range that fits is joined"


def test_merging_by_example() -> None:
    assert merge_ranges([], gap=0, size=10) == []
    assert merge_ranges([(10, 5), (0, 5), (5, 5)], gap=0, size=100) == [
        MergedRange(0, 15, ((1, 0, 5), (2, 5, 5), (0, 10, 5)))
    ]
    near = merge_ranges([(0, 5), (7, 5), (15, 5)], gap=2, size=100)
    assert [(fetch.offset, fetch.length) for fetch in near] == [(0, 12), (15, 5)]
    long = merge_ranges([(0, 50), (10, 5), (50, 1)], gap=9, size=20)
    assert [(fetch.offset, fetch.length) for fetch in long] == [(0, 50), (50, 1)]
    for wrong in [(-1, 5), (0, -1)]:
        with pytest.raises(ValueError, match="a range of"):
            merge_ranges([wrong], gap=0, size=10)


def test_buffers_of_one_fetch_share_memory() -> None:
    merged = merge_ranges([(0, 5), (6, 5)], gap=8, size=100)
    whole = memoryview(b"0123456789abc")
    first, second = scatter(2, merged, [whole])
    assert first.obj is whole.obj
    assert second.obj is whole.obj


def test_fingerprint_matches() -> None:
    known = Fingerprint(10, "a", 1_500_000_001)
    assert known.matches(Fingerprint(10))
    assert known.matches(Fingerprint(10, "a", 99))
    assert not known.matches(Fingerprint(10, "b", 1_500_000_001))
    assert not known.matches(Fingerprint(11, "a"))
    assert Fingerprint(10, None, 1_500_000_001).matches(Fingerprint(10, "x", 1_000_000_000)), "in whole seconds"
    assert not Fingerprint(10, None, 1_500_000_001).matches(Fingerprint(10, None, 1_500_000_002))
    assert Fingerprint(**json.loads(json.dumps(known.to_dict()))) == known


def test_times_and_tags_of_every_storage() -> None:
    moment = datetime(2020, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    assert mtime_of(moment) == mtime_of(moment.replace(tzinfo=None)) == 1_577_934_245_678_000_000
    assert mtime_of("2020-01-02T03:04:05.678Z") == 1_577_934_245_678_000_000
    assert mtime_of("Thu, 02 Jan 2020 03:04:05 GMT") == 1_577_934_245_000_000_000
    assert mtime_of(1.5) == 1_500_000_000
    late = datetime(2026, 11, 22, 7, 28, 25, 330209, UTC)
    assert mtime_of(late.timestamp()) == mtime_of(late), "fsspec's memory file system returns both forms"
    assert mtime_of("yesterday") is mtime_of("") is mtime_of(None) is mtime_of(True) is None
    assert plain_etag('"abc"') == plain_etag('W/"abc"') == plain_etag("abc") == "abc"
    assert plain_etag('""') is plain_etag(None) is plain_etag(b"abc") is None


def test_recording_reader() -> None:
    reader = RecordingReader(open_reader(b"0123456789"))
    assert open_reader(reader) is reader
    assert reader.read_tail(3) == (b"789", 10)
    assert reader.read_ranges([(0, 1), (2, 2)]) == [b"0", b"23"]
    assert reader.asked == [("tail", 3), ("ranges", ((0, 1), (2, 2)))]
    assert reader.ranges == [(0, 1), (2, 2)]
    assert reader.size() == reader.fingerprint().size == 10
    assert reader.identity is None
    reader.close()


def test_requests_are_logged_when_wanted(tmp_path: os.PathLike[str]) -> None:
    path = os.path.join(tmp_path, "x")
    with open(path, "wb") as file:
        file.write(bytes(100_000))
    reader = open_reader(path)
    reader.metrics.log = []
    reader.read_ranges([(0, 10), (20, 10), (90_000, 5)])
    assert [(one.offset, one.length) for one in reader.metrics.log] == [(0, 30), (90_000, 5)]
    reader.close()


class _Status(Exception):
    def __init__(self, status: object, name: str = "status") -> None:
        setattr(self, name, status)


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (FileNotFoundError(), "missing"),
        (PermissionError(), "denied"),
        (TimeoutError(), "transient"),
        (ConnectionResetError(), "transient"),
        (ShortBody(), "transient"),
        (OSError(errno.EBUSY, "slow down"), "transient"),
        (OSError(errno.EIO, "broken"), "permanent"),
        (ValueError(), "permanent"),
        (_Status(503), "transient"),
        (_Status(429, "status_code"), "transient"),
        (_Status(404, "code"), "missing"),
        (_Status("404", "code"), "permanent"),
        (_Status(412), "changed"),
        (_Status({"ResponseMetadata": {"HTTPStatusCode": 403}}, "response"), "denied"),
    ],
)
def test_classify(error: Exception, failure: str) -> None:
    assert classify(error) == failure
    if not isinstance(error, OSError):
        outer = OSError(errno.EIO, "translated by a library")
        outer.__cause__ = error
        assert classify(outer) == failure


def test_delays_grow_to_a_bound() -> None:
    retries = Retries(attempts=8, first_delay=0.1, longest_delay=1.0)
    for attempt in range(1, 8):
        assert 0.05 <= retries.delay(attempt) <= min(0.1 * 2 ** (attempt - 1), 1.0)


def test_identity_cache_is_bounded_and_forgets_the_oldest() -> None:
    cache: IdentityCache[str] = IdentityCache(100)
    cache.put("a", "A", 40)
    cache.put("b", "B", 40)
    assert cache.get("a") == "A"
    cache.put("c", "C", 40)
    assert (cache.get("b"), cache.get("a"), cache.get("c")) == (None, "A", "C")
    assert (len(cache), cache.weight) == (2, 80)
    cache.put("a", "AA", 10)
    assert (cache.get("a"), cache.weight) == ("AA", 50)
    cache.put("big", "X", 101)
    assert cache.get("big") is None
    cache.put(None, "X", 1)
    assert cache.get(None) is None
    assert cache.hits == 4
    cache.clear()
    assert (len(cache), cache.weight) == (0, 0)


def test_identity_cache_in_threads() -> None:
    cache: IdentityCache[int] = IdentityCache(50)
    failures: list[object] = []

    def work(seed: int) -> None:
        for i in range(2000):
            key = (i * seed) % 20
            found = cache.get(key)
            if found is None:
                cache.put(key, key, 5)
            elif found != key:
                failures.append(key)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 3, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert cache.weight == 5 * len(cache) <= 50


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # Python 3.12 and later warn
def test_identity_cache_is_empty_after_a_fork() -> None:
    cache: IdentityCache[str] = IdentityCache(100)
    cache.put("a", "A", 1)
    child = os.fork()
    if not child:
        os._exit(0 if cache.get("a") is None and len(cache) == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert cache.get("a") == "A"
