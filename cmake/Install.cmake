# `cmake --install`: the program, the libraries with their headers as a CMake package, man page and completions.
# A consumer writes find_package(knapsack) and links knapsack::pipeline (or a smaller part, e.g. knapsack::files).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/knapsack)

install(TARGETS knapsack RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# Every library of src/, under its short name.
set(exported knap_flags)
get_property(modules GLOBAL PROPERTY KNAP_MODULES)
foreach(module ${modules})
  list(APPEND exported knap_${module})
  set_target_properties(knap_${module} PROPERTIES EXPORT_NAME ${module})
endforeach()
set_target_properties(knap_flags PROPERTIES EXPORT_NAME flags)
# The Rust archive is imported here, so the installed package imports it again (knapsack-config.cmake.in).
list(APPEND exported knap_bridge)
set_target_properties(knap_bridge PROPERTIES EXPORT_NAME bridge)
install(FILES $<TARGET_PROPERTY:knap_bridge_archive,IMPORTED_LOCATION> DESTINATION ${CMAKE_INSTALL_LIBDIR}/knapsack)
install(TARGETS ${exported} EXPORT knapsack_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/knapsack
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/knapsack)
install(EXPORT knapsack_targets NAMESPACE knapsack:: DESTINATION ${package_dir} FILE knapsack-targets.cmake)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/knapsack
  FILES_MATCHING PATTERN "*.h" PATTERN "*.inc" PATTERN "cli" EXCLUDE PATTERN "target" EXCLUDE)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/knapsack-config.cmake.in
  ${CMAKE_BINARY_DIR}/gen/knapsack-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/gen/knapsack-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/gen/knapsack-config.cmake ${CMAKE_BINARY_DIR}/gen/knapsack-config-version.cmake
  DESTINATION ${package_dir})

# The man page is written by hand; the program itself writes the completions.
install(FILES ${CMAKE_SOURCE_DIR}/docs/knapsack.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
foreach(shell bash zsh fish)
  add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/gen/knapsack.${shell} DEPENDS knapsack
    COMMAND knapsack completions ${shell} > ${CMAKE_BINARY_DIR}/gen/knapsack.${shell})
  list(APPEND completions ${CMAKE_BINARY_DIR}/gen/knapsack.${shell})
endforeach()
add_custom_target(knap_completions ALL DEPENDS ${completions})
install(FILES ${CMAKE_BINARY_DIR}/gen/knapsack.bash RENAME knapsack
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${CMAKE_BINARY_DIR}/gen/knapsack.zsh RENAME _knapsack DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${CMAKE_BINARY_DIR}/gen/knapsack.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
