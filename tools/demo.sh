#!/usr/bin/env bash
# The main job, as a newcomer sees it: look at a model, then talk to it. Called by `make demo`.
set -euo pipefail
knapsack=$1 model=$2
show() {
  printf '\n$ %s\n' "${*@Q}" | sed "s/'\([A-Za-z0-9_.\/-]*\)'/\1/g"
}
show "$knapsack" inspect "$model"
"$knapsack" inspect "$model"
question='What is gravity? Answer in one sentence.'
show "$knapsack" chat "$model" -p "$question"
"$knapsack" chat "$model" -p "$question"
