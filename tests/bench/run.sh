#!/usr/bin/env bash
# Measures phitapd beside other libraries on the same weights.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
source deploy/progress.sh
source tests/bench/prepare.sh

PYTHON=$PWD/build/deps/venv/bin/python
STATE=$PWD/build/bench

usage() {
  cat <<'USAGE'
usage: tests/bench/run.sh [--quick] [--rounds N] [--only TASK]... [--keep] [--peers A,B] [--load MINUTES] [--full] [--publish]
                          [--models DIR] [--model NAME] [--binaries DIR] [--threads N] [--server-flag FLAG]...

Measures phitapd through gRPC beside transformers with hooks, nnterp, TransformerLens and interp-engine on the same weights. Leaves one
JSON object a line in build/bench/results.jsonl, and prints what build/bench/results.md has then: the tables. Every comparison is interleaved in the same
run, and its values are compared. Builds the release preset, installs the libraries and makes the seeded random models where they are
not there yet. Takes about twenty minutes and 16 GB of memory on two quiet cores.

  --quick         one round of everything, to see that it works
  --rounds N      rounds of every comparison; default 7 for the short ones, 3 for the long
  --only TASK     this task alone; repeatable. load, memory_512, overhead, stream; forward_128, forward_512, forward_2048,
                  layer_outputs_512, one_layer_512; layers_last_64, layers_last_512, layers_last_512_from_256, layers_positions_64, layers_positions_64_from_32;
                  clients_16_capture_each, clients_16_capture; edits_400, attribution_64, steer_generate_32, attention_256
  --keep          keep the earlier results of tasks that are not measured now
  --peers A,B     these libraries: transformers (always), nnterp, transformer_lens, interp_engine; default all
  --load MINUTES  then load.sh for so long; its table comes last
  --publish       write the tables to tests/bench/results.md and into README.md
  --full          also the 32-layer model (7.6 GB on disk, 10 GB of memory)
  --models DIR    where the models are or come to be: m8 (2.2 GB), tiny, m32; default build/bench-models
  --model NAME    measure this one of them instead of m8
  --binaries DIR  measure the phitapd and bench_client that are there; builds nothing
  --threads N     of every side; default the machine's cores
  --server-flag FLAG   one more of phitapd's; repeatable
  --help          this text

examples:
  tests/bench/run.sh
  tests/bench/run.sh --load 10 --publish
  tests/bench/run.sh --only forward_512 --peers transformers --rounds 3
  tests/bench/run.sh --quick --model tiny --server-flag=--max-root-bytes=0
USAGE
}

main() {
  local models=build/bench-models model=m8 binaries='' threads rounds='' full='' load='' publish='' keep='' measure=()
  threads=$(nproc)
  while [ $# -gt 0 ]; do
    case $1 in
      --quick) rounds=1 ;;
      --full | --publish | --keep) local "${1#--}=1" ;;
      --only | --peers | --server-flag)
        needs_value "$@"
        measure+=("$1=$2")
        shift
        ;;
      --only=* | --peers=* | --server-flag=*) measure+=("$1") ;;
      --models | --model | --binaries | --threads | --rounds | --load)
        needs_value "$@"
        local "${1#--}=$2"
        shift
        ;;
      --help | -h) usage; exit 0 ;;
      *) fail "unknown option $1; see --help" ;;
    esac
    shift
  done
  [ -z "$rounds" ] || measure+=("--rounds=$rounds")
  mkdir -p "$STATE"
  if [ -z "$binaries" ]; then
    build >&2
    binaries=build/release/bin
  fi
  [[ -x $binaries/phitapd && -x $binaries/bench_client ]] || fail "no phitapd and bench_client in $binaries"
  tests/bench/install-peers.sh >&2
  make_model "$models" "$model"
  make_model "$models" tiny
  [ -z "$full" ] || { make_model "$models" m32; measure+=(--full "$models/m32"); }
  [ -n "$keep" ] || : >"$STATE/results.jsonl"
  local status=0 results=("$STATE/results.jsonl")
  "$PYTHON" tests/bench/measure.py --binaries "$binaries" --model "$models/$model" --tiny "$models/tiny" --threads "$threads" \
    "${measure[@]}" >>"$STATE/results.jsonl" || status=$?
  if [ -n "$load" ]; then
    tests/bench/load.sh --minutes "$load" --models "$models" --model "$model" --binaries "$binaries" --threads "$threads" >&2 || status=$?
    results+=("$STATE/load.json")
  fi
  "$PYTHON" tests/bench/report.py "${results[@]}" | tee "$STATE/results.md"
  if [ -n "$publish" ]; then
    cp "$STATE/results.md" tests/bench/results.md
    "$PYTHON" tests/bench/report.py --readme README.md tests/bench/results.md
  fi
  echo "JSON: ${results[*]}; this table: $STATE/results.md" >&2
  return "$status"
}

main "$@"
