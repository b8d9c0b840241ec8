#!/usr/bin/env bash
# The steps of the Dockerfile, which RUNs nothing else. They are here so that they can be read, checked and run without a container engine.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

PREFIX=/opt/phitap
# Of the image's user; any other works too, nothing in the image belongs to it.
PHITAP_UID=10001

# What /opt/phitap/bin/phitapd and phitap load, beside what `compile` puts into /opt/phitap/lib; curl fetches models.
RUNTIME_PACKAGES=(
  ca-certificates curl
  libabsl20220623 libc-ares2 libcivetweb1 libfmt9 libgrpc++1.51 libgrpc29 libprometheus-cpp-core1.0 libprometheus-cpp-pull1.0 libprotobuf32
  libre2-9 libspdlog1.10 libssl3 libstdc++6 libxxhash0 zlib1g
)

usage() {
  cat <<'USAGE'
usage: docker/build-steps.sh STEP

For the root of a container, as root. Steps of the building stage, in the sources' folder:
  dependencies    installs what phitap is built from
  compile         builds phitapd and phitap and puts them into /opt/phitap, with the libraries of libtorch that they load
  cuda-libraries  adds libtorch's CUDA libraries and the NVIDIA libraries that they name to /opt/phitap/lib
Steps of the image:
  runtime         installs the Debian packages that they load, makes the user and the folders
  check           runs both programs once
  check-cuda      the same, and whether libtorch's CUDA libraries find all that they load but the driver's own

example:
  docker/build-steps.sh runtime
USAGE
}

main() {
  [ $# -eq 1 ] || { usage >&2; exit 2; }
  case $1 in
    dependencies | compile | cuda-libraries | runtime | check | check-cuda) "step_${1/-/_}" ;;
    --help | -h) usage ;;
    *) echo "build-steps.sh: no step '$1'; see --help" >&2; exit 2 ;;
  esac
}

step_dependencies() {
  deploy/install-deps.sh
  clean_packages
}

step_compile() {
  cmake --preset release
  cmake --build --preset release --target phitapd phitap
  cmake --install build/release --prefix "$PREFIX" --strip
}

# The wheel's own list of what it loads, in the versions that it asks for.
step_cuda_libraries() {
  local wheels=/tmp/cuda-wheels requirements=/tmp/cuda-requirements.txt torch=build/deps/libtorch
  sed -nE 's/^Requires-Dist: ((nvidia|cuda-toolkit)[^;]*).*/\1/p' "$torch"/torch-*.dist-info/METADATA >"$requirements"
  [ -s "$requirements" ] || { echo "build-steps.sh: libtorch names no CUDA libraries" >&2; return 1; }
  /usr/bin/python3 -m pip install --target "$wheels" --only-binary=:all: --no-cache-dir --disable-pip-version-check \
    --root-user-action=ignore -r "$requirements"
  cp -a "$torch"/torch/lib/{libtorch_cuda,libtorch_cuda_linalg,libtorch_nvshmem,libc10_cuda,libcaffe2_nvrtc}.so "$PREFIX/lib/phitap/"
  find "$wheels/nvidia" -path '*/lib/*' -name '*.so*' -exec cp -a -n {} "$PREFIX/lib/phitap/" ';'
  rm -rf "$wheels" "$requirements"
}

step_runtime() {
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${RUNTIME_PACKAGES[@]}"
  clean_packages
  groupadd --system --gid "$PHITAP_UID" phitap
  useradd --system --uid "$PHITAP_UID" --gid phitap --home-dir /var/lib/phitap --no-create-home --shell /usr/sbin/nologin phitap
  install -d -o phitap -g phitap -m 0700 /var/lib/phitap
  install -d -m 0755 /models /etc/phitap
}

step_check() {
  "$PREFIX/bin/phitapd" --version
  "$PREFIX/bin/phitap" --help >/dev/null
}

step_check_cuda() {
  local missing
  step_check
  # The driver's come from the machine, with the devices.
  missing=$(ldd "$PREFIX"/lib/phitap/libtorch_cuda*.so | grep 'not found' | grep -v 'libcuda\.so\.1 ' | sort -u) || true
  [ -z "$missing" ] || { printf 'build-steps.sh: %s lacks\n%s\n' "$PREFIX/lib/phitap" "$missing" >&2; return 1; }
}

clean_packages() {
  apt-get clean
  rm -rf /var/lib/apt/lists/*
}

main "$@"
