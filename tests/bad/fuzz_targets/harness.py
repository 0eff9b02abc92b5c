"""Code that all fuzz targets share. It loads orcidx so that libFuzzer sees the branches, and starts libFuzzer.

A target is a script ``fuzz_NAME.py`` with a function ``one(data)``, which ignores the errors that orcidx raises on
purpose.
``.ci/fuzz NAME`` builds orcidx with sanitizers and runs the target. ``tests/bad/test_fuzz_targets.py`` calls the target
with its seeds, without atheris.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator

__all__ = ["RANDOM_BYTES", "Reader", "fuzz", "instrumented"]

RANDOM_BYTES = 4096
"""The default of libFuzzer for the length of the longest input."""


@contextlib.contextmanager
def instrumented(*rooms: str) -> Iterator[None]:
    """In this context, modules that are imported under a fuzzer get counters of their branches. ``rooms`` are the
    packages whose modules get counters. Without names, all modules of orcidx get counters. Modules that do not handle
    the input are imported outside of this context, because counters make them slower."""
    if "atheris" in sys.modules or _is_main():
        import atheris

        with atheris.instrument_imports(include=[*rooms] or ["orcidx"], enable_loader_override=False):
            yield
    else:
        yield


def _is_main() -> bool:
    main = getattr(sys.modules.get("__main__"), "__file__", None) or ""
    return "fuzz_" in main.rsplit("/", 1)[-1] and importlib.util.find_spec("atheris") is not None


def fuzz(one: Callable[[bytes], None]) -> None:
    """Runs libFuzzer with the arguments of the command line."""
    import atheris

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


class Reader:
    """Reads numbers from the start of the input. A target uses them to decide what it does with the rest. If the input
    is used up, the numbers are 0."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def below(self, stop: int) -> int:
        if self._at == len(self._data):
            return 0
        self._at += 1
        return self._data[self._at - 1] % stop

    def rest(self) -> bytes:
        return self._data[self._at :]
