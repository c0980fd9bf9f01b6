# Cross-compilation for 64-bit ARM Linux with Debian's g++-aarch64-linux-gnu; tests run under qemu-user. The libraries are
# Debian's for arm64, unpacked by `tools/setup/setup.sh arm64` into .cache/arm64; headers that are the same for every
# architecture (Boost's) are this machine's. Use: cmake -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake (`make arm64`).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

get_filename_component(arm64_root ${CMAKE_CURRENT_LIST_DIR}/../.cache/arm64 ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH ${arm64_root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
# OpenSSL's headers that differ by architecture.
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${arm64_root}/usr/include/aarch64-linux-gnu)
# Boost's CMake package lies with its headers, which are not unpacked.
set(Boost_NO_BOOST_CMAKE ON)
set(Boost_NO_WARN_NEW_VERSIONS ON)

# A CPU with everything qemu has; KNAPSACK_ISA narrows it.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu)
