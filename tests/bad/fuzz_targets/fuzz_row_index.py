"""Fuzzes the reader of ROW_INDEX streams: positions, statistics and bounds. The input is the writer and the column's
type, followed by the message."""

from bad.fuzz_targets.harness import Reader, fuzz, instrumented

with instrumented():
    import numpy as np
    import orc_messages as pb
    from bad.fuzz_targets.fuzz_tail import End

    from orcidx.errors import OrcidxError
    from orcidx.options import ReadOptions
    from orcidx.orc.bounds import bound_statistics
    from orcidx.orc.metadata import read_tail
    from orcidx.orc.row_index import build_row_index
    from orcidx.orc.statistics import unit_statistics
    from orcidx.orc.stripe_footer import parse_stripe_footer
    from orcidx.orc.types import build_tree

KINDS = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "timestamp", "date",
    "decimal", "varchar", "char", "instant",
)  # fmt: skip
GROUPS, STRIDE = 3, 10
WRITERS = (b"", pb.uint(9, 1), pb.uint(9, 2), pb.uint(11, 1))


def _files(writer: bytes) -> list[tuple[object, object, object]]:
    found = []
    for kind in KINDS:
        digits = {"precision": 12, "scale": 3} if kind == "decimal" else {}
        types = [pb.type_message("struct", [1], ["a"]), pb.type_message(kind, **digits)]
        stripe = pb.stripe_footer([(6, 1, 0), (0, 1, 0), (1, 1, 50)], [pb.uint(1, 2)] * 2)
        fields = pb.uint(8, STRIDE) + writer
        tail = read_tail(End(pb.orc_file(types, stripes=[(bytes(50), stripe, GROUPS * STRIDE)], footer_fields=fields)))
        found.append((tail, parse_stripe_footer(stripe, tail, 0), build_tree(tail.footer.types).children[0]))
    return found


FILES = [_files(writer) for writer in WRITERS]


def one(data: bytes) -> None:
    told = Reader(data)
    tail, footer, node = FILES[told.below(len(WRITERS))][told.below(len(KINDS))]
    try:
        index = build_row_index(tail, 0, footer, [node], {1: told.rest()})
        for column in index.columns.values():
            assert index.groups == GROUPS
            bounded = bound_statistics(column.statistics, tail.facts, ReadOptions())
            assert not (np.asarray(bounded.all_null) & ~np.asarray(bounded.may_null)).any(), "all null, and none null"
            for group in range(GROUPS):
                unit_statistics(column.statistics, group, hybrid=tail.facts.hybrid_calendar)
                if column.unseekable is None:
                    column.positions.iterator(group)
    except OrcidxError:
        pass


if __name__ == "__main__":
    fuzz(one)
