#!/usr/bin/env bash
# Installs what phitap is built from, on Debian 12 (x86-64 or aarch64), pinned. A second run costs nothing.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/progress.sh

TORCH_VERSION=2.11.0
# libtorch_cpu.so of the wheel loads these two libraries even where there is no GPU.
CUDART_VERSION=13.0.96
CUPTI_VERSION=13.0.85
# Older compilers do not build the tokenizers crate.
RUST_MINIMUM=1.85

# Debian 12 fixes their versions: gRPC 1.51, protobuf 3.21, abseil 20220623, spdlog 1.10, GoogleTest 1.12, CMake 3.25, gcc 12.
BUILD_PACKAGES=(
  ca-certificates git build-essential cmake ninja-build ccache mold pkg-config python3 python3-pip
  libgrpc++-dev libgrpc-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc libabsl-dev libc-ares-dev libre2-dev libssl-dev
  zlib1g-dev libspdlog-dev libcli11-dev nlohmann-json3-dev libxxhash-dev libgtest-dev libgmock-dev libbenchmark-dev prometheus-cpp-dev
)
TEST_PACKAGES=(python3-venv systemd curl openssl libfaketime debootstrap)
FUZZ_PACKAGES=(clang-14 libclang-rt-14-dev)
TIDY_PACKAGES=(clang-14 clang-tidy-14 clang-format-14)

DEPS=$PWD/build/deps
LOGS=$DEPS/logs

usage() {
  cat <<'USAGE'
usage: deploy/install-deps.sh [--tests] [--fuzz] [--tidy]

Installs the Debian packages and the Rust compiler that phitap is built with, and unpacks libtorch under build/deps/libtorch.
Nothing is touched that is there already.

  --tests  also the test environment, build/deps/venv: transformers on the same libtorch (3 GB), and promtool (50 MB)
  --fuzz   also clang and its sanitizers, for the preset `fuzz`
  --tidy   also clang, clang-tidy and clang-format, for the preset `tidy`
  --help   this text

examples:
  deploy/install-deps.sh                   # what a server and a command line need
  deploy/install-deps.sh --tests --fuzz    # what tests/run.sh needs
USAGE
}

main() {
  local packages=("${BUILD_PACKAGES[@]}") with_tests=
  while [ $# -gt 0 ]; do
    case $1 in
      --tests) with_tests=1; packages+=("${TEST_PACKAGES[@]}") ;;
      --fuzz) packages+=("${FUZZ_PACKAGES[@]}") ;;
      --tidy) packages+=("${TIDY_PACKAGES[@]}") ;;
      --help | -h) usage; exit 0 ;;
      *) fail "unknown option $1; see --help" ;;
    esac
    shift
  done
  check_machine
  mkdir -p "$LOGS"
  wait_for_other_install
  install_packages "${packages[@]}"
  install_rust
  install_libtorch
  if [ -n "$with_tests" ]; then
    install_promtool
    install_test_environment
  fi
}

fail() {
  echo "install-deps.sh: $*" >&2
  exit 1
}

check_machine() {
  local id='' version=''
  if [ -r /etc/os-release ]; then
    id=$(. /etc/os-release && echo "${ID:-}")
    version=$(. /etc/os-release && echo "${VERSION_ID:-}")
  fi
  [ "$id $version" = "debian 12" ] || fail "this installs on Debian 12 (bookworm); /etc/os-release says '$id $version'"
  case $(uname -m) in
    x86_64 | aarch64) ;;
    *) fail "libtorch has wheels for x86_64 and aarch64, not for $(uname -m)" ;;
  esac
}

