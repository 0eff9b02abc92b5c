"""All splits together return the rows of the scan. A split can be sent as pickle or JSON. A split of a file that has
changed since raises an error."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from range_server import RangeServer

import orcidx
from orcidx import InvalidQuery, ReadOptions, RowSelection, Split, StorageError, col

ROWS = 30_000


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Writes three files in Hive directories: one of many stripes, one of a large stripe, and one of a small stripe."""
    root = tmp_path_factory.mktemp("splits")
    rng = np.random.default_rng(5)
    found = []
    for i, (rows, stripe) in enumerate([(ROWS, 1 << 16), (ROWS, 64 << 20), (10, 64 << 20)]):
        (root / f"part={i}").mkdir()
        path = root / f"part={i}" / "a.orc"
        columns = {"id": np.arange(rows), "noise": rng.random(rows), "text": [f"v{n % 11}" for n in range(rows)]}
        pyarrow.orc.write_table(pa.table(columns), path, stripe_size=stripe, row_index_stride=1000, batch_size=1000)
        found.append(str(path))
    return root, found


def test_the_files_are_as_the_tests_need_them(paths):
    stripes = [len(orcidx.open(path).stripes) for path in paths[1]]
    assert stripes[0] > 3
    assert stripes[1:] == [1, 1]


WHERES = [
    None,
    (col("id") >= 1200) & (col("id") < 20_000),
    col("text").is_in(["v3", "v7"]) | (col("part") == 2),
    ~col("noise").between(0.1, 0.9),
    col("part") == 1,
    col("id") < 0,
    pc.field("text") == "v5",
]


@given(
    where=st.sampled_from(WHERES),
    columns=st.sampled_from([None, ["id"], ["text", "part"], []]),
    target=st.sampled_from([1, 5_000, 60_000, 1 << 20, 1 << 40]),
    row_numbers=st.booleans(),
    rows=st.none() | st.lists(st.integers(0, ROWS - 1), max_size=30),
    as_json=st.booleans(),
)
@settings(max_examples=20)
def test_the_splits_are_the_scan(paths, where, columns, target, row_numbers, rows, as_json):
    root, files = paths
    scan = orcidx.scan(
        root,
        columns,
        where,
        row_numbers=row_numbers,
        file_path=True,
        selection=None if rows is None else {files[1]: rows},
        deletion_vector={files[0]: list(range(100, 5000, 7))},
    )
    splits = scan.splits(target)
    if as_json:
        splits = [Split.from_json(split.to_json()) for split in splits]
        assert all(Split.from_json(split.to_json()) == split for split in splits[:3])
    else:
        splits = pickle.loads(pickle.dumps(splits))
    tables = [split.scan().to_table() for split in splits]
    expected = scan.to_table()
    assert all(table.schema == expected.schema for table in tables)
    assert pa.concat_tables([expected.schema.empty_table(), *tables]).equals(expected)
    assert sum(split.scan().count_rows() for split in splits) == expected.num_rows


def test_sizes_follow_the_columns(paths):
    with orcidx.open(paths[1][0]) as f:
        whole, narrow = f.splits(100_000), f.splits(100_000, ["text"])
        assert len(whole) > len(narrow) == 1
        assert sum(split.rows for split in whole) == sum(split.rows for split in narrow) == ROWS
        assert 0 < narrow[0].estimated_bytes < sum(split.estimated_bytes for split in whole) / 3
        assert [split.source.name for split in whole] == [paths[1][0]] * len(whole)


def test_a_large_stripe_is_cut_at_row_groups(paths):
    splits = orcidx.open(paths[1][1]).splits(50_000)
    assert len(splits) > 3
    ranges = [split.job.row_range for split in splits]
    assert [start for start, _ in ranges] == [0, *(stop for _, stop in ranges[:-1])]
    assert all(start % 1000 == 0 for start, _ in ranges)
    sizes = [split.estimated_bytes for split in splits]
    assert max(sizes) < 2 * min(sizes)


