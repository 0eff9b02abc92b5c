"""``pack`` writes an archive with orcidx and the packages that it needs. The archive is for executors that do not have
these packages.

Spark unpacks archives beside each executor's working directory. ``addPyFile`` and zip files cannot be used, because
orcidx has compiled modules.
"""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import orcidx
from orcidx.errors import Unsupported
from orcidx.extras import installed

__all__ = ["pack"]

INSTALLED_WITH_SPARK = frozenset({"numpy", "pandas", "py4j", "pyarrow", "pyspark"})
"""Packages that PySpark's own Arrow functions need on every executor. So ``pack`` leaves these packages out."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA = re.compile(r";.*\bextra\b")
_OF_EXTRAS = ("sqlglot", "fsspec", "fastavro")
"""Packages that extras of orcidx install and that its tasks may use."""
_SOURCES = (".pyx", ".pxd", ".c", ".pyc")


def pack(path: str | os.PathLike[str], *, also: tuple[str, ...] = ()) -> Path:
    """Writes a ``.tar.gz`` archive of the installed orcidx, and of the installed packages that orcidx requires or may
    use in tasks.

    numpy, pandas, pyarrow and pyspark are not packed, because executors with PySpark have them. The executors need the
    same Python version and platform. Give the archive to Spark as ``spark.archives=orcidx.tar.gz#orcidx_env``, with
    ``spark.executorEnv.PYTHONPATH=orcidx_env``.

    Parameters
    ----------
    path
        The archive to write.
    also
        Names of more distributions to pack, such as "s3fs". Their requirements are packed too.

    Returns
    -------
    pathlib.Path
        The archive.

    Raises
    ------
    Unsupported
        A distribution is not installed.

    Examples
    --------
    >>> orcidx.spark.pack("orcidx.tar.gz", also=("s3fs",))  # doctest: +SKIP
    """
    target = Path(path)
    with tarfile.open(target, "w:gz", compresslevel=3) as archive:
        package = Path(orcidx.__file__).parent
        for file in sorted(package.rglob("*")):
            if file.is_file() and file.suffix not in _SOURCES:
                archive.add(file, f"orcidx/{file.relative_to(package).as_posix()}")
        for name in _closure(("orcidx", *filter(installed, _OF_EXTRAS), *also)):
            for file, place in _files_of(name):
                archive.add(file, place)
    return target


def _closure(names: tuple[str, ...]) -> list[str]:
    """These distributions and all their direct and indirect requirements, without orcidx."""
    found: dict[str, None] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in found or key in INSTALLED_WITH_SPARK:
            continue
        found[key] = None
        try:
            required = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            if key in map(str.lower, names):
                raise Unsupported(
                    f"{name} is not installed here; install it with python -m pip install {name}"
                ) from None
            continue  # it is required only on another platform or Python version
        waiting += [match[0] for one in required if not _EXTRA.search(one) and (match := _NAME.match(one))]
    return [name for name in found if name != "orcidx"]


def _files_of(name: str) -> Iterator[tuple[Path, str]]:
    """Returns the files of a distribution, each with its path below a directory of ``sys.path``. Scripts and compiled
    Python files are left out."""
    try:
        files = metadata.files(name) or []
    except metadata.PackageNotFoundError:
        return
    for file in files:
        place = Path(str(file))
        located = Path(str(file.locate()))
        if ".." not in place.parts and place.suffix != ".pyc" and located.is_file():
            yield located, place.as_posix()
