"""Fuzzes the reader of a whole Paimon file index: the container and the indexes in it. The input is the file."""

import pyarrow as pa
from bad.fuzz_targets.harness import fuzz, instrumented

from orcidx.predicate import bind, col

with instrumented("orcidx.paimon"):
    from orcidx.errors import OrcidxError
    from orcidx.paimon.data_types import parse_type
    from orcidx.paimon.file_index import read_file_index

TYPES = {"f0": "INT", "f1": "STRING", "a": "INT", "b": "STRING", "id": "BIGINT", "m": "MAP<STRING, INT>"}
SCHEMA = pa.schema([(name, parse_type(text).arrow_type) for name, text in TYPES.items() if name != "m"])
ASKED = [bind(col(name).is_null(), SCHEMA) for name in SCHEMA.names]
ASKED.append(bind((col("f0") == 5) | (col("a") < 7) | (col("b") == "s1"), SCHEMA))


def one(data: bytes) -> None:
    try:
        index = read_file_index(data, types=TYPES)
        for where in ASKED:
            index.evaluate(where)
        index.check()
        index.to_bytes()
    except OrcidxError:
        pass


if __name__ == "__main__":
    fuzz(one)
