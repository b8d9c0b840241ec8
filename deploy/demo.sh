#!/usr/bin/env bash
# From a bare Debian 12 to a served model and a look inside it: installs, builds, starts the server, traces a prompt, finds a circuit.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/progress.sh

PROMPT="When Mary and John went to the store, John gave a drink to"
# The same with the giver exchanged, so that John is to get the drink.
OTHER_PROMPT="When Mary and John went to the store, Mary gave a drink to"
STATE=$PWD/build/demo
SERVER_LOG=$STATE/phitapd.log
ADDRESS_FILE=$STATE/address
START_LIMIT_S=60

usage() {
  cat <<'USAGE'
usage: deploy/demo.sh [--serve] [--port PORT]

Installs what is missing, builds the server and the command line, serves the model of deploy/demo-model on the loopback interface,
traces a prompt in it and patches one prompt's values into another's to see which of them carry the answer. A second run only does the
last three, in seconds.

  --serve      leave the server running, and say how to talk to it
  --port PORT  listen there; by default on a free port, so that it does not disturb another server
  --help       this text

examples:
  deploy/demo.sh
  deploy/demo.sh --serve --port 7777
USAGE
}

main() {
  local serve='' port=0
  while [ $# -gt 0 ]; do
    case $1 in
      --serve) serve=1 ;;
      --port) port=${2:-}; shift ;;
      --help | -h) usage; exit 0 ;;
      *) fail "unknown option $1; see --help" ;;
    esac
    shift
  done
  [[ $port =~ ^[0-9]{1,5}$ ]] && ((10#$port <= 65535)) || fail "--port '$port' is not a port: 0 (a free one) to 65535"
  deploy/install-deps.sh
  build
  start_server "$port"
  show
  if [ -n "$serve" ]; then leave_running; else stop_server; fi
}

fail() {
  echo "demo.sh: $*" >&2
  exit 1
}

build() {
  with_progress "configure" "$STATE/configure.log" cmake --preset release
  with_progress "build phitapd and phitap" "$STATE/build.log" cmake --build --preset release --target phitapd phitap
}

# Sets SERVER_PID and PHITAP_SERVER, which the command line reads.
start_server() {
  rm -f "$ADDRESS_FILE"
  # In a session of its own: with --serve it outlives the terminal.
  setsid build/release/bin/phitapd --model demo=deploy/demo-model --listen "127.0.0.1:$1" --address-file "$ADDRESS_FILE" \
    >"$SERVER_LOG" 2>&1 </dev/null &
  SERVER_PID=$!
  trap stop_server EXIT
  with_progress "start phitapd" "$STATE/start.log" wait_for_address
  PHITAP_SERVER=$(cat "$ADDRESS_FILE")
  export PHITAP_SERVER
}

# The server writes its address when it answers there.
wait_for_address() {
  local limit=$((SECONDS + START_LIMIT_S))
  until [ -s "$ADDRESS_FILE" ]; do
    if ! kill -0 "$SERVER_PID" 2>/dev/null || [ "$SECONDS" -ge "$limit" ]; then
      tail -n 30 "$SERVER_LOG"
      return 1
    fi
    sleep 0.05
  done
}

stop_server() {
  trap - EXIT
  kill "$SERVER_PID" 2>/dev/null || return 0
  wait "$SERVER_PID" || fail "phitapd ended with status $?; see $SERVER_LOG"
}

show() {
  say phitap models
  say phitap trace --model demo --prompt "$PROMPT" --capture layers.2.attention_probabilities --queries -1
  say phitap trace --model demo --prompt "$PROMPT" --capture 'layers.*.layer_output' --lens 3
  say phitap sweep --model demo --run "clean=$PROMPT" --run "corrupt=$OTHER_PROMPT" \
    --intervene 'corrupt: layers.*.layer_input set run=clean' --metric 'logit-diff: Mary, John'
  cat <<'TEXT'

Each cell is a run of the second prompt with one layer's input at one token taken from the first: 0 changes nothing, 100 turns the answer
from John to Mary. Read it upwards: all depends on the second name, layer 0 copies it on to the verb, layers 2 to 5 move it to the end.
TEXT
}

# Prints a command as one would type it, and runs it.
say() {
  local argument
  printf '\n$'
  for argument in "$@"; do
    if [[ $argument =~ ^[A-Za-z0-9_.:=/@,-]+$ ]]; then printf ' %s' "$argument"; else printf " '%s'" "$argument"; fi
  done
  printf '\n'
  "build/release/bin/$1" "${@:2}"
}

leave_running() {
  trap - EXIT
  disown "$SERVER_PID"
  cat <<TEXT

The server goes on at $PHITAP_SERVER (process $SERVER_PID, log $SERVER_LOG). Talk to it:

  export PHITAP_SERVER=$PHITAP_SERVER
  build/release/bin/phitap hooks demo                  # every place in the model that can be read
  build/release/bin/phitap trace --help
  build/release/bin/phitap generate -p 'When Mary and John went' -i 'layers.2.layer_output scale 1.5'
  python3: phitap.Client("$PHITAP_SERVER").trace("When Mary and John went", captures=["logits"], model="demo")

Stop it:

  kill $SERVER_PID
TEXT
}

main "$@"
