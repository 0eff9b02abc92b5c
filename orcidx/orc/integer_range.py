"""Compares a leaf of a predicate with the file's minimum and maximum of an integer column. The comparison needs only
two operations on plain numbers.

If a key is looked up in thousands of small files, most files are ruled out because the key is outside their range. The
modules ``bounds`` and ``evidence`` use everything that statistics prove, and give reasons. But creating the arrays of
these modules takes 0.2 ms. This module handles only integers, and uses only statistics that these modules
trust. If it cannot rule out a file, ``bounds`` and ``evidence`` examine the file.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from orcidx.options import ValueOptions
from orcidx.orc.bounds import INTEGER_RANGES, distrust
from orcidx.orc.footers import integer_extremes
from orcidx.orc.metadata import FileFacts
from orcidx.orc.types import INTEGER_KINDS, OrcType, reads_as_timestamp
from orcidx.predicate import BoundLeaf, Domain
from orcidx.pruning.bounds import numbers_rule_out

__all__ = ["FileNumbers", "FileTest", "file_test"]


class FileNumbers(Protocol):
    """The parts of a file that are compared: the number of rows, and the Footer message."""

    @property
    def rows(self) -> int: ...

    @property
    def footer_bytes(self) -> bytes: ...


FileTest = Callable[[FileNumbers], bool]
"""Whether the statistics of a file prove that no row matches."""


def file_test(leaf: BoundLeaf, node: OrcType, facts: FileFacts, options: ValueOptions) -> FileTest | None:
    """Compares a leaf with the file's statistics of the column ``node``, which must not be below a list, map or union.
    ``facts``: the facts of the files. Returns None if the statistics of the column cannot be compared in this way."""
    if leaf.domain is not Domain.INT or node.kind not in INTEGER_KINDS or reads_as_timestamp(node, options):
        return None
    return partial(_rules_out, leaf, node) if distrust(node, "file", facts, options) is None else None


def _rules_out(leaf: BoundLeaf, node: OrcType, file: FileNumbers) -> bool:
    found = integer_extremes(file.footer_bytes, node.id)
    if found is None:
        return False
    count, low, high = found
    if not 0 < count <= file.rows:
        return False
    least, most = INTEGER_RANGES[node.kind]
    return least <= low <= high <= most and numbers_rule_out(leaf, low, high)
