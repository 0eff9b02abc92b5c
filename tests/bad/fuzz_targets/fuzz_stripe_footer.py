"""Fuzzes the reader of a stripe's footer, and the places of the streams. The input is the uncompressed footer."""

from bad.fuzz_targets.harness import fuzz, instrumented

with instrumented():
    import orc_messages as pb
    from bad.fuzz_targets.fuzz_tail import End

    from orcidx.errors import OrcidxError
    from orcidx.orc.metadata import read_tail
    from orcidx.orc.stripe_footer import parse_stripe_footer

KINDS = ("bigint", "string", "timestamp")
TYPES = [pb.type_message("struct", [1, 2, 3], ["a", "b", "c"]), *map(pb.type_message, KINDS)]
TAIL = read_tail(End(pb.orc_file(TYPES, stripes=[(bytes(1 << 20), b"", 1000)])))
STRIPE = TAIL.footer.stripes[0]


def one(data: bytes) -> None:
    try:
        footer = parse_stripe_footer(data, TAIL, 0)
        for place, (offset, length) in footer.streams.items():
            assert STRIPE.offset <= offset <= offset + length <= STRIPE.footer_offset, "a stream outside its stripe"
            assert place in footer.streams
            assert footer.streams[place] == (offset, length)
        assert [footer.encodings[column] for column in range(len(footer.encodings))]
    except OrcidxError:
        pass


if __name__ == "__main__":
    fuzz(one)
