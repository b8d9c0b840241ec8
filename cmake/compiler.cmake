# Flags of our own code, ccache and mold where they are installed.
find_program(CCACHE ccache)
if(CCACHE)
  # Paths relative to the checkout, so that another build directory or another clone finds what this one has compiled; the rest is what
  # ccache asks for to cache files with a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()
if(PHITAP_SANITIZE)
  add_compile_options(-fsanitize=${PHITAP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${PHITAP_SANITIZE})
endif()

add_library(phitap_warnings INTERFACE)
# gcc 12 takes the missing fields of a designated initialiser for a mistake; leaving them out is why we use them.
target_compile_options(phitap_warnings INTERFACE -Wall -Wextra -Werror -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(phitap_warnings INTERFACE -Wthread-safety)
elseif(PHITAP_SANITIZE STREQUAL "thread")
  # The sanitizer's calls keep gcc 12 from seeing that an optional is set.
  target_compile_options(phitap_warnings INTERFACE -Wno-maybe-uninitialized)
endif()

# phitap_library(NAME SOURCES a.cc ... LINKS x y ...): one static target for a folder, as phitap::NAME.
# LINKS are public: a folder's headers may name what it links.
function(phitap_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  add_library(phitap_${name} STATIC ${arg_SOURCES})
  add_library(phitap::${name} ALIAS phitap_${name})
  target_include_directories(phitap_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(phitap_${name} PUBLIC ${arg_LINKS} PRIVATE phitap_warnings)
endfunction()

foreach(label unit integration golden threads load)
  add_custom_target(${label}_tests)
endforeach()

# phitap_test(NAME LABEL unit|integration|golden [THREADS|LOAD] SOURCES ... LINKS ...): a GoogleTest binary, one ctest entry. The target
# unit_tests builds all that are labelled so, and so on. THREADS labels it `threads` as well: it is about what threads share, and links
# no libtorch, so that it can be built with the preset `tsan`. LOAD does, and labels it `load`: many threads at once.
function(phitap_test name)
  cmake_parse_arguments(arg "THREADS;LOAD" "LABEL" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_LINKS} GTest::gmock GTest::gtest_main phitap_warnings)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set(labels ${arg_LABEL})
  if(arg_THREADS OR arg_LOAD)
    list(APPEND labels threads)
  endif()
  if(arg_LOAD)
    list(APPEND labels load)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}")
  foreach(label ${labels})
    add_dependencies(${label}_tests ${name})
  endforeach()
  if("threads" IN_LIST labels AND PHITAP_SANITIZE STREQUAL "thread")
    target_link_libraries(${name} PRIVATE phitap_tsan_sync)
    # gcc 12's sanitizer does not start where addresses are drawn from more bits than it knows.
    file(READ /proc/sys/vm/mmap_rnd_bits address_bits)
    if(address_bits GREATER 28)
      set_target_properties(${name} PROPERTIES CROSSCOMPILING_EMULATOR "setarch;--addr-no-randomize")
    endif()
    set_tests_properties(${name} PROPERTIES ENVIRONMENT
      "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp:halt_on_error=1:second_deadlock_stack=1:history_size=4")
  endif()
endfunction()
