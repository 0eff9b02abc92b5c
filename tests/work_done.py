"""Measures the cost of a call by counting. A count is the same on any machine, even if it is busy."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import orcidx
from orcidx.orc.tail_reads import TailPattern, TailReads
from orcidx.scanner import reads_ahead
from orcidx.scanner import small_reads as reads

__all__ = ["check_calls", "python_calls", "small_reads"]


def _profiled(call: Callable[[], Any], note: Callable[[Any], None]) -> None:
    """Runs ``call``. ``note`` gets the frame of each Python function that this thread calls meanwhile, except
    finalizers, because they may belong to objects of other tests."""

    def hear(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name != "__del__":
            note(frame)

    gc.collect()
    before = sys.getprofile()
    gc.disable()
    sys.setprofile(hear)
    try:
        call()
    finally:
        sys.setprofile(before)
        gc.enable()


def _own_calls(call: Callable[[], Any]) -> Counter[str]:
    """Counts the calls of each Python function of the package, by ``module:function``."""
    inside = str(Path(orcidx.__file__).parent)
    found: Counter[str] = Counter()

    def count(frame: Any) -> None:
        if frame.f_code.co_filename.startswith(inside):
            found[f"{frame.f_code.co_filename[len(inside) + 1 :]}:{frame.f_code.co_name}"] += 1

    _profiled(call, count)
    return found


def python_calls(call: Callable[[], Any], *, own: bool = False) -> int:
    """Counts the calls of Python functions in this thread while ``call`` runs. ``own``: only functions of the
    package."""
    if own:
        return _own_calls(call).total()
    calls = 0

    def count(frame: Any) -> None:
        nonlocal calls
        calls += 1

    _profiled(call, count)
    return calls


def check_calls(call: Callable[[], Any], *, most: int, modules: int) -> None:
    """Fails if ``call`` makes more than ``most`` calls of the package's Python functions, or calls more than
    ``modules`` modules. The error names them."""
    found = _own_calls(call)
    through = {name.partition(":")[0] for name in found}
    assert found.total() <= most, f"{found.total()} calls, of at most {most}: {dict(sorted(found.items()))}"
    assert len(through) <= modules, f"{len(through)} modules, of at most {modules}: {sorted(through)}"


def small_reads(monkeypatch: pytest.MonkeyPatch, *, fail: bool = False) -> list[str]:
    """Returns a list of the paths of small files that are read, in the order of their reads. ``fail``: whether no file
    can be read."""
    paths: list[str] = []

    def read(found: list[str], pattern: TailPattern | None, **sizes: int) -> TailReads:
        paths.extend(found)
        return TailReads([] if fail else found, pattern, **sizes)

    for module in (reads, reads_ahead):
        monkeypatch.setattr(module, "TailReads", read)
    return paths
