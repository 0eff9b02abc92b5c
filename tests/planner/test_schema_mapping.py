"""Maps a file's columns to the columns of a schema, by name, position or field id. Types are widened if no value is
lost."""

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pytest

import orcidx
from orcidx import InvalidQuery, ReadOptions, ValueOutOfRange
from orcidx.planner.schema_mapping import choose_fields, map_columns, widen


@pytest.fixture
def write(tmp_path):
    def write(name="t.orc", **columns):
        path = tmp_path / name
        pyarrow.orc.write_table(pa.table(columns), path)
        return str(path)

    return write


def read(path, schema, columns=None, where=None, **more):
    table = orcidx.scan(path, columns, where, schema=schema, **more).to_table()
    table.validate(full=True)
    return table


WIDENED = [
    (pa.array([1, None, -3], pa.int8()), pa.int16()),
    (pa.array([1, None, -3], pa.int32()), pa.int64()),
    (pa.array([1, None, -3], pa.int16()), pa.float32()),
    (pa.array([1, None, -(1 << 31)], pa.int32()), pa.float64()),
    (pa.array([1, None, -(1 << 63)], pa.int64()), pa.decimal128(21, 2)),
    (pa.array([1.5, None], pa.float32()), pa.float64()),
    (pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)), pa.decimal128(8, 4)),
    (pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)), pa.decimal256(50, 4)),
    (pa.array(["a", None]), pa.large_string()),
    (pa.array(["a", None]), pa.string_view()),
    (pa.array(["a", None]), pa.dictionary(pa.int32(), pa.string())),
    (pa.array([b"a", None]), pa.large_binary()),
    (pa.array([[1, None], None, []], pa.list_(pa.int32())), pa.list_(pa.int64())),
    (pa.array([[1, None], None, []], pa.list_(pa.int32())), pa.large_list(pa.int64())),
    (pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int16())), pa.map_(pa.string(), pa.int64())),
]


@pytest.mark.parametrize(("array", "want"), WIDENED, ids=lambda value: str(getattr(value, "type", value)))
def test_widening_keeps_every_value(write, array, want):
    table = read(write(x=array), pa.schema([("x", want)]))
    assert table.schema.field("x").type == want
    assert table.column("x").to_pylist() == array.to_pylist()
    assert widen(array.slice(1), want).to_pylist() == array.slice(1).to_pylist()


@pytest.mark.parametrize(
    ("have", "want"),
    [
        (pa.int64(), pa.int32()),
        (pa.int32(), pa.float32()),
        (pa.int64(), pa.float64()),
        (pa.int64(), pa.decimal128(18, 0)),
        (pa.float64(), pa.float32()),
        (pa.decimal128(5, 2), pa.decimal128(5, 1)),
        (pa.decimal128(5, 2), pa.decimal128(6, 4)),
        (pa.string(), pa.int64()),
        (pa.int64(), pa.string()),
        (pa.bool_(), pa.int8()),
        (pa.list_(pa.int64()), pa.list_(pa.int8())),
        (pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int8())])),
        (pa.struct([("a", pa.int64())]), pa.int64()),
        (pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64())),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int8())),
        (pa.map_(pa.string(), pa.int64()), pa.list_(pa.int64())),
        (pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64())),
        (pa.int64(), pa.map_(pa.string(), pa.int64())),
        (pa.string(), pa.dictionary(pa.int32(), pa.int64())),
        (pa.int64(), pa.dictionary(pa.int32(), pa.string())),
    ],
)
def test_what_could_lose_values_is_refused(write, have, want):
    path = write(col=pa.nulls(2, have))
    with pytest.raises(InvalidQuery) as caught:
        read(path, pa.schema([("col", want)]))
    text = str(caught.value)
    assert all(part in text for part in (path, "col", str(want), str(have)))


def test_times_come_in_the_wanted_unit(write):
    path = write(t=pa.array([1_500_000_001, None, -1], pa.timestamp("ns")), u=pa.array([1, 2, 3], pa.timestamp("ns")))
    table = read(path, pa.schema([("t", pa.timestamp("us")), ("u", pa.timestamp("ns"))]), where="u < '1971-01-01'")
    assert table.column("t").cast(pa.int64()).to_pylist() == [1_500_000, None, -1]
    assert table.column("u").cast(pa.int64()).to_pylist() == [1, 2, 3]
    with pytest.raises(InvalidQuery, match="cannot be widened"):
        read(path, pa.schema([("t", pa.timestamp("us", "UTC"))]))


