#!/usr/bin/env bash
# Puts phitapd under load and watches its failures, memory and waits.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
source deploy/progress.sh
source tests/bench/prepare.sh

PYTHON=$PWD/build/deps/venv/bin/python
STATE=$PWD/build/bench

usage() {
  cat <<'USAGE'
usage: tests/bench/load.sh [--minutes N] [--model NAME] [--models DIR] [--binaries DIR] [--threads N] [--most-growth SHARE]
                           [--rules A,B] [--server-flag FLAG]...

64 clients at once: small traces, sweeps, generation, some that cancel or have no time, and processes that are killed. Every answer is
compared with the same request's alone. Prints a table, leaves it as JSON in build/bench/load.json, and fails where something failed or
differed that no client caused, where the server's memory grows, or where small requests wait for more than about a layer of the largest
wave. Builds the release preset and makes the model where they are not there yet.

  --minutes N        how long; default 10
  --model NAME       m8 (8 layers of full width, 2.2 GB; the default) or tiny
  --models DIR       where the models are or come to be; default build/bench-models
  --binaries DIR     put the phitapd there under load; builds nothing
  --threads N        of the server; default the machine's cores
  --most-growth SHARE   of resident memory in the second half; default 0.02
  --rules A,B        what makes it fail: failures, memory, waits; default all. A minute is too short for memory, and a machine where
                     others work for waits
  --server-flag FLAG one more of phitapd's; repeatable
  --help             this text

examples:
  tests/bench/load.sh
  tests/bench/load.sh --minutes 1 --model tiny --rules failures
USAGE
}

main() {
  local models=build/bench-models model=m8 binaries='' threads pass=()
  threads=$(nproc)
  while [ $# -gt 0 ]; do
    case $1 in
      --minutes | --most-growth | --rules | --server-flag)
        needs_value "$@"
        pass+=("$1=$2")
        shift
        ;;
      --minutes=* | --most-growth=* | --rules=* | --server-flag=*) pass+=("$1") ;;
      --model | --models | --binaries | --threads)
        needs_value "$@"
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
  make_model "$models" "$model"
  exec "$PYTHON" tests/bench/load.py --binaries "$binaries" --model "$models/$model" --threads "$threads" --json "$STATE/load.json" \
    "${pass[@]}"
}

main "$@"
