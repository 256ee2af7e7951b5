# The files that `cmake --install` puts into a prefix, in two components:
#
#   programs      bin/: the command, controller, relay and workers
#   development   include/baton/{worker,client,experience}.h: what programs include; beside them
#                 v1/, which is made of the API, and sdk/, the other headers of sdk/public_headers.txt;
#                 lib/: static libraries; lib/cmake/Baton/: find_package(Baton);
#                 share/baton/proto/: the API for programs in other languages
#
# find_package(Baton) offers Baton::worker (embed a worker), Baton::client (drive the service) and
# Baton::proto (messages and stubs of baton.v1).
include(GNUInstallDirs)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # to install or to pack needs no test
include(CMakePackageConfigHelpers)

set(BATON_INSTALL_CONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Baton)
set(BATON_INSTALL_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR}/baton)

foreach(program baton baton-controller baton-relay baton-worker)
  if(TARGET ${program})  # baton-worker needs torch
    set_target_properties(${program} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
  endif()
endforeach()

# Lets a user's project find the libraries that a static library of Baton links.
set(_baton_packages absl Protobuf OpenSSL spdlog nlohmann_json Threads)
set(_baton_modules GRPCPP=grpc++ YAML_CPP=yaml-cpp PCRE2=libpcre2-8 XXHASH=libxxhash ZSTD=libzstd
    LIBARCHIVE=libarchive)

# _baton_find_command(LINK OUT): the line of BatonConfig.cmake that finds the imported target LINK.
function(_baton_find_command link out)
  if(link MATCHES "^PkgConfig::(.+)$")
    set(prefix ${CMAKE_MATCH_1})
    foreach(pair ${_baton_modules})
      if(pair MATCHES "^${prefix}=(.+)$")
        set(${out} "pkg_check_modules(${prefix} REQUIRED QUIET IMPORTED_TARGET ${CMAKE_MATCH_1})" PARENT_SCOPE)
        return()
      endif()
    endforeach()
  elseif(link MATCHES "^([A-Za-z_]+)::")
    foreach(package ${_baton_packages})
      string(TOLOWER ${package} lower)
      string(TOLOWER ${CMAKE_MATCH_1} scope)
      if(lower STREQUAL scope)
        set(${out} "find_dependency(${package})" PARENT_SCOPE)
        return()
      endif()
    endforeach()
  else()
    set(${out} "" PARENT_SCOPE)  # a plain library name, such as grpc++_reflection
    return()
  endif()
  message(FATAL_ERROR "an installed library links ${link}; say in BatonInstall.cmake how to find it")
endfunction()

set_target_properties(baton_sdk_worker PROPERTIES EXPORT_NAME worker)
set_target_properties(baton_sdk_client PROPERTIES EXPORT_NAME client)
set_target_properties(baton_proto PROPERTIES EXPORT_NAME proto)
set(BATON_FIND_COMMANDS "")
set(_installed "")
foreach(library baton_sdk_worker baton_sdk_client baton_proto)
  target_compile_features(${library} INTERFACE cxx_std_17)
  _baton_reach(${library} reached)
  foreach(link ${reached})
    if(link MATCHES "^\\$<")
      continue()
    endif()
    set(imported TRUE)
    if(TARGET ${link})
      get_target_property(imported ${link} IMPORTED)
    endif()
    if(NOT imported)
      list(APPEND _installed ${link})
      continue()
    endif()
    # A package finds its own dependencies.
    string(REGEX MATCH "^(absl|protobuf|OpenSSL|spdlog|nlohmann_json|Threads|PkgConfig)::" known "${link}")
    if(known)
      _baton_find_command(${link} command)
      list(APPEND BATON_FIND_COMMANDS "${command}")
    endif()
  endforeach()
endforeach()
list(REMOVE_DUPLICATES _installed)
list(REMOVE_DUPLICATES BATON_FIND_COMMANDS)
list(SORT BATON_FIND_COMMANDS)
list(JOIN BATON_FIND_COMMANDS "\n" BATON_FIND_COMMANDS)

install(TARGETS ${_installed} EXPORT BatonTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${BATON_INSTALL_INCLUDEDIR})
install(EXPORT BatonTargets NAMESPACE Baton:: DESTINATION ${BATON_INSTALL_CONFIG_DIR}
  COMPONENT development)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/BatonConfig.cmake.in
  ${CMAKE_BINARY_DIR}/BatonConfig.cmake INSTALL_DESTINATION ${BATON_INSTALL_CONFIG_DIR}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/BatonConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/BatonConfig.cmake ${CMAKE_BINARY_DIR}/BatonConfigVersion.cmake
  DESTINATION ${BATON_INSTALL_CONFIG_DIR} COMPONENT development)

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/sdk/public_headers.txt)
file(STRINGS ${CMAKE_SOURCE_DIR}/sdk/public_headers.txt _headers REGEX "^[^#]")
foreach(header ${_headers})
  cmake_path(GET header PARENT_PATH folder)
  string(REGEX REPLACE "^sdk/include/baton" "" folder "${folder}")
  install(FILES ${CMAKE_SOURCE_DIR}/${header} DESTINATION ${BATON_INSTALL_INCLUDEDIR}/${folder}
    COMPONENT development)
endforeach()
install(DIRECTORY ${CMAKE_BINARY_DIR}/proto/baton/v1 DESTINATION ${BATON_INSTALL_INCLUDEDIR}
  COMPONENT development FILES_MATCHING PATTERN "*.pb.h")
install(DIRECTORY ${CMAKE_SOURCE_DIR}/proto/baton/v1
  DESTINATION ${CMAKE_INSTALL_DATADIR}/baton/proto/baton COMPONENT development
  FILES_MATCHING PATTERN "*.proto")

# Man pages and the completion for bash, made by the programs that are installed.
find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
  set(_programs "")
  foreach(program baton baton-controller baton-relay baton-worker)
    if(TARGET ${program})
      list(APPEND _programs ${CMAKE_BINARY_DIR}/bin/${program})
    endif()
  endforeach()
  list(JOIN _programs " " _programs)
  install(CODE "file(REMOVE_RECURSE ${CMAKE_BINARY_DIR}/manual)
    execute_process(COMMAND_ERROR_IS_FATAL ANY COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_SOURCE_DIR}/deploy/manual.py man ${CMAKE_BINARY_DIR}/manual/man ${_programs})
    file(GLOB pages ${CMAKE_BINARY_DIR}/manual/man/*.1)
    execute_process(COMMAND_ERROR_IS_FATAL ANY COMMAND gzip -9n \${pages})
    execute_process(COMMAND_ERROR_IS_FATAL ANY COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_SOURCE_DIR}/deploy/manual.py completion ${CMAKE_BINARY_DIR}/manual/baton ${_programs})"
    COMPONENT programs)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/manual/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
    COMPONENT programs)
  install(FILES ${CMAKE_BINARY_DIR}/manual/baton
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT programs)
endif()
