#!/usr/bin/env bash
# Installs phitapd, phitap and the systemd unit from a build of this checkout.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."

PREFIX=/opt/phitap
UNITS=/etc/systemd/system

root='' build=build/release tls='' gpu='' socket='' start=''

usage() {
  cat <<'USAGE'
usage: deploy/systemd/install.sh [--build FOLDER] [--tls] [--socket] [--gpu] [--start] [--root FOLDER]

Puts the programs and the libraries of libtorch into /opt/phitap, the unit into /etc/systemd/system, and makes the user phitap. What stands
in /etc/phitap is never overwritten. Run again after a build to upgrade; the running server goes on until it is restarted.

  --build FOLDER  which build; by default build/release (cmake --preset release && cmake --build --preset release --target phitapd phitap)
  --tls           hand /etc/phitap/tls.key and tls.crt to the server as credentials
  --socket        let systemd hold the socket: what connects during a restart waits, instead of being refused
  --gpu           let the server use the NVIDIA devices
  --start         enable the unit and (re)start it
  --root FOLDER   install below FOLDER, for a package or an image: no user is made and nothing is started
  --help          this text

examples:
  sudo deploy/systemd/install.sh                       # then edit /etc/phitap/phitapd.toml
  sudo deploy/systemd/install.sh --tls --start
USAGE
}

main() {
  while [ $# -gt 0 ]; do
    case $1 in
      --build) build=${2:-}; shift ;;
      --root) root=${2:-}; shift ;;
      --tls) tls=1 ;;
      --socket) socket=1 ;;
      --gpu) gpu=1 ;;
      --start) start=1 ;;
      --help | -h) usage; exit 0 ;;
      *) fail "unknown option $1; see --help" ;;
    esac
    shift
  done
  [ -x "$build/bin/phitapd" ] && [ -x "$build/bin/phitap" ] || fail "'$build' has no bin/phitapd and bin/phitap: build first, or see --build"
  [ -n "$root" ] || [ "$(id -u)" -eq 0 ] || fail "run as root, or with --root FOLDER"
  [ -z "$root" ] || [ -z "$start" ] || fail "--start is not for --root"
  install_programs
  install_unit
  [ -n "$root" ] || make_user
  install_configuration
  if [ -n "$root" ]; then return; fi
  reload_systemd
  if [ -n "$start" ]; then start_service; else advise; fi
}

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

# Into a new folder that then takes the old one's place: a running server keeps the files that it has open.
install_programs() {
  local target=$root$PREFIX
  rm -rf "$target.new"
  mkdir -p "$target.new"
  cmake --install "$build" --prefix "$(realpath "$target.new")" --strip >/dev/null
  install -D -m 0644 deploy/README.md "$target.new/share/doc/phitap/README.md"
  install -D -m 0755 docker/fetch-model.sh "$target.new/bin/fetch-model"
  rm -rf "$target.old"
  [ ! -e "$target" ] || mv "$target" "$target.old"
  mv "$target.new" "$target"
  rm -rf "$target.old"
  echo "programs: $target"
}

install_unit() {
  local drop_ins=$root$UNITS/phitapd.service.d
  install -D -m 0644 deploy/systemd/phitapd.service "$root$UNITS/phitapd.service"
  install -D -m 0644 deploy/systemd/phitap.sysusers "$root/usr/lib/sysusers.d/phitap.conf"
  [ -z "$tls" ] || install -D -m 0644 deploy/systemd/tls.conf "$drop_ins/tls.conf"
  if [ -n "$socket" ]; then
    install -D -m 0644 deploy/systemd/phitapd.socket "$root$UNITS/phitapd.socket"
    install -D -m 0644 deploy/systemd/socket.conf "$drop_ins/socket.conf"
  fi
  [ -z "$gpu" ] || install -D -m 0644 deploy/systemd/gpu.conf "$drop_ins/gpu.conf"
  echo "unit: $root$UNITS/phitapd.service"
}

make_user() {
  getent passwd phitap >/dev/null && return
  systemd-sysusers /usr/lib/sysusers.d/phitap.conf
}

# Only the group of the server may read it: it may name a file of tokens.
install_configuration() {
  local file=$root/etc/phitap/phitapd.toml
  if [ -e "$file" ]; then
    echo "configuration: $file is kept"
    return
  fi
  install -D -m 0640 deploy/systemd/phitapd.toml "$file"
  [ -n "$root" ] || chgrp phitap "$root/etc/phitap" "$file"
  echo "configuration: $file, to be edited"
}

reload_systemd() {
  [ -d /run/systemd/system ] || { echo "systemd is not running here: nothing to reload"; return; }
  systemctl daemon-reload
}

start_service() {
  systemctl enable --quiet phitapd.service
  echo "start: until the models are loaded; journalctl --unit phitapd --follow shows how far they are"
  systemctl restart phitapd.service || fail "phitapd did not start: journalctl --unit phitapd --lines 50"
  echo "started: it takes requests"
}

advise() {
  echo
  echo "Next: name your checkpoints in /etc/phitap/phitapd.toml${socket:+, and set listen = \"systemd\" there}, then"
  cat <<'TEXT'
  systemctl enable --now phitapd
  journalctl --unit phitapd --follow
TEXT
}

main "$@"
