"""Runs scripts that end in the middle of a scan. Each script runs as a process, which must exit with 0 and print
nothing.

A thread of another library that reads ahead needs the interpreter's lock. If the interpreter ends while the thread
runs, the process aborts or hangs (docs/decisions/0012).
"""

import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

ROWS = 600_000
PATIENCE = 120
"""Seconds after which a process counts as hung. A process takes about one second."""

SCRIPTS = {
    "pyarrow head": "d.head(3)",
    "pyarrow head with a filter": "d.head(3, filter=pc.field('id') > 70)",
    "pyarrow take": "d.take([5, 3])",
    "batches": "kept = d.to_batches(batch_size=1000); next(kept)",
    "batches dropped": "kept = d.to_batches(batch_size=1000); next(kept); del kept",
    "batches without threads": "kept = d.to_batches(batch_size=1000, use_threads=False); next(kept)",
    "batches of one thread": "kept = orcidx.dataset(F, use_threads=False).to_batches(batch_size=1000); next(kept)",
    "reader": "kept = d.scanner(batch_size=1000).to_reader(); kept.read_next_batch()",
    "fragment": "kept = next(d.get_fragments()).to_batches(batch_size=1000); next(kept)",
    "scan": "kept = iter(orcidx.scan(F, batch_size=1000)); next(kept)",
    "reader of a scan": "kept = orcidx.scan(F, batch_size=1000).to_reader(); kept.read_next_batch()",
    "stripes": "kept = orcidx.scan(F).stripes(); next(iter(next(kept)))",
    "duckdb": "import duckdb; assert len(duckdb.sql('select * from d limit 3').fetchall()) == 3",
    "duckdb shown": "import duckdb; str(duckdb.sql('select * from d limit 3'))",
    "duckdb with a filter": "import duckdb; duckdb.sql('select * from d where id > 70 limit 3').fetchall()",
    "duckdb fetches one": "import duckdb; kept = duckdb.connect(); kept.execute('select * from d').fetchone()",
    "duckdb reader": """
        import duckdb
        kept = duckdb.sql("select * from d").to_arrow_reader(1000)
        kept.read_next_batch()
        """,
    "duckdb of a scan": "import duckdb; s = orcidx.scan(F); duckdb.sql('select * from s limit 3').fetchall()",
    "polars": "import polars as pl; assert pl.scan_pyarrow_dataset(d).head(3).collect().height == 3",
    "scan_polars": "assert orcidx.scan_polars(F).head(3).collect().height == 3",
    "datafusion": """
        import datafusion
        context = datafusion.SessionContext()
        context.register_dataset("d", d)
        assert sum(batch.num_rows for batch in context.sql("select * from d limit 3").collect()) == 3
        """,
    "datafusion stream": """
        import datafusion
        context = datafusion.SessionContext()
        context.register_dataset("d", d)
        kept = context.sql("select * from d").execute_stream()
        kept.next()
        """,
    "error": """
        try:
            for batch in d.to_batches(batch_size=1000):
                raise KeyError(1)
        except KeyError:
            pass
        """,
    "sys.exit": """
        for batch in d.to_batches(batch_size=1000):
            sys.exit(0)
        """,
    "interrupt": """
        import os, signal
        try:
            for batch in d.to_batches(batch_size=1000):
                os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            pass
        """,
    "daemon thread reads on": """
        begun = threading.Event()
        def read():
            while True:
                for batch in d.to_batches(batch_size=5000):
                    begun.set()
        threading.Thread(target=read, daemon=True).start()
        begun.wait()
        """,
    "thread reads on": """
        begun = threading.Event()
        def read():
            for batch in d.to_batches(batch_size=5000):
                begun.set()
        threading.Thread(target=read).start()
        begun.wait()
        """,
    "forked": """
        import multiprocessing
        d.head(3)
        kept = d.to_batches(batch_size=1000)
        next(kept)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(count, [1, 2]) == [1, 2]
        """,
    "spawned": """
        import multiprocessing
        if __name__ == "__main__":
            kept = d.to_batches(batch_size=1000)
            next(kept)
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                assert pool.map(count, [1, 2]) == [1, 2]
        """,
    "async": """
        import asyncio
        scan = orcidx.scan(F, batch_size=1000)
        async def read():
            async for batch in scan:
                break
        asyncio.run(read(), debug=True)
        """,
}

PREAMBLE = """
import sys, threading, warnings
import pyarrow as pa, pyarrow.compute as pc
import orcidx
F = sys.argv[1]
d = orcidx.dataset(F)
def count(n):
    return d.head(n).num_rows
"""

NEEDS = {"duckdb": "duckdb", "polars": "polars", "scan_polars": "polars", "datafusion": "datafusion"}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Writes so many rows that a thread which reads ahead is still at work when the script ends."""
    numbers = np.random.default_rng(5).random(ROWS)
    table = pa.table({"id": np.arange(ROWS), "x": numbers, "text": [f"v{i % 997}" for i in range(ROWS)]})
    path = tmp_path_factory.mktemp("exits") / "many.orc"
    pyarrow.orc.write_table(table, path, compression="zlib", stripe_size=1 << 20)
    return path


def ends_well(path, name, times):
    pytest.importorskip(NEEDS.get(name.split()[0], "pyarrow"))
    script = path.parent / f"script_{name.replace(' ', '_').replace('.', '_')}.py"
    script.write_text(PREAMBLE + textwrap.dedent(SCRIPTS[name]))
    for _ in range(times):
        command = [sys.executable, "-X", "faulthandler", str(script), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["batches", "duckdb", "polars", "interrupt", "forked", "async"])
def test_a_script_that_stops_early_ends_well(path, name):
    ends_well(path, name, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_that_stop_early_end_well_every_time(path, name):
    ends_well(path, name, 3)
