"""A small file is damaged at each byte in turn, and cut at each byte. Reading it raises only orcidx's own errors."""

import datetime
import decimal
import io

import pyorc
import pytest

import orcidx

SCHEMA = (
    "struct<n:bigint,s:string,k:string,d:decimal(9,2),t:timestamp,l:array<int>,m:map<string,double>,"
    "u:uniontype<int,string>>"
)
OWN_ERRORS = {"CorruptFile", "Unsupported", "ValueOutOfRange", "InvalidQuery"}


def small_file(compression: pyorc.CompressionKind) -> bytes:
    out = io.BytesIO()
    with pyorc.Writer(
        out,
        SCHEMA,
        compression=compression,
        row_index_stride=20,
        dict_key_size_threshold=0.5,
        bloom_filter_columns=["n"],
    ) as writer:
        for i in range(50):
            number = None if i % 3 else decimal.Decimal(i)
            moment = datetime.datetime(2000 + i, 1, 1)
            writer.write((i, f"text {i}", "ab"[i % 2], number, moment, [i] * (i % 3), {"k": 0.5}, i))
    return out.getvalue()


def outcome(data: bytes) -> str:
    """Reads all rows, and a few rows with the indexes. Returns "accepted" or the name of the error."""
    try:
        with orcidx.open(data) as file:
            for where in (None, "n = 25"):
                for batch in file.scan(where=where, use_threads=False):
                    batch.validate(full=True)
    except orcidx.OrcidxError as error:
        return type(error).__name__
    return "accepted"


@pytest.mark.parametrize("compression", ["NONE", "ZLIB"])
@pytest.mark.parametrize("damage", [0xFF, 0x80, 0x01])
@pytest.mark.parametrize("step", [19, pytest.param(1, marks=pytest.mark.slow)])
def test_every_byte_changed(compression: str, damage: int, step: int) -> None:
    data = small_file(getattr(pyorc.CompressionKind, compression))
    assert outcome(data) == "accepted"
    outcomes = set()
    for place in range(damage % step, len(data), step):
        changed = bytearray(data)
        changed[place] ^= damage
        outcomes.add(outcome(bytes(changed)))
    assert {"accepted", "CorruptFile"} <= outcomes <= {"accepted", *OWN_ERRORS}


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_cut_at_every_byte(step: int) -> None:
    data = small_file(pyorc.CompressionKind.ZLIB)
    for length in range(1, len(data), step):
        assert outcome(data[:length]) in ("CorruptFile", "Unsupported"), length
