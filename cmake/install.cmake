# cmake --install: programs in bin/, the libraries of build/deps that they load in lib/phitap, found from wherever the folder is put.
# What Debian packages bring stays theirs.

get_filename_component(PHITAP_DEPS_FOLDER "${PHITAP_DEPS}" REALPATH)

# phitap_install(TARGET)
function(phitap_install target)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/phitap")
  install(TARGETS ${target}
    RUNTIME_DEPENDENCIES
      POST_INCLUDE_REGEXES "^${PHITAP_DEPS_FOLDER}/" "^${PHITAP_DEPS}/"
      POST_EXCLUDE_REGEXES "^/"
    RUNTIME DESTINATION bin
    LIBRARY DESTINATION lib/phitap)
endfunction()
