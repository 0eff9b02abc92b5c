"""Random aggregations of random files of every writer, compared with totals in Python's own integers and fractions.

``predicate_oracle`` says which rows match. Their values are read without a condition. Half of the files are read as if
they were large. ``test_totals.py`` runs a short check. Run the long check by hand:

``PYTHONPATH=.:tests python tests/aggregation/totals.py --files 700 --questions 150 --seed 1``

``--java N`` adds N files of ORC Java. ``--pool FOLDER`` keeps these files in a folder.
"""

from __future__ import annotations

import argparse
import json
import math
import pickle
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pruning.converted_values import VectorWriter
from pruning.levels import as_if_large
from pruning.soundness import BATCH, Written, by_java, by_pyarrow, by_pyorc, by_vectors, make_predicate
from pruning.soundness_tables import NAMES, TEXT_TYPES, make_table

import orcidx
from orcidx.aggregation.functions import has_order
from orcidx.aggregation.value_forms import NAN, comparable
from orcidx.paimon.data_types import parse_type
from orcidx.paimon.registry import open_builder
from orcidx.planner.index_evidence import paimon_types

Row = tuple[Any, ...]


@dataclass
class Tally:
    """Counts of what was done. ``origins``: for each origin of totals, the number of rows."""

    files: Counter[str] = field(default_factory=Counter)
    questions: int = 0
    out_of_range: int = 0
    origins: Counter[str] = field(default_factory=Counter)


# ---------------------------------------------------------------------- the reference


