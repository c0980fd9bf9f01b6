# The version and, where git knows it, the commit: build/gen/base/version_gen.h, rewritten only when it changes.
# Included by CMakeLists.txt, where it adds the target that runs this same file as a script before each build.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(KNAP_VERSION_HEADER ${CMAKE_BINARY_DIR}/gen/base/version_gen.h)
  add_custom_target(knap_version BYPRODUCTS ${KNAP_VERSION_HEADER}
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUT=${KNAP_VERSION_HEADER} -DVERSION=${PROJECT_VERSION}
            -P ${CMAKE_CURRENT_LIST_FILE}
    COMMENT "version")
  return()
endif()

set(commit "")
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
  # A checkout may belong to another user than the one who builds (CI, containers): safe.directory says it is meant.
  set(git ${GIT} -c safe.directory=${SOURCE} -C ${SOURCE})
  execute_process(COMMAND ${git} rev-parse --short=12 HEAD OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  execute_process(COMMAND ${git} status --porcelain --untracked-files=no OUTPUT_VARIABLE changes ERROR_QUIET)
  if(commit AND changes)
    string(APPEND commit "+")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT [[
// Made by cmake/Version.cmake. A commit ends in "+" where files differed from it; it is empty outside git.
#define KNAP_VERSION "@VERSION@"
#define KNAP_COMMIT "@commit@"
]])
