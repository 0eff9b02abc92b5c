"""What works without the packages of the extras, and the errors where a package is missing (decision 0010)."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pyarrow as pa
import pytest

import orcidx
from orcidx.extras import EXTRAS, what_to_install

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PLAIN = {"numpy", "pyarrow", "pyroaring", "zstandard", "python-snappy", "cramjam", "deflate", "lzallright", "click"}

BLOCKED = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted({*EXTRAS, "obstore", "tzdata"})}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
"""

READ_AND_WRITE = """
import io, sys
import pyarrow as pa
import pyarrow.fs
import orcidx
from orcidx import *
from orcidx import col
table = pa.table({"id": list(range(30_000)), "name": ["a", "b", None] * 10_000})
orcidx.write_table(table, "a.orc", bloom_filter_columns=["id"])
with orcidx.OrcWriter("b.orc", table.schema) as writer:
    writer.write(table)
found = orcidx.scan(["a.orc", "b.orc"], where=(col("id") == 20017) & ~col("name").is_null())
assert found.to_table().to_pydict() == {"id": [20017, 20017], "name": ["b", "b"]}
assert "row-group statistics" in str(found.explain())
assert orcidx.read_table("a.orc", where=[("id", "<", 3)]).num_rows == 3
assert orcidx.read_table("a.orc", where=pa.compute.field("id") < 3).num_rows == 3
assert orcidx.dataset("a.orc").count_rows() == 30_000
store = pa.fs.LocalFileSystem()
assert orcidx.open("a.orc", filesystem=store).num_rows == 30_000
assert orcidx.open(pa.fs.SubTreeFileSystem(".", store).open_input_file("a.orc")).num_rows == 30_000
orcidx.rewrite("a.orc", "c.orc", sort_by="name")
orcidx.write_dataset(orcidx.scan("a.orc"), "parts", partition_by=["name"])
index = orcidx.paimon.build_file_index("a.orc", {"bitmap": {"name": {}}}).to_bytes()
assert orcidx.paimon.read_file_index(index, types={"name": "STRING"}).columns
"""

NEEDS = {
    "sqlglot": 'orcidx.read_table("a.orc", where="id = 3")',
    "fsspec": 'orcidx.open("memory://a.orc")',
    "fastavro": "from orcidx.paimon_table.avro.container_writing import write_avro\n"
    """    write_avro(b'{"type": "record", "name": "r", "fields": []}', "null", [{}])""",
    "rich": 'orcidx.rewrite("a.orc", "d.orc", progress=True)',
    "polars": 'orcidx.scan_polars("a.orc")',
    "pandas": 'orcidx.scan("a.orc").to_pandas()',
    "duckdb": 'orcidx.rewrite("a.orc", "d.orc", sort_by="id", sort_memory=1)',
    "pyspark": "from orcidx.spark.sessions.spark_session import require_spark\n    require_spark()",
}
"""For each package, code that needs it. fsspec is also used for http and s3, which have their own test."""


def run(script: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKED + script, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_reading_loads_no_writer(tmp_path: Path) -> None:
    """A read must not import the writer, because the import would take a twentieth of the time of the first read. Among
    reads, only those that use the catalog of a directory need the writer."""
    file = ROOT / "orcidx" / "cli" / "demo" / "lineitem.orc"
    script = (
        "import sys, orcidx; assert orcidx.read_table(sys.argv[1]).num_rows == 6005\n"
        "assert not [name for name in sys.modules if name.startswith('orcidx.orc_writer')]"
    )
    done = run(script, tmp_path, str(file))
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plain")
    orcidx.write_table(pa.table({"id": [3, 1, 2] * 1000}), path / "a.orc")
    return path


def test_the_plain_install_has_these() -> None:
    everywhere = {re.split(r"[><=]", line)[0] for line in PROJECT["dependencies"] if ";" not in line}
    assert everywhere == PLAIN


def test_each_package_is_in_the_extra_that_messages_name() -> None:
    for package, (extra, _) in EXTRAS.items():
        assert any(line.startswith(package) for line in PROJECT["optional-dependencies"][extra]), package


def test_reading_and_writing_need_no_extra(tmp_path: Path) -> None:
    done = run(READ_AND_WRITE, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", NEEDS)
def test_what_needs_a_package_names_it(package: str, folder: Path) -> None:
    script = f"import orcidx\ntry:\n    {NEEDS[package]}\nexcept orcidx.Unsupported as error:\n    print(error)"
    done = run(script, folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert what_to_install(package) in done.stdout


@pytest.mark.parametrize(("url", "package"), [("https://host/a.orc", "aiohttp"), ("s3://bucket/a.orc", "s3fs")])
def test_urls_name_the_package_of_their_scheme(url: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec.core

    def missing(url: str, **options: object) -> None:
        raise ImportError(f"no {package}")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    monkeypatch.setattr("orcidx.storage.fsspec_backend.installed", lambda package: False)
    with pytest.raises(orcidx.Unsupported, match=re.escape(what_to_install(package))):
        orcidx.open(url)


def test_the_demo_and_tables_of_a_terminal_need_no_extra(tmp_path: Path) -> None:
    command = "import sys\nsys.stdout.isatty = lambda: True\nfrom orcidx.cli import main\nmain(sys.argv[1:])"
    done = run(command, tmp_path, "demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nl_orderkey  l_partkey  l_quantity  l_extendedprice  l_shipdate  l_shipmode\n" in done.stdout
    assert what_to_install("sqlglot") in done.stdout
    path = Path(orcidx.__file__).parent / "cli" / "demo" / "lineitem.orc"
    done = run(command, tmp_path, "count", str(path), "--where", "l_orderkey = 3712")
    assert (done.returncode, done.stdout, done.stderr) == (3, "", f"orcidx: {what_to_install('sqlglot')}\n")


def test_zones_without_data_name_tzdata(folder: Path) -> None:
    script = "import zoneinfo\nzoneinfo.reset_tzpath(())\nimport orcidx.orc.timezones as t\nt.load_zone('Asia/Tokyo')"
    assert "python -m pip install tzdata" in run(script, folder).stderr
