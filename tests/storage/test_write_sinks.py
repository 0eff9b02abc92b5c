"""A file that is written to any kind of storage becomes visible as a whole, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import obstore
import pyarrow as pa
import pyarrow.fs
import pytest
from s3_server import obstore_of, s3_bucket

import orcidx

ROWS = 2_000_000
"""This many random numbers take 16 MB. An upload sends them in more than one part."""
TABLE = pa.table({"a": pa.array(np.random.default_rng(1).integers(-(2**62), 2**62, ROWS))})
Place = tuple[Callable[[str], tuple[Any, dict[str, Any]]], Callable[[], list[str]]]
"""A function that returns the arguments of ``write_table`` for a name, and a function that returns the names in the
storage."""


def below(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture(params=["path", "fsspec memory", "fsspec local", "pyarrow local", "obstore", "s3fs", "obstore s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    kind = request.param
    if kind == "path":
        yield lambda name: (str(tmp_path / name), {}), lambda: below(tmp_path)
    elif kind == "fsspec memory":
        memory = fsspec.filesystem("memory")
        memory.mkdirs("/sinks", exist_ok=True)
        there = lambda: [one.rpartition("/")[2] for one in memory.ls("/sinks", False)]  # noqa: E731
        yield lambda name: (f"memory://sinks/{name}", {}), there
        memory.rm("/sinks", recursive=True)
    elif kind == "fsspec local":
        local = fsspec.filesystem("file")
        yield lambda name: (f"{tmp_path}/{name}", {"filesystem": local}), lambda: below(tmp_path)
    elif kind == "pyarrow local":
        tree = pa.fs.SubTreeFileSystem(str(tmp_path), pa.fs.LocalFileSystem())
        yield lambda name: (name, {"filesystem": tree}), lambda: below(tmp_path)
    elif kind == "obstore":
        store = obstore.store.MemoryStore()
        yield lambda name: (name, {"filesystem": store}), lambda: names_in(store)
    else:
        with s3_bucket("sinks") as (options, _):
            store = obstore_of(options["endpoint_url"], "sinks")
            if kind == "s3fs":
                yield lambda name: (f"s3://sinks/{name}", {"storage_options": options}), lambda: names_in(store)
            else:
                yield lambda name: (name, {"filesystem": store}), lambda: names_in(store)


def names_in(store: Any) -> list[str]:
    return sorted(meta["path"] for metas in obstore.list(store) for meta in metas)


def test_a_file_appears_whole(place: Place) -> None:
    at, names = place
    where, options = at("a.orc")
    result = orcidx.write_table(TABLE, where, compression="uncompressed", **options)
    assert result.rows == ROWS
    assert "a.orc" in names()
    assert not [name for name in names() if "tmp" in name]
    with orcidx.open(where, **options) as file:
        assert file.read() == TABLE


def test_an_error_leaves_nothing_behind(place: Place) -> None:
    at, names = place
    where, options = at("b.orc")
    before = names()
    with pytest.raises(ZeroDivisionError):
        write_half(where, options)
    assert names() == before  # not an empty list, because moto has objects of earlier tests


def write_half(where: Any, options: dict[str, Any]) -> None:
    with orcidx.OrcWriter(where, TABLE.schema, compression="uncompressed", stripe_size=1 << 20, **options) as writer:
        for batch in TABLE.slice(0, ROWS * 3 // 4).to_batches(100_000):
            writer.write(batch)
        raise ZeroDivisionError
