"""Errors in a Python process of Spark. An error of orcidx is shown as its message, without a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from orcidx.errors import OrcidxError

__all__ = ["without_traceback"]

_HIDE = "SPARK_HIDE_TRACEBACK"
"""The variable that pyspark (``util.handle_worker_exception``) reads before it sends an exception to the JVM."""


@contextmanager
def without_traceback() -> Iterator[None]:
    """Makes Spark report an error of orcidx, or a missing file, only by its message. Other exceptions are defects and
    keep their traceback. To do this, the function sets an environment variable. Spark's Python process ends after any
    exception, so the variable affects no other code."""
    try:
        yield
    except (OrcidxError, FileNotFoundError):
        if _in_process_of_spark():
            os.environ[_HIDE] = "1"
        raise


def _in_process_of_spark() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.split(".")[0] == "pyspark"
