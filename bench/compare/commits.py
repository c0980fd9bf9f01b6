#!/usr/bin/env python3
"""Is a commit slower than its parent? Builds both, runs `knapsack bench` of each in turn, and compares round by round.

    bench/compare/commits.py [COMMIT] MODEL.gguf ... [--against COMMIT^] [-r 7] [--limit 5] [-t 2] [-- bench options]

COMMIT is HEAD unless given. Exit code 1 when a case's median ratio is more than --limit per cent below 1. Rounds alternate
which of the two goes first, so that neither always meets the machine as the other left it. The builds are kept in
.cache/commits/HASH, so a second run starts at once.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parents[2]
CACHE = REPO / ".cache" / "commits"


def git(*words):
    return subprocess.run(["git", "-C", str(REPO), *words], capture_output=True, text=True, check=True).stdout.strip()


def is_commit(word):
    done = subprocess.run(["git", "-C", str(REPO), "rev-parse", "--verify", "--quiet", word + "^{commit}"],
                          capture_output=True, check=False)
    return done.returncode == 0


def built(commit):
    """The program of a commit."""
    commit = git("rev-parse", commit + "^{commit}")
    binary = CACHE / commit / "knapsack"
    if binary.exists():
        return binary
    tree = CACHE / commit / "tree"
    build = CACHE / commit / "build"
    print(f"building {git('log', '-1', '--format=%h %s', commit)}", file=sys.stderr)
    tree.mkdir(parents=True, exist_ok=True)
    archive = subprocess.Popen(["git", "-C", str(REPO), "archive", commit], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", str(tree)], stdin=archive.stdout, check=True)
    environment = dict(os.environ)
    environment.setdefault("KNAPSACK_CARGO_TARGET_DIR", str(REPO / ".cache" / "cargo"))
    for command in (["cmake", "-S", str(tree), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                     "-DKNAPSACK_TESTS=OFF"], ["cmake", "--build", str(build), "--target", "knapsack"]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{commit} does not build:\n{(done.stdout + done.stderr)[-3000:]}")
    (build / "src" / "knapsack").replace(binary)
    subprocess.run(["rm", "-rf", str(tree), str(build)], check=True)
    return binary


def measure(binary, model, options):
    """Case -> tokens a second, of one round."""
    done = subprocess.run([str(binary), "bench", model, "-t", options.threads, "-r", "1", "--peak-seconds", "0.001", "-q",
                           "--json", *options.bench], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{binary}: exit {done.returncode}: {done.stderr}{done.stdout}")
    return {f"{r['kind']} {r['prompt'] or r['gen']} at {r['depth']}, {r['threads']} threads": r["tokens_per_s"]["median"]
            for r in json.loads(done.stdout)["results"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="+", metavar="[COMMIT] MODEL")
    parser.add_argument("--against", help="what it is compared with (the commit's first parent)")
    parser.add_argument("-r", "--rounds", type=int, default=7)
    parser.add_argument("--limit", type=float, default=5, help="per cent that a case may be slower (5)")
    parser.add_argument("-t", "--threads", default=str(len(os.sched_getaffinity(0))))
    options = parser.parse_args(sys.argv[1:sys.argv.index("--")] if "--" in sys.argv else None)
    options.bench = sys.argv[sys.argv.index("--") + 1:] if "--" in sys.argv else ["-p", "256", "-n", "64"]
    commit = options.words.pop(0) if not os.path.exists(options.words[0]) and is_commit(options.words[0]) else "HEAD"
    if not options.words:
        parser.error("expected a model")
    new, old = built(commit), built(options.against or commit + "^")
    slower = False
    print("| model | case | before | after | ratio |\n|---|---|---|---|---|")
    for model in options.words:
        rounds = []
        for turn in range(-1, options.rounds):  # the first round warms up
            pair = {}
            for binary in (new, old) if turn % 2 else (old, new):
                pair[binary] = measure(binary, model, options)
            if turn >= 0:
                rounds.append(pair)
        for case in rounds[0][new]:
            before, after = ([pair[binary][case] for pair in rounds] for binary in (old, new))
            ratios = [b / a for a, b in zip(before, after, strict=True)]
            ratio = statistics.median(ratios)
            bad = ratio < 1 - options.limit / 100
            slower = slower or bad
            print(f"| {os.path.basename(model)} | {case} | {statistics.median(before):.1f} | {statistics.median(after):.1f} | "
                  f"{ratio:.3f} ({min(ratios):.3f}-{max(ratios):.3f}){' slower' if bad else ''} |")
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
