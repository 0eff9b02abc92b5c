"""Fuzzes the reader of one body of a Paimon file index. The input is the kind of the index and the type of the column,
followed by the body."""

import pyarrow as pa
from bad.fuzz_targets.harness import Reader, fuzz, instrumented

from orcidx.predicate import BoundLeaf, bind, col

with instrumented("orcidx.paimon"):
    from bad.targets import _literal

    from orcidx.errors import OrcidxError
    from orcidx.paimon.data_types import parse_type
    from orcidx.paimon.registry import FORMATS, read_index

KINDS = sorted(FORMATS)
TYPES = ("INT", "BIGINT", "STRING", "TIMESTAMP(3)", "DATE", "DOUBLE", "BOOLEAN", "DECIMAL(10, 2)", "BYTES", "SMALLINT")


def _asked(data_type: str) -> list[BoundLeaf]:
    value, literal = col("value"), _literal(data_type)
    schema = pa.schema([("value", parse_type(data_type).arrow_type)])
    wheres = (value == literal, ~value.is_in([literal, literal]), value < literal, value.is_null(), ~value.is_null())
    return [leaf for where in wheres for leaf in bind(where, schema, nan="largest").leaves()]


ASKED = [_asked(data_type) for data_type in TYPES]


def one(data: bytes) -> None:
    told = Reader(data)
    kind, data_type = KINDS[told.below(len(KINDS))], told.below(len(TYPES))
    try:
        index = read_index(kind, told.rest(), TYPES[data_type])
        for leaf in ASKED[data_type]:
            index.test(leaf)
        index.check()
        index.to_bytes()
    except OrcidxError:
        pass


if __name__ == "__main__":
    fuzz(one)
