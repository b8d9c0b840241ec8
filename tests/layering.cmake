# Fails on an include that the table below forbids, and on two types of one name. Run by ctest as `layering`, or: cmake -P tests/layering.cmake
# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)

# folder | project folders that it may include, beside itself | libraries of the ruled kinds that it may include
# The README repeats these rows, and this test holds it to them. Files right in server/ (main, configuration) are the row `server`.
set(TABLE
  "| base | none | none |"
  "| identity | base | none |"
  "| spec | base | none |"
  "| checkpoint | base, spec | none |"
  "| tokenizer | base | none |"
  "| tensors | base | none |"
  "| observe | base, spec | none |"
  "| plan | base, spec | proto |"
  "| model | base, spec, checkpoint | torch |"
  "| trace | base, spec, checkpoint, plan, model | torch |"
  "| schedule | base, spec, plan, observe | none |"
  "| models | base, spec, tokenizer, plan, schedule, observe | none |"
  "| rpc | base, identity, spec, plan, schedule, models, tokenizer, tensors, observe | proto, grpc |"
  "| server | all | proto, grpc |"
  "| client/cpp | base | proto, grpc |"
  "| client/cli | base, identity, client/cpp | proto, grpc |")

# Other libraries (absl, spdlog, nlohmann, CLI, xxhash) may be included from anywhere.
set(RULED_LIBRARIES torch grpc proto)
set(torch_HEADERS "^(ATen|c10|caffe2|torch)/")
set(grpc_HEADERS "^(grpc|grpcpp|grpc[+][+])/|[.]grpc[.]pb[.]h$")
set(proto_HEADERS "^(phitap/v1|google/protobuf|google/rpc)/.*[^c][.](pb[.])?h$")

get_filename_component(ROOT ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)
if(DEFINED CHECKED_ROOT)  # another tree, to see the check fail
  get_filename_component(ROOT ${CHECKED_ROOT} ABSOLUTE)
endif()

# Sets may_<folder>_include and may_<folder>_use from the table, and RULED_FOLDERS.
macro(read_table)
  foreach(row IN LISTS TABLE)
    if(NOT row MATCHES "^[|] ([a-z/]+) [|] ([a-z/, ]+) [|] ([a-z, ]+) [|]$")
      message(FATAL_ERROR "not a row of the table: ${row}")
    endif()
    set(folder ${CMAKE_MATCH_1})
    list(APPEND RULED_FOLDERS ${folder})
    string(REPLACE ", " ";" may_${folder}_include "${CMAKE_MATCH_2}")
    string(REPLACE ", " ";" may_${folder}_use "${CMAKE_MATCH_3}")
  endforeach()
endmacro()

# The row that rules a path: server/model/phi3.cc -> model, client/cli/main.cc -> client/cli, server/main.cc -> server.
function(folder_of path out)
  if(path MATCHES "^server/([a-z_]+)/")
    set(${out} ${CMAKE_MATCH_1} PARENT_SCOPE)
  elseif(path MATCHES "^server/")
    set(${out} server PARENT_SCOPE)
  elseif(path MATCHES "^(client/[a-z_]+|tests)/")
    set(${out} ${CMAKE_MATCH_1} PARENT_SCOPE)
  else()
    set(${out} "" PARENT_SCOPE)
  endif()
endfunction()

