# libtorch's headers, precompiled once for all targets that include them: 5 s of every file's compilation.
set(torch_pch_source ${CMAKE_BINARY_DIR}/torch_pch.cc)
if(NOT EXISTS ${torch_pch_source})
  file(WRITE ${torch_pch_source} "")
endif()
add_library(phitap_torch_pch OBJECT EXCLUDE_FROM_ALL ${torch_pch_source})
target_link_libraries(phitap_torch_pch PRIVATE torch_cpu phitap_warnings)
target_precompile_headers(phitap_torch_pch PRIVATE <ATen/ATen.h>)
set(torch_pch_options "$<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>")  # without it ccache passes over files with a precompiled header
target_compile_options(phitap_torch_pch PRIVATE ${torch_pch_options})

# phitap_torch_pch(TARGET): compiles the target with the precompiled header; it stands in front of each file, so a file still
# includes what it uses.
function(phitap_torch_pch target)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()  # the preset `tidy` only: clang-tidy reads the headers anyway
  endif()
  target_precompile_headers(${target} REUSE_FROM phitap_torch_pch)
  target_compile_options(${target} PRIVATE ${torch_pch_options})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")  # compiled as the libraries are: gcc refuses the header under -fPIE
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()
