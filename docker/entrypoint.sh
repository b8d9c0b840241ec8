#!/bin/sh
# Flags are phitapd's; anything else is a command of the image: `docker run IMAGE phitap --help`.
# SPDX-License-Identifier: Apache-2.0
set -eu
case ${1:-} in
  '' | -*) exec /opt/phitap/bin/phitapd "$@" ;;
  *) exec "$@" ;;
esac
