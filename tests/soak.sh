#!/usr/bin/env bash
# The long versions of what tests/run.sh proves shortly, and what takes too long for it.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/progress.sh

PYTHON=$PWD/build/deps/venv/bin/python
RESULTS=$PWD/build/soak
PARTS=(fuzz chaos threads deploy)

usage() {
  cat <<'USAGE'
usage: tests/soak.sh [--minutes N] [--parts A,B] [--seed N]

Installs and builds what is missing, then:

  fuzz     every fuzz target of tests/fuzz, under the address and undefined-behaviour sanitizers; what it finds interesting is kept in
           build/fuzz/corpus and tried first the next time
  chaos    tests/chaos: servers whose clients are killed, cut off, slow or talk nonsense, whose files vanish, whose disk is full, whose
           clock is set, that run out of open files, are frozen and stopped under load; every request is accounted for
  threads  many threads at once under the thread sanitizer, again and again, each time with other seeds
  deploy   tests/deploy; the image of docker/Dockerfile built and run in a bare root, and systemd booted in one with the unit (as root)

Prints what each has found, and leaves figures as JSON in build/soak. Ends with status 1 where anything broke.

  --minutes N    of fuzz, of chaos and of threads; default 30
  --parts A,B    some of them; default all
  --seed N       of the chaos and of threads' first round; default 1
  --help         this text

examples:
  tests/soak.sh
  tests/soak.sh --minutes 480 --parts fuzz
  tests/soak.sh --minutes 5 --parts chaos
USAGE
}

main() {
  local minutes=30 parts=${PARTS[*]} seed=1 part failed=()
  while [ $# -gt 0 ]; do
    case $1 in
      --minutes | --parts | --seed)
        [ $# -gt 1 ] || fail "$1 needs a value; see --help"
        local "${1#--}=${2//,/ }"
        shift
        ;;
      --help | -h) usage; exit 0 ;;
      *) fail "unknown option $1; see --help" ;;
    esac
    shift
  done
  [[ $minutes =~ ^[0-9]+$ && $minutes -gt 0 ]] || fail "--minutes $minutes: a whole number from 1 on"
  for part in $parts; do
    [[ " ${PARTS[*]} " == *" $part "* ]] || fail "--parts: $part is none of ${PARTS[*]}"
  done
  mkdir -p "$RESULTS"
  deploy/install-deps.sh --tests --fuzz
  for part in $parts; do
    echo
    echo "== $part"
    "soak_$part" "$minutes" "$seed" || failed+=("$part")
  done
  echo
  [ ${#failed[@]} -eq 0 ] || { echo "broke: ${failed[*]}"; exit 1; }
  echo "nothing broke: $parts, $minutes minutes of each that has no end; figures in build/soak"
}

fail() {
  echo "soak.sh: $*" >&2
  exit 2
}

# usage: build PRESET TARGET...
build() {
  local preset=$1
  shift
  with_progress "configure $preset" "build/$preset/configure.log" cmake --preset "$preset" &&
    with_progress "build $preset: $*" "build/$preset/build.log" cmake --build --preset "$preset" --target "$@"
}

soak_fuzz() {
  local targets
  build fuzz fuzz_targets || return
  targets=$("$PYTHON" tests/fuzz/fuzz.py --count)
  # Some at a time, so that all together take the minutes.
  "$PYTHON" tests/fuzz/fuzz.py --seconds $(($1 * 60 * $(nproc) / targets)) --json "$RESULTS/fuzz.json"
}

soak_chaos() {
  build release phitapd phitap || return
  "$PYTHON" tests/chaos/chaos.py --minutes "$1" --seed "$2" --json "$RESULTS/chaos.json"
}

soak_threads() {
  local end=$((SECONDS + $1 * 60)) seed=$2 rounds=0
  build tsan load_tests || return
  while [ $rounds -eq 0 ] || [ $SECONDS -lt $end ]; do
    echo "round $((++rounds)), seed $seed"
    GTEST_RANDOM_SEED=$seed ctest --test-dir build/tsan --label-regex '^load$' --parallel 2 --no-tests=error --output-on-failure \
      >build/tsan/soak.log 2>&1 </dev/null || { cat build/tsan/soak.log; return 1; }
    seed=$(((seed + 1) % 100000))
  done
  echo "{\"rounds\": $rounds, \"first_seed\": $2}" >"$RESULTS/threads.json"
}

soak_deploy() {
  tests/deploy/install-tools.sh || return
  build release phitapd phitap || return
  "$PYTHON" -m pytest tests/deploy -q -rs || return
  tests/deploy/image_in_root.py || return
  tests/deploy/unit_in_root.py
}

main "$@"
