"""A run's peak is what `knapsack inspect` says, and 32 MiB (or 5 %) for the process itself.

KNAPSACK_BINARY: the program to test. KNAPSACK_MODELS: a folder of *.gguf.
"""
import glob
import json
import os
import subprocess
import sys

BINARY = os.environ["KNAPSACK_BINARY"]
PROMPT = "The quick brown fox jumps over the lazy dog. " * 10


def peak(arguments):
    process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_maxrss * 1024


def main():
    passed = failed = 0
    for path in sorted(glob.glob(os.path.join(os.environ["KNAPSACK_MODELS"], "*.gguf"))):
        for ctx in ("512", "4096"):
            told = subprocess.run(
                [BINARY, "inspect", path, "--json", "-c", ctx], stdout=subprocess.PIPE, text=True, check=True
            )
            total = json.loads(told.stdout)["memory"]["total"]
            code, taken = peak([BINARY, "run", path, "-p", PROMPT, "-n", "16", "--ignore-eos", "-c", ctx])
            good = code == 0 and taken <= total + max(32 << 20, total // 20)
            passed, failed = passed + good, failed + (not good)
            print(f"{os.path.basename(path)} -c {ctx}: {taken >> 20} MiB, inspect says {total >> 20}, exit code {code}")
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
