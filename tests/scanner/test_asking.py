"""Invalid requests raise an error that gives the reason and a solution. Limits apply to every method of a scan."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

import orcidx
from orcidx import InvalidQuery, col
from orcidx.paimon import build_file_index

ROWS = 1000


@pytest.fixture
def path(tmp_path):
    table = pa.table({"id": np.arange(ROWS), "city": ["Oslo", "Rom"] * (ROWS // 2)})
    pyarrow.orc.write_table(table, tmp_path / "a.orc", row_index_stride=100)
    return tmp_path / "a.orc"


WRONG = [
    ({"columns": [0]}, "names"),
    ({"columns": [col("id")]}, "names"),
    ({"columns": 5}, "list of names"),
    ({"columns": "id"}, r"give \['id'\]"),
    ({"columns": ["id", "city", "id"]}, "'id' twice"),
    ({"columns": ["id", ("id",)]}, "'id' twice"),
    ({"columns": ["id", "ID"], "case_sensitive": False}, "twice"),
    ({"limit": -1}, "negative"),
    ({"limit": 1.5}, "whole number"),
    ({"limit": True}, "whole number"),
    ({"row_range": (-1, 2)}, "numbered from 0"),
    ({"row_range": (5, 2)}, "ends before it begins"),
    ({"row_range": (1, 2, 3)}, "two row numbers"),
    ({"row_range": 7}, "two row numbers"),
    ({"row_range": (0, "x")}, "whole number"),
    ({"stripes": ["a"]}, "whole number"),
    ({"stripes": 0}, "list of stripe numbers"),
    ({"stripes": [7]}, "no stripe 7"),
    ({"selection": ["a"]}, "whole numbers"),
    ({"selection": [2**70]}, "whole numbers"),
    ({"row_numbers": 5}, "name for the column"),
    ({"schema": 5}, "pyarrow.Schema"),
    ({"batch_size": "x"}, "whole number"),
    ({"batch_size": 0}, "at least 1"),
    ({"batch_size": 1.0}, "whole number"),
    ({"merge_gap": -1}, "at least 0"),
    ({"merge_size": "8"}, "whole number"),
    ({"use_threads": "no"}, "True or False"),
    ({"timezone": 5}, "name of a zone"),
    ({"decimal_zero_precision": 38}, "two whole numbers"),
]


@pytest.mark.parametrize(("asked", "why"), WRONG, ids=lambda value: str(value)[:40])
def test_what_cannot_be_asked_of_a_file(path, asked, why):
    with orcidx.open(path) as f, pytest.raises(InvalidQuery, match=why):
        f.scan(**asked)


@pytest.mark.parametrize("n", [-1, "3", 2.0])
def test_a_head_of_no_number(path, n):
    with pytest.raises(InvalidQuery, match="n of head"):
        orcidx.scan(path).head(n)


@pytest.mark.parametrize("where", [None, "id >= 0"])
def test_a_limit_may_be_as_large_as_anyone_likes(path, where):
    for limit in (ROWS, 2**62, 2**63, 2**64, 2**70, np.int64(ROWS)):
        scan = orcidx.scan(path, where=where, limit=limit)
        assert scan.to_table().num_rows == scan.count_rows() == scan.head(2**70).num_rows == ROWS
        assert scan.explain().to_dict()["files"][0]["rows"] == ROWS
    assert orcidx.open(path).scan(row_range=(ROWS - 1, 2**70)).to_table().column("id").to_pylist() == [ROWS - 1]


@pytest.fixture
def three(path, tmp_path):
    paths = [path]
    for name in "bc":
        paths.append(tmp_path / f"{name}.orc")
        paths[-1].write_bytes(path.read_bytes())
    return paths


@pytest.mark.parametrize("limit", [0, 1, 250, ROWS, ROWS + 1, 2 * ROWS + 30, 9 * ROWS])
@pytest.mark.parametrize("where", [None, "id >= 500", "city = 'Rom'"])
def test_stripes_keep_to_the_limit(three, where, limit):
    scan = orcidx.scan(three, where=where, limit=limit)
    found = [value for stripe in scan.stripes() for batch in stripe for value in batch.column("id").to_pylist()]
    assert found == scan.to_table().column("id").to_pylist()
    if where is None:
        assert sum(stripe.decision.rows.may.count for stripe in scan.stripes()) == min(limit, 3 * ROWS)


def test_a_stripe_may_be_read_again(path):
    for stripe in orcidx.scan(path, where="id >= 10", limit=7).stripes():
        assert [sum(batch.num_rows for batch in stripe) for _ in range(3)] == [7, 7, 7]


def test_an_explanation_keeps_to_the_limit(three):
    told = orcidx.scan(three, limit=ROWS + 250).explain()
    kept = [sum(stripe.kept_rows for stripe in file.stripes) for file in told.files]
    assert kept == [ROWS, 250, 0]
    assert "rows after the first 1250 are not read" in str(told)
    may = orcidx.scan(three, where="id >= 500", limit=3).explain()
    assert "ends after 3 matching rows" in str(may)
    assert "limit" not in str(orcidx.scan(three).explain())


def test_a_stripe_of_a_file_that_is_closed_says_so(three):
    stripes = list(orcidx.scan(three).stripes())
    for stripe in stripes:
        with pytest.raises(InvalidQuery, match="inside the loop over stripes"):
            iter(stripe)
    with orcidx.open(three[0]) as f:
        stripes = list(f.scan().stripes())
    with pytest.raises(InvalidQuery, match="closed"):
        iter(stripes[0])


def test_a_scan_with_a_file_index_pickles(path):
    index = build_file_index(path, {"bitmap": {"city": {}}}, types={"city": "STRING"})
    with orcidx.open(path) as f:
        scan = f.scan(where="city = 'Rom'", file_index=index)
        again = pickle.loads(pickle.dumps(scan))
        assert again.to_table() == scan.to_table()
        assert str(again.explain()) == str(scan.explain())
        assert "bitmap" in str(again.explain())
        (split,) = pickle.loads(pickle.dumps(scan.splits()))
        assert split.scan().to_table() == scan.to_table()


# ---------------------------------------------------------------------- files that are not ORC


def half(data):
    return data[: len(data) // 2]


LOOKS = [
    (lambda data: b"PAR1" + bytes(50) + b"PAR1", "looks like Parquet; read it with pyarrow.parquet"),
    (lambda data: b"\x1f\x8b\x08" + data[:-4], "looks like gzip; decompress it first"),
    (lambda data: b"id,city\n1,Oslo\n" * 9, "text, such as CSV; read it with pyarrow.csv"),
    (lambda data: "id;by\n1;Tromsø\n".encode() * 9, "text, such as CSV"),
    (lambda data: b'{"id": 1}\n' * 9, "looks like JSON"),
    (lambda data: b"<html>404 Not Found</html>", "HTML or XML"),
    (lambda data: b"Obj\x01" + data[:-4], "looks like Avro"),
    (lambda data: bytes(500), "starts with zeros"),
    (lambda data: b"\x80\x81\x82" * 100, "neither its PostScript nor its first bytes are those of an ORC file"),
    (half, "truncated"),
    (lambda data: data[:-1], "truncated"),
    (lambda data: data[:3], "truncated"),
    (lambda data: data[:1], "truncated"),
    (lambda data: b"\x89PNG\r\n\x1a\n" + data[:-4], "looks like a PNG picture"),
    (lambda data: data[3:], "its beginning is missing"),
    (lambda data: data[len(data) - len(data) // 3 :], "its beginning is missing"),
    (lambda data: data[-30:], "its beginning is missing"),
    (lambda data: data[3:] + data[-1:], "neither its PostScript nor its first bytes"),
    (lambda data: half(data) + bytes(len(data) - len(half(data))), "truncated"),
]


@pytest.mark.parametrize(("make", "message"), LOOKS, ids=[message for _, message in LOOKS])
def test_a_file_that_is_none_says_what_it_looks_like(path, make, message):
    path.write_bytes(make(path.read_bytes()))
    with pytest.raises(orcidx.CorruptFile, match=message):
        orcidx.open(path)


def test_every_end_of_a_file_says_that_its_beginning_is_missing(path):
    data = path.read_bytes()
    for start in range(1, len(data) - 30):
        with pytest.raises(orcidx.CorruptFile, match="beginning is missing") as caught:
            orcidx.open(data[start:])
        assert "copy it again from its first byte" in str(caught.value)


def test_every_length_of_a_file_that_was_cut_is_truncated(path):
    data = path.read_bytes()
    for length in range(4, len(data)):
        with pytest.raises(orcidx.CorruptFile, match="truncated"):
            orcidx.open(data[:length])


def test_an_empty_file_says_so(tmp_path):
    (tmp_path / "empty.orc").write_bytes(b"")
    with orcidx.open(tmp_path / "empty.orc") as f:
        assert "empty" in str(f.scan().explain())
