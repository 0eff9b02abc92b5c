"""The command line with the Paimon files in ``tests/fixtures``: file indexes, deletion vectors, tables."""

from __future__ import annotations

import json
import re
import tracemalloc
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.orc
import pytest
from bad.hostile_paimon import vector_of_billions_of_rows
from paimon_empty import empty_table
from paimon_tables import PaimonTable

import orcidx.cli
from orcidx import paimon
from orcidx.cli import main
from orcidx.storage.folder import Folder

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "paimon"
DEMO = str(Path(orcidx.cli.__file__).with_name("demo") / "lineitem.orc")
SIDECARS = sorted((FIXTURES / "tables/db.db/append_index_files/bucket-0").glob("*.index"))
WITH_VECTORS = str(FIXTURES / "tables/db.db/append_dv32")


@pytest.fixture
def orcidx_command(capsys: pytest.CaptureFixture[str]):
    def call(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit:
            main(list(words))
        out, err = capsys.readouterr()
        return int(exit.value.code or 0), out, err

    return call


def expected(table: str) -> dict:
    return json.loads((FIXTURES / f"tables/expected/{table}.json").read_text())


# ---------------------------------------------------------------------- index


def test_index_show(orcidx_command):
    source = str(FIXTURES / "container/everything.bin")
    code, out, _ = orcidx_command("index", "show", source, "--types", "f0=INT", "--json")
    assert code == 0
    shown = {(row["column"], row["kind"]): row for row in json.loads(out)["indexes"]}
    assert (shown["f0", "bitmap"]["state"], shown["f0", "bitmap"]["rows"]) == ("ok", 500)
    assert shown["f1", "bitmap"]["state"] == "not opened"
    assert orcidx_command("index", "show", source)[1].splitlines()[0].split("\t")[:3] == ["column", "kind", "state"]


def test_index_show_empty(orcidx_command):
    _, out, _ = orcidx_command("index", "show", str(FIXTURES / "container/modified_utf8_and_empty.bin"), "--json")
    empty = [row for row in json.loads(out)["indexes"] if row["state"] == "EMPTY"]
    assert empty
    assert all(row["bytes"] == 0 and row["start"] is None for row in empty)


def test_types_are_asked_for_where_they_are_missing(orcidx_command):
    source = str(FIXTURES / "container/everything.bin")
    code, _, err = orcidx_command("index", "check", source, "--types", "f0=INT")
    assert code == 0
    assert "f1, f2; give --types COLUMN=SQL, or the data file" in err
    assert "f0" not in err
    code, _, err = orcidx_command("index", "show", source, "--types", "f0=INT,f1=STRING")
    assert code != 0
    assert "give the type of each column, such as --types f0=INT" in err


@pytest.mark.parametrize("sidecar", SIDECARS, ids=range(len(SIDECARS)))
def test_index_check_of_java_files(orcidx_command, sidecar):
    code, out, _ = orcidx_command("index", "check", str(sidecar), str(sidecar.with_suffix("")), "--json")
    report = json.loads(out)
    assert (code, report["problems"]) == (0, 0)
    assert "ok" in {row["state"] for row in report["indexes"]}


def test_index_build_and_check(orcidx_command, tmp_path):
    made = str(tmp_path / "made.index")
    wanted = ("--bitmap", "l_shipmode", "--bloom-filter", "l_orderkey:items=1000,fpp=0.01", "--bsi", "l_shipdate")
    code, out, _ = orcidx_command("index", "build", DEMO, *wanted, "-o", made, "--json")
    assert code == 0
    assert {(row["column"], row["kind"]) for row in json.loads(out)["indexes"]} == {
        ("l_shipmode", "bitmap"),
        ("l_orderkey", "bloom-filter"),
        ("l_shipdate", "bsi"),
    }
    code, out, _ = orcidx_command("index", "check", made, DEMO)
    assert code == 0
    assert [line.split("\t")[2] for line in out.splitlines()[1:]] == ["ok"] * 3


def test_index_check_finds_an_index_of_other_rows(orcidx_command, tmp_path):
    import pyarrow as pa

    from orcidx import paimon

    rows = orcidx.open(DEMO).num_rows
    wrong = pa.table({"l_shipmode": ["AIR"] * rows})
    short = pa.table({"l_shipmode": ["AIR"]})
    for name, table, word in [("wrong", wrong, "wrong"), ("short", short, "wrong")]:
        path = tmp_path / name
        path.write_bytes(paimon.build_file_index(table, {"bitmap": {"l_shipmode": {}}}).to_bytes())
        code, out, _ = orcidx_command("index", "check", str(path), DEMO, "--json")
        assert code == 1
        assert json.loads(out)["indexes"][0]["state"].startswith(word)


def test_index_check_finds_damage(orcidx_command, tmp_path):
    data = (FIXTURES / "container/everything.bin").read_bytes()
    cut = tmp_path / "cut.index"
    cut.write_bytes(data[: len(data) // 3])
    types = ("--types", "f0=INT", "--types", "f1=STRING", "--types", "f2=BIGINT")
    assert orcidx_command("index", "check", str(cut), *types)[0] in (1, 3)
    cut.write_bytes(data[:10])
    code, _, err = orcidx_command("index", "check", str(cut))
    assert code == 3
    assert err.startswith("orcidx: ")


@pytest.mark.parametrize(
    "words", [(), ("--bitmap", "nowhere"), ("--bloom-filter", "l_orderkey:items=x"), ("--types", "l_orderkey")]
)
def test_index_build_refuses(orcidx_command, tmp_path, words):
    made = tmp_path / "made.index"
    assert orcidx_command("index", "build", DEMO, *words, "-o", str(made))[0] == 2
    assert not made.exists()


# ---------------------------------------------------------------------- deletion vectors


@pytest.mark.parametrize("name", ["dv32/few", "dv32/emptyvector", "dv64/few", "dv64/emptyvector"])
def test_dv_show(orcidx_command, name):
    sidecar = FIXTURES / f"{name}.json"
    file = json.loads(sidecar.read_text())["files"][0]
    code, out, _ = orcidx_command("dv", "show", str(sidecar.with_name(file["file"])), "--json")
    assert code == 0
    (vector,) = json.loads(out)["vectors"]
    positions = file["vectors"][0]["positions"]
    assert vector["offset"] == file["vectors"][0]["offset"]
    assert vector["deleted"] == len(positions)
    assert vector["positions"] == positions[:10]


def test_dv_show_of_billions_of_positions_makes_no_list_of_them(orcidx_command, tmp_path, monkeypatch):
    """The deletion vector stores its positions as runs, which take half a megabyte. As a list of numbers, the positions
    would take 16 GB."""
    monkeypatch.setattr(paimon.DeletionVector, "positions", property(lambda vector: pytest.fail("lists all")))
    (tmp_path / "dv").write_bytes(b"\x01" + vector_of_billions_of_rows())
    code, out, _ = orcidx_command("dv", "show", str(tmp_path / "dv"), "--json")
    found = json.loads(out)["vectors"][0]
    assert (code, found["deleted"], found["first"], found["last"]) == (0, 32_767 << 16, 0, (32_767 << 16) - 1)
    assert found["positions"][:3] == [0, 1, 2]


def test_dv_show_one(orcidx_command):
    path = str(FIXTURES / "dv32/few.bin")
    assert orcidx_command("dv", "show", path, "--offset", "1", "--length", "42")[0] == 0
    assert orcidx_command("dv", "show", path, "--offset", "1")[0] == 0
    assert orcidx_command("dv", "show", path, "--offset", "1", "--length", "41")[0] == 3
    assert orcidx_command("dv", "show", path, "--offset", "2")[0] == 2
    assert orcidx_command("dv", "show", path, "--length", "42")[0] == 2


def test_dv_apply(orcidx_command, tmp_path):
    from orcidx import paimon

    path = str(tmp_path / "index-0")
    paimon.write_deletion_vectors(path, {"a": paimon.DeletionVector([0, 2])})
    _, out, _ = orcidx_command("dv", "apply", path, DEMO, "-c", "l_orderkey", "--json", "-n", "2")
    kept = [json.loads(line)["l_orderkey"] for line in out.splitlines()]
    everything = orcidx.open(DEMO).read(columns=["l_orderkey"])["l_orderkey"].to_pylist()
    assert kept == [everything[1], everything[3]]
    paimon.write_deletion_vectors(path, {"a": paimon.DeletionVector([10**6])})
    assert orcidx_command("dv", "apply", path, DEMO)[0] == 3
    paimon.write_deletion_vectors(path, {"a": paimon.DeletionVector([1]), "b": paimon.DeletionVector([2])})
    assert orcidx_command("dv", "apply", path, DEMO)[0] == 2


# ---------------------------------------------------------------------- tables


def test_table_info(orcidx_command):
    code, out, _ = orcidx_command("table", "info", WITH_VECTORS, "--json")
    facts = json.loads(out)
    java = expected("append_dv32")
    assert (code, facts["snapshot"]) == (0, java["latest_snapshot"])
    rows = {file["file_name"]: file["row_count"] for file in java["data_files"]}
    assert {file["name"]: file["rows"] for file in facts["files"]} == rows
    assert sorted(f["deleted"] for f in facts["files"]) == [10, 55]
    assert [field["column"] for field in facts["fields"]] == ["id", "s", "v", "t"]
    assert json.loads(orcidx_command("table", "info", WITH_VECTORS, "--snapshot", "1", "--json")[1])["snapshot"] == 1
    assert orcidx_command("table", "info", WITH_VECTORS, "--snapshot", "99")[0] == 2
    assert orcidx_command("table", "info", str(FIXTURES / "nowhere"))[0] == 4


def test_table_aggregate(orcidx_command):
    """Totals do not include deleted rows."""
    words = ("table", "aggregate", WITH_VECTORS, "-s", "count(*) as n, max(id) as last")
    code, out, err = orcidx_command(*words, "--where", "id < 100", "--json", "--explain")
    rows = paimon.open_table(WITH_VECTORS).scan(["id"], "id < 100").to_table()["id"].to_pylist()
    assert code == 0
    assert json.loads(out) == {"n": len(rows), "last": max(rows)}
    assert err.startswith("rows: ")
    assert orcidx_command(*words, "--snapshot", "1", "--json")[1] != orcidx_command(*words, "--json")[1]
    assert orcidx_command("table", "aggregate", WITH_VECTORS, "-s", "median(id)")[0] == 2


def test_table_scan(orcidx_command):
    code, out, _ = orcidx_command("table", "scan", WITH_VECTORS, "-c", "id", "--json")
    assert (code, len(out.splitlines())) == (0, 335)
    _, out, _ = orcidx_command("table", "scan", WITH_VECTORS, "-c", "id,v", "--top", "v:desc,id", "-n", "2")
    assert out.splitlines() == ["id\tv", "149\t49", "199\t49"]
    assert orcidx_command("table", "scan", WITH_VECTORS, "--top", "v:upwards", "-n", "2")[0] == 2
    assert orcidx_command("table", "scan", WITH_VECTORS, "--where", "nowhere = 1")[0] == 2
    code, out, err = orcidx_command("table", "scan", WITH_VECTORS, "-w", "id = 5", "--timing")
    assert (code, len(out.splitlines())) == (0, 2)
    assert re.match(r"1 row in .* s of processor time\); read .* row groups?, .* in \d+ requests?$", err.strip())
    assert orcidx_command("table", "scan", WITH_VECTORS, "-w", "id = 5")[2] == ""


def test_table_scan_says_that_a_jvm_may_have_moved_instants(orcidx_command, tmp_path):
    folder = empty_table(tmp_path / "t", {"id": "BIGINT", "at": "TIMESTAMP(6) WITH LOCAL TIME ZONE"})
    moment = pa.array([0], pa.timestamp("us", "UTC"))
    paimon.open_table(folder).append(pa.table({"id": [1], "at": moment}), jvm_zone="UTC")
    code, out, err = orcidx_command("table", "scan", str(folder), "--json")
    assert (code, len(out.splitlines()), "jvm_zone=" in err) == (0, 1, True)
    code, out, err = orcidx_command("table", "scan", str(folder), "--json", "--jvm-zone", "Asia/Kolkata")
    assert (code, "05:30" in out, err) == (0, True, "")


def test_table_explain(orcidx_command, tmp_path):
    page = tmp_path / "page.html"
    code, out, _ = orcidx_command("table", "explain", WITH_VECTORS, "-w", "id = 5", "--html", str(page))
    assert code == 0
    assert "min 300, max 399" in out
    assert page.read_text().lstrip().lower().startswith("<!doctype html")
    assert isinstance(json.loads(orcidx_command("table", "explain", WITH_VECTORS, "--json")[1]), dict)


def test_index_check_with_another_file_says_no(orcidx_command, tmp_path):
    """If the indexes do not fit the file, the command says what is wrong and exits with 1. This includes indexes of
    columns that the file does not have."""
    import pyarrow as pa
    from pyarrow import orc

    one, other = tmp_path / "one.orc", tmp_path / "other.orc"
    orc.write_table(pa.table({"id": [1, 2, 3], "city": ["a", "b", "c"]}), one)
    made = str(tmp_path / "one.idx")
    build = ("index", "build", str(one), "-o", made, "--bitmap", "city", "--bloom-filter", "id", "--range-bitmap", "id")
    assert orcidx_command(*build)[0] == 0
    assert orcidx_command("index", "check", made, str(one))[0] == 0
    for columns, told in [
        ({"x": [1, 2, 3]}, "wrong: the data file has no column"),
        (
            {"id": [1, 2, 3, 4], "city": ["a", "b", "c", "d"]},
            "wrong: the bitmap index has 3 rows, but the data file has 4",
        ),
        ({"id": [True, False, True], "city": [b"a", b"b", b"c"]}, "wrong"),
        ({"id": [7, 8, 9], "city": ["a", "b", "c"]}, "wrong: for id = 7, the index lacks 1 row"),
    ]:
        orc.write_table(pa.table(columns), other)
        code, out, _ = orcidx_command("index", "check", made, str(other))
        assert (code, told in out) == (1, True), out


def test_table_changes_are_shown_first_and_made_with_yes(orcidx_command, tmp_path: Path) -> None:
    folder = str(empty_table(tmp_path / "t"))
    rows = tmp_path / "rows.orc"
    pyarrow.orc.write_table(pa.table({"id": range(100), "city": ["Oslo", "Rom"] * 50}), rows)
    code, out, _ = orcidx_command("table", "append", folder, str(rows))
    assert (code, "nothing was changed" in out, "100 rows" in out) == (0, True, True)
    assert orcidx_command("table", "append", folder, str(rows), "--yes")[0] == 0
    code, out, _ = orcidx_command("table", "delete", folder, "-w", "id < 10", "--json")
    assert (code, json.loads(out)["rows"], json.loads(out)["snapshot_id"]) == (0, 10, None)
    code, out, _ = orcidx_command("table", "delete", folder, "-w", "id < 10", "--yes", "--json")
    found = json.loads(out)
    assert (found["rows"], found["snapshot_id"], found["kind"]) == (10, 2, "OVERWRITE")
    assert "sys.rollback" in found["rollback"]
    code, out, _ = orcidx_command("table", "index", folder, "--column", "bitmap:city", "--yes")
    assert (code, "snapshot 3 (COMPACT)" in out) == (0, True)
    code, out, _ = orcidx_command("table", "index", folder, "--column", "bitmap:city", "--yes", "--json")
    assert (json.loads(out)["snapshot_id"], len(json.loads(out)["files"]["complete"])) == (None, 1)
    code, _, err = orcidx_command("table", "delete", folder, "--yes")
    assert code != 0
    assert "everything" in err
    code, _, err = orcidx_command("table", "index", folder, "--column", "city", "--yes")
    assert code != 0
    assert "KIND:NAME" in err


def test_an_append_keeps_the_nanoseconds_that_the_table_stores(orcidx_command, tmp_path: Path) -> None:
    rows = tmp_path / "rows.orc"
    times = pa.array([1_700_000_000_123_456_789, -1_500_000_001], pa.timestamp("ns"))
    pyarrow.orc.write_table(pa.table({"at": times}), rows)
    folder = str(empty_table(tmp_path / "t", {"at": "TIMESTAMP(9)"}))
    assert orcidx_command("table", "append", folder, str(rows), "--yes")[0] == 0
    assert paimon.open_table(folder).scan().to_table()["at"].combine_chunks() == times
    far = pa.table({"at": pa.array([253_402_300_799], pa.timestamp("s"))})
    pyarrow.orc.write_table(far, rows)
    folder = str(empty_table(tmp_path / "micros", {"at": "TIMESTAMP(6)"}))
    assert orcidx_command("table", "append", folder, str(rows), "--yes")[0] == 0
    assert paimon.open_table(folder).scan().to_table() == far.cast(pa.schema([("at", pa.timestamp("us"))]))


def test_files_that_a_failed_append_leaves_are_named(
    orcidx_command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If an append fails and its data file cannot be deleted, a note of the error names this file, and the command
    prints the note."""
    folder, rows = str(empty_table(tmp_path / "t")), str(tmp_path / "rows.orc")
    orcidx.write_table(pa.table({"id": [1]}), rows)

    def failing(self: Folder, name: str, *_: object, **__: object) -> None:
        raise PermissionError(13, f"no permission for {name}")

    for change in ("create", "delete"):
        monkeypatch.setattr(Folder, change, failing)
    code, _, err = orcidx_command("table", "append", folder, rows, "--yes")
    monkeypatch.undo()
    (left,) = Path(folder).rglob("data-*.orc")
    assert (code, "could not be deleted" in err, left.name in err) == (4, True, True), err


def test_an_append_keeps_columns_that_the_first_file_lacks(orcidx_command, tmp_path: Path) -> None:
    """The values of a column that the first file lacks come from the other files."""
    names = [str(tmp_path / f"{number}.orc") for number in range(3)]
    at = pa.array([1_700_000_000_123_456_789], pa.timestamp("ns"))
    for name, columns in zip(
        names, [{}, {"city": ["Oslo"]}, {"at": at, "day": at.cast(pa.timestamp("s"), safe=False)}]
    ):
        orcidx.write_table(pa.table({"id": [1], **columns}), name)
    kinds = {"id": "BIGINT", "city": "STRING", "at": "TIMESTAMP(9)", "day": "TIMESTAMP(6)"}
    folder = str(empty_table(tmp_path / "t", kinds))
    code, _, err = orcidx_command("table", "append", folder, *names, "--yes")
    assert code == 0, err
    found = paimon.open_table(folder).scan().to_table()
    assert found["city"].to_pylist() == [None, "Oslo", None]
    assert found["at"].combine_chunks()[2] == at[0]
    assert found["day"].cast(pa.int64()).to_pylist() == [None, None, 1_700_000_000_000_000]
    orcidx.write_table(pa.table({"id": [1], "town": ["Rom"]}), names[1])
    code, _, err = orcidx_command("table", "append", folder, *names, "--yes")
    assert (code, "the table has no column 'town'" in err) == (2, True)


@pytest.mark.parametrize("kind", ["TIMESTAMP(6)", "TIMESTAMP(3)"])
def test_an_append_reads_each_column_in_its_own_unit(orcidx_command, tmp_path: Path, kind) -> None:
    """Times in nanoseconds end in the year 2262. If one column has nanoseconds, the other columns must still be read
    with all their years."""
    rows = tmp_path / "rows.orc"
    far = pa.array([253_402_300_799_000, -60_000_000_000_000], pa.timestamp("ms"))
    near = pa.array([1_700_000_000_123_456_789, None], pa.timestamp("ns"))
    pyarrow.orc.write_table(pa.table({"near": near, "far": far}), rows)
    folder = str(empty_table(tmp_path / "t", {"near": "TIMESTAMP(9)", "far": kind}))
    code, _, err = orcidx_command("table", "append", folder, str(rows), "--yes")
    assert code == 0, err
    found = paimon.open_table(folder).scan().to_table()
    assert found["near"].combine_chunks() == near
    assert found["far"].combine_chunks().cast(far.type) == far


@pytest.mark.parametrize("words", [(), ("--yes",)])
@pytest.mark.parametrize("kind", ["TIMESTAMP(6)", "TIMESTAMP(3)"])
@pytest.mark.parametrize("first", [1_700_000_000, 253_402_300_799], ids=["near", "after 2262"])
def test_an_append_drops_no_digits_below_a_microsecond(orcidx_command, tmp_path: Path, words, kind, first) -> None:
    """The command must not drop digits that the column cannot store. It raises an error, as ``Table.append`` does."""
    rows = tmp_path / "rows.orc"
    pyarrow.orc.write_table(pa.table({"at": pa.array([first * 1000, first * 1000 + 5], pa.timestamp("ms"))}), rows)
    folder = str(empty_table(tmp_path / "t", {"at": kind}))
    assert orcidx_command("table", "append", folder, str(rows), "--yes")[0] == 0
    whole = rows.read_bytes()
    nanos = b"\x4e\x01\x00\x2d"  # two 8-bit values: 0 ns, and 5 ms, stored as the digit 5 and six zeros
    assert whole.count(nanos) == 1
    rows.write_bytes(whole.replace(nanos, nanos[:3] + b"\x28"))  # 5 ns instead of 5 ms
    code, _, err = orcidx_command("table", "append", folder, str(rows), *words)
    assert (code, f"does not fit {kind}" in err, "column at" in err) == (3, True, True), err
    assert paimon.open_table(folder).scan().to_table().num_rows == 2


def test_files_in_another_store_are_read_when_it_is_named(orcidx_command, tmp_path: Path) -> None:
    """A data file of the table is in another store. The option ``--external-paths`` names this store, so that the
    commands read the file. Without the option, the commands refuse the table."""
    memory = fsspec.filesystem("memory")
    folder = PaimonTable(tmp_path / "t")
    folder.schema({0: ("a", "INT")})
    folder.add(
        "data-0.orc", pa.table({"a": pa.array([1, 2], pa.int32())}), _EXTERNAL_PATH="memory://elsewhere/data-0.orc"
    )
    folder.commit()
    sink = pa.BufferOutputStream()
    pyarrow.orc.write_table(pa.table({"a": pa.array([1, 2], pa.int32())}), sink)
    memory.pipe_file("/elsewhere/data-0.orc", sink.getvalue().to_pybytes())
    try:
        place = str(tmp_path / "t")
        for command in ("info", "scan", "explain"):
            code, _, err = orcidx_command("table", command, place)
            assert (code, "--external-paths" in err) == (2, True), err
            assert orcidx_command("table", command, place, "--external-paths", "memory://other")[0] == 2
            assert orcidx_command("table", command, place, "--external-paths", "memory://elsewhere")[0] == 0
        assert orcidx_command("table", "scan", place, "--external-paths", "memory://elsewhere")[1] == "a\n1\n2\n"
        for change in ("index", "delete", "append"):
            assert "--external-paths" in orcidx_command("table", change, "--help")[1]
    finally:
        memory.rm("/elsewhere", recursive=True)


def test_index_check_holds_no_python_object_a_row(orcidx_command, tmp_path: Path) -> None:
    """The command must not make a Python object for each row number. For a million rows, a list and two sets of row
    numbers would take 200 MB and a second."""
    one, made = tmp_path / "one.orc", str(tmp_path / "one.idx")
    pyarrow.orc.write_table(pa.table({"id": pa.repeat(pa.scalar(7), 300_000)}), one)
    assert orcidx_command("index", "build", str(one), "-o", made, "--bitmap", "id")[0] == 0
    tracemalloc.start()
    try:
        assert orcidx_command("index", "check", made, str(one))[0] == 0
        assert tracemalloc.get_traced_memory()[1] < 12 << 20
    finally:
        tracemalloc.stop()