def test_missing_columns_and_fields_are_null(write):
    path = write(s=[{"a": 1}, None, {"a": 2}], x=[1, 2, 3])
    struct = pa.struct([("b", pa.string()), ("a", pa.int64())])
    wanted = pa.schema([("y", pa.string()), ("s", struct), ("x", pa.int64())])
    table = read(path, wanted)
    assert table.to_pylist() == [
        {"y": None, "s": {"b": None, "a": 1}, "x": 1},
        {"y": None, "s": None, "x": 2},
        {"y": None, "s": {"b": None, "a": 2}, "x": 3},
    ]
    only_missing = pa.schema([("s", pa.struct([("c", pa.int8())]))])
    assert read(path, only_missing).column("s").to_pylist() == [{"c": None}, None, {"c": None}]
    assert read(path, wanted, where="y is null and x > 1", columns=["x"]).column("x").to_pylist() == [2, 3]
    assert read(path, wanted, where="y = 'a' or x = 1", columns=["x"]).column("x").to_pylist() == [1]
    assert read(path, wanted, where="s.b is not null").num_rows == 0
    assert read(path, only_missing, where="s.c is null").num_rows == 3
    with pytest.raises(InvalidQuery, match="must not be null"):
        read(path, pa.schema([pa.field("z", pa.int64(), nullable=False)]))


def test_a_missing_struct_is_null_at_every_depth(write):
    path = write(x=[1, 2])
    wanted = pa.schema([("x", pa.int64()), ("s", pa.struct([("a", pa.struct([("b", pa.int64())]))]))])
    assert read(path, wanted, where="s.a.b is null").column("s").to_pylist() == [None, None]
    assert read(path, wanted, where="s.a.b = 1 or x = 2").column("x").to_pylist() == [2]


def test_by_position(write):
    path = write(a=[1, 2], b=["x", "y"])
    wanted = pa.schema([("id", pa.int64()), ("name", pa.string()), ("more", pa.int8())])
    table = read(path, wanted, match="position", where="name = 'y'")
    assert table.to_pylist() == [{"id": 2, "name": "y", "more": None}]
    assert read(path, wanted, ["name"], match="position").to_pydict() == {"name": ["x", "y"]}


def test_by_field_id_needs_ids(write):
    path = write(a=[1, 2])
    with_id = pa.schema([pa.field("x", pa.int64(), metadata={"PARQUET:field_id": "7"})])
    assert read(path, with_id, match="field_id").to_pydict() == {"x": [None, None]}
    with pytest.raises(InvalidQuery, match="no field id"):
        read(path, pa.schema([("x", pa.int64())]), match="field_id")
    with pytest.raises(InvalidQuery, match="'name', 'position' or 'field_id'"):
        read(path, with_id, match="ids")


def test_by_field_id(golden_paimon):
    for path in sorted(golden_paimon.rglob("*.orc")):
        f = orcidx.open(path)
        ids = {column.attribute("paimon.id"): name for name, column in zip(f.schema.names, f.columns)}
        if "0" in ids and "1" in ids:
            break
    fields = [f.schema.field(ids[key]).with_name(f"new{key}") for key in ("1", "0")]
    wanted = [field.with_metadata({"PARQUET:field_id": key}) for field, key in zip(fields, ("1", "0"))]
    wanted.append(pa.field("more", pa.int8(), metadata={"PARQUET:field_id": "999"}))
    table = read(str(path), pa.schema(wanted), match="field_id", where="new0 is not null or new0 is null")
    plain = f.read([ids["1"], ids["0"]])
    assert table.column("new1").to_pylist() == plain.column(0).to_pylist()
    assert table.column("new0").to_pylist() == plain.column(1).to_pylist()
    assert table.column("more").null_count == table.num_rows > 0