def test_a_row_range_stays(paths):
    scan = orcidx.open(paths[1][1]).scan(["id"], row_range=(2500, 17_001))
    tables = [split.scan().to_table() for split in scan.splits(20_000)]
    assert pa.concat_tables(tables).column("id").to_pylist() == list(range(2500, 17_001))


def test_what_is_pruned_is_in_no_split(paths):
    root, files = paths
    splits = orcidx.scan(root, where="part = 0 and id < 100").splits(1000)
    assert {split.source.location for split in splits} == {files[0]}
    assert sum(split.rows for split in splits) < ROWS / 2
    assert orcidx.scan(root, where="part = 7").splits() == []


def test_json_is_stable(paths):
    options = ReadOptions(batch_size=100, decimal_zero_precision=(38, 18))
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    scan = orcidx.open(paths[1][2]).scan(["text"], col("id") > 1, schema=schema, options=options)
    (split,) = scan.splits()
    data = json.loads(split.to_json())
    assert data["orcidx_split"] == 1
    assert data["request"]["options"] == {"batch_size": 100, "decimal_zero_precision": [38, 18]}
    assert data["job"]["stripes"] == [0]
    assert Split.from_json(split.to_json()) == split


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"orcidx_split": 2, "rows": 1, "estimated_bytes": 1, "job": {}, "request": {}}',
        '{"orcidx_split": 1, "rows": 1, "estimated_bytes": 1, "job": {}, "request": {}}',
        '{"orcidx_split": 1, "rows": 1, "estimated_bytes": 1, "job": [], "request": 3}',
    ],
)
def test_other_json_is_refused(text):
    with pytest.raises(InvalidQuery):
        Split.from_json(text)


def test_damaged_json_is_refused(paths):
    root, files = paths
    split = orcidx.scan(root, selection={files[0]: [1, 2]}).splits()[0]
    for path, value in [
        (("job", "selection", "bitmap"), "!"),
        (("job", "selection", "bitmap"), "AAAA"),
        (("job", "selection", "length"), 1),
        (("job", "constants"), "AAAA"),
        (("job", "fingerprint"), {"length": 1}),
        (("request", "schema"), "AAAA"),
        (("request", "where"), {"op": "no"}),
        (("request", "options"), {"colour": "red"}),
        (("request", "options"), {"nan": "no"}),
    ]:
        data = json.loads(split.to_json())
        at = data
        for name in path[:-1]:
            at = at[name]
        at[path[-1]] = value
        with pytest.raises(InvalidQuery):
            Split.from_json(json.dumps(data))


def leaves(data, path=()):
    """Yields the path of each value in a JSON document."""
    yield path
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from leaves(value, (*path, key))


def test_any_value_anywhere_is_refused_or_means_something(paths):
    """A split comes from another process. Each value of its JSON is replaced by values of other types and sizes. The
    changed split returns a result, or raises an error that says what is wrong."""
    root, files = paths
    scan = orcidx.scan(root, ["id", "part"], "id >= 3 AND text = 'v3'", selection={files[0]: [1, 3, 14]})
    whole = json.loads(scan.splits()[0].to_json())
    whole["job"]["row_range"] = [0, 9000]
    wrong = [None, True, -1, 0, 99, 2**63, 2**70, 1.5, "x", "", [], [-1], [99], [1, 0], [True, 2], ["0"], [[]], {}]
    wrong += [{"a": 1}, {"path": 7}, {"path": ""}, {"bytes": None}]
    outcomes = set()
    for place in leaves(whole):
        for value in wrong:
            data = json.loads(json.dumps(whole))
            at = data
            for name in place[:-1]:
                at = at[name]
            if place:
                at[place[-1]] = value
            else:
                data = value
            try:
                split = Split.from_json(json.dumps(data))
                assert type(split.rows) is int
                outcomes.add("refused")
            except InvalidQuery:
                continue
            try:
                split.scan().to_table()
                outcomes.add("read")
            except (orcidx.OrcidxError, FileNotFoundError, IsADirectoryError):
                outcomes.add("failed")
    assert outcomes == {"refused", "read", "failed"}


