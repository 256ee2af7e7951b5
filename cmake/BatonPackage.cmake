# The Debian packages that `./dev package` makes with CPack:
#
#   baton         the programs, man pages, completion, systemd units, /etc/baton, documents
#   libbaton-dev  what find_package(Baton) needs (BatonInstall.cmake: development)
#
# The component `service` has the files outside of a prefix; `cmake --install` leaves it out.
set(_service COMPONENT service EXCLUDE_FROM_ALL)
set(_deploy ${CMAKE_SOURCE_DIR}/deploy)
install(FILES ${_deploy}/systemd/baton-controller.service ${_deploy}/systemd/baton-relay.service
  ${_deploy}/systemd/baton-worker@.service DESTINATION /lib/systemd/system ${_service})
install(FILES ${_deploy}/systemd/baton.sysusers DESTINATION /usr/lib/sysusers.d
  RENAME baton.conf ${_service})
install(DIRECTORY ${_deploy}/config/ DESTINATION /etc/baton ${_service})
install(FILES README.md ARCHITECTURE.md CHANGELOG.md SECURITY.md DESTINATION /usr/share/doc/baton ${_service})
install(DIRECTORY docs/ DESTINATION /usr/share/doc/baton ${_service})
install(DIRECTORY examples/ DESTINATION /usr/share/doc/baton/examples ${_service}
  PATTERN "__pycache__" EXCLUDE PATTERN "smollm2/model" EXCLUDE)

# Files that Debian asks of each package: the licence by reference, and a changelog.
configure_file(${_deploy}/debian/changelog.in ${CMAKE_BINARY_DIR}/debian/changelog.Debian @ONLY)
execute_process(COMMAND gzip -9nf ${CMAKE_BINARY_DIR}/debian/changelog.Debian
  COMMAND_ERROR_IS_FATAL ANY)
foreach(_documents baton:service libbaton-dev:development)
  string(REPLACE ":" ";" _documents ${_documents})
  list(GET _documents 0 _name)
  list(GET _documents 1 _component)
  install(FILES ${_deploy}/debian/copyright ${CMAKE_BINARY_DIR}/debian/changelog.Debian.gz
    DESTINATION /usr/share/doc/${_name} COMPONENT ${_component} EXCLUDE_FROM_ALL)
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME baton)
set(CPACK_PACKAGE_VENDOR Baton)
set(CPACK_PACKAGE_CONTACT "The Baton maintainers <maintainers@example.org>")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/package)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL programs service development)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME baton)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION
  "Trains language models by reinforcement learning from feedback
A controller takes jobs over gRPC and schedules workers that train,
generate and judge; a relay hands every new policy to them. The package
has the programs, man pages and systemd units.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "bubblewrap, libopenblas0-openmp")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "python3, libbaton-dev")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${_deploy}/debian/conffiles
  ${_deploy}/debian/postinst ${_deploy}/debian/prerm ${_deploy}/debian/postrm)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libbaton-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
  "Embed a Baton worker, or drive Baton, from C++
Public headers, static libraries and the CMake package Baton, with the
targets Baton::worker, Baton::client and Baton::proto.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "libgrpc++-dev, libprotobuf-dev, protobuf-compiler, libabsl-dev, libspdlog-dev, libyaml-cpp-dev, libpcre2-dev, libxxhash-dev, libssl-dev, pkg-config")

include(CPack)
cpack_add_component_group(runtime)
cpack_add_component_group(development)
cpack_add_component(programs GROUP runtime)
cpack_add_component(service GROUP runtime)
cpack_add_component(development GROUP development)
