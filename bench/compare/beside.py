#!/usr/bin/env python3
"""Knapsack's speed beside other engines': same file, same threads, same work, one after the other in each round.

    bench/compare/install
    .venv/bin/python bench/compare/beside.py MODEL.gguf ... [--prefill 512,2048] [--gen 64] [--depths 0,2048]
        [-t 2] [-r 5] [--peers llama.cpp,openvino] [--onnx MODEL.gguf=FOLDER] [--json]

Each peer is a process of its own (peers/), started once for each of its settings; of these the fastest counts, for each
case apart. A peer that cannot load a model is left out with a word on stderr. Prints medians, and the ratio to the best peer
of each round, whose median counts: both engines have met the same neighbours then. The table is Markdown, with the machine,
the date and all versions.

MNN is not here: it reads no GGUF, and its converter needs the float checkpoint and torch. ONNX Runtime GenAI reads none
either; give it what its model builder made of the same model with --onnx (float_checkpoint.py says how).
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parents[1]
# Which Python, which program, which settings of each peer.
PEERS = {
    "llama.cpp": (".venv", "llama_cpp_peer.py", ["fa=off", "fa=on"]),
    "openvino": (".venv-peers", "openvino_peer.py", [""]),
    "onnxruntime": (".venv-peers", "onnxruntime_peer.py", [""]),
}
MARGIN = 16  # tokens of context to spare


class Worker:
    """A peer's process with one model loaded."""

    def __init__(self, python, script, model, threads, ctx, setting):
        self.process = subprocess.Popen(
            [python, str(HERE / "peers" / script), str(model), "--threads", str(threads), "--ctx", str(ctx),
             "--setting", setting], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            said = self.process.communicate()[1].strip().splitlines()
            raise RuntimeError(said[-1] if said else "ended without a word")
        self.facts = json.loads(line)

    def measure(self, case):
        """Tokens a second, or None where the peer cannot do this."""
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.facts['peer']} died")
        return json.loads(answer).get("tokens_per_s")

    def close(self):
        self.process.communicate()


def ours(options, model, threads, cases):
    """One figure a case, from one process for each prompt and one for all depths."""
    speeds = [None] * len(cases)

    def bench(arguments, indices):
        done = subprocess.run([options.knapsack, "bench", str(model), "-t", str(threads), "-r", "1", "--peak-seconds", "0.001",
                               "-q", "--json", *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"knapsack: exit {done.returncode}: {done.stderr[-2000:]}{done.stdout[-2000:]}")
        for index, result in zip(indices, json.loads(done.stdout)["results"], strict=True):
            speeds[index] = result["tokens_per_s"]["median"]

    for index, case in enumerate(cases):
        if case["prompt"]:
            bench(["-p", str(case["prompt"]), "-n", "0"], [index])
    decodes = [index for index, case in enumerate(cases) if case["gen"]]
    if decodes:
        depths = ",".join(str(cases[index]["depth"]) for index in decodes)
        bench(["-p", "0", "-n", str(options.gen), "-d", depths], decodes)
    return speeds


def start_peers(options, model, threads, ctx):
    workers = []
    onnx = dict(pair.split("=", 1) for pair in options.onnx)
    for name in options.peers:
        venv, script, settings = PEERS[name]
        path = onnx.get(str(model)) if name == "onnxruntime" else model
        python = os.environ.get("PYTHON_" + name.replace(".", "_").upper(), str(REPO / venv / "bin/python"))
        if path is None or not os.path.exists(python):
            why = f"no --onnx {model}=FOLDER" if path is None else "not installed (bench/compare/install)"
            print(f"{name}: {why}; left out", file=sys.stderr)
            continue
        for setting in settings:
            try:
                workers.append(Worker(python, script, path, threads, ctx, setting))
            except RuntimeError as error:
                print(f"{name} {setting}: cannot run {os.path.basename(model)}: {error}; left out", file=sys.stderr)
    return workers


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "samples": values}


def summary(case, our, theirs):
    """theirs: facts and the samples of each worker. The fastest setting of each peer, and the ratio to the fastest peer."""
    peers = {}
    for facts, samples in theirs:
        if None in samples:
            continue
        known = peers.get(facts["peer"])
        if known is None or statistics.median(samples) > known["median"]:
            peers[facts["peer"]] = {**spread(samples), "setting": facts["setting"], "version": facts["version"]}
    best = max(peers, key=lambda name: peers[name]["median"], default=None)
    ratio = spread([a / b for a, b in zip(our, peers[best]["samples"], strict=True)]) if best else None
    return {**case, "knapsack": spread(our), "peers": peers, "best": best, "ratio": ratio}