@pytest.mark.parametrize("stripes", [[99], [-1], [0, 0], [1, 0], "0", [0.0], [True], [None], 5, {"0": 1}, [2**70]])
def test_stripes_that_the_file_has_not(paths, stripes):
    data = json.loads(orcidx.open(paths[1][1]).splits()[0].to_json())
    data["job"]["stripes"] = stripes
    with pytest.raises(InvalidQuery, match="stripe"):
        Split.from_json(json.dumps(data)).scan().to_table()


def test_a_split_of_a_stranger_stays_inside(paths, tmp_path):
    root, files = paths
    text = orcidx.open(files[1]).splits()[0].to_json()
    assert Split.from_json(text, within=str(root)).scan().count_rows() == ROWS
    assert Split.from_json(text, within=f"file://{root}/part=1")
    for within in (str(tmp_path), f"{root}/part=", f"{root}/part=0", "s3://bucket", f"{root}/part=1/a.orc"):
        with pytest.raises(InvalidQuery, match="not inside"):
            Split.from_json(text, within=within)
    (tmp_path / "link").symlink_to(files[0])
    data = json.loads(text)
    for location in (f"{root}/part=1/../part=0/a.orc", f"{root}/%2e%2e/secret.orc", str(tmp_path / "link"), "s3://b/k"):
        data["job"]["source"]["location"] = location
        with pytest.raises(InvalidQuery, match="not inside"):
            Split.from_json(json.dumps(data), within=str(root / "part=1"))
    data = json.loads(text)
    data["job"]["file_index"] = {"path": "http://169.254.1.1/index"}
    with pytest.raises(InvalidQuery, match="not inside"):
        Split.from_json(json.dumps(data), within=str(root))


def test_what_cannot_be_split_or_travel(paths):
    with pytest.raises(InvalidQuery, match="limit"):
        orcidx.scan(paths[0], limit=3).splits()
    with pytest.raises(InvalidQuery, match="at least 1"):
        orcidx.scan(paths[0]).splits(0)
    data = Path(paths[1][2]).read_bytes()
    (split,) = orcidx.open(data).splits()
    assert pickle.loads(pickle.dumps(split)).scan().count_rows() == 10
    with pytest.raises(InvalidQuery, match="paths and URLs"):
        split.to_json()


def test_another_version_is_refused(tmp_path):
    path = tmp_path / "a.orc"
    pyarrow.orc.write_table(pa.table({"x": [1, 2]}), path)
    (split,) = orcidx.open(path).splits()
    split = Split.from_json(split.to_json())
    assert split.scan().count_rows() == 2
    pyarrow.orc.write_table(pa.table({"x": [3, 4]}), path)
    os.utime(path, (1, 1))
    with pytest.raises(StorageError, match="changed") as caught:
        split.scan().to_table()
    assert caught.value.file == str(path)


def test_a_remote_split(paths):
    with RangeServer({"a.orc": Path(paths[1][1]).read_bytes()}) as server:
        splits = orcidx.open(f"{server.url}/a.orc").splits(100_000, where="id >= 100")
        server.log.clear()
        split = Split.from_json(splits[0].to_json())
        assert split.scan(storage_options={"block_size": 1 << 20}).count_rows() == split.rows - 100
        server.objects["a.orc"] += b"x"
        with pytest.raises(StorageError, match="changed"):
            splits[0].scan(storage_options={"block_size": 1 << 20}).to_table()


def test_a_file_index_travels(paths):
    table = orcidx.open(paths[1][2]).read()
    index = orcidx.paimon.build_file_index(table, {"bitmap": {"text": {}}}).to_bytes()
    scan = orcidx.scan(paths[1][2], where="text = 'v3'", file_index={paths[1][2]: index})
    (split,) = scan.splits()
    assert Split.from_json(split.to_json()) == split
    assert split.scan().count_rows() == 1


def test_a_selection_is_cut_to_its_split(paths):
    scan = orcidx.open(paths[1][0]).scan(selection=RowSelection.from_runs([(10, 20), (25_000, 25_010)], ROWS))
    splits = scan.splits(1)
    assert [split.job.selection.count for split in splits] == [10, 10]
