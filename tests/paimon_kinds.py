"""Which kinds of Paimon index a type can have."""

from __future__ import annotations

import pyarrow as pa

from orcidx import paimon
from orcidx.errors import Unsupported
from orcidx.paimon.data_types import parse_type


def supports(kind: str, sql: str) -> bool:
    """Whether there are indexes of this kind for a column of this type."""
    try:
        paimon.build_index(kind, pa.nulls(0, parse_type(sql).arrow_type), sql)
    except Unsupported:
        return False
    return True