# Why the file `path` of `folder` may not include `header`, or empty.
function(objection path folder header quoted out)
  set(${out} "" PARENT_SCOPE)
  string(REPLACE ";" ", " includes "${may_${folder}_include}")
  string(REPLACE ";" ", " libraries "${may_${folder}_use}")
  foreach(library IN LISTS RULED_LIBRARIES)
    if(header MATCHES "${${library}_HEADERS}" AND NOT library IN_LIST may_${folder}_use)
      set(${out} "${folder} may not include ${library} (of torch, grpc and proto it may include: ${libraries})" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  folder_of(${header} target)
  if(target STREQUAL "")
    get_filename_component(directory ${path} DIRECTORY)
    if(quoted AND EXISTS ${ROOT}/${directory}/${header})
      set(${out} "project headers are included by their path from the root" PARENT_SCOPE)
    endif()
  elseif(target STREQUAL folder OR target IN_LIST may_${folder}_include)
  elseif("all" IN_LIST may_${folder}_include AND target IN_LIST RULED_FOLDERS)
  else()
    set(${out} "${folder} may not include ${target} (of the project's folders it may include: ${includes})" PARENT_SCOPE)
  endif()
endfunction()

# Appends to VIOLATIONS what is forbidden in one file.
function(check_file path)
  folder_of(${path} folder)
  if(NOT folder IN_LIST RULED_FOLDERS)
    set(VIOLATIONS ${VIOLATIONS} "${path}: the folder ${folder} has no row in tests/layering.cmake" PARENT_SCOPE)
    return()
  endif()
  file(STRINGS ${ROOT}/${path} includes REGEX "^[ \t]*#[ \t]*include")
  foreach(include IN LISTS includes)
    if(NOT include MATCHES "include[ \t]*([<\"])([^>\"]+)[>\"]")
      continue()
    endif()
    set(header ${CMAKE_MATCH_2})
    string(COMPARE EQUAL "${CMAKE_MATCH_1}" "\"" quoted)
    objection(${path} ${folder} ${header} ${quoted} reason)
    if(NOT reason STREQUAL "")
      line_of(${path} "${include}" line)
      list(APPEND VIOLATIONS "${path}:${line}: ${include}\n    ${reason}")
    endif()
  endforeach()
  set(VIOLATIONS ${VIOLATIONS} PARENT_SCOPE)
endfunction()

function(line_of path text out)
  file(READ ${ROOT}/${path} content)
  string(FIND "${content}" "${text}" position)
  string(SUBSTRING "${content}" 0 ${position} before)
  string(REGEX REPLACE "[^\n]" "" newlines "${before}")
  string(LENGTH "${newlines}" line)
  math(EXPR line "${line} + 1")
  set(${out} ${line} PARENT_SCOPE)
endfunction()

read_table()
file(GLOB_RECURSE paths RELATIVE ${ROOT} ${ROOT}/server/*.h ${ROOT}/server/*.cc ${ROOT}/client/*.h ${ROOT}/client/*.cc)
list(FILTER paths EXCLUDE REGEX "/(target|build|node_modules)/")
set(VIOLATIONS "")
foreach(path IN LISTS paths)
  check_file(${path})
endforeach()
list(LENGTH paths checked)
if(checked EQUAL 0)
  list(APPEND VIOLATIONS "no source file under ${ROOT}")
endif()

# One name, one type: all of server/ is linked together, and two types of one name in the namespace would be taken for each other.
function(check_type_names)
  foreach(path IN LISTS paths)
    if(NOT path MATCHES "^server/.*[.]h$")
      continue()
    endif()
    file(STRINGS ${ROOT}/${path} types REGEX "^(class|struct|enum class) [A-Za-z]+([^;]*|.*[{].*)$")
    foreach(type IN LISTS types)
      string(REGEX REPLACE "^(class|struct|enum class) ([A-Za-z]+).*" "\\2" name "${type}")
      if(DEFINED header_of_${name})
        list(APPEND VIOLATIONS "${path}: ${name} is a type of ${header_of_${name}} as well")
      endif()
      set(header_of_${name} ${path})
    endforeach()
  endforeach()
  set(VIOLATIONS ${VIOLATIONS} PARENT_SCOPE)
endfunction()
check_type_names()

file(READ ${ROOT}/README.md readme)
foreach(row IN LISTS TABLE)
  string(FIND "${readme}" "${row}" position)
  if(position EQUAL -1)
    list(APPEND VIOLATIONS "README.md: lacks this row of the table of tests/layering.cmake: ${row}")
  endif()
endforeach()

if(VIOLATIONS)
  foreach(violation IN LISTS VIOLATIONS)
    message(NOTICE "${violation}")
  endforeach()
  list(LENGTH VIOLATIONS count)
  message(FATAL_ERROR "forbidden by the table of tests/layering.cmake: ${count}")
endif()
message(STATUS "${checked} files include what their layer may")
