"""``WriterMemory``: a limit on the bytes that the open stripes of several writers hold together."""

from __future__ import annotations

import weakref
from typing import Any, Protocol

from orcidx.errors import InvalidQuery

__all__ = ["WriterMemory"]

LEAST_LIMIT_BYTES = 1 << 20
"""The smallest limit. Below it no stripe would have a whole row group."""


class Holder(Protocol):
    """A writer with a stripe that other threads can end. ``end_stripe_for_memory`` returns False while the writer is
    busy."""

    def end_stripe_for_memory(self) -> bool: ...


class WriterMemory:
    """A limit in bytes that several writers share, for example the writers of many partitions. Pass the same object as
    ``max_memory=`` to each writer.

    If the open stripes of these writers hold more bytes than the limit, the largest stripes are ended and written until
    the bytes are within the limit. Several threads can use the object. If another thread is using a writer, this thread
    ends the writer's stripe after the current slice. A pickled copy counts its bytes separately.

    Parameters
    ----------
    limit : int
        The most bytes that all open stripes may hold, at least 1 MiB.

    Raises
    ------
    InvalidQuery
        The limit is too small, or is not an integer.

    Examples
    --------
    >>> import io, orcidx, pyarrow as pa
    >>> memory = orcidx.WriterMemory(64 << 20)
    >>> with orcidx.OrcWriter(io.BytesIO(), pa.schema({"id": pa.int64()}), max_memory=memory) as writer:
    ...     _ = writer.write(pa.table({"id": [1, 2, 3]}))
    >>> memory.held
    0
    """

    def __init__(self, limit: int) -> None:
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < LEAST_LIMIT_BYTES:
            raise InvalidQuery(
                f"the limit of memory (max_memory= or WriterMemory) must be an integer of at least {LEAST_LIMIT_BYTES} "
                f"bytes, but is {limit!r}"
            )
        self.limit = limit
        # The keys are the identities of writers. Each change of the dict is atomic, so other threads never see a
        # partial change.
        self._held: dict[int, tuple[weakref.ref[Holder], int]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return WriterMemory, (self.limit,)

    def __repr__(self) -> str:
        return f"WriterMemory({self.limit})"

    @property
    def held(self) -> int:
        """Bytes that all open stripes hold, as last reported."""
        return sum(held for _, held in self._alive())

    def _alive(self) -> list[tuple[Holder, int]]:
        found = [(one(), held) for one, held in list(self._held.values())]
        return [(holder, held) for holder, held in found if holder is not None]

    def note(self, holder: Holder, held: int) -> None:
        """Records the bytes of a writer's stripe. This may end stripes of other writers, or the writer's own stripe.

        Parameters
        ----------
        holder : OrcWriter
            The writer.
        held : int
            The bytes that its open stripe holds.
        """
        self._set(holder, held)
        largest = sorted(self._alive(), key=lambda item: -item[1])
        over = sum(held for _, held in largest) - self.limit
        for other, size in largest:
            if over <= 0 or not size:
                break
            if other.end_stripe_for_memory():
                over -= size
                self._set(other, 0)

    def forget(self, holder: Holder) -> None:
        """Removes a closed writer.

        Parameters
        ----------
        holder : OrcWriter
            The writer.
        """
        self._held.pop(id(holder), None)

    def _set(self, holder: Holder, held: int) -> None:
        place, sizes = id(holder), self._held
        self._held[place] = weakref.ref(holder, lambda _: sizes.pop(place, None)), held
