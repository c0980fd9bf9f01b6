#!/usr/bin/env python3
"""Knapsack's speed beside llama.cpp's: same file, same threads, same tokens, one after the other in each round.

    bench/compare/beside_llama.py MODEL.gguf ... [-p 512] [-n 64] [-t 2] [-r 5] [--json]

llama.cpp comes as PyPI's llama-cpp-python, compiled on this machine (`make test-full` sets it up); its flash attention is
tried on and off, and the faster of the two is the bar, for prefill and decode apart. Prints medians with the least and
the most, and the ratio of each round, whose median is what counts: both engines have met the same neighbours then.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests/full"))
from _llama import Llama  # noqa: E402

TEXT = REPO / "tests/data/perplexity.txt"


def their_speeds(peer, ids, made):
    peer.clear()
    began = time.perf_counter()
    peer.decode(ids, 0, [len(ids) - 1])
    read = time.perf_counter()
    for i in range(made):
        peer.decode([ids[i % len(ids)]], len(ids) + i, [0])
    end = time.perf_counter()
    return len(ids) / (read - began), made / (end - read)


def our_speeds(binary, path, text_file, made, threads):
    done = subprocess.run([binary, "run", str(path), "-f", text_file, "-n", str(made + 1), "--temperature", "0",
                           "--ignore-eos", "--threads", str(threads), "--json"], capture_output=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"knapsack: exit {done.returncode}: {done.stderr.decode()[-2000:]}")
    said = json.loads(done.stdout)
    return said["prefill_tokens_per_s"], said["decode_tokens_per_s"], said["prompt_tokens"]


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "samples": values}


def compare(path, options):
    room = options.prompt + options.gen + 16
    peers = {f"-fa {'on' if flash else 'off'}": Llama(path, room, options.threads, flash) for flash in (True, False)}
    first = next(iter(peers.values()))
    text = TEXT.read_text(encoding="ascii")
    text = first.text(first.tokenize(text[:8 * options.prompt + 64])[:options.prompt], remove_special=True)
    ids = first.tokenize(text)
    found = {"knapsack": ([], []), **{name: ([], []) for name in peers}}
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        for turn in range(-1, options.rounds):  # the first round warms up
            prefill, decode, tokens = our_speeds(options.knapsack, path, file.name, options.gen, options.threads)
            if tokens != len(ids):
                raise SystemExit(f"{path}: {tokens} prompt tokens for knapsack, {len(ids)} for llama.cpp")
            speeds = {"knapsack": (prefill, decode), **{name: their_speeds(peer, ids, options.gen) for name, peer in peers.items()}}
            if turn < 0:
                continue
            for name, pair in speeds.items():
                for kind in (0, 1):
                    found[name][kind].append(pair[kind])
    rows = []
    for kind, label in enumerate(["prefill", "decode"]):
        best = max(peers, key=lambda name: statistics.median(found[name][kind]))
        ours, theirs = found["knapsack"][kind], found[best][kind]
        rows.append({"model": os.path.basename(path), "kind": label, "prompt": len(ids), "gen": options.gen,
                     "threads": options.threads, "knapsack": spread(ours), "llama.cpp": spread(theirs), "peer_setting": best,
                     "ratio": spread([a / b for a, b in zip(ours, theirs, strict=True)])})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("-p", "--prompt", type=int, default=512, help="prompt tokens (about; 512)")
    parser.add_argument("-n", "--gen", type=int, default=64, help="tokens generated after it (64)")
    parser.add_argument("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("-r", "--rounds", type=int, default=5)
    parser.add_argument("--knapsack", default=os.environ.get("KNAPSACK_BINARY", str(REPO / "build/src/knapsack")))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [row for path in options.models for row in compare(path, options)]
    if options.json:
        json.dump({"results": rows}, sys.stdout, indent=1)
        print()
        return
    print("| model | what | knapsack tok/s | llama.cpp tok/s | ratio |\n|---|---|---|---|---|")
    for row in rows:
        ours, theirs, ratio = row["knapsack"], row["llama.cpp"], row["ratio"]
        what = f"prefill {row['prompt']}" if row["kind"] == "prefill" else f"decode {row['gen']} at {row['prompt']}"
        print(f"| {row['model']} | {what} | {ours['median']:.1f} ({ours['min']:.1f}-{ours['max']:.1f}) | "
              f"{theirs['median']:.1f} ({theirs['min']:.1f}-{theirs['max']:.1f}) {row['peer_setting']} | "
              f"{ratio['median']:.2f} ({ratio['min']:.2f}-{ratio['max']:.2f}) |")


if __name__ == "__main__":
    main()
