#!/usr/bin/env bash
# Builds phitap and runs every test; the last line counts them.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/progress.sh

RESULTS=$PWD/build/test-results
PYTHON=$PWD/build/deps/venv/bin/python
failed_steps=()

usage() {
  cat <<'USAGE'
usage: tests/run.sh [--quick | --release | --sanitize]

Installs what is missing, builds, runs the tests and ends with a line "N passed, N failed".
Exits with 1 if a test or a step failed. Each runner's own report is left in build/test-results.

  (no option)  all of the below
  --quick      the unit tests and the include table, release build
  --release    the release build: unit, integration, golden, both clients, the protocol against the last release
  --sanitize   the unit and integration tests under the address and undefined-behaviour sanitizers, many threads at once under the
               thread sanitizer, and some seconds of each fuzz target
  --help       this text

examples:
  tests/run.sh                                                # what CI runs
  tests/run.sh --quick                                        # between two edits
  ctest --test-dir build/release -R plan --output-on-failure  # some of them, once built
USAGE
}

main() {
  local part=all
  [ $# -le 1 ] || { usage >&2; exit 2; }
  case ${1:-} in
    '') ;;
    --quick | --release | --sanitize) part=${1#--} ;;
    --help | -h) usage; exit 0 ;;
    *) echo "run.sh: unknown option $1; see --help" >&2; exit 2 ;;
  esac
  rm -rf "$RESULTS"
  mkdir -p "$RESULTS"
  step install deploy/install-deps.sh --tests --fuzz
  case $part in
    quick) build release unit_tests && run_ctest release 'unit|layering' ;;
    release) test_release ;;
    sanitize) test_sanitized ;;
    all) test_release; test_sanitized ;;
  esac || true
  echo
  "$PYTHON" tests/count_results.py "$RESULTS" "${failed_steps[@]}"
}

test_release() {
  build release all || return
  run_ctest release 'unit|integration|layering'
  step "install the Python client" with_progress "install the Python client" "$RESULTS/pip.log" \
    "$PYTHON" -m pip install --no-deps --no-build-isolation --disable-pip-version-check --root-user-action=ignore -e client/python || return
  run_pytest protocol tests/protocol
  run_pytest client client/python/tests
  run_pytest golden tests/golden
  run_pytest served tests/integration
  run_pytest chaos tests/chaos
  step "install the tools of tests/deploy" tests/deploy/install-tools.sh || return
  run_pytest deploy tests/deploy
}

test_sanitized() {
  build asan unit_tests integration_tests && run_ctest asan 'unit|integration'
  build tsan load_tests && run_ctest tsan load
  build fuzz fuzz_targets && run_pytest fuzz tests/fuzz
}

# Runs a step that is no test itself; a failure counts as one, and the rest goes on.
# usage: step NAME COMMAND...
step() {
  local name=$1
  shift
  "$@" && return
  failed_steps+=("$name")
  return 1
}

# usage: build PRESET TARGET...
build() {
  local preset=$1
  shift
  step "configure $preset" with_progress "configure $preset" "build/$preset/configure.log" cmake --preset "$preset" || return
  step "build $preset" with_progress "build $preset: $*" "build/$preset/build.log" cmake --build --preset "$preset" --target "$@"
}

# usage: run_ctest PRESET LABELS
run_ctest() {
  local results=$RESULTS/$1
  mkdir -p "$results"
  echo
  echo "== ctest $1: $2"
  GTEST_OUTPUT="xml:$results/gtest/" step "ctest $1" ctest --test-dir "build/$1" --label-regex "^($2)\$" --parallel 2 --no-tests=error \
    --output-on-failure --output-junit "$results/ctest.xml" </dev/null || true
}

# usage: run_pytest NAME FOLDER
run_pytest() {
  [ -d "$2" ] || return 0
  mkdir -p "$RESULTS/pytest"
  echo
  echo "== pytest $2"
  step "pytest $1" "$PYTHON" -m pytest "$2" -q -rs \
    --junitxml="$RESULTS/pytest/$1.xml" </dev/null || true
}

main "$@"
