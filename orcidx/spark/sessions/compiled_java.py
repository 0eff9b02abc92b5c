"""Java classes of orcidx's own in the JVM of a session, compiled by Janino, which Spark ships."""

from __future__ import annotations

import importlib.resources
import re
from functools import lru_cache

from orcidx.errors import Unsupported
from orcidx.spark.types.argument_types import JavaObject

__all__ = ["PIECE", "compiled", "made", "text_of"]

PIECE = 6000
"""Bytes that are asked of the JVM at a time, 8,000 letters of base64. It writes a longer answer in pieces of 8 kB, and
the second waits 40 ms for an acknowledgement."""


@lru_cache(maxsize=4)
def compiled(gateway: JavaObject, name: str) -> JavaObject:
    """The class, as long as the JVM lives."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    jvm = gateway.jvm
    version = str(jvm.scala.util.Properties.versionNumberString())
    # Scala 2.12 calls a Seq of any kind what 2.13 calls an immutable one.
    sequence = "Seq" if re.match(r"2\.12\b", version) else "immutable.Seq"
    text = importlib.resources.files("orcidx.spark.sessions").joinpath("java", f"{name}.java").read_text("utf-8")
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    try:
        compiler.cook(text.replace("@SEQ@", sequence))
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        raise Unsupported(f"this Spark does not take orcidx's {name}: {str(cause.toString())[:300]}") from None
    return compiler.getClassLoader().loadClass(name)


def made(gateway: JavaObject, name: str, *arguments: JavaObject) -> JavaObject:
    """A new object of a class with one constructor."""
    given = gateway.new_array(gateway.jvm.java.lang.Object, len(arguments))
    for number, argument in enumerate(arguments):
        given[number] = argument
    return compiled(gateway, name).getConstructors()[0].newInstance(given)


def text_of(answer: str | JavaObject) -> str:
    """A text that Java gave as it is, or as a ``java.io.InputStream`` of its bytes, if it is longer."""
    if isinstance(answer, str):
        return answer
    pieces: list[bytes] = []
    while piece := bytes(answer.readNBytes(PIECE)):
        pieces.append(piece)
    return b"".join(pieces).decode()