def test_case(write):
    path = write(Id=[1, 2], S=[{"A": 1, "B": 2}] * 2)
    wanted = pa.schema([("id", pa.int64()), ("s", pa.struct([("b", pa.int64())]))])
    assert read(path, wanted).to_pylist()[0] == {"id": None, "s": None}
    table = read(path, wanted, case_sensitive=False, where="ID = 2")
    assert table.to_pylist() == [{"id": 2, "s": {"b": 2}}]


def test_case_below_lists_and_maps(write):
    def kinds(name):
        below = pa.struct([(name, pa.int64())])
        return [("l", pa.list_(below)), ("m", pa.map_(pa.string(), below))]

    stored = {name: pa.array([value], kind) for (name, kind), value in zip(kinds("A"), ([{"A": 1}], [("k", {"A": 2})]))}
    table = read(write(**stored), pa.schema(kinds("a")), case_sensitive=False)
    assert table.to_pylist() == [{"l": [{"a": 1}], "m": [("k", {"a": 2})]}]


def kinds_of(names):
    """Integer columns of these names, and a struct with fields of these names."""
    fields = [(name, pa.int64()) for name in names]
    return pa.schema([*fields, ("s", pa.struct(fields))])


def test_names_that_differ_only_in_case(write):
    """Each column has its own values, also in scans of several files without ``schema``."""
    path = write("both.orc", A=[1, 2], a=[10, 20], s=[{"A": 1, "a": 10}, {"A": 2, "a": 20}])
    rows = [{"A": 1, "a": 10, "s": {"A": 1, "a": 10}}, {"A": 2, "a": 20, "s": {"A": 2, "a": 20}}]
    for wanted in (kinds_of("Aa"), kinds_of("aA")):
        assert read(path, wanted, case_sensitive=False).to_pylist() == rows
        assert read(path, wanted, case_sensitive=False, where="a + 0 = 10").to_pylist() == rows[:1]
    assert orcidx.scan([path, path], case_sensitive=False).to_table().to_pylist() == rows * 2
    other = write("other.orc", a=[10], s=[{"a": 10}])
    assert read(other, kinds_of("Aa"), case_sensitive=False).to_pylist() == [
        {"A": None, "a": 10, "s": {"A": None, "a": 10}}
    ]
    for wanted in (kinds_of("a"), kinds_of("A"), pa.schema([kinds_of("a").field("s")])):
        with pytest.raises(InvalidQuery, match="is ambiguous, because the file has 'A' and 'a'; give case_sensitive"):
            read(path, wanted, case_sensitive=False)
    assert read(path, kinds_of("a")).to_pylist() == [{"a": 10, "s": {"a": 10}}, {"a": 20, "s": {"a": 20}}]


def test_selected_columns_with_exactly_the_same_name_are_preferred(write):
    """Scans of several files and scans of one file both prefer the column with exactly the requested name."""
    path = write("both.orc", A=[1], a=[10], s=[{"A": 2, "a": 20}])
    for files in (path, [path], [path, path]):
        for name in "Aa":
            for columns in ([name], [("s", name)], [f"s.{name}"]):
                table = orcidx.scan(files, columns=columns, case_sensitive=False).to_table()
                assert table.to_pylist()[:1] == orcidx.scan(path, columns=columns).to_table().to_pylist()
        for where in ("a = 10", "A = 10"):
            with pytest.raises(InvalidQuery, match="ambiguous"):
                orcidx.scan(files, where=where, case_sensitive=False).to_table()


def test_constants_stand_where_they_are_asked_for(write):
    with orcidx.open(write(a=[1], b=["x"], s=[{"c": 1, "d": 2}])) as file:
        root = file._reader.root

    def mapped(columns, constants, **options):
        found = map_columns(root, columns, options=ReadOptions(**options), constants=constants)
        return [(one.field.name, one.column and one.column.path[-1], one.value and one.value.as_py()) for one in found]

    a, b, p = ("a", "a", None), ("b", "b", None), ("p", None, 7)
    assert mapped(["b", "p", "a"], {"p": 7}) == [b, p, a]
    assert mapped(["a", "b"], {"p": 7}) == [a, b]
    assert mapped(["b", "a"], {"A": 7}) == [b, a]
    assert mapped(["b", "a"], {"A": 7}, case_sensitive=False) == [b, ("A", None, 7)]
    assert [name for name, _, _ in mapped(None, {"p": 7, "b": 8})] == ["a", "b", "s", "p"]
    assert mapped(None, {"p": 7, "b": 8})[1] == ("b", None, 8)
    assert mapped(["s.d", "p"], {"p": 7})[0] == ("s", "s", None)


