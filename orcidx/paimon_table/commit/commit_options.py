"""``CommitOptions``: the user of a commit, how many times the commit is tried, and what the caller guarantees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from typing import Any, TypedDict, TypeVar

from orcidx.errors import InvalidQuery
from orcidx.paimon_table.read.jvm_instants import check_zone
from orcidx.spellings import READING, unknown_keyword

__all__ = ["CommitOptions", "CommitOptionsByName"]

T = TypeVar("T")
LARGEST_IDENTIFIER = (1 << 63) - 1


@dataclass(frozen=True, kw_only=True)
class CommitOptions:
    """Options that every change of a table accepts as keywords. Raises ``InvalidQuery`` for invalid values.

    Examples
    --------
    >>> from orcidx.paimon import CommitOptions
    >>> CommitOptions(commit_user="loader", identifier=7).retries is None
    True
    """

    commit_user: str | None = None
    """The user that snapshots record. None: ``commit.user-prefix`` or "orcidx", and a random UUID."""
    identifier: int | None = None
    """With ``commit_user`` and ``identifier``, a change happens only once: a second call with both values returns the
    first commit. If snapshots have expired, ``since`` must say from which snapshot on this commit is searched for."""
    since: int | None = None
    """The newest snapshot before the first call with this ``commit_user`` and ``identifier``. 0 means that there was no
    snapshot."""
    retries: int | None = None
    """How many times a commit is tried again after another writer has created the next snapshot first. None: the
    table's ``commit.max-retries``, by default 10."""
    timeout: float | None = None
    """Seconds after which no further try starts. None: the table's ``commit.timeout``, by default no limit."""
    lock: AbstractContextManager[Any] | None = None
    """A lock that is held while the snapshot is written, for a storage that cannot create a file exclusively."""
    single_writer: bool = False
    """The caller guarantees that nobody else commits during the change. Then a storage that cannot create a file
    exclusively needs no lock."""
    allow_options: tuple[str, ...] = ()
    """Names of table options and snapshot fields that orcidx does not know, but that the caller knows to be
    harmless."""
    jvm_zone: str | None = None
    """"UTC": the caller guarantees that every JVM that writes or reads the table's ORC files with TIMESTAMP WITH LOCAL
    TIME ZONE runs in UTC. In another zone, the stored instants depend on the zone, unless the table option
    ``orc.timestamp-ltz.legacy.type`` is false."""

    progress: Callable[[int, int], Any] | None = None
    """A function that an index rewrite or a delete calls after each file. Its arguments are the number of finished
    files and the number of all files."""

    def __post_init__(self) -> None:
        given: Any = self.allow_options
        if isinstance(given, str):
            raise InvalidQuery(f"allow_options must be a list; give [{given!r}]")
        object.__setattr__(self, "allow_options", tuple(self.allow_options))
        if self.identifier is not None and not self.commit_user:
            raise InvalidQuery(
                "identifier is given without commit_user, but only both together identify a commit; give both"
            )
        if self.identifier is not None and not 0 <= self.identifier < LARGEST_IDENTIFIER:
            raise InvalidQuery(f"identifier must be from 0 to {LARGEST_IDENTIFIER - 1}, but is {self.identifier}")
        if self.since is not None and self.identifier is None:
            raise InvalidQuery(
                "since= is given without identifier=, but it only says where the search for a commit with an "
                "identifier starts; give both, or leave out since="
            )
        if self.since is not None and self.since < 0:
            raise InvalidQuery(f"since is {self.since}, but must be 0 or the number of a snapshot")
        if self.retries is not None and self.retries < 0:
            raise InvalidQuery(f"retries must not be negative, but is {self.retries}")
        object.__setattr__(self, "jvm_zone", check_zone(self.jvm_zone))
        if self.jvm_zone not in (None, "UTC"):
            raise InvalidQuery(
                f'jvm_zone must be "UTC", but is {self.jvm_zone!r}: orcidx does not know which instants a JVM in '
                "another zone would store"
            )

    @classmethod
    def of(cls, given: CommitOptionsByName) -> CommitOptions:
        """Makes the options from keywords.

        Parameters
        ----------
        given : mapping
            Fields of ``CommitOptions`` by name.

        Returns
        -------
        CommitOptions

        Raises
        ------
        InvalidQuery
            A keyword is unknown, or a value is not allowed.
        """
        names = [field.name for field in fields(cls)]
        if unknown := sorted(given.keys() - set(names)):
            raise unknown_keyword(unknown[0], names, READING)
        return cls(**given)

    def counted(self, tasks: Sequence[T]) -> Iterator[T]:
        """Yields the tasks in turn, and calls ``progress`` when each task is done.

        Parameters
        ----------
        tasks : sequence
            Any values.

        Yields
        ------
        object
            Each of the tasks.
        """
        for number, task in enumerate(tasks, 1):
            yield task
            if self.progress is not None:
                self.progress(number, len(tasks))

    def named(self, user: str) -> CommitOptions:
        """Returns the options with a user. A user that the options already have is kept.

        Parameters
        ----------
        user : str
            The user, if the options have none.

        Returns
        -------
        CommitOptions
        """
        return self if self.commit_user else replace(self, commit_user=user)


class CommitOptionsByName(TypedDict, total=False):
    """The fields of ``CommitOptions`` as keywords. A test checks that both classes have the same fields."""

    commit_user: str | None
    identifier: int | None
    since: int | None
    retries: int | None
    timeout: float | None
    lock: AbstractContextManager[Any] | None
    single_writer: bool
    allow_options: tuple[str, ...]
    jvm_zone: str | None
    progress: Callable[[int, int], Any] | None
