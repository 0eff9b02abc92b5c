"""The seeds of the fuzz targets. ``PYTHONPATH=tests python -m bad.fuzz_targets.seeds FOLDER`` writes the seeds of the
target NAME to FOLDER/NAME."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import orc_messages as pb
from bad.corpus import Sample, corpus
from bad.fuzz_targets import fuzz_catalogs, fuzz_paimon_bodies, fuzz_row_index
from bad.orc_parts import NONE, OrcParts
from goldens import GOLDEN_PAIMON

import orcidx
from orcidx.scanner.scan import Split

__all__ = ["TARGETS", "seeds"]

TARGETS = tuple(sorted(path.stem.removeprefix("fuzz_") for path in Path(__file__).parent.glob("fuzz_*.py")))
LARGEST = 4096
WHOLE_FILES = 1 << 14
ROW_INDEX, BLOOM, BLOOM_UTF8 = 6, 7, 8


def seeds(target: str) -> Iterator[bytes]:
    """Yields complete inputs of a target that are small enough for mutations."""
    for seed in _MAKERS[target]():
        if len(seed) <= (WHOLE_FILES if target in ("catalogs", "files", "manifests") else LARGEST):
            yield seed


def _samples(kind: str) -> list[Sample]:
    return [sample for sample in corpus() if sample.kind == kind]


def _parts() -> Iterator[OrcParts]:
    for sample in _samples("orc"):
        try:
            yield OrcParts.parse(sample.data)
        except ValueError:
            continue


def _streams(*kinds: int) -> Iterator[bytes]:
    """Yields decompressed streams of these kinds, or all data streams if no kind is given."""
    for parts in _parts():
        for stripe in parts.stripes[:1]:
            for record, stream in zip(stripe.footer.all(1), stripe.streams, strict=False):
                kind = pb_int(record.value, 1)
                if stream and (kind in kinds if kinds else kind < ROW_INDEX):
                    yield stream[:LARGEST]


def pb_int(message: object, number: int) -> int:
    from bad.protobuf_edit import Message

    return Message.parse(message).int(number) if isinstance(message, bytes) else 0


def _tails() -> Iterator[bytes]:
    """Yields uncompressed files without their stripes."""
    for parts in _parts():
        parts.postscript.set(2, NONE)
        parts.stripes = []
        yield parts.to_bytes()


def _stripe_footers() -> Iterator[bytes]:
    yield pb.stripe_footer([(6, 1, 20), (1, 1, 500), (0, 2, 9), (2, 2, 30)], [pb.uint(1, 2)] * 4)
    for parts in _parts():
        yield from (stripe.footer.to_bytes() for stripe in parts.stripes[:1])


def _chosen_streams() -> Iterator[bytes]:
    for number, stream in enumerate(_streams()):
        yield bytes([number % 11, 0, 63, 30, 1, 0, 0, 0, 0, 1]) + stream[:512]


def _row_indexes() -> Iterator[bytes]:
    for number, stream in enumerate(_streams(ROW_INDEX)):
        yield bytes([0, number % len(fuzz_row_index.KINDS)]) + stream


def _bodies() -> Iterator[bytes]:
    kinds, types = fuzz_paimon_bodies.KINDS, fuzz_paimon_bodies.TYPES
    for sample in _samples("index"):
        kind = kinds.index(sample.facts["kind"])
        data_type = types.index(sample.facts["type"]) if sample.facts["type"] in types else 0
        yield bytes([kind, data_type]) + sample.data


def _deletion_vectors() -> Iterator[bytes]:
    for sample in _samples("deletion-vector"):
        size = int.from_bytes(sample.data[1:5], "big")
        body = sample.data[5 : 5 + size]
        yield bytes([3 + (body[:4] != bytes.fromhex("5e43f2d0"))]) + body[4:]
    blob = {"type": "deletion-vector-v1", "offset": 4, "length": 20, "properties": {"referenced-data-file": "a"}}
    yield b"\1" + json.dumps({"blobs": [blob]}).encode()
    yield b"\2" + bytes(range(40))


def _splits() -> Iterator[bytes]:
    sample = next(sample for sample in _samples("orc") if sample.name == "pyarrow/zstd")
    asked = ({}, {"where": "small > 5"}, {"selection": [1, 5, 9]}, {"row_range": (3, 90), "columns": ["word"]})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "seed.orc")
        path.write_bytes(sample.data)
        with orcidx.open(path) as file:
            for options in asked:
                for split in file.splits(1 << 20, **options):
                    assert isinstance(split, Split)
                    yield split.to_json().encode()


def _manifests() -> Iterator[bytes]:
    for path in sorted(GOLDEN_PAIMON.glob("tables/db.db/*/manifest/*")):
        yield path.read_bytes()


_MAKERS = {
    "tail": _tails,
    "stripe_footer": _stripe_footers,
    "streams": _chosen_streams,
    "row_index": _row_indexes,
    "blooms": lambda: _streams(BLOOM, BLOOM_UTF8),
    "paimon_bodies": _bodies,
    "containers": lambda: (sample.data for sample in _samples("container")),
    "deletion_vectors": _deletion_vectors,
    "splits": _splits,
    "catalogs": fuzz_catalogs.seeds,
    "manifests": _manifests,
    "files": lambda: (sample.data for sample in _samples("orc")),
}


def main(folder: Path) -> None:
    for target in TARGETS:
        (folder / target).mkdir(parents=True, exist_ok=True)
        for seed in filter(None, seeds(target)):
            (folder / target / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
        print(target, len(list((folder / target).iterdir())))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
