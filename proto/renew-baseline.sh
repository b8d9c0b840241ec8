#!/usr/bin/env bash
# Keeps the protocol as it is now as the one that later versions are held to.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

BUF=build/deps/venv/bin/buf

usage() {
  cat <<'USAGE'
usage: proto/renew-baseline.sh [--check]

Writes proto/baseline.binpb: the descriptors of proto/phitap/v1, without comments. tests/protocol refuses what takes anything of it
away, and so should whoever releases: run this when a version is released, and commit the file with it. Fields that are to go are
reserved first, number and name, and go with the next version of the package (phitap.v2).

  --check  writes nothing; says what a client of the last release would miss
  --help   this text

examples:
  deploy/install-deps.sh --tests && proto/renew-baseline.sh
  proto/renew-baseline.sh --check
USAGE
}

case ${1:-} in
  '') ;;
  --check) exec "$BUF" breaking proto --against proto/baseline.binpb ;;
  --help | -h) usage; exit 0 ;;
  *) echo "renew-baseline.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
[ -x "$BUF" ] || { echo "renew-baseline.sh: $BUF is not there: run deploy/install-deps.sh --tests" >&2; exit 1; }
"$BUF" build proto --exclude-source-info -o proto/baseline.binpb
echo "proto/baseline.binpb: $(stat -c %s proto/baseline.binpb) bytes"
