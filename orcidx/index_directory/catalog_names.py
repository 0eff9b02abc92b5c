"""The names of catalogs in ``_orcidx/``. Each name contains a number."""

from __future__ import annotations

import re
from collections.abc import Iterable

from orcidx.storage.folder import Stored

__all__ = ["CATALOGS", "catalog_name", "catalog_number", "in_order", "is_of_version_1"]

CATALOGS = "rollup"
_CATALOG = re.compile(CATALOGS + r"/(\d{8,18})\.(?:catalog|parquet)")


def catalog_name(number: int) -> str:
    """The name of a catalog in ``_orcidx/``."""
    return f"{CATALOGS}/{number:08}.catalog"


def is_of_version_1(name: str) -> bool:
    """Whether a catalog has the old format, which is no longer read."""
    return name.endswith(".parquet")


def catalog_number(name: str) -> int:
    """The number in the name of a catalog. The result is 0 for any other name."""
    match = _CATALOG.fullmatch(name)
    number = 0 if match is None else int(match[1])
    return number if name.rpartition(".")[0] == catalog_name(number).rpartition(".")[0] else 0


def in_order(stored: Iterable[Stored]) -> list[Stored]:
    """The catalogs in order of their numbers."""
    return sorted((one for one in stored if catalog_number(one.name)), key=lambda one: catalog_number(one.name))
