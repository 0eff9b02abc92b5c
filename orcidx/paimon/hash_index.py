"""The dynamic-bucket hash index. It has the hashes of the keys in a bucket. ``BucketAssigner`` finds the bucket for a
new key from these hashes.

A file contains only big-endian int32 hashes, each once and in any order. In the index manifest, each bucket of each
partition has one current file of type HASH. Like Paimon's reader, this reader ignores 1 to 3 bytes after the last whole
hash.

The hash of a key is Murmur3-32 (seed 42) over the BinaryRow of the primary key without its partition columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.paimon.data_types import DataType, as_data_type
from orcidx.paimon.key_columns import hashed_column
from orcidx.paimon.row_hash import hash_rows

__all__ = ["BucketAssigner", "HashIndex", "bucket_of_hash", "key_hash"]

Hashes = npt.NDArray[np.int32]

_MOST_BUCKETS = 32767  # a bucket number is an int16, and the largest int16 value stays unused


class HashIndex:
    r"""The hashes of one bucket's keys, in the file's order. Immutable.

    Parameters
    ----------
    hashes : iterable of int, or int32 array
        The hashes, as ``key_hash`` makes them.

    Examples
    --------
    >>> from orcidx.paimon import HashIndex
    >>> index = HashIndex([5, -1])
    >>> index.to_bytes()
    b'\x00\x00\x00\x05\xff\xff\xff\xff'
    >>> HashIndex.from_bytes(index.to_bytes()) == index
    True
    """

    __slots__ = ("_hashes",)

    def __init__(self, hashes: Iterable[int] | Hashes = ()) -> None:
        array = hashes if isinstance(hashes, np.ndarray) else np.array(list(hashes), dtype=np.int32)
        self._hashes: Hashes = array.astype(np.int32)
        self._hashes.setflags(write=False)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> HashIndex:
        """Reads the index from the bytes of a file.

        Parameters
        ----------
        data : bytes, bytearray or memoryview
            Big-endian int32 values. One to three bytes after the last whole value are ignored.

        Returns
        -------
        HashIndex
        """
        return cls(np.frombuffer(data, dtype=">i4", count=len(data) // 4).astype(np.int32))

    def to_bytes(self) -> bytes:
        """The index as it is stored: big-endian int32 values.

        Returns
        -------
        bytes
        """
        return self._hashes.astype(">i4").tobytes()

    @property
    def hashes(self) -> Hashes:
        """The hashes as a read-only array."""
        return self._hashes

    def __len__(self) -> int:
        return len(self._hashes)

    def __iter__(self) -> Iterator[int]:
        return iter(self._hashes.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashIndex) and np.array_equal(self._hashes, other._hashes)

    def __hash__(self) -> int:
        return hash(self._hashes.tobytes())

    def __repr__(self) -> str:
        return f"<HashIndex {len(self)} hashes>"


def key_hash(keys: pa.RecordBatch | pa.Table, key_types: Sequence[str | DataType]) -> Hashes:
    """The hash of each row of ``keys``. ``keys`` has the columns of the key, in order. ``key_types`` has the Paimon
    types of these columns.

    Parameters
    ----------
    keys : pyarrow.RecordBatch or pyarrow.Table
        The columns of the key. Timestamps can also be decimal128(38, 0) with nanoseconds. Times of day and dates can
        also be integers.
    key_types : sequence of str or DataType
        The Paimon type of each column.

    Returns
    -------
    Hashes

    Raises
    ------
    InvalidQuery
        A column does not fit its type, or the type is not allowed in a key.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from orcidx.paimon import key_hash
    >>> key_hash(pa.table({"id": pa.array([1, 2], pa.int32())}), ["INT"]).tolist()
    [1465514398, 1340390384]
    """
    if len(key_types) != keys.num_columns:
        raise InvalidQuery(f"keys has {keys.num_columns} columns, but key_types has {len(key_types)} types")
    types = [as_data_type(given) for given in key_types]
    columns = []
    for column, data_type in zip(keys.columns, types):
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        columns.append(hashed_column(array, data_type))
    return hash_rows(columns, keys.num_rows)


def bucket_of_hash(hashes: Hashes, buckets: int) -> npt.NDArray[np.int32]:
    """The bucket of each hash of a bucket key, in a table with a fixed number of buckets. This is the function that
    Paimon uses by default."""
    return np.abs(np.fmod(hashes.astype(np.int64), buckets)).astype(np.int32)


class BucketAssigner:
    """Assigns keys to the buckets of one partition as Paimon does. An assigner must not be used from several threads.

    A known key keeps its bucket. A new key goes to the first bucket that is not full, or else to a new bucket.

    Parameters
    ----------
    target_rows : int
        The number of keys at which a bucket is full.
    max_buckets : int
        The maximum number of buckets. -1 means the limit of the format, which is 32767.
    assigners : int
        The number of assigners that share the partition. Each assigner uses every ``assigners``-th bucket.
    assigner : int
        The number of this assigner, counted from 0.
    restored : mapping of int to iterable of int, optional
        The hashes in the partition's index files, by bucket.

    Raises
    ------
    InvalidQuery
        ``target_rows`` or ``assigners`` is less than 1, ``assigner`` is negative, or ``max_buckets`` is less than 1 and
        not -1.

    Examples
    --------
    >>> from orcidx.paimon import BucketAssigner
    >>> BucketAssigner(2).assign([10, 20, 30, 10]).tolist()
    [0, 0, 1, 0]
    """

    def __init__(
        self,
        target_rows: int,
        *,
        max_buckets: int = -1,
        assigners: int = 1,
        assigner: int = 0,
        restored: Mapping[int, Iterable[int]] | None = None,
    ) -> None:
        if target_rows < 1 or assigners < 1 or assigner < 0 or (max_buckets < 1 and max_buckets != -1):
            raise InvalidQuery(
                "target_rows and assigners must be at least 1, max_buckets must be at least 1 or -1 (no limit), and "
                f"assigner must not be negative, but target_rows is {target_rows}, assigners is {assigners}, "
                f"max_buckets is {max_buckets} and assigner is {assigner}"
            )
        self._target = target_rows
        self._bounded = max_buckets != -1
        limit = min(max_buckets, _MOST_BUCKETS) if self._bounded else _MOST_BUCKETS
        self._bucket_of: dict[int, int] = {}
        self._used: dict[int, None] = {}
        self._room: dict[int, int] = {}
        for bucket, hashes in (restored or {}).items():
            known = hashes.tolist() if isinstance(hashes, np.ndarray) else list(hashes)
            self._bucket_of.update(dict.fromkeys(known, bucket))
            self._used[bucket] = None
            self._room[bucket] = target_rows - len(known)
        self._open = [bucket for bucket in reversed(_hash_map_order(self._room)) if self._room[bucket] > 0]
        self._unused = (b for b in range(assigner % assigners, limit, assigners) if b not in self._used)

    def assign(self, hashes: Iterable[int] | Hashes) -> npt.NDArray[np.int32]:
        """The bucket of each key. Equal hashes get the same bucket.

        If all ``max_buckets`` buckets are full, the hash of a new key selects one of the existing buckets. (Paimon
        selects a random bucket.)

        Parameters
        ----------
        hashes : iterable of int, or int32 array
            The hash of each key, as ``key_hash`` makes it.

        Returns
        -------
        int32 array
            One bucket number for each hash, in order.

        Raises
        ------
        InvalidQuery
            A new key needs a new bucket, but no bucket is left. If ``max_buckets`` is given and a bucket exists, no
            error is raised, and the key goes to an existing bucket.
        """
        known = self._bucket_of
        out = []
        for key in hashes.tolist() if isinstance(hashes, np.ndarray) else hashes:
            bucket = known.get(key)
            if bucket is None:
                bucket = known[key] = self._place(key)
            out.append(bucket)
        return np.array(out, dtype=np.int32)

    def _place(self, key: int) -> int:
        if not self._open:
            bucket = next(self._unused, None)
            if bucket is None:
                return self._overflow(key)
            self._used[bucket] = None
            self._room[bucket] = self._target
            self._open.append(bucket)
        bucket = self._open[-1]
        self._room[bucket] -= 1
        if not self._room[bucket]:
            self._open.pop()
        return bucket

    def _overflow(self, key: int) -> int:
        if not self._bounded or not self._used:
            raise InvalidQuery(
                "no bucket is left for this assigner; give a larger "
                f"{'max_buckets' if self._bounded else 'target_rows'}"
            )
        used = list(self._used)
        return used[key % len(used)]


def _hash_map_order(buckets: Iterable[int]) -> list[int]:
    """The buckets in the order in which a Java HashMap with this number of buckets iterates over them. Paimon fills
    restored buckets in this order."""
    known = list(buckets)
    capacity = 16
    while len(known) > capacity * 3 // 4:
        capacity *= 2
    return sorted(known, key=lambda bucket: bucket & (capacity - 1))
