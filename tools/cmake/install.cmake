# What `cmake --install` lays down: the static library, the public headers, the program, and the files that let
# another project say find_package(dropless).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/dropless")

install(TARGETS dropless EXPORT dropless-targets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(TARGETS dropless_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/dropless" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  PATTERN dropless_c.h EXCLUDE)  # comes with its library
install(EXPORT dropless-targets NAMESPACE dropless:: DESTINATION "${package_folder}")

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/dropless-config.cmake.in"
  "${PROJECT_BINARY_DIR}/dropless-config.cmake" INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/dropless-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/dropless-config.cmake" "${PROJECT_BINARY_DIR}/dropless-config-version.cmake"
  DESTINATION "${package_folder}")
