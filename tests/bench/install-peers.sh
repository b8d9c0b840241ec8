#!/usr/bin/env bash
# Installs what phitap is measured beside, each library in an environment of its own that sees the test environment's torch.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
source deploy/progress.sh

STATE=$PWD/build/bench
VENV=$PWD/build/deps/venv
LIBTORCH=$PWD/build/deps/libtorch
# transformers and nnterp are in the test environment already.
PEERS=(transformer-lens interp-engine)

usage() {
  cat <<'USAGE'
usage: tests/bench/install-peers.sh [--help]

Installs TransformerLens and interp-engine, pinned, under build/bench/peers (0.4 GB), on top of the test environment that
deploy/install-deps.sh --tests makes. Nothing is touched that is there already. run.sh calls it.

example:
  tests/bench/install-peers.sh && build/bench/peers/interp-engine/bin/python -c 'import interp_engine'
USAGE
}

main() {
  case ${1:-} in
    '') ;;
    --help | -h) usage; exit 0 ;;
    *) echo "install-peers.sh: unknown option $1; see --help" >&2; exit 2 ;;
  esac
  local peer
  for peer in "${PEERS[@]}"; do
    install_peer "$peer" "tests/bench/peers/$peer.txt"
  done
}

# usage: install_peer NAME REQUIREMENTS
install_peer() {
  local folder=$STATE/peers/$1
  if cmp -s "$2" "$folder/installed-requirements.txt"; then
    echo "$1: is in $folder"
    return
  fi
  [ -x "$VENV/bin/python" ] || { echo "install-peers.sh: no test environment; run deploy/install-deps.sh --tests" >&2; exit 1; }
  rm -rf "$folder"
  /usr/bin/python3 -m venv "$folder"
  # The test environment's own path file, which leads to libtorch, is not read from there.
  printf '%s\n' "$(purelib "$VENV")" "$LIBTORCH" >"$(purelib "$folder")/test-environment.pth"
  with_progress "install $1" "$STATE/install-$1.log" "$folder/bin/python" -m pip install --no-deps --only-binary=:all: \
    --disable-pip-version-check --root-user-action=ignore -r "$2"
  cp "$2" "$folder/installed-requirements.txt"
}

purelib() {
  "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
}

main "$@"
