#!/usr/bin/env bash
# Runs cross-compiled tests under qemu-aarch64.
#   tools/arm64.sh BUILD [kernels|base|tensor|program ...]
# All of them on a CPU with everything qemu has (NEON, dotprod, i8mm); then, on cores that lack some of it, that the
# program sees so and that its integer products still give the bits of the definition.
set -euo pipefail
build=$1
shift
labels=${*:-kernels}
export KNAPSACK_TESTS_EMULATED=1
ctest --test-dir "$build" --output-on-failure -L "^(${labels// /|})$" -j "${JOBS:-$(nproc)}"
# cpu, what it runs beside scalar
while read -r cpu isas; do
  printf 'on a %s: ' "$cpu"
  KNAPSACK_TEST_ISAS=$isas qemu-aarch64 -cpu "$cpu" -L /usr/aarch64-linux-gnu "$build/tests/test_kernels" \
    --gtest_brief=1 --gtest_filter='Isa.*:Packed.Extremes*:Packed.Zeros*'
done <<CPUS
cortex-a53 scalar,neon
cortex-a76 scalar,neon,dotprod
max scalar,neon,dotprod,i8mm
CPUS
