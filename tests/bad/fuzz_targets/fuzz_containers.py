"""A whole Paimon file index: the container and what is in it. Input: the file."""

from bad.fuzz_targets.harness import fuzz, instrumented

with instrumented():
    from orcidx.errors import OrcidxError
    from orcidx.paimon.file_index import read_file_index
    from orcidx.predicate import col

TYPES = {"f0": "INT", "f1": "STRING", "a": "INT", "b": "STRING", "id": "BIGINT", "m": "MAP<STRING, INT>"}


def one(data: bytes) -> None:
    try:
        index = read_file_index(data, types=TYPES)
        for column in TYPES:
            index.evaluate(col(column).is_null())
        index.evaluate((col("f0") == 5) | (col("a") < 7))
        index.to_bytes()
    except OrcidxError:
        pass


if __name__ == "__main__":
    fuzz(one)
