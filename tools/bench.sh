#!/usr/bin/env bash
# Measures this machine: kernels beside its peaks, then prefill and decode of one model. tools/bench.sh BUILD MODEL
set -euo pipefail
build=$1 model=$2
date -u +%Y-%m-%d
"$build/src/knapsack" version
"$build/src/knapsack" devices measure
"$build/bench/bench_micro" --benchmark_min_time=0.1 --benchmark_filter="${FILTER:-.}"
"$build/src/knapsack" bench "$model" -d 0,2048 -t "1,$(nproc)"