# Two commands in one checkout may install at once.
wait_for_other_install() {
  exec 9>"$DEPS/.lock"
  flock --nonblock 9 && return
  echo "another install is at work in $DEPS: waiting for it"
  flock 9
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# Asks for the password, if one is needed, before the steps whose output goes to a file.
become_root() {
  [ "$(id -u)" -ne 0 ] || return 0
  command -v sudo >/dev/null || fail "run as root, or install sudo: Debian packages are to be installed"
  sudo --validate
}

install_packages() {
  local missing=() package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    echo "Debian packages: all $# are installed"
    return
  fi
  become_root
  # A repository of no concern here may fail to update; what matters is whether the packages install.
  with_progress "Debian package lists" "$LOGS/apt-update.log" as_root apt-get update -q || true
  with_progress "Debian packages: ${#missing[@]} of $# to install" "$LOGS/apt-install.log" \
    as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get install -y -q --no-install-recommends "${missing[@]}"
}

# Debian 12 carries a current Rust beside its own old one, for building browsers. A cargo on the PATH that is new enough is left in charge.
install_rust() {
  local version
  if version=$(cargo --version 2>/dev/null | awk '{print $2}') && [ -n "$version" ]; then
    if dpkg --compare-versions "$version" ge "$RUST_MINIMUM"; then
      echo "Rust: cargo $version"
      return
    fi
    echo "Rust: cargo $version is older than $RUST_MINIMUM"
  fi
  install_packages cargo-web rustc-web
  version=$(/usr/bin/cargo --version | awk '{print $2}')
  dpkg --compare-versions "$version" ge "$RUST_MINIMUM" || fail "cargo-web gave cargo $version; at least $RUST_MINIMUM is needed"
  echo "Rust: cargo $version"
}

# Debian's own interpreter, not one that stands before it on the PATH: the wheels are for its version.
pip_install() {
  /usr/bin/python3 -m pip install --no-deps --only-binary=:all: --no-cache-dir --disable-pip-version-check --root-user-action=ignore "$@"
}

install_libtorch() {
  local target=$DEPS/libtorch
  if [ -d "$target/torch-$TORCH_VERSION.dist-info" ] && [ -d "$target/nvidia_cuda_runtime-$CUDART_VERSION.dist-info" ] &&
    [ -d "$target/nvidia_cuda_cupti-$CUPTI_VERSION.dist-info" ]; then
    echo "libtorch: $TORCH_VERSION is in $target"
    return
  fi
  # Moved into place when whole, so that an interrupted install is not taken for one.
  rm -rf "$target.partial"
  with_progress "libtorch $TORCH_VERSION (0.5 GB to fetch, 1.2 GB unpacked)" "$LOGS/libtorch.log" \
    pip_install --target "$target.partial" \
    "torch==$TORCH_VERSION" "nvidia-cuda-runtime==$CUDART_VERSION" "nvidia-cuda-cupti==$CUPTI_VERSION"
  rm -rf "$target"
  mv "$target.partial" "$target"
}

# The checker of alerts and queries alone: installed as a package, Prometheus would start to serve here.
install_promtool() {
  local target=$DEPS/prometheus
  if [ -x "$target/promtool" ]; then
    echo "promtool: $("$target/promtool" --version 2>&1 | head -n 1) is in $target"
    return
  fi
  rm -rf "$target.partial"
  mkdir -p "$target.partial"
  with_progress "promtool (19 MB to fetch)" "$LOGS/promtool.log" fetch_promtool "$target.partial"
  rm -rf "$target"
  mv "$target.partial" "$target"
}

fetch_promtool() {
  apt-cache show prometheus >/dev/null 2>&1 || as_root apt-get update -q || true
  (cd "$1" && apt-get download -q prometheus && dpkg-deb -x prometheus_*.deb unpacked && mv unpacked/usr/bin/promtool . &&
    rm -rf unpacked prometheus_*.deb)
}

# Python with transformers; it sees the server's own libtorch through a path file, so both sides of a comparison are one library.
install_test_environment() {
  local venv=$DEPS/venv requirements=tests/requirements.txt installed=$DEPS/venv/installed-requirements.txt
  if cmp -s "$requirements" "$installed"; then
    echo "test environment: $venv is up to date"
    return
  fi
  [ -x "$venv/bin/python" ] || with_progress "test environment" "$LOGS/venv.log" /usr/bin/python3 -m venv "$venv"
  with_progress "test environment: $(grep -c == "$requirements") Python packages (2 GB to fetch, 3 GB unpacked)" "$LOGS/venv-packages.log" \
    "$venv/bin/python" -m pip install --no-deps --only-binary=:all: --no-cache-dir --disable-pip-version-check -r "$requirements"
  echo "$DEPS/libtorch" >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/phitap-libtorch.pth"
  with_progress "test environment: import torch, transformers" "$LOGS/venv-import.log" \
    "$venv/bin/python" -c "import torch, transformers; assert torch.__version__.startswith('$TORCH_VERSION'), torch.__version__"
  cp "$requirements" "$installed"
}

main "$@"
