"""Compares a leaf of a predicate with the file's minimum and maximum of an integer column. The comparison needs only
two operations on plain numbers.

If a key is looked up in thousands of small files, most files are ruled out because the key is outside their range. The
modules ``bounds`` and ``evidence`` use everything that statistics prove, and give reasons. But creating the arrays of
these modules takes 0.2 ms. This module handles only integers, and uses only statistics that these modules
trust. If it cannot rule out a file, ``bounds`` and ``evidence`` examine the file.
"""

from __future__ import annotations

from typing import Protocol

from orcidx.options import ValueOptions
from orcidx.orc.bounds import INTEGER_RANGES, distrust
from orcidx.orc.footers import integer_extremes
from orcidx.orc.metadata import FileFacts
from orcidx.orc.types import INTEGER_KINDS, OrcType, reads_as_timestamp
from orcidx.predicate import BoundLeaf, Domain
from orcidx.pruning.bounds import numbers_rule_out

__all__ = ["FileNumbers", "file_rules_out"]


class FileNumbers(Protocol):
    """The parts of a file that ``file_rules_out`` needs: the ``FileFacts``, the number of rows, and the Footer
    message."""

    @property
    def facts(self) -> FileFacts: ...

    @property
    def rows(self) -> int: ...

    @property
    def footer_bytes(self) -> bytes: ...


def file_rules_out(leaf: BoundLeaf, node: OrcType, file: FileNumbers, options: ValueOptions) -> bool:
    """Whether the file's statistics of the column ``node`` prove that no row matches the leaf. ``node`` must not be
    below a list, map or union. False if the minimum and maximum are not enough to decide."""
    if leaf.domain is not Domain.INT or node.kind not in INTEGER_KINDS or reads_as_timestamp(node, options):
        return False
    if distrust(node, "file", file.facts, options) is not None:
        return False
    found = integer_extremes(file.footer_bytes, node.id)
    if found is None:
        return False
    count, low, high = found
    if not 0 < count <= file.rows:
        return False
    least, most = INTEGER_RANGES[node.kind]
    return least <= low <= high <= most and numbers_rule_out(leaf, low, high)
