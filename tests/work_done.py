"""What a call costs, counted rather than timed: a count is the same on any machine, however busy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["python_calls"]


def python_calls(call: Callable[[], Any]) -> int:
    """Calls of Python functions while ``call`` runs, in this thread."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(before)
    return calls
