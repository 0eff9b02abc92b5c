"""Adds a run of the suite to the history that asv draws:  python -m benchmarks.history [--bench REGEX] [--repeat 3]

Measures the installed package, and stores the results in ``benchmarks/results`` under the commit that is checked out.
The results have the number of processors of the machine, but no names and no paths of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
USUAL = "(track_|peakmem|^tail|^prune|^lookup|^bloom)"
"""The benchmarks with exact figures, and a few benchmarks of time. Together they take a few minutes."""


def run(name: str, bench: str, repeat: int) -> None:
    """Runs asv. ``name`` is the name of the machine."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True, cwd=HERE).stdout
    with tempfile.TemporaryDirectory() as home:  # asv reads its description of the machine from the home directory
        machine = {"version": 1, name: {"machine": name, "os": sys.platform, "cpu": "", "ram": ""}}
        Path(home, ".asv-machine.json").write_text(json.dumps(machine))
        settings = {"warmup_time": "0.05", "rounds": "1", "repeat": str(repeat), "sample_time": "0.02"}
        attributes = [word for key, value in settings.items() for word in ("--attribute", f"{key}={value}")]
        command = ["asv", "run", "--environment", "existing", "--machine", name, "--set-commit-hash", commit.strip()]
        environment = {**os.environ, "HOME": home}
        subprocess.run([*command, "--bench", bench, *attributes], check=True, cwd=HERE, env=environment)


def make_neutral(path: Path, environment: str) -> Path:
    """Removes the path of the interpreter from a result of asv and from the name of its file. Returns the file's new
    path."""
    result = json.loads(path.read_text())
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    result |= {"env_name": environment, "python": version}
    result["params"]["python"] = version
    target = path.with_name(f"{result['commit_hash'][:8]}-{environment}.json")
    path.unlink()
    target.write_text(json.dumps(result) + "\n")
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default=USUAL, help=f"run benchmarks whose names match this regex (default {USUAL})")
    parser.add_argument("--repeat", type=int, default=3, help="samples of each time (default 3)")
    given = parser.parse_args()
    name = f"{os.cpu_count()}-core"
    run(name, given.bench, given.repeat)
    environment = f"existing-py{sys.version_info.major}.{sys.version_info.minor}"
    for path in sorted((RESULTS / name).glob("*-existing-py_*.json")):
        print(make_neutral(path, environment).relative_to(HERE.parent))


if __name__ == "__main__":
    main()
