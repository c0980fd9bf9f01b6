#!/usr/bin/env python3
"""How much faster decoding is with guesses: each prompt with and without, in turns, and the median of the ratios.

    tools/measure/speculation.py MODEL [--rounds 3] [--prompts FILE...] [-- options of `knapsack run`]

Without --prompts: tests/data/rewrite, where it should help, then each line of tests/data/prompts.txt, where it should
cost nothing. The texts are compared, too: a difference is an error.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"


def run(program, model, source, options):
    done = subprocess.run([program, "run", model, *source, "--json", "-q", *options], capture_output=True, text=True)
    answer = json.loads(done.stdout)
    if "error" in answer:
        sys.exit(f"{source}: {answer['error']['message']}")
    return answer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--program", default=str(ROOT / "build" / "src" / "knapsack"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--prompts", nargs="*", type=pathlib.Path)
    words = sys.argv[1:]
    extra = words[words.index("--") + 1:] if "--" in words else []
    arguments = parser.parse_args(words[:words.index("--")] if "--" in words else words)
    length = ["-n", str(arguments.tokens)]
    sources = [("--chat", "-f", str(path)) for path in arguments.prompts or sorted((DATA / "rewrite").glob("*.txt"))]
    if not arguments.prompts:
        sources += [("-p", line) for line in (DATA / "prompts.txt").read_text().splitlines()]
    for source in sources:
        ratios = []
        for _ in range(arguments.rounds):
            plain = run(arguments.program, arguments.model, source, [*length, "--speculate", "off", *extra])
            guessed = run(arguments.program, arguments.model, source, [*length, *extra])
            if plain["token_ids"] != guessed["token_ids"]:
                sys.exit(f"{source}: the text differs")
            if plain["decode_tokens_per_s"] > 0:
                ratios.append(guessed["decode_tokens_per_s"] / plain["decode_tokens_per_s"])
        if ratios:
            print(f"{statistics.median(ratios):5.2f}x ({min(ratios):.2f} to {max(ratios):.2f}), "
                  f"{guessed['completion_tokens']} tokens, {guessed['accepted']} of {guessed['drafted']} guesses right: "
                  f"{pathlib.Path(source[-1]).name if source[0] == '--chat' else source[-1][:40]}", flush=True)


if __name__ == "__main__":
    main()
