"""What a call costs, counted rather than timed: a count is the same on any machine, however busy."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orcidx

__all__ = ["modules_called", "python_calls"]


def _profiled(call: Callable[[], Any], note: Callable[[Any, str, Any], None]) -> None:
    """Runs ``call``, of whose Python functions ``note`` is told. Garbage of other tests is not collected meanwhile: its
    finalizers would be told of as well."""
    before = sys.getprofile()
    gc.disable()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
        gc.enable()


def python_calls(call: Callable[[], Any], *, own: bool = False) -> int:
    """Calls of Python functions while ``call`` runs, in this thread. ``own``: of the package's alone."""
    calls = 0
    inside = str(Path(orcidx.__file__).parent) if own else ""

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.startswith(inside)

    _profiled(call, count)
    return calls


def modules_called(call: Callable[[], Any]) -> int:
    """Modules of the package whose Python functions are called while ``call`` runs, in this thread."""
    inside, found = str(Path(orcidx.__file__).parent), set()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(inside):
            found.add(frame.f_code.co_filename)

    _profiled(call, note)
    return len(found)
