#!/usr/bin/env bash
# Runs every fuzz target of a build for so many seconds: tools/fuzz.sh BUILD SECONDS
# The committed corpus tests/fuzz/NAME is read first and never written; what is found new stays in .cache/fuzz/NAME.
# With SECONDS 0 the corpora are only replayed. A crash is left in .cache/fuzz/NAME-crash-*: it belongs in the corpus.
set -uo pipefail
build=$1 seconds=$2
failed=0 ran=0
for target in "$build"/fuzz/fuzz_*; do
  [ -x "$target" ] || continue
  name=$(basename "$target") name=${name#fuzz_}
  corpus=tests/fuzz/$name
  mkdir -p ".cache/fuzz/$name"
  log=.cache/fuzz/$name.log
  options=(-max_len=65536 -timeout=20 -rss_limit_mb=2048 -artifact_prefix=".cache/fuzz/$name-")
  [ -f "$corpus.dict" ] && options+=("-dict=$corpus.dict")
  if [ "$seconds" = 0 ]; then options+=(-runs=0); else options+=("-max_total_time=$seconds"); fi
  inputs=(".cache/fuzz/$name")
  [ -d "$corpus" ] && inputs+=("$corpus")
  if "$target" "${options[@]}" "${inputs[@]}" >"$log" 2>&1; then
    printf 'fuzz %-14s ok      %s\n' "$name" "$(grep -E '^(Done|#[0-9]+\s+DONE)' "$log" | tail -1)"
  else
    printf 'fuzz %-14s FAILED  (log: %s)\n' "$name" "$log"
    grep -E 'ERROR|SUMMARY|Test unit written' "$log" | head -5
    failed=$((failed + 1))
  fi
  ran=$((ran + 1))
done
printf 'fuzz: %d passed, %d failed\n' $((ran - failed)) "$failed"
[ "$failed" = 0 ] && [ "$ran" -gt 0 ]
