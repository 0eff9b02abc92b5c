"""Notes how many rows of small files are tested in one call, and turns testing several files together off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orcidx.scanner import small_groups
from orcidx.scanner.small_filter import SmallFilter

__all__ = ["rows_of_each_test", "separately"]


def rows_of_each_test(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list to which each later test of rows adds their number."""
    numbers: list[int] = []
    real = SmallFilter.test

    def test(self: SmallFilter, asked: Any, rows: int) -> Any:
        numbers.append(rows)
        return real(self, asked, rows)

    monkeypatch.setattr(SmallFilter, "test", test)
    return numbers


def separately(monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any]) -> Any:
    """Returns the result of ``call`` if the rows of each file are tested alone."""
    with monkeypatch.context() as patch:
        patch.setattr(small_groups, "ENABLED", False)
        return call()