def forms(values: pa.ChunkedArray, *, char: bool) -> list[Any]:
    """Converts values to the forms in which they are compared: None, ``NAN``, integers, decimals and bytes."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if char:
        array = pc.ascii_rtrim(array, " ")
    return [NAN if isinstance(one, float) and one != one else one for one in comparable(array).to_pylist()]


def expected(function: str, values: list[Any], kind: pa.DataType, nan: str) -> Any:
    """Computes one total of the values of a group."""
    known = [value for value in values if value is not None]
    if function == "count":
        return len(known)
    if not known:
        return None
    if function in ("min", "max"):
        numbers = [value for value in known if value is not NAN]
        if not numbers or (nan == "largest" and function == "max" and len(numbers) < len(known)):
            return NAN
        return min(numbers) if function == "min" else max(numbers)
    if function.startswith("quantile_disc"):
        return quantile(known, Fraction(function.partition(":")[2]), nan)
    total = exact_sum(known)
    if isinstance(total, float):
        return NAN if total != total else total
    if pa.types.is_floating(kind) or function == "avg":
        quotient = total / (len(known) if function == "avg" else 1)
        try:
            return float(quotient)
        except OverflowError:
            return float("inf") if quotient > 0 else float("-inf")
    return total


def quantile(known: list[Any], share: Fraction, nan: str) -> Any:
    """Returns the value at place ceil(share * count). If ``nan`` is "largest", NaN is the largest value. Otherwise NaN
    is used only if all values are NaN."""
    numbers = sorted(value for value in known if value is not NAN)
    if nan == "largest" or not numbers:
        numbers += [NAN] * (len(known) - len(numbers))
    return numbers[max(1, math.ceil(share * len(numbers))) - 1]


def exact_sum(known: list[Any]) -> Fraction | float:
    special = [value for value in known if value is NAN or value in (float("inf"), float("-inf"))]
    if NAN in special or len(set(special)) == 2:
        return float("nan")
    return special[0] if special else sum(map(Fraction, known), Fraction(0))


def reference(
    rows: np.ndarray, by: list[list[Any]], asked: list[tuple[str, list[Any] | None, Any]], nan: str
) -> dict[Row, Row]:
    """Computes the totals of these rows for each key."""
    groups: dict[Row, list[int]] = {} if by else {(): []}
    for row in rows.tolist():
        groups.setdefault(tuple(values[row] for values in by), []).append(row)
    return {
        key: tuple(
            len(members) if values is None else expected(function, [values[row] for row in members], kind, nan)
            for function, values, kind in asked
        )
        for key, members in groups.items()
    }


# ---------------------------------------------------------------------- the check


def make_index(table: pa.Table, written: Written, rng: np.random.Generator) -> Any:
    """Builds indexes of random kinds for random columns of a file. Returns None for about a third of the files."""
    if rng.random() < 0.3:
        return None
    spec: dict[str, dict[str, Any]] = {}
    with orcidx.open(written.source) as file:
        root = file.reader.root
    types = paimon_types(root.names, root.children)
    for name in table.column_names:
        if pa.types.is_timestamp(table.schema.field(name).type) and types.get(name) == "BIGINT":
            continue  # Spark stores a timestamp without zone as BIGINT, and an index would treat it as a number
        for kind in ("bitmap", "bsi", "range-bitmap"):
            if name in types and rng.random() < 0.5 and takes(kind, types[name]):
                options = {"version": int(rng.integers(1, 3))} if kind == "bitmap" else {}
                spec.setdefault(kind, {})[name] = options
    if not spec:
        return None
    try:
        return orcidx.paimon.build_file_index(table, spec, types=types)
    except orcidx.ValueOutOfRange:  # a BSI cannot hold -2**63
        return None


def takes(kind: str, sql: str) -> bool:
    try:
        open_builder(kind, parse_type(sql), {})
    except orcidx.Unsupported:
        return False
    return True


class Asker:
    """Computes random totals of one file, with random conditions, and compares them with the expected totals."""

    def __init__(self, written: Written, rng: np.random.Generator) -> None:
        self.written = written
        self.rng = rng
        self.paths = list(written.table.columns)
        self.chars = {path for path in self.paths if path[-1] == "char"}
        every = {path[0] for path in self.paths}
        with orcidx.open(written.source) as file:
            self.rows = file.num_rows
            table = file.read(sorted(every), row_index=False, **written.options)
        self.types: dict[tuple[str, ...], pa.DataType] = {}
        self.values: dict[tuple[str, ...], list[Any]] = {}
        for path in self.paths:
            array = table[path[0]].combine_chunks()
            array = pc.struct_field(array, list(path[1:])) if len(path) > 1 else array
            self.types[path] = array.type
            self.values[path] = forms(array, char=path in self.chars)
        self.index = make_index(table, written, rng)

    def ask(self, tally: Tally) -> str | None:
        """Runs one random query. Returns a text that describes the error, or None if the result is right."""
        rng = self.rng
        predicate = None if rng.random() < 0.2 else make_predicate(rng, self.paths)
        nan = "ieee" if rng.random() < 0.6 else "largest"
        by = [self.paths[int(rng.integers(len(self.paths)))] for _ in range(int(rng.choice([0, 0, 0, 1, 2])))]
        by = list(dict.fromkeys(by))
        asked = [self._function() for _ in range(int(rng.integers(1, 4)))]
        deleted = rng.choice(self.rows, int(rng.integers(0, self.rows // 3 + 1)), replace=False)
        deleted = np.sort(deleted) if rng.random() < 0.3 else None
        mask = np.ones(self.rows, bool) if predicate is None else self.written.table.matching(predicate, nan)
        if deleted is not None:
            mask = mask.copy()
            mask[deleted] = False
        wanted = [
            (one, None, None) if path is None else (one, self.values[path], self.types[path]) for one, path in asked
        ]
        right = reference(np.flatnonzero(mask), [self.values[path] for path in by], wanted, nan)
        texts = {f"c{i}": call(*one) for i, one in enumerate(asked)}
        tally.questions += 1
        question = f"{texts} by {by} where {predicate!r} nan={nan} deleted={deleted is not None}"
        try:
            with orcidx.open(self.written.source) as file:
                scan = file.scan(
                    where=predicate,
                    nan=nan,
                    deletion_vector=deleted,
                    file_index=self.index if rng.random() < 0.8 else None,
                    **self.written.options,
                )
                found = scan.aggregate(texts, [".".join(path) for path in by])
        except orcidx.ValueOutOfRange:
            tally.out_of_range += 1
            totals = [one for row in right.values() for one, (function, *_) in zip(row, asked) if function == "sum"]
            if any(isinstance(one, Fraction) and abs(one) >= 10**20 for one in totals):
                return None
            return f"{question}: out of range, of {right}"
        facts = found.schema.metadata[b"orcidx"]
        tally.origins.update(json.loads(facts)["rows"])
        got = self._got(found, len(by), asked)
        return None if got == right else f"{question}:\n  got {str(got)[:600]}\n  not {str(right)[:600]}\n  {facts!r}"

    def _function(self) -> tuple[str, tuple[str, ...] | None]:
        rng = self.rng
        function = str(rng.choice(["count", "sum", "min", "max", "avg", "quantile_disc"]))
        if function == "count" and rng.random() < 0.5:
            return "count", None
        fitting = [path for path in self.paths if _takes(function, self.types[path])]
        if function == "quantile_disc":
            function += (
                f":{rng.choice(['0', '0.01', '0.25', '0.5', '0.75', '0.9', '0.999', '1', str(rng.random())[:9]])}"
            )
        return (function, fitting[int(rng.integers(len(fitting)))]) if fitting else ("count", None)

    def _got(self, found: pa.Table, keys: int, asked: list[Any]) -> dict[Row, Row]:
        columns = []
        for place, column in enumerate(found.columns):
            function = None if place < keys else asked[place - keys][0]
            if function == "sum" and pa.types.is_decimal(column.type):
                columns.append([None if one is None else Fraction(one) for one in column.to_pylist()])
            else:
                columns.append(forms(column, char=False))
        return {row[:keys]: row[keys:] for row in zip(*columns)}


def call(function: str, path: tuple[str, ...] | None) -> str:
    """Returns the text that requests a total, such as ``sum(a.b)``."""
    name, _, share = function.partition(":")
    return f"{name}({'*' if path is None else '.'.join(path)}{f', {share}' if share else ''})"


def _takes(function: str, kind: pa.DataType) -> bool:
    if function == "count":
        return True
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return number if function in ("sum", "avg") else has_order(kind)


def check_file(written: Written, rng: np.random.Generator, questions: int, tally: Tally) -> list[str]:
    """Runs random queries on one file. Returns a text for each wrong result."""
    with as_if_large() if rng.random() < 0.5 else nullcontext():
        asker = Asker(written, rng)
        answers = [asker.ask(tally) for _ in range(questions)]
    tally.files[written.how.split()[0]] += 1
    return [f"{written.how}\n  {answer}" for answer in answers if answer is not None]


def by_orcidx(rng: np.random.Generator) -> Written:
    names = tuple(name for name in NAMES if name not in TEXT_TYPES)
    table = make_table(rng, int(rng.integers(1, 900)), names, micros=True)
    options = {
        "row_index_stride": int(rng.choice([10, 50, 333])),
        "stripe_size": int(rng.choice([4096, 1 << 20])),
        "compression": str(rng.choice(["zstd", "uncompressed"])),
    }
    sink = pa.BufferOutputStream()
    orcidx.write_table(table.arrow(), sink, **options)
    return Written(sink.getvalue().to_pybytes(), table, f"orcidx {options}")


WRITERS = (by_pyarrow, by_pyorc, by_orcidx)


def run(files: range, questions: int, seed: int, tally: Tally, *, seconds: float = float("inf")) -> list[str]:
    """Checks files of pyarrow, pyorc and orcidx in turn, until all are done or time is up. Returns the texts of the
    errors."""
    wrong: list[str] = []
    end = time.monotonic() + seconds
    for number in files:
        if time.monotonic() > end:
            break
        rng = np.random.default_rng([seed, number])
        wrong += [f"file {number}: {text}" for text in check_file(WRITERS[number % 3](rng), rng, questions, tally)]
        if number % 20 == 19:
            print(f"{number}: {tally}, {len(wrong)} wrong", file=sys.stderr, flush=True)
    return wrong


def make_pool(spark: Any, folder: Path, files: int, seed: int) -> None:
    """Writes files with ORC Java in groups of ten. Spark and ``VectorWriter`` write the groups in turn. For each file,
    a pickle in ``folder`` has the expected values."""
    vectors = VectorWriter(spark)
    for number in range(0, files, BATCH):
        rng = np.random.default_rng([seed, 1 << 40, number])
        place, count = folder / str(number), min(BATCH, files - number)
        converting = number // BATCH % 2 == 1
        made = by_vectors(rng, vectors, place, count) if converting else by_java(rng, spark, place, count)
        for place_of, written in enumerate(made):
            (folder / f"{number + place_of:04}.pickle").write_bytes(pickle.dumps(written))


def run_pool(folder: Path, questions: int, seed: int, tally: Tally, *, seconds: float = float("inf")) -> list[str]:
    """Checks the files of a pool, until all are done or time is up. Returns the texts of the errors."""
    wrong: list[str] = []
    end = time.monotonic() + seconds
    for number, path in enumerate(sorted(folder.glob("*.pickle"))):
        if time.monotonic() > end:
            break
        rng = np.random.default_rng([seed, 1 << 41, number])
        written = pickle.loads(path.read_bytes())
        wrong += [f"{path.name}: {text}" for text in check_file(written, rng, questions, tally)]
        if number % 20 == 19:
            print(f"Java {number}: {tally}, {len(wrong)} wrong", file=sys.stderr, flush=True)
    return wrong


def java_session() -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    zone = builder.config("spark.sql.session.timeZone", "UTC")
    return zone.config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC").getOrCreate()


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--files", type=int, default=700)
    words.add_argument("--questions", type=int, default=150)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--seconds", type=float, default=float("inf"))
    words.add_argument("--java", type=int, default=0, help="the number of additional files of ORC Java")
    words.add_argument("--pool", type=Path, help="the folder for the files of ORC Java; existing files are used")
    asked = words.parse_args()
    tally = Tally()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as made:
        folder = asked.pool or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        if asked.java and not any(folder.glob("*.pickle")):
            spark = java_session()
            make_pool(spark, folder, asked.java, asked.seed)
            spark.stop()
        if asked.java:
            wrong += run_pool(folder, asked.questions, asked.seed, tally, seconds=asked.seconds)
        wrong += run(range(asked.files), asked.questions, asked.seed, tally, seconds=asked.seconds)
    for text in wrong[:40]:
        print(text, flush=True)
    print(f"seed {asked.seed}: {tally}, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
