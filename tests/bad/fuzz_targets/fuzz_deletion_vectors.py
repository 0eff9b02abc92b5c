"""Fuzzes the readers of deletion vectors, Puffin files and hash indexes. The input is a number that chooses the reader,
followed by the bytes to read.

The target corrects the checksums, because a fuzzer does not find valid checksums.
"""

import zlib

from bad.fuzz_targets.harness import Reader, fuzz, instrumented

with instrumented():
    from orcidx.errors import OrcidxError
    from orcidx.paimon.deletion_vector import MAGIC32, MAGIC64, DeletionVector
    from orcidx.paimon.hash_index import HashIndex
    from orcidx.paimon.puffin import deletion_blobs

ROWS = 1000


def one(data: bytes) -> None:
    told = Reader(data)
    kind, body = told.below(5), told.rest()
    try:
        if kind == 0:
            deletion_blobs(memoryview(body))
        elif kind == 1:
            footer = b"PFA1" + body + len(body).to_bytes(4, "little") + bytes(4) + b"PFA1"
            deletion_blobs(memoryview(b"PFA1" + bytes(64) + footer))
        elif kind == 2:
            HashIndex.from_bytes(body).to_bytes()
        else:
            checked = (MAGIC32 if kind == 3 else MAGIC64) + body
            entry = len(checked).to_bytes(4, "big") + checked + zlib.crc32(checked).to_bytes(4, "big")
            vector = DeletionVector.from_bytes(entry)
            assert vector.bitmap64 == (kind == 4)
            vector.deleted_rows(ROWS)
            again = DeletionVector.from_bytes(vector.to_bytes())
            assert again == vector
    except OrcidxError:
        pass


if __name__ == "__main__":
    fuzz(one)
