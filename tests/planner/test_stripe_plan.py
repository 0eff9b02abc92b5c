"""The byte ranges of row groups."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from orcidx.orc.row_index import StreamPositions
from orcidx.orc.stripe_plan import LONGEST_RUN, group_ranges
from orcidx.pruning.row_forms import runs_of_mask


def positions(offsets, within=None, mid_run=None):
    return StreamPositions(
        np.array(offsets, np.int64),
        None if within is None else np.array(within, np.int64),
        np.zeros(len(offsets), bool) if mid_run is None else np.array(mid_run, bool),
    )


def mask(text):
    return np.array([letter == "x" for letter in text])


def test_runs_of_a_mask():
    assert runs_of_mask(mask(".xx.x")).tolist() == [[1, 3], [4, 5]]
    assert runs_of_mask(mask("...")).tolist() == []
    assert runs_of_mask(mask("")).tolist() == []


def test_uncompressed_groups_end_where_the_next_begins():
    where = positions([0, 100, 200, 300])
    assert group_ranges(where, mask(".x.."), length=400, block_size=1) == [(100, 200)]
    assert group_ranges(where, mask("x..x"), length=400, block_size=1) == [(0, 100), (300, 400)]


def test_a_run_across_the_end_adds_the_longest_run():
    where = positions([0, 100], mid_run=[False, True])
    assert group_ranges(where, mask("x."), length=100_000, block_size=1) == [(0, 100 + LONGEST_RUN)]


def test_a_chunk_across_the_end_is_taken_whole():
    where = positions([0, 0, 500, 500, 900], within=[0, 70, 0, 60, 0])
    # Group 0 ends inside the first chunk. This chunk ends at the start of the next chunk, which a later entry gives.
    assert group_ranges(where, mask("x...."), length=1000, block_size=4096) == [(0, 500)]
    # Group 1 ends at the start of a chunk.
    assert group_ranges(where, mask(".x..."), length=1000, block_size=4096) == [(0, 500)]
    # A chunk is never longer than its header and one block.
    assert group_ranges(where, mask("x...."), length=1000, block_size=100) == [(0, 103)]


def test_a_run_that_may_end_in_the_chunk_behind_takes_that_too():
    where = positions([0, 0, 500, 900], within=[0, 6000, 0, 0], mid_run=[False, True, False, False])
    # The run has at most LONGEST_RUN bytes. It ends in its own chunk, or in the chunk that begins at 500.
    assert group_ranges(where, mask("x..."), length=1000, block_size=6000 + LONGEST_RUN) == [(0, 500)]
    assert group_ranges(where, mask("x..."), length=1000, block_size=5999 + LONGEST_RUN) == [(0, 900)]
    # Two chunks are never longer than two headers and two blocks. The stream may end earlier.
    short = positions([0, 0], within=[0, 90], mid_run=[False, True])
    assert group_ranges(short, mask("x."), length=1000, block_size=100) == [(0, 206)]
    assert group_ranges(short, mask("x."), length=150, block_size=100) == [(0, 150)]


def test_without_positions_a_stream_is_needed_whole():
    assert group_ranges(None, mask("x."), length=10, block_size=1) == [(0, 10)]
    assert group_ranges(None, mask(".."), length=10, block_size=1) == []
    assert group_ranges(positions([0, 5]), mask("xx"), length=10, block_size=1) == [(0, 10)]


@given(st.data())
def test_every_byte_of_a_wanted_group_is_planned(data):
    steps = data.draw(st.lists(st.integers(0, 50), min_size=1, max_size=12))
    offsets = np.cumsum([0, *steps[:-1]])
    length = int(sum(steps)) + data.draw(st.integers(0, 20))
    within = data.draw(st.lists(st.integers(0, 5), min_size=len(steps), max_size=len(steps)))
    wanted = np.array(data.draw(st.lists(st.booleans(), min_size=len(steps), max_size=len(steps))))
    ranges = group_ranges(positions(offsets, within), wanted, length=length, block_size=64)
    covered = np.zeros(length, bool)
    last = -1
    for start, stop in ranges:
        assert last < start < stop <= length
        covered[start:stop] = True
        last = stop
    ends = [*offsets[1:], length]
    for group in np.flatnonzero(wanted):
        assert covered[offsets[group] : ends[group]].all()


def end_of(where, group, length, block_size, on_demand):
    """Returns where the groups before ``group`` end. This simple version reads all later positions."""
    offset, shares = int(where.offsets[group]), bool(where.mid_run[group])
    if where.within is None:
        return min(length, offset + LONGEST_RUN * shares)
    if on_demand or not (shares or where.within[group]):
        return min(length, offset)
    chunks = 2 if shares and int(where.within[group]) + LONGEST_RUN > block_size else 1
    later = sorted({int(one) for one in where.offsets[group:] if one > offset})
    known = later[chunks - 1] if len(later) >= chunks else length
    return min(length, offset + chunks * (3 + block_size), known)


@given(st.integers(0, 1 << 32), st.booleans(), st.booleans())
def test_ends_of_many_groups_at_once(seed, compressed, on_demand):
    random = np.random.default_rng(seed)
    count, block_size = int(random.integers(1, 40)), int(random.choice([100, 5000, 1 << 16]))
    offsets = np.sort(random.integers(0, 20_000, count))
    offsets[0] = 0
    within = random.integers(0, block_size, count) * random.integers(0, 2, count) if compressed else None
    where = positions(offsets, within, random.integers(0, 2, count))
    length = int(offsets[-1]) + int(random.integers(1, 9000))
    groups = random.integers(0, 2, count).astype(bool)
    expected: list[tuple[int, int]] = []
    for first, after in runs_of_mask(groups).tolist() if not groups.all() else [(0, count)]:
        start = int(offsets[first])
        stop = length if after == count else end_of(where, after, length, block_size, on_demand)
        if start < stop and expected and start <= expected[-1][1]:
            expected[-1] = expected[-1][0], max(stop, expected[-1][1])
        elif start < stop:
            expected.append((start, stop))
    assert group_ranges(where, groups, length=length, block_size=block_size, on_demand=on_demand) == expected


def test_many_runs_of_groups_look_at_the_positions_once(monkeypatch):
    """The planning time must not grow quadratically. So the planner must not read all later positions for every run of
    groups.
    """
    looked = []
    unique = np.unique
    monkeypatch.setattr(np, "unique", lambda array: looked.append(len(array)) or unique(array))
    where = positions(np.arange(10_000) * 10, within=np.arange(10_000) % 7)
    ranges = group_ranges(where, np.arange(10_000) % 2 == 0, length=100_000, block_size=5)
    assert len(ranges) == 5000
    assert sum(looked) <= 10_000
