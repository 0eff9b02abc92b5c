"""A stripe's footer and the places of its streams. Input: the footer's bytes, uncompressed."""

from bad.fuzz_targets.harness import fuzz, instrumented

with instrumented():
    import orc_messages as pb
    from bad.fuzz_targets.fuzz_tail import End

    from orcidx.errors import OrcidxError
    from orcidx.orc.metadata import StripeInformation, parse_stripe_footer, read_tail
    from orcidx.orc.streams import locate_streams

KINDS = ("bigint", "string", "timestamp")
TYPES = [pb.type_message("struct", [1, 2, 3], ["a", "b", "c"]), *map(pb.type_message, KINDS)]
TAIL = read_tail(End(pb.orc_file(TYPES)))
STRIPE = StripeInformation(3, 0, 1 << 20, 100, 1000)


def one(data: bytes) -> None:
    try:
        for (_, _), (offset, length) in locate_streams(STRIPE, parse_stripe_footer(data, TAIL, 0)).items():
            assert STRIPE.offset <= offset <= offset + length <= STRIPE.footer_offset, "a stream outside its stripe"
    except OrcidxError:
        pass


if __name__ == "__main__":
    fuzz(one)
