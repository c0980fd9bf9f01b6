#!/usr/bin/env python3
"""What a busy neighbour on one processor costs a decode step: alone and beside it, in turns, and the median of the ratios.

    tools/measure/neighbour.py MODEL [--threads 2] [--rounds 5]

The neighbour is a process of this script's that spins on the last of the processors used. A step may not take twice its
time: with two threads and one of two processors halved, 1.33 would be perfect. The exit code says whether it does.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPIN = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nprint(flush=True)\nwhile True: pass"


def step_ms(arguments, cpus):
    done = subprocess.run(
        [arguments.program, "run", arguments.model, "-p", "Once upon a time", "-n", str(arguments.tokens),
         "--ignore-eos", "--speculate", "off", "-t", str(arguments.threads),
         "--cpus", ",".join(map(str, cpus)), "--json", "-q"], capture_output=True, text=True)
    answer = json.loads(done.stdout)
    if "error" in answer:
        sys.exit(answer["error"]["message"])
    return 1000 / answer["decode_tokens_per_s"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--program", default=str(ROOT / "build" / "src" / "knapsack"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=100)
    arguments = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))[-arguments.threads:]
    ratios = []
    for _ in range(arguments.rounds):
        alone = step_ms(arguments, cpus)
        neighbour = subprocess.Popen([sys.executable, "-c", SPIN, str(cpus[-1])], stdout=subprocess.PIPE)
        neighbour.stdout.readline()
        try:
            beside = step_ms(arguments, cpus)
        finally:
            neighbour.kill()
            neighbour.wait()
        ratios.append(beside / alone)
        print(f"{alone:.1f} ms a step alone, {beside:.1f} ms beside a busy neighbour", flush=True)
    worst = statistics.median(ratios)
    print(f"{worst:.2f}x ({min(ratios):.2f} to {max(ratios):.2f})")
    return 0 if worst < 2 else 1


if __name__ == "__main__":
    sys.exit(main())
