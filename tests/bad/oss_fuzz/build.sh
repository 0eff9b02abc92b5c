#!/usr/bin/env bash
# Builds the targets of tests/bad/fuzz_targets for OSS-Fuzz. Run it in the top of the checkout, with OUT and WORK, the
# compiler in CC, the sanitizer in SANITIZER, its flags in CFLAGS, and compile_python_fuzzer in PATH. The image
# base-builder-python sets all of them. For each target, $OUT/fuzz_NAME starts the packed target, and
# $OUT/fuzz_NAME_seed_corpus.zip has its seeds.
set -eu
: "${OUT:?}" "${WORK:?}" "${CC:?}"

python3 -m pip install -q "setuptools>=77" "Cython>=3.1" atheris pyorc # all have wheels, so CFLAGS is not used
# CFLAGS turns on the sanitizer, because ORCIDX_FUZZ would add other flags. The debug build has the bounds checks.
ORCIDX_DEBUG=1 LDSHARED="$CC -shared ${CFLAGS:-}" python3 -m pip install -q --no-build-isolation .

# Extensions with a sanitizer can only be loaded if its runtime is loaded before. The script runs in another folder,
# because the package in the checkout has no extensions.
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
