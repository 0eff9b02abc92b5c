"""Many processes change one Paimon table at random, to be run by hand: python tests/paimon_soak.py WORKERS ROUNDS.

The rows are compared with a model that follows the snapshots; a test runs its small twin.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> None:
    sys.path.insert(0, str(HERE))
    spec = importlib.util.spec_from_file_location("test_paimon_commit", HERE / "files" / "test_paimon_commit.py")
    assert spec is not None
    assert spec.loader is not None
    commit = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(commit)
    workers, rounds = int(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as scratch:
        folder = commit.empty_table(Path(scratch) / "t", file_index__in_manifest_threshold="10 b")
        commit.open_table(folder).append(commit.rows(0))
        commit.soak(folder, workers, rounds // workers)
        snapshots = commit.snapshot_numbers(folder)[-1]
        sys.stdout.write(f"{workers} processes, {rounds} rounds, {snapshots} snapshots: right\n")


if __name__ == "__main__":
    main()
