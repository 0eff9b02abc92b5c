"""Values that a writer must convert before it stores them. The vectors of ORC Java are filled with them without
checks."""

from __future__ import annotations

import decimal
import itertools
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

NARROW = {"int8": 8, "int16": 16, "int32": 32}
LENGTH = 5
"""The length of the columns ``char`` and ``varchar``, in characters."""
FULL = ["abcde", "éa b\x01", "\U0001f600" * LENGTH, "abcd\x7f"]
"""Texts of the maximum length of their type. Writers cut longer texts to these texts."""
MOST = 10**20
"""Decimals whose absolute value is at least this get no further digits, because more digits would not fit."""
CONVERTED = frozenset({*NARROW, "float32", "char", "varchar", "decimal", "wide"})
SOURCE = Path(__file__).parent.parent / "interop" / "VectorWriter.java"


def unconverted(name: str, value: Any, rng: np.random.Generator) -> Any:
    """Returns a value that a writer of the type converts to ``value`` and stores. The statistics may contain the
    unconverted value."""
    if name in NARROW:
        return value + (int(rng.integers(-3, 4)) << NARROW[name])
    if name in ("char", "varchar"):
        if len(value) == LENGTH:
            return value + str(rng.choice(["", "x", "\x00", " z", "é" * 300]))
        return value + " " * int(rng.integers(0, LENGTH - len(value) + 3)) if name == "char" else value
    if name in ("decimal", "wide"):  # the reader truncates the digit that is added
        tail = decimal.Decimal(int(rng.integers(0, 10))).scaleb(-3)
        if abs(value) >= MOST:
            return value
        return value - tail if value < 0 else value + tail
    if name != "float32" or np.isnan(value):
        return value
    if np.isinf(value):
        return float(np.copysign(1e300, value))
    return float(np.copysign(1e-50, value)) if value == 0 else float(np.nextafter(value, rng.choice([-np.inf, np.inf])))


# ---------------------------------------------------------------------- ORC Java's vectors


class VectorWriter:
    """``VectorWriter.java`` in Spark's JVM."""

    def __init__(self, spark: Any) -> None:
        self._jvm, self._gateway = spark._jvm, spark.sparkContext._gateway
        compiler = self._jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(self._jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(SOURCE.read_text())
        methods = compiler.getClassLoader().loadClass("orcidx.tests.VectorWriter").getDeclaredMethods()
        (self._write,) = (method for method in methods if method.getName() == "write")

    def write(
        self, path: Path, schema: str, settings: Mapping[str, Any], columns: Iterable[tuple[bytes, bytes]]
    ) -> None:
        """Writes a file. ``columns`` has the pool and the codes of each column, in the form that ``VectorWriter.java``
        describes."""
        given = self._jvm.java.util.ArrayList()
        for part in itertools.chain.from_iterable(columns):
            given.add(bytearray(part))
        lines = "\n".join(f"{name}={value}" for name, value in settings.items())
        arguments = self._gateway.new_array(self._jvm.java.lang.Object, 4)
        for place, argument in enumerate((path.as_uri(), schema, lines, given)):
            arguments[place] = argument
        self._write.invoke(None, arguments)


def pool_bytes(values: Iterable[Any]) -> bytes:
    """Encodes a pool for ``VectorWriter.java``. Timestamps are nanoseconds and dates are days."""
    return b"".join(struct.pack(">i", len(entry)) + entry for entry in map(_entry, values))


def _entry(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, decimal.Decimal):
        return f"{value:f}".encode()
    return struct.pack(">d", value) if isinstance(value, float) else struct.pack(">q", value)


def code_bytes(codes: np.ndarray, null: int) -> bytes:
    """Encodes the index of each row's value in the pool, big-endian. The index is -1 for a row whose code is
    ``null``."""
    return np.where(codes == null, -1, codes).astype(">i4").tobytes()
