"""Packages that only a part of orcidx needs, and the extras that install them.

A package of an extra is imported when a feature needs it. If the package is missing, the error gives the command that
installs it. The rest of orcidx works without the package.
"""

from __future__ import annotations

import importlib.util
from types import TracebackType

from orcidx.errors import Unsupported

__all__ = ["EXTRAS", "installed", "needed", "what_to_install"]

EXTRAS = {
    "sqlglot": ("sql", "SQL text needs"),
    "fsspec": ("remote", "URLs and file systems of fsspec need"),
    "aiohttp": ("remote", "http and https URLs need"),
    "s3fs": ("s3", "s3 URLs need"),
    "fastavro": ("paimon", "manifests of Paimon tables need"),
    "rich": ("cli", "progress bars need"),
    "polars": ("polars", "Polars frames need"),
    "duckdb": ("sort", "sorting beyond sort_memory, and relations of DuckDB, need"),
    "pandas": ("pandas", "frames of pandas need"),
    "pyspark": ("spark", "orcidx.spark needs"),
}
"""The keys are packages. Each value has the extra that installs the package, and the beginning of the message that says
which feature needs the package."""


def installed(package: str) -> bool:
    """Whether a package can be imported. This function does not import the package."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def what_to_install(package: str) -> str:
    """Returns a message that says which feature needs a package, and which command installs the package."""
    extra, need = EXTRAS[package]
    return f'{need} {package}: python -m pip install "orcidx[{extra}]"'


class needed:
    """A context manager for imports, as in ``with needed("sqlglot"):``. If the package is missing, ``Unsupported`` is
    raised with the message of ``what_to_install``.

    If another package is missing, the error of the import is raised unchanged.
    """

    __slots__ = ("_package",)

    def __init__(self, package: str) -> None:
        self._package = package

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == self._package:
            raise Unsupported(what_to_install(self._package)) from error
