"""orcidx's own Java classes in the JVM of a session. Janino, which Spark ships, compiles them."""

from __future__ import annotations

import importlib.resources
import re
from functools import lru_cache

from orcidx.errors import Unsupported
from orcidx.spark.types.argument_types import JavaObject

__all__ = ["compiled", "made"]

_SERVED = "Served"
"""The class with which the other classes return long texts."""


@lru_cache(maxsize=4)
def compiled(gateway: JavaObject, name: str) -> JavaObject:
    """The compiled class. It is kept as long as the JVM runs."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    jvm = gateway.jvm
    version = str(jvm.scala.util.Properties.versionNumberString())
    # In Scala 2.12, Seq is any kind of sequence. In Scala 2.13, Seq is an immutable sequence.
    sequence = "Seq" if re.match(r"2\.12\b", version) else "immutable.Seq"
    text = importlib.resources.files("orcidx.spark.sessions").joinpath("java", f"{name}.java").read_text("utf-8")
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    if name == _SERVED:
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    else:
        compiler.setParentClassLoader(compiled(gateway, _SERVED).getClassLoader())
    try:
        compiler.cook(text.replace("@SEQ@", sequence))
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        raise Unsupported(
            f"orcidx's Java class {name} cannot be compiled by this Spark: {str(cause.toString())[:260]}"
        ) from None
    return compiler.getClassLoader().loadClass(name)


def made(gateway: JavaObject, name: str, *arguments: JavaObject) -> JavaObject:
    """Makes an object of a class with one constructor."""
    given = gateway.new_array(gateway.jvm.java.lang.Object, len(arguments))
    for number, argument in enumerate(arguments):
        given[number] = argument
    return compiled(gateway, name).getConstructors()[0].newInstance(given)
