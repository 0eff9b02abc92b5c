"""Reads many files with ORC Java in Spark's JVM. ``OrcRows.java`` contains the loops over the rows. It is compiled by
Janino, which is part of Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("OrcRows.java")


class OrcJava:
    """Reads files with ORC Java. ``ask(data, questions)`` writes a file to ``folder`` and reads it there."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.folder = folder
        jvm = spark._jvm
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.setSourceVersion(8)
        compiler.setTargetVersion(8)
        compiler.cook(SOURCE.read_text())
        loaded = compiler.getClassLoader().loadClass("orcidx.writing.OrcRows")
        self._dump = next(method for method in loaded.getDeclaredMethods() if method.getName() == "dump")
        self._arguments = spark._sc._gateway.new_array(jvm.java.lang.Object, 3)

    def ask(self, data: bytes, questions: list[str]) -> list[list[str]]:
        """Returns a list of rows for each of ``questions``: ``all``, ``seek`` or ``where`` (see ``OrcRows.java``).
        Raises ``AssertionError`` if Java cannot read the file."""
        # Not at the top, because py4j comes with Spark, and the other ORC readers in these tests do not need Spark.
        from py4j.protocol import Py4JJavaError

        source, target = self.folder / "file.orc", self.folder / "rows.txt"
        source.write_bytes(data)
        source.with_name(f".{source.name}.crc").unlink(missing_ok=True)
        for i, argument in enumerate((source.as_uri(), str(target), "\n".join(questions))):
            self._arguments[i] = argument
        try:
            self._dump.invoke(None, self._arguments)
        except Py4JJavaError as error:
            causes = [line for line in str(error).split("\n") if "Exception" in line]
            raise AssertionError(f"ORC Java: {causes}") from error
        answers: list[list[str]] = []
        for line in target.read_text().split("\n")[:-1]:
            if line == "=":
                answers.append([])
            else:
                answers[-1].append(line)
        return answers
