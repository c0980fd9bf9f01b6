#!/usr/bin/env bash
# Measures this machine: kernels beside its peaks, then prefill and decode of one model. tools/bench.sh BUILD MODEL
set -euo pipefail
build=$1 model=$2
grep -m1 '^model name' /proc/cpuinfo || true
date -u +%Y-%m-%d
"$build/src/knapsack" version
"$build/bench/bench_micro" --benchmark_min_time=0.1 --benchmark_filter="${FILTER:-.}"
prompt=$(for _ in $(seq 40); do printf 'The quick brown fox jumps over the lazy dog. '; done)
for run in 1 2 3; do
  printf 'run %s: ' "$run"
  "$build/src/knapsack" run "$model" -p "$prompt" --temperature 0 -n 64 --json 2>/dev/null |
    python3 -c 'import json, sys; r = json.load(sys.stdin); print(*(f"{k}={r[k]}" for k in (
      "prompt_tokens", "completion_tokens", "load_ms", "ttft_ms", "prefill_tokens_per_s", "decode_tokens_per_s",
      "peak_rss_mib")))'
done
