# Building and making models, for run.sh and load.sh; sourced, not run. They set STATE and PYTHON.
# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0

build() {
  deploy/install-deps.sh --tests
  with_progress "configure" "$STATE/configure.log" cmake --preset release
  with_progress "build" "$STATE/build.log" cmake --build --preset release --target phitapd bench_client
  with_progress "install the Python client" "$STATE/pip.log" "$PYTHON" -m pip install --no-deps --no-build-isolation \
    --disable-pip-version-check --root-user-action=ignore -e client/python
}

# usage: make_model FOLDER NAME; its config.json is written last
make_model() {
  local options=()
  case $2 in
    m8) ;;
    tiny) options=(--tiny --dtype float32) ;;
    m32) options=(--layers 32) ;;
    *) fail "no model $2: m8, tiny or m32" ;;
  esac
  [ -e "$1/$2/config.json" ] || "$PYTHON" tests/bench/make_model.py "$1/$2" "${options[@]}" >&2
}

needs_value() {
  [ $# -ge 2 ] || fail "$1 needs a value; see --help"
}

# Every cannot-go-on of these scripts, before anything was measured.
fail() {
  echo "$(basename "$0"): $*" >&2
  exit 2
}
