#!/usr/bin/env python3
"""Runs the long tests, tests/full/*.py, one after the other, and adds up what they say.

Each is a program that exits with 0 only when nothing failed, and may close with the line "N passed, M failed"; without
one it counts as one test. It finds the program under test in KNAPSACK_BINARY, the repository in KNAPSACK_ROOT and the
models in KNAPSACK_MODELS.
"""

import argparse
import glob
import os
import re
import subprocess
import sys
import time

CLOSING = re.compile(r"^(?:\w+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, help="the knapsack program")
    parser.add_argument("only", nargs="*", help="names of tests (default: all)")
    options = parser.parse_args()
    env = dict(
        os.environ,
        KNAPSACK_BINARY=os.path.abspath(options.binary),
        KNAPSACK_ROOT=root,
        KNAPSACK_MODELS=os.path.join(root, "models"),
    )
    scripts = sorted(glob.glob(os.path.join(root, "tests", "full", "*.py")))
    # A file that starts with "_" is shared code, not a test.
    scripts = [path for path in scripts if not os.path.basename(path).startswith("_")]
    if options.only:
        scripts = [path for path in scripts if os.path.splitext(os.path.basename(path))[0] in options.only]
    passed = failed = skipped = 0
    for path in scripts:
        name = os.path.relpath(path, root)
        print(f"== {name}", flush=True)
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, path], cwd=root, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        closing = None
        for line in process.stdout:
            print(line, end="", flush=True)
            closing = CLOSING.match(line.strip()) or closing
        code = process.wait()
        counts = [int(closing.group(i) or 0) for i in (1, 2, 3)] if closing else [int(code == 0), 0, 0]
        if code != 0 and counts[1] == 0:
            print(f"{name}: exit code {code}", flush=True)
            counts[1] = 1
        passed, failed, skipped = passed + counts[0], failed + counts[1], skipped + counts[2]
        print(f"-- {name}: {time.monotonic() - began:.0f} s", flush=True)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
