"""What each peer's process does: answers one request a line on standard input with one line on standard output.

Request: {"prompt": P, "gen": N, "depth": D}: read P tokens, or write N one by one, after D that the context holds already
(one of P and N is 0). Answer: {"tokens_per_s": X}, or {"error": "..."}. The first line, unasked, is {"peer": name,
"version": ..., "setting": ...}, once the model is loaded. Ids mean nothing and are the same for every peer.
"""

import argparse
import json
import os
import sys


def ids(count, vocab, first=0):
    return [((first + i) * 7919 + 13) % vocab for i in range(count)]


def serve(open_peer):
    """open_peer(options) -> (facts, measure(prompt, gen, depth) -> tokens a second)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--ctx", type=int, required=True)
    parser.add_argument("--setting", default="")
    options = parser.parse_args()
    # Libraries write to standard output, too; the answers get a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(answer):
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    facts, measure = open_peer(options)
    say(facts)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            say({"tokens_per_s": measure(request["prompt"], request["gen"], request["depth"])})
        except Exception as error:  # whatever a peer's library throws is its answer
            say({"error": str(error) or type(error).__name__})
