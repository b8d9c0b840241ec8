# Progress of long steps, for the scripts of deploy/ and tests/; sourced, not run.
# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0

# Runs a command with its output in a file, and shows that it is alive: on a terminal the seconds and the last line written, elsewhere
# a dot every two seconds. Prints the end of the file if the command fails, and returns its status.
# usage: with_progress LABEL LOG COMMAND...
with_progress() {
  local label=$1 log=$2 started=$SECONDS status=0 runner last
  shift 2
  mkdir -p "$(dirname "$log")"
  printf '%s' "$label"
  # In a process group of its own, so that a script that is interrupted takes the whole step along.
  set -m
  "$@" >"$log" 2>&1 </dev/null &
  runner=$!
  set +m
  trap 'kill -- "-$runner" 2>/dev/null; exit 130' INT TERM
  while sleep_or_end 2 "$runner"; do
    if [ -t 1 ]; then
      last=$(tail -c 400 "$log" | tr '\r' '\n' | grep -v '^ *$' | tail -n 1)
      printf '\r\033[K%s: %d s  %.60s' "$label" $((SECONDS - started)) "$last"
    else
      printf '.'
    fi
  done
  wait "$runner" || status=$?
  trap - INT TERM
  [ -t 1 ] && printf '\r\033[K%s' "$label"
  if [ "$status" -ne 0 ]; then
    printf ' failed after %d s; the last lines of %s:\n' $((SECONDS - started)) "$log"
    tail -n 40 "$log"
  else
    printf ' %d s\n' $((SECONDS - started))
  fi
  return "$status"
}

# Waits so many seconds, in steps of a fifth; false as soon as the process has ended.
sleep_or_end() {
  local steps=$(($1 * 5))
  while [ "$steps" -gt 0 ]; do
    kill -0 "$2" 2>/dev/null || return 1
    sleep 0.2
    steps=$((steps - 1))
  done
  kill -0 "$2" 2>/dev/null
}
