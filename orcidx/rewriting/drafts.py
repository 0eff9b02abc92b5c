"""A draft is a file that has no final name yet. It is written, and then read again for verification. Only then does it
get its name. A local draft has a hidden name beside its target. On other storages, each upload is visible or costs
money. So a draft for such a storage is kept on the local disk until it is uploaded."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from functools import partial

from orcidx.errors import InvalidQuery
from orcidx.storage import Source, describe_source
from orcidx.storage.failures import translating
from orcidx.storage.local_writing import Place, give_name
from orcidx.storage.sink import PART_BYTES, fill_sink, open_sink
from orcidx.storage.stores import Sink
from orcidx.storage.writers import temporary_name

__all__ = ["Draft", "exists"]


class Draft:
    """A context manager. If it is left without ``publish``, the draft is deleted."""

    def __init__(self, target: Source, made_of: Sequence[Source] = ()) -> None:
        if not target.in_store:
            raise InvalidQuery(f"{target.name}: the target must be a path or a URL")
        self.target = target
        self._made_of = tuple(made_of)
        self._folder: str | None = None
        if target.kind == "path":
            self._place = Place.of(target.location, target.name)
            self.path = temporary_name(self._place.path)
        else:
            self._folder = tempfile.mkdtemp(prefix="orcidx-")
            self.path = os.path.join(self._folder, "draft.orc")

    def open_sink(self) -> Sink:
        sink = open_sink(self.path, made_of=self._made_of)
        sink.name = self.target.name  # the name in error messages
        return sink

    @property
    def source(self) -> Source:
        """The finished draft as a source for reading."""
        return describe_source(self.path)

    def publish(self) -> None:
        """Gives the draft the name of the target. An existing file of that name is replaced."""
        if self._folder is None:
            with translating(self.target.name):
                give_name(self.path, self._place, self.target.name)
            return
        with open(self.path, "rb") as file:
            fill_sink(open_sink(self.target), iter(partial(file.read, PART_BYTES), b""))

    def __enter__(self) -> Draft:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder)
        elif os.path.lexists(self.path):
            os.unlink(self.path)


def exists(target: Source) -> bool:
    """Whether a file of this name exists."""
    try:
        reader = target.open()
    except FileNotFoundError:
        return False
    try:
        reader.size()
    except FileNotFoundError:
        return False
    finally:
        reader.close()
    return True
