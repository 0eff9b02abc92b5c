from typing import Any

Buffer = Any

def decode(
    seconds: Buffer,
    nanos: Buffer,
    count: int,
    *,
    start: int,
    transitions: Buffer | None,
    offsets: Buffer | None,
    repeats_from: int,
) -> None: ...
def lowest(values: Buffer, count: int) -> int: ...
def combine(seconds: Buffer, nanos: Buffer, count: int, per_second: int, out: Buffer) -> int: ...
def combine_exactly(seconds: Buffer, nanos: Buffer, count: int, out: Buffer) -> None: ...
