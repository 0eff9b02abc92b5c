"""Extension modules: every ``.pyx`` under ``orcidx/`` is one extension.

Environment switches (see CONTRIBUTING.md):

``ORCIDX_DEBUG=1``     bounds checks, assertions and ``-Og -g1``
``ORCIDX_SANITIZE=1``  the debug build with AddressSanitizer and UBSan
``ORCIDX_FUZZ=1``      the same with libFuzzer's counters, for clang (``CC=clang``; tests/bad/fuzz_targets)
``ORCIDX_COVERAGE=1``  line tracing for ``coverage``
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

ROOT = Path(__file__).parent


def switch(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


FUZZ = switch("ORCIDX_FUZZ")
SANITIZE = switch("ORCIDX_SANITIZE") or FUZZ
DEBUG = switch("ORCIDX_DEBUG") or SANITIZE
COVERAGE = switch("ORCIDX_COVERAGE")

compile_args = ["-Og", "-g1", "-UNDEBUG", "-fno-omit-frame-pointer"] if DEBUG else ["-O3", "-g0"]
link_args: list[str] = []
if SANITIZE:
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    compile_args += flags
    link_args += flags
if FUZZ:
    compile_args += ["-O1", "-fsanitize=fuzzer-no-link"]
    link_args = ["-shared-libsan"]  # the runtime is preloaded, with libFuzzer in it
macros: list[tuple[str, str | None]] = [("CYTHON_TRACE_NOGIL", "1")] if COVERAGE else []

extensions = [
    Extension(
        ".".join(path.relative_to(ROOT).with_suffix("").parts),
        [str(path.relative_to(ROOT))],
        extra_compile_args=compile_args,
        extra_link_args=link_args,
        define_macros=macros,
    )
    for path in sorted((ROOT / "orcidx").rglob("*.pyx"))
]

SHARED = "orcidx._cython"
"""What typed memoryviews need, once instead of in each module: that halved the processor time of the build."""

extensions += [Extension(SHARED, sources=[], extra_compile_args=compile_args, extra_link_args=link_args)]

setup(
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
    ext_modules=cythonize(
        extensions,
        nthreads=os.cpu_count() or 1,
        shared_utility_qualified_name=SHARED,
        compiler_directives={
            "language_level": 3,
            "boundscheck": DEBUG,
            "wraparound": False,
            "initializedcheck": DEBUG,
            "cdivision": True,
            "embedsignature": True,
            "binding": True,
            "linetrace": COVERAGE,
        },
    ),
)
