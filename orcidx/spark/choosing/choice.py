"""``Choice``: the engine that reads a DataFrame, and the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from orcidx.predicate import Predicate
from orcidx.spark.conditions.key_frames import Keys
from orcidx.spellings import size_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["Choice", "Chosen", "Engine", "Unreadable"]

Engine = Literal["auto", "spark", "orcidx"]


class Unreadable(Exception):
    """Raised if Spark cannot make a relation of a path. The text is Spark's message."""


@dataclass(frozen=True)
class Choice:
    """The engine that reads a DataFrame, the reason, and what was skipped. ``str()`` returns a sentence or two.

    ``files`` and ``bytes`` are the number and the bytes of the listed files. ``files_left`` and ``bytes_left`` are the
    number and the bytes of the files that are read. ``by``: how many files were ruled out by statistics, by partition
    values, by file indexes, and so on. The numbers are None if they are known only when the engine runs."""

    engine: Literal["spark", "orcidx"]
    reason: str
    files: int | None = None
    files_left: int | None = None
    bytes: int | None = None
    bytes_left: int | None = None
    by: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        who = "Spark's reader" if self.engine == "spark" else "orcidx"
        text = f"{who} reads the data: {self.reason}"
        if self.files is not None:
            sizes = f"{size_text(self.bytes_left or 0)} of {size_text(self.bytes or 0)}"
            text += f"; {self.files_left:,} of {self.files:,} files are read, which store {sizes}"
        if self.by:
            text += " (" + ", ".join(f"{count:,} ruled out by {name}" for name, count in self.by.items()) + ")"
        return "\n".join((text, *self.notes))


@dataclass(frozen=True)
class Chosen:
    """A choice, and the data that are needed to carry it out. If Spark reads, this is the DataFrame ``frame``. If
    orcidx reads, ``where`` is the predicate for pruning, and ``needed`` has the columns that are read. Spark tests
    ``condition`` and ``keys`` afterwards. ``types`` has the types with which Spark reads the columns in ``needed``. If
    orcidx would read one of these columns with another type, the choice ``instead`` is used."""

    choice: Choice
    frame: DataFrame | None = None
    where: Predicate | None = None
    needed: tuple[str, ...] | None = None
    condition: Column | str | None = None
    keys: tuple[Keys, ...] = ()
    types: tuple[tuple[str, str], ...] = ()
    instead: Callable[[], Chosen] | None = None
