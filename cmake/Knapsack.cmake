# How every folder of src/ becomes a library, how tests and fuzz targets find it.
include_guard()

set(KNAP_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 at -O3 takes the untouched members of a std::variant, and so of every Result, for uninitialised ones.
  list(APPEND KNAP_WARNINGS -Wno-maybe-uninitialized)
endif()

# What every library of ours is compiled with. BUILD_INTERFACE: none of it reaches who links an installed Knapsack.
add_library(knap_flags INTERFACE)
target_compile_features(knap_flags INTERFACE cxx_std_20)
# No contraction into FMA and no errno: the scalar kernels are the definition, so they give the same bits everywhere.
target_compile_options(knap_flags INTERFACE
  "$<BUILD_INTERFACE:${KNAP_WARNINGS};-fno-math-errno;-ffp-contract=off>")
target_include_directories(knap_flags INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src>)
target_link_options(knap_flags INTERFACE "$<BUILD_INTERFACE:-Wl,--gc-sections>")
if(KNAPSACK_SANITIZE)
  # Warnings are errors in the ordinary build; what a sanitizer's rewriting makes a compiler suspect is not ours to mend.
  target_compile_options(knap_flags INTERFACE
    "$<BUILD_INTERFACE:-Wno-error;-fsanitize=${KNAPSACK_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all;-g1>")
  target_link_options(knap_flags INTERFACE $<BUILD_INTERFACE:-fsanitize=${KNAPSACK_SANITIZE}>)
endif()
if(KNAPSACK_FUZZ)
  target_compile_options(knap_flags INTERFACE $<BUILD_INTERFACE:-fsanitize=fuzzer-no-link>)
endif()

# A linker that takes a fraction of the time, where there is one.
find_program(KNAP_LLD NAMES ld.lld)
if(KNAP_LLD AND NOT KNAPSACK_FUZZ)
  target_link_options(knap_flags INTERFACE $<BUILD_INTERFACE:-fuse-ld=lld>)
endif()

# The folder of src/*/ that is compiled for this architecture alone, and what files there named *_SET.cc are compiled for.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(KNAP_NATIVE x86)
  set(KNAP_ISA_avx2 -mavx2 -mfma -mf16c)
  set(KNAP_ISA_avxvnni ${KNAP_ISA_avx2} -mavxvnni)
  set(KNAP_ISA_avx512 ${KNAP_ISA_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
  set(KNAP_ISA_avx512vnni ${KNAP_ISA_avx512} -mavx512vnni)
  set(KNAP_ISA_amx ${KNAP_ISA_avx512} -mamx-tile -mamx-int8)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(KNAP_NATIVE arm)
  set(KNAP_ISA_dotprod -march=armv8.2-a+dotprod)
  set(KNAP_ISA_i8mm -march=armv8.2-a+dotprod+i8mm)
endif()

# knap_common_headers(TARGET FIRST HEADERS...): TARGET reads HEADERS precompiled, once for all targets of the same FIRST,
# which must be compiled with the same options. Only where no compiler cache does better: under a sanitizer on a machine
# without ccache (a third of the compiler's time there is reading these). The other builds see whether every file
# includes what it uses.
function(knap_common_headers target first)
  if(NOT KNAPSACK_SANITIZE OR KNAPSACK_FUZZ OR CCACHE)
    return()
  endif()
  if(TARGET ${first} AND NOT target STREQUAL first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# knap_module(NAME [DEPS modules...] [LIBS libraries...]): src/NAME/**/*.cc without tests and fuzz targets.
function(knap_module name)
  cmake_parse_arguments(M "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz)\\.cc$")
  # Of the folders that are for one architecture only this one's; native_absent.cc where there is none for it.
  set(native OFF)
  foreach(folder x86 arm)
    if(folder STREQUAL KNAP_NATIVE AND IS_DIRECTORY ${CMAKE_SOURCE_DIR}/src/${name}/${folder})
      set(native ON)
    else()
      list(FILTER sources EXCLUDE REGEX "/src/${name}/${folder}/")
    endif()
  endforeach()
  if(native)
    list(FILTER sources EXCLUDE REGEX "/native_absent\\.cc$")
  endif()
  foreach(source ${sources})
    if(source MATCHES "_([a-z0-9]+)\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${KNAP_ISA_${CMAKE_MATCH_1}}")
    endif()
  endforeach()
  if(sources)
    add_library(knap_${name} STATIC ${sources})
    set(visibility PUBLIC)
  else()
    add_library(knap_${name} INTERFACE)  # headers only
    set(visibility INTERFACE)
  endif()
  target_link_libraries(knap_${name} ${visibility} knap_flags ${M_LIBS})
  if(KNAPSACK_SANITIZE AND sources)
    # Instrumented code costs the compiler half as much without optimisation; only where the work is does it pay: in the
    # arithmetic, or, under a fuzzer, in the parsers (clang takes minutes for instrumented kernels, which it never calls).
    if(KNAPSACK_FUZZ)
      set(plain "^kernels$")
    else()
      set(plain "^(base|report|text|files|ops|program|graph|bundle|import|plan|passes|align|export|runtime|evaluate|pipeline|cli)$")
    endif()
    if(name MATCHES "${plain}")
      target_compile_options(knap_${name} PRIVATE -O0)
      knap_common_headers(knap_${name} knap_base <fmt/format.h> <algorithm> <array> <filesystem> <functional> <map>
        <memory> <optional> <span> <string> <variant> <vector> <boost/json.hpp>)
    endif()
  endif()
  foreach(dep ${M_DEPS})
    target_link_libraries(knap_${name} ${visibility} knap_${dep})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY KNAP_MODULES ${name})
endfunction()

# knap_embed(MODULE NAME FOLDER): every FOLDER/*.json but schemas as rows of generated/MODULE/NAME.inc, written when built.
function(knap_embed module name folder)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.json)
  list(FILTER files EXCLUDE REGEX "schema\\.json$")
  list(JOIN files "|" joined)
  set(output ${CMAKE_BINARY_DIR}/generated/${module}/${name}.inc)
  add_custom_command(OUTPUT ${output} DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake VERBATIM
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DFILES=${joined} -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake)
  target_sources(knap_${module} PRIVATE ${output})
  target_include_directories(knap_${module} PRIVATE ${CMAKE_BINARY_DIR}/generated)
endfunction()

# knap_fuzz_targets(): every src/**/X_fuzz.cc becomes the program fuzz/fuzz_X; all of them are the target fuzz_targets.
function(knap_fuzz_targets)
  file(GLOB_RECURSE targets CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*_fuzz.cc)
  add_custom_target(fuzz_targets)
  foreach(source ${targets})
    get_filename_component(name ${source} NAME_WE)
    string(REGEX REPLACE "_fuzz$" "" name ${name})
    add_executable(fuzz_${name} ${source})
    target_link_libraries(fuzz_${name} PRIVATE knap_pipeline knap_device)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
    add_dependencies(fuzz_targets fuzz_${name})
  endforeach()
endfunction()
