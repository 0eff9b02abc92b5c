"""Methods of scans with the names of data frame methods. ``filter``, ``select`` and ``limit`` return another scan.
``count`` returns the number of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from orcidx.errors import InvalidQuery
from orcidx.planner.query_words import asked_columns, asked_limit
from orcidx.predicate import Where, all_of, parse
from orcidx.spellings import SCAN, missing_attribute

__all__ = ["Narrowing", "RequestNarrowing"]


class Narrowing(ABC):
    """Methods of a frozen scan with the field ``row_limit``. Methods that return another scan do not read data."""

    row_limit: int | None

    @property
    def _asked(self) -> Any:
        """The object that has the fields ``where``, ``columns`` and ``options`` of the scan."""
        return self

    def _asking(self, **changes: Any) -> Self:
        """A copy of the scan. ``changes`` replaces some of the fields ``where``, ``columns`` and ``options``."""
        return self._with(**changes)

    @abstractmethod
    def count_rows(self) -> int:
        """The number of rows. If metadata and indexes prove this number, nothing else is read.

        Returns
        -------
        int
        """

    def count(self) -> int:
        """The same number as ``count_rows()``. ``count`` is Spark's name.

        Returns
        -------
        int
        """
        return self.count_rows()

    def limit(self, n: int) -> Self:
        """A scan of the first rows of this scan.

        Parameters
        ----------
        n : int
            The maximum number of rows.

        Returns
        -------
        a scan of the same class

        Raises
        ------
        InvalidQuery
            ``n`` is negative.
        """
        n = asked_limit(n, "n of limit")
        return self._with(row_limit=n if self.row_limit is None else min(n, self.row_limit))

    def filter(self, where: Where) -> Self:
        """A scan of the rows of this scan for which a predicate is true.

        Parameters
        ----------
        where : Predicate, str, pyarrow.compute.Expression or list of tuples
            As in ``OrcFile.scan``. It may use any column of the files.

        Returns
        -------
        a scan of the same class

        Raises
        ------
        InvalidQuery
            This scan has a limit. It would be unclear whether the filter or the limit is applied first.
        """
        if self.row_limit is not None:
            raise InvalidQuery("a scan with a limit cannot be filtered: call filter(...) first, then limit(n)")
        old, more = self._asked.where, parse(where)
        return self._asking(where=more if old is None else all_of(old, more))

    def select(self, *columns: str | Sequence[Any]) -> Self:
        """A scan of some columns of this scan.

        Parameters
        ----------
        *columns : str, or one list
            Several names, or one list of names and paths.

        Returns
        -------
        a scan of the same class

        Raises
        ------
        InvalidQuery
            This scan does not have such a column. A scan of all columns raises the error only when its rows are read.
        """
        names: Any = columns[0] if len(columns) == 1 and isinstance(columns[0], list) else list(columns)
        return self._selecting(names)

    def _selecting(self, names: Sequence[Any]) -> Self:
        asked = self._asked
        chosen = asked_columns(names, case_sensitive=asked.options.case_sensitive) or ()
        if asked.columns is not None and (missing := [one for one in chosen if one not in asked.columns]):
            raise InvalidQuery(f"the scan has no column {missing[0]!r}; it has {list(asked.columns)!r:.200}")
        return self._asking(columns=chosen)

    def _with(self, **changes: Any) -> Self:
        changed: Any = replace(self, **changes)  # type: ignore[type-var]
        return changed  # type: ignore[no-any-return]

    if not TYPE_CHECKING:  # hidden from type checkers, so they can find misspelt names

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # the property exists, but raised an error: raise the same error again
                return object.__getattribute__(self, name)
            raise missing_attribute(f"a {type(self).__name__}", name, SCAN)

        def __getitem__(self, key: object) -> Any:
            say = "limit(n), or row_range=(start, stop) of one file" if isinstance(key, slice) else "select(...)"
            shown = "start:stop" if isinstance(key, slice) else repr(key)[:80]
            raise TypeError(f"a {type(self).__name__} does not support [{shown}]; use {say}")


class RequestNarrowing(Narrowing):
    """Methods of a scan that has a ``ScanRequest`` in the field ``request``."""

    request: Any

    @property
    def _asked(self) -> Any:
        return self.request

    def _asking(self, **changes: Any) -> Self:
        return self._with(request=replace(self.request, **changes))

    def _selecting(self, names: Sequence[Any]) -> Self:
        """Selects columns, including added columns such as row numbers. Added columns are not columns of the files.
        Their names must come last."""
        request = self.request
        added = [name for name in (request.row_numbers, request.file_path) if name is not None]
        kept = [name for name in names if name in added]
        if list(names[len(names) - len(kept) :]) != [name for name in added if name in kept]:
            raise InvalidQuery(
                "columns that are not in the files must be the last columns; name them in the order "
                f"{', '.join(map(repr, added))}"
            )
        scan = super()._selecting(names[: len(names) - len(kept)])
        left = {
            field: getattr(request, field) if getattr(request, field) in kept else None
            for field in ("row_numbers", "file_path")
        }
        return scan._asking(**left)
