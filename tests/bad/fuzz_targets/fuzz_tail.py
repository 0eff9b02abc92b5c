"""Fuzzes the reader of an ORC file's tail: PostScript, footer, types, and statistics of file and stripes. The input is
the end of a file."""

from bad.fuzz_targets.harness import fuzz, instrumented

with instrumented():
    from orcidx.errors import OrcidxError
    from orcidx.options import ReadOptions
    from orcidx.orc.metadata import read_tail
    from orcidx.orc.statistics import file_statistics, stripe_statistics, unit_statistics
    from orcidx.orc.types import arrow_schema, build_tree

MOST_TYPES = 50


class End:
    """A file whose last bytes are the input."""

    name = "input"

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read_tail(self, length: int) -> tuple[bytes, int]:
        return self.data[-length:] if self.data else b"", len(self.data)

    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        for offset, length in ranges:
            assert 0 <= offset <= offset + length <= len(self.data), "reads outside the file"
        return [self.data[offset : offset + length] for offset, length in ranges]


def one(data: bytes) -> None:
    try:
        tail = read_tail(End(data))
        root = build_tree(tail.footer.types)
        _ = str(root), tail.checksum, tail.facts, root.repeated_ids
        for node in list(root.walk())[:MOST_TYPES]:
            unit_statistics(file_statistics(tail, node), 0, hybrid=tail.facts.hybrid_calendar)
            for unit in range(min(3, len(tail.footer.stripes))):
                unit_statistics(stripe_statistics(tail, node), unit, hybrid=tail.facts.hybrid_calendar)
        arrow_schema(root, ReadOptions())
    except OrcidxError:
        pass


if __name__ == "__main__":
    fuzz(one)
