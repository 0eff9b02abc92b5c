"""One body of a Paimon file index. Input: its kind and type, then the body."""

from bad.fuzz_targets.harness import Reader, fuzz, instrumented

with instrumented():
    from bad.targets import _literal

    from orcidx.errors import OrcidxError
    from orcidx.paimon.registry import FORMATS, read_index

KINDS = sorted(FORMATS)
TYPES = ("INT", "BIGINT", "STRING", "TIMESTAMP(3)", "DATE", "DOUBLE", "BOOLEAN", "DECIMAL(10, 2)", "BYTES", "SMALLINT")


def one(data: bytes) -> None:
    told = Reader(data)
    kind, data_type = KINDS[told.below(len(KINDS))], TYPES[told.below(len(TYPES))]
    literal = _literal(data_type)
    try:
        index = read_index(kind, told.rest(), data_type)
        for op in ("eq", "notin", "lt"):
            index.evaluate(op, [literal])
        for op in ("isnull", "isnotnull"):
            index.evaluate(op, [])
        index.check()
        index.to_bytes()
    except OrcidxError:
        pass


if __name__ == "__main__":
    fuzz(one)
