# Run at each build: writes OUTPUT only when the commit changed, so that nothing is recompiled in vain.
# -DSOURCE_DIR, -DVERSION, -DOUTPUT. Without git or outside a clone the commit is empty.
cmake_policy(VERSION 3.24)
set(commit "")
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[// Written at build time by build_info.cmake.
#pragma once
#define KNAPSACK_VERSION "@VERSION@"
#define KNAPSACK_COMMIT "@commit@"
]])
