#!/usr/bin/env bash
# Builds the targets of tests/bad/fuzz_targets as OSS-Fuzz has it: run in the top of the checkout, with OUT and WORK, the
# compiler in CC, the sanitizer in SANITIZER and its flags in CFLAGS, and compile_python_fuzzer in PATH
# (base-builder-python sets all of them). Leaves $OUT/fuzz_NAME, which starts a packed target, and its seeds in
# $OUT/fuzz_NAME_seed_corpus.zip.
set -eu
: "${OUT:?}" "${WORK:?}" "${CC:?}"

python3 -m pip install -q "setuptools>=77" "Cython>=3.1" atheris pyorc # before the flags: nothing of these is built here
# The sanitizer comes by CFLAGS alone (ORCIDX_FUZZ would add flags of its own); the debug build has the bounds checks.
ORCIDX_DEBUG=1 LDSHARED="$CC -shared ${CFLAGS:-}" python3 -m pip install -q --no-build-isolation .

# Sanitized extensions load behind the runtime only. The folder is left, whose package has no extensions.
checkout=$PWD
runtime=$(python3 -c 'import atheris; print(atheris.path())')
case ${SANITIZER:-address} in undefined) runtime+=/ubsan_with_fuzzer.so ;; *) runtime+=/asan_with_fuzzer.so ;; esac
(cd "$WORK" && env LD_PRELOAD="$runtime" ASAN_OPTIONS=detect_leaks=0 PYTHONPATH="$checkout/tests" \
    python3 -m bad.fuzz_targets.seeds "$WORK/seeds")

for target in tests/bad/fuzz_targets/fuzz_*.py; do
    name=$(basename "$target" .py)
    compile_python_fuzzer "$target" --paths tests --collect-submodules orcidx
    (cd "$WORK/seeds/${name#fuzz_}" && find . -type f -print | zip -q -@ "$OUT/${name}_seed_corpus.zip")
done
