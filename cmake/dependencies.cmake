# Debian's packages, and libtorch from its wheel.
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)  # module mode: Debian's protobuf ships no CMake package
find_package(OpenSSL REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(GTest CONFIG REQUIRED)

find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_library(XXHASH_LIBRARY xxhash REQUIRED)
add_library(xxhash INTERFACE)
target_include_directories(xxhash INTERFACE ${XXHASH_INCLUDE_DIR})
target_link_libraries(xxhash INTERFACE ${XXHASH_LIBRARY})

# libtorch_cpu and libc10 only: a GPU build of libtorch is opened at run time. The wheel carries headers of an old protobuf, so
# its include folders come after the system's.
set(TORCH_ROOT "${PHITAP_DEPS}/libtorch/torch")
if(NOT EXISTS "${TORCH_ROOT}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "libtorch is not in ${TORCH_ROOT}: run deploy/install-deps.sh first, or set PHITAP_DEPS")
endif()
add_library(torch_cpu INTERFACE)
# -pthread: gRPC brings it to some of the targets that share the precompiled header, and gcc wants it in all or none.
target_compile_options(torch_cpu INTERFACE -pthread
  "SHELL:-idirafter ${TORCH_ROOT}/include" "SHELL:-idirafter ${TORCH_ROOT}/include/torch/csrc/api/include")
target_link_libraries(torch_cpu INTERFACE "${TORCH_ROOT}/lib/libtorch_cpu.so" "${TORCH_ROOT}/lib/libc10.so")
target_link_options(torch_cpu INTERFACE "LINKER:--allow-shlib-undefined")
