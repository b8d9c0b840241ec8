#!/usr/bin/env bash
# Measures phitapd beside transformers and nnterp on the same weights.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
source deploy/progress.sh

PYTHON=$PWD/build/deps/venv/bin/python
STATE=$PWD/build/bench

usage() {
  cat <<'USAGE'
usage: tests/bench/run.sh [--quick] [--full] [--models DIR] [--binaries DIR] [--threads N]

Prints one JSON object a line, and leaves them in build/bench/results.jsonl and as a table in build/bench/results.md. Every comparison
is interleaved with transformers (and nnterp) in the same run; neighbour_cores in a line says what else the machine was doing. Builds the release
preset and makes the seeded random models where they are not there yet. Takes about four minutes on two quiet cores.

  --quick         one round of everything, to see that it works
  --full          also the 32-layer model (7.6 GB on disk, 10 GB of memory)
  --models DIR    where the models are or come to be: m8 (2.2 GB), tiny, m32; default build/bench-models
  --binaries DIR  measure the phitapd and bench_client that are there; builds nothing
  --threads N     of both sides; default the machine's cores
  --help          this text

examples:
  tests/bench/run.sh
  tests/bench/run.sh --full --models /scratch/phitap
  tests/bench/report.py build/bench/results.jsonl > tests/bench/results.md
USAGE
}

main() {
  local models=build/bench-models binaries='' threads measure=()
  threads=$(nproc)
  local full=''
  while [ $# -gt 0 ]; do
    case $1 in
      --quick) measure+=(--quick) ;;
      --full) full=1 ;;
      --models | --binaries | --threads)
        [ $# -ge 2 ] || fail "$1 needs a value; see --help"
        local "${1#--}=$2"
        shift
        ;;
      --help | -h) usage; exit 0 ;;
      *) fail "unknown option $1; see --help" ;;
    esac
    shift
  done
  mkdir -p "$STATE"
  if [ -z "$binaries" ]; then
    build >&2
    binaries=build/release/bin
  fi
  [[ -x $binaries/phitapd && -x $binaries/bench_client ]] || fail "no phitapd and bench_client in $binaries"
  make_model "$models/m8"
  make_model "$models/tiny" --tiny --dtype float32
  [ -z "$full" ] || { make_model "$models/m32" --layers 32; measure+=(--full "$models/m32"); }
  "$PYTHON" tests/bench/measure.py --binaries "$binaries" --model "$models/m8" --tiny "$models/tiny" --threads "$threads" \
    "${measure[@]}" | tee "$STATE/results.jsonl"
  "$PYTHON" tests/bench/report.py "$STATE/results.jsonl" >"$STATE/results.md"
  echo "the same as a table: $STATE/results.md" >&2
}

fail() {
  echo "run.sh: $*" >&2
  exit 2
}

build() {
  deploy/install-deps.sh --tests
  with_progress "configure" "$STATE/configure.log" cmake --preset release
  with_progress "build" "$STATE/build.log" cmake --build --preset release --target phitapd bench_client
  with_progress "install the Python client" "$STATE/pip.log" "$PYTHON" -m pip install --no-deps --no-build-isolation \
    --disable-pip-version-check --root-user-action=ignore -e client/python
}

# usage: make_model FOLDER OPTION...; its config.json is written last
make_model() {
  [ -e "$1/config.json" ] || "$PYTHON" tests/bench/make_model.py "$@" >&2
}

main "$@"