def test_nested_columns_of_the_wanted_schema():
    wanted = pa.schema([("x", pa.int8()), ("s", pa.struct([("a", pa.int8()), ("b.c", pa.int8()), ("d", pa.int8())]))])

    def chosen(*columns):
        return pa.schema([field for _, field in choose_fields(wanted, columns)])

    assert chosen("s.d", "x", "s.a") == pa.schema(
        [("s", pa.struct([("d", pa.int8()), ("a", pa.int8())])), ("x", pa.int8())]
    )
    assert chosen(("s", "b.c")) == chosen("s.b.c") == pa.schema([("s", pa.struct([("b.c", pa.int8())]))])
    assert chosen("s", "s.a") == chosen("s.a", "s") == pa.schema([wanted.field("s")])
    assert chosen() == pa.schema([])
    with pytest.raises(InvalidQuery, match="did you mean 's'"):
        chosen("S")


def test_a_value_that_does_not_fit_after_all():
    with pytest.raises(ValueOutOfRange, match=r"timestamp\[ns\]"):
        widen(pa.array([1 << 62], pa.timestamp("us")), pa.timestamp("ns"))


def test_dictionaries_follow_the_first_file(write):
    few, many = ["a", "b"] * 500, [f"value {i}" for i in range(1000)]
    first, second = write("1.orc", s=few), write("2.orc", s=many)
    for paths in ([first, second], [second, first]):
        table = orcidx.scan(paths, options=ReadOptions(strings="dictionary")).to_table()
        assert sorted(table.column("s").to_pylist()) == sorted(few + many)


def test_columns_that_are_no_names_are_refused(write) -> None:
    """A Column of Spark or an Expression of pyarrow is not a column name. The error is ``InvalidQuery``, not
    ``TypeError``."""
    schema = pa.schema([("a", pa.int64()), ("s", pa.struct([("b", pa.int64())]))])
    for wrong in (pc.field("a"), 7, None, b"a", (), ("s", 1), {"a": 1}, object()):
        with pytest.raises(InvalidQuery, match=r"columns contains .* give names, or paths"):
            choose_fields(schema, ["a", wrong])
    with pytest.raises(InvalidQuery, match="columns contains 7, of type int"):
        orcidx.scan(write(a=[1]), [7])
    assert [field.name for _, field in choose_fields(schema, [("s", "b"), ["a"]])] == ["s", "a"]


def test_views_beside_a_condition(write):
    path = write(a=[1, 2, 3], s=["x", "y", None])
    for where, expected in (("s = 'y'", ["y"]), ("s IS NULL OR a = 1", ["x", None]), (None, ["x", "y", None])):
        table = orcidx.scan(path, ["s"], where, strings="view").to_table()
        assert table.schema.field("s").type == pa.string_view()
        assert table.column("s").to_pylist() == expected


@pytest.mark.parametrize("where", [None, "s IS NOT NULL"])
def test_metadata_of_fields_below_a_struct_is_that_of_the_wanted_schema(write, where):
    wanted = pa.schema([("s", pa.struct([pa.field("x", pa.int64(), metadata={"m": "1"})]))])
    for batch in orcidx.scan(write(s=[{"x": 1}, None]), schema=wanted, where=where).to_batches():
        assert batch.schema.equals(wanted, check_metadata=True)


EVOLVED = pa.table(
    {
        "i": pa.array([(1 << 31) - 1, 1, None, 7], pa.int32()),
        "k": pa.array([7, 8, None, 0], pa.int8()),
        "d": pa.array([Decimal("1.23"), Decimal("5.00"), None, Decimal("-1.00")], pa.decimal128(10, 2)),
        "f": pa.array([0.1, 2.0, float("nan"), None], pa.float32()),
        "s": pa.array([{"x": 1}, None, {"x": None}, {"x": (1 << 31) - 1}], pa.struct([("x", pa.int32())])),
        "t": ["a", "b", None, "cc"],
    }
)
EVOLVED_TO = pa.schema(
    [
        ("i", pa.int64()),
        ("k", pa.decimal128(7, 2)),
        ("d", pa.decimal128(14, 4)),
        ("f", pa.float64()),
        ("s", pa.struct([("new", pa.int64()), ("x", pa.int64()), ("r", pa.struct([("z", pa.string_view())]))])),
        ("t", pa.dictionary(pa.int32(), pa.string())),
    ]
)


