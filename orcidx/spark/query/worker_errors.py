"""Errors in one of Spark's Python processes: what orcidx has to say is a sentence, and its traceback no help."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from orcidx.errors import OrcidxError

__all__ = ["without_traceback"]

_HIDE = "SPARK_HIDE_TRACEBACK"
"""Where pyspark (``util.handle_worker_exception``) looks before it sends an exception to the JVM."""


@contextmanager
def without_traceback() -> Iterator[None]:
    """Has Spark tell an error of orcidx, or a missing file, by its message alone. Other exceptions are defects and keep
    their traceback. A process of Spark's ends after any exception, so that no other code meets the setting."""
    try:
        yield
    except (OrcidxError, FileNotFoundError):
        if _in_process_of_spark():
            os.environ[_HIDE] = "1"
        raise


def _in_process_of_spark() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.split(".")[0] == "pyspark"
