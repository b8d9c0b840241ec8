# What a server says that it was built from. PHITAP_COMMIT may be given where the sources are no checkout.
set(PHITAP_COMMIT "" CACHE STRING "Commit that the sources are of; empty asks git")
set(phitap_commit "${PHITAP_COMMIT}")
find_program(GIT git)
if(phitap_commit STREQUAL "" AND GIT)
  execute_process(COMMAND ${GIT} -C ${CMAKE_SOURCE_DIR} rev-parse --short=12 HEAD OUTPUT_VARIABLE phitap_commit
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  # Asked again where another commit is checked out.
  execute_process(COMMAND ${GIT} -C ${CMAKE_SOURCE_DIR} rev-parse --path-format=absolute --git-path logs/HEAD
                  OUTPUT_VARIABLE phitap_head_log OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(EXISTS "${phitap_head_log}")
    set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${phitap_head_log}")
  endif()
endif()
if(phitap_commit STREQUAL "")
  set(phitap_commit unknown)
endif()

set(phitap_libtorch_version unknown)
if(EXISTS "${TORCH_ROOT}/version.py")
  file(STRINGS "${TORCH_ROOT}/version.py" torch_version_line REGEX "^__version__ = ")
  string(REGEX REPLACE ".*'([^']+)'.*" "\\1" phitap_libtorch_version "${torch_version_line}")
endif()