@pytest.mark.parametrize("nan", ["ieee", "largest"])
@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("i + 1 > 5", [0, 3]),
        ("i * 2 > 2", [0, 3]),
        ("cast(k as varchar) = '7.00'", [0]),
        ("cast(d as varchar) = '1.2300'", [0]),
        ("cast(f as varchar) = '0.1'", []),
        ("cast(f as varchar) = '0.10000000149011612'", [0]),
        ("f * f > 0.010000000298 and f * f < 0.0100000002981", [0]),
        ("s.x + 1 > 2", [3]),
        ("upper(t) = 'A'", [0]),
        (pc.field("k") == 7, [0]),
        (pc.field("k") > 7.5, [1]),
        (pc.field("i").isin([7]), [3]),
        (pc.field("s", "x") + 1 > 2, [3]),
        # fields that the structs in the file lack
        ("s.new + 1 > 1", []),
        ("s.new > i", []),
        ("coalesce(s.new, i) > 5", [0, 3]),
        ("coalesce(s.r.z, t) = 'a'", [0]),
        ("s.x + coalesce(s.new, 1) > 2", [3]),
        (pc.field("s", "new") + 1 > 1, []),
        (pc.field("s", "new") > 1, []),
        (~(pc.field("s", "new") > 1), []),
        (pc.field("s", "new").isin([1, None]), [0, 1, 2, 3]),
        (pc.field("s", "new").is_null(), [0, 1, 2, 3]),
        (pc.field("s", "r").is_null(), [0, 1, 2, 3]),
    ],
)
def test_computed_conditions_have_the_wanted_types(write, where, rows, nan):
    path = write(**{name: EVOLVED[name] for name in EVOLVED.column_names})
    expected = read(path, EVOLVED_TO, ["i", "s", "t"]).to_pylist()
    assert read(path, EVOLVED_TO, ["i", "s", "t"], where, nan=nan).to_pylist() == [expected[row] for row in rows]
    assert read(path, EVOLVED_TO, ["k"], where, nan=nan).num_rows == len(rows)
    assert orcidx.scan(path, where=where, schema=EVOLVED_TO, nan=nan).count_rows() == len(rows)


def test_columns_that_are_not_used_may_be_ambiguous(tmp_path):
    """The names of two columns may differ only in case. An error is raised only if a condition uses the name."""
    orcidx.write_table(pa.table({"a": [1], "b": [5]}), tmp_path / "1.orc")
    orcidx.write_table(pa.table({"a": [2], "A": [3], "b": [7]}), tmp_path / "2.orc")
    paths = [tmp_path / "1.orc", tmp_path / "2.orc"]
    for where in ("b > 4", "b + 0 > 4"):
        scan = orcidx.scan(paths, columns=["b"], where=where, case_sensitive=False)
        assert (scan.to_table()["b"].to_pylist(), scan.count_rows()) == ([5, 7], 2)
    for where in ("a > 0", "a + 0 > 0", "a IS NULL"):
        with pytest.raises(InvalidQuery, match="'a'"):
            orcidx.scan(paths, columns=["b"], where=where, case_sensitive=False).to_table()


def test_computed_conditions_on_integers_that_become_decimals(tmp_path):
    """The schema makes decimals of the stored integers, but pyarrow computes with the integers. With the decimals, the
    result would have too many digits for pyarrow."""
    orcidx.write_table(pa.table({"i": pa.array([1, 2, 3, None], pa.int32())}), tmp_path / "i.orc")
    schema = pa.schema([("i", pa.decimal128(20, 0))])
    for where in ("i + 1 > 2", "i * i > 2", "coalesce(i, 0) >= 2", (pc.field("i") + 0 >= 2) | (pc.field("i") > 2.5)):
        scan = orcidx.scan([tmp_path / "i.orc"], where=where, schema=schema)
        assert scan.to_table()["i"].to_pylist() == [2, 3]