def compare(model, threads, options):
    cases = [{"prompt": prompt, "gen": 0, "depth": 0} for prompt in options.prefill if prompt]
    cases += [{"prompt": 0, "gen": options.gen, "depth": depth} for depth in options.depths if options.gen]
    ctx = max(case["prompt"] + case["gen"] + case["depth"] for case in cases) + MARGIN
    workers = start_peers(options, model, threads, ctx)
    our = [[] for _ in cases]
    theirs = [[[] for _ in cases] for _ in workers]
    for turn in range(-1, options.rounds):  # the first round warms up
        print(f"{os.path.basename(model)}, {threads} threads: round {turn + 1} of {options.rounds}", file=sys.stderr)
        speeds = ours(options, model, threads, cases)
        answers = [[worker.measure(case) for case in cases] for worker in workers]
        if turn < 0:
            continue
        for index in range(len(cases)):
            our[index].append(speeds[index])
            for samples, answer in zip(theirs, answers, strict=True):
                samples[index].append(answer[index])
    for worker in workers:
        worker.close()
    return [{"model": os.path.basename(model), "threads": threads,
             **summary(case, our[i], [(w.facts, theirs[k][i]) for k, w in enumerate(workers)])} for i, case in enumerate(cases)]


def told(figure):
    setting = f" {figure['setting']}" if figure.get("setting") else ""
    return f"{figure['median']:.1f} ({figure['min']:.1f}-{figure['max']:.1f}){setting}"


def table_row(row, names):
    what = f"prefill {row['prompt']}" if row["prompt"] else f"decode {row['gen']} at depth {row['depth']}"
    figures = [told(row["peers"][name]) if name in row["peers"] else "-" for name in names]
    ratio = row["ratio"]
    figures.append(f"{ratio['median']:.2f} ({ratio['min']:.2f}-{ratio['max']:.2f})" if ratio else "-")
    return f"| {row['model']} | {what} | {row['threads']} | {told(row['knapsack'])} | {' | '.join(figures)} |"


def markdown(rows, machine, version):
    names = list(dict.fromkeys(name for row in rows for name in row["peers"]))
    versions = dict.fromkeys(peer["version"] for row in rows for peer in row["peers"].values())
    out = [f"{machine['cpu']}, {machine['usable_cores']} cores, {', '.join(machine['features'])}; "
           f"{datetime.date.today().isoformat()}; knapsack {version['version']} ({version['commit'] or 'no commit'}), "
           f"{', '.join(versions) or 'no peer'}. Tokens/s: median (least-most) of the rounds; ratio to the best peer of the same round.",
           "", f"| model | case | threads | Knapsack | {' | '.join(names)} | ratio |".replace("|  |", "|"),
           "|---|---|---|---|" + "---|" * (len(names) + 1)]
    return "\n".join(out + [table_row(row, names) for row in rows])


def numbers(text):
    return [int(part) for part in text.split(",")]


def json_of(command):
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--prefill", type=numbers, default=[512, 2048], help="prompts, in tokens (512,2048); 0: none")
    parser.add_argument("-n", "--gen", type=int, default=64, help="tokens written (64); 0: none")
    parser.add_argument("--depths", type=numbers, default=[0, 2048], help="tokens held before writing (0,2048)")
    parser.add_argument("-t", "--threads", type=numbers, default=[len(os.sched_getaffinity(0))])
    parser.add_argument("-r", "--rounds", type=int, default=5)
    parser.add_argument("--peers", type=lambda text: text.split(","), default=["llama.cpp", "openvino"],
                        help=f"of {', '.join(PEERS)} (llama.cpp,openvino)")
    parser.add_argument("--onnx", action="append", default=[], metavar="MODEL=FOLDER",
                        help="what ONNX Runtime's model builder made of MODEL")
    parser.add_argument("--knapsack", default=os.environ.get("KNAPSACK_BINARY", str(REPO / "build/src/knapsack")))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for name in options.peers:
        if name not in PEERS:
            parser.error(f"no peer {name}; there are {', '.join(PEERS)}")
    machine = json_of([options.knapsack, "devices", "measure", "--json", "-q"])["machine"]
    version = json_of([options.knapsack, "version", "--json"])
    rows = []
    for model in options.models:
        for threads in options.threads:
            more = compare(model, threads, options)
            rows += more
            if len(options.models) * len(options.threads) > 1:  # what is cut off later has shown this
                print("\n".join(table_row(row, list(row["peers"])) for row in more), file=sys.stderr)
    if options.json:
        json.dump({"results": rows, "machine": machine, "version": version}, sys.stdout, indent=1)
        print()
    else:
        print(markdown(rows, machine, version))


if __name__ == "__main__":
    main()
