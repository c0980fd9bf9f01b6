#!/usr/bin/env python3
"""Exports of every golden model, checked by PyPI onnx and run by ONNX Runtime as docs/export.md says, beside `knapsack logits`.

    tests/export/onnx_test.py KNAPSACK [NAME...]

Without onnx and onnxruntime (tools/setup) it is skipped.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
from onnxruntime_here import np, onnx, ort  # noqa: E402

CTX, CHUNK, STEPS = 96, 16, 32
PROMPT = 43  # two whole chunks and a padded one
TOLERANCE = 1e-3
ATTENTION = {"SimplifiedLayerNormalization", "RotaryEmbedding", "GroupQueryAttention"}
# Heads that GroupQueryAttention does not take: a latent's, and those of 12 columns.
OTHER_ATTENTION = ("deepseek", "phi3-longrope")
CONTRIB_16 = {"qwen2-tied-gqa", "gemma3-text", "mistral-window"}
OPSET_21 = {"llama-mha-gelu", "gemma3-text", "qwen3-moe", "deepseek-v2-groups"}


def knapsack(*words):
    done = subprocess.run([sys.argv[1], *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"knapsack {' '.join(words)}: {done.returncode}\n{done.stderr}")
    return done.stdout


def reference(model, ids, folder):
    """[len(ids), vocab], in float32."""
    path = os.path.join(folder, "reference.npy")
    listed = ",".join(map(str, ids))
    knapsack("logits", model, "--ids", listed, "-o", path, "--ctx", str(CTX))
    logits = np.load(path)
    os.remove(path)
    return logits


class Decoder:
    """The two models and the KV cache between them."""

    def __init__(self, folder):
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self.sessions = {
            name: ort.InferenceSession(os.path.join(folder, name + ".onnx"), options, providers=["CPUExecutionProvider"])
            for name in ("prefill", "decode")
        }
        types = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
        self.past = {
            each.name: np.zeros(each.shape, types[each.type])
            for each in self.sessions["decode"].get_inputs()
            if each.name.startswith("past_key_values.")
        }

    def step(self, name, ids, position):
        feeds = {
            "input_ids": np.array([ids], np.int64),
            "position_ids": np.arange(position, position + len(ids), dtype=np.int64)[None],
            **self.past,
        }
        session = self.sessions[name]
        outputs = dict(zip([each.name for each in session.get_outputs()], session.run(None, feeds)))
        logits = outputs.pop("logits")
        assert logits.shape[:2] == (1, 1) and logits.dtype == np.float32, (logits.shape, logits.dtype)
        self.past = {key.replace("present.", "past_key_values."): value for key, value in outputs.items()}
        return logits[0, 0]

    def sequence(self, prompt, following=None):
        """Ids of the prompt and STEPS more (greedy, or those given), and the logits of positions."""
        logits = {}
        for begin in range(0, len(prompt), CHUNK):
            chunk = prompt[begin : begin + CHUNK]
            last = self.step("prefill", chunk + [0] * (CHUNK - len(chunk)), begin)
            if len(chunk) == CHUNK:
                logits[begin + CHUNK - 1] = last
        if len(prompt) % CHUNK:  # what stands behind the prompt is written over before it is read
            logits[len(prompt) - 1] = self.step("decode", prompt[-1:], len(prompt) - 1)
        ids = list(prompt)
        for i in range(STEPS):
            ids.append(int(np.argmax(logits[len(ids) - 1])) if following is None else following[i])
            logits[len(ids) - 1] = self.step("decode", ids[-1:], len(ids) - 1)
        return ids, logits


def check(folder):
    """By onnx itself: rules of operators, and shapes that it infers against those written."""
    for name in ("prefill", "decode"):
        onnx.checker.check_model(os.path.join(folder, name + ".onnx"), full_check=True)


def operators(folder, name):
    return {node.op_type for node in onnx.load(os.path.join(folder, name + ".onnx"), load_external_data=False).graph.node}


def export(model, folder, *words):
    knapsack("export", model, "-o", folder, "--ctx", str(CTX), "--chunk", str(CHUNK), "--force", *words)
    return folder


def largest_difference(found, wanted):
    return max(float(np.abs(logits - wanted[position]).max()) for position, logits in found.items())


def compare_halves(name, found, wanted):
    """Top-1 is that of float32, but where float32's first two lie closer than float16's noise: twice the median of
    what it is off, which must itself be small beside the logits."""
    off = [float(np.abs(logits - wanted[position]).max()) for position, logits in found.items()]
    noise = 2 * float(np.median(off))
    spread = float(np.std(wanted))
    if not noise <= 0.1 * spread:
        return [f"{name} fp16: logits are off by {noise / 2:.3g} in the median, their deviation is {spread:.3g}"], noise
    faults = []
    for position, logits in found.items():
        second, first = np.sort(wanted[position])[-2:]
        if int(np.argmax(logits)) != int(np.argmax(wanted[position])) and first - second > noise:
            faults.append(f"{name} fp16: position {position}: another top-1, with a gap of {first - second:.3g}")
    return faults, noise


def run_model(name, scratch):
    model = os.path.join(ROOT, "tests/golden", name)
    with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
        vocab = json.load(file)["vocab_size"]
    prompt = [int(i) for i in np.random.default_rng(7).integers(1, vocab, PROMPT)]
    faults, said = [], []
    folder = export(model, os.path.join(scratch, "fp32"))
    check(folder)
    ids, logits = Decoder(folder).sequence(prompt)
    wanted = reference(model, ids, scratch)

    def close(what, found):
        off = largest_difference(found, wanted)
        said.append(f"{what} {off:.1e}")
        if not off <= TOLERANCE:
            faults.append(f"{name} {what}: logits are off by {off}")

    close("fp32", logits)
    following = ids[PROMPT:]
    if name in OPSET_21:
        folder = export(model, os.path.join(scratch, "opset21"), "--opset", "21")
        check(folder)
        close("opset 21", Decoder(folder).sequence(prompt, following)[1])
    folder = export(model, os.path.join(scratch, "contrib"), "--ops", "contrib")
    kept = operators(folder, "decode") & ATTENTION
    if kept != ATTENTION and not (name.startswith(OTHER_ATTENTION) and "SimplifiedLayerNormalization" in kept):
        faults.append(f"{name} contrib: has only {sorted(kept)}")
    close("contrib", Decoder(folder).sequence(prompt, following)[1])
    folder = export(model, os.path.join(scratch, "fp16"), "--precision", "fp16")
    check(folder)
    found, noise = compare_halves(name, Decoder(folder).sequence(prompt, following)[1], wanted)
    said.append(f"fp16 noise {noise:.1e}")
    if name in CONTRIB_16:
        folder = export(model, os.path.join(scratch, "contrib16"), "--precision", "fp16", "--ops", "contrib")
        more, noise = compare_halves(name + " contrib", Decoder(folder).sequence(prompt, following)[1], wanted)
        found += more
        said.append(f"contrib fp16 noise {noise:.1e}")
    print(f"{name}: {', '.join(said)}", flush=True)
    return faults + found


def files_of(folder):
    return {name: open(os.path.join(folder, name), "rb").read() for name in sorted(os.listdir(folder))}


def run_files(scratch):
    """Bytes are the same again, tied weights are there once, files that are there are not written over."""
    model = os.path.join(ROOT, "tests/golden/qwen2-tied-gqa")
    first = export(model, os.path.join(scratch, "first"))
    second = export(model, os.path.join(scratch, "second"))
    faults = []
    if files_of(first) != files_of(second):
        faults.append("two exports of one model differ")
    names = [
        {tensor.name for tensor in onnx.load(os.path.join(first, name), load_external_data=False).graph.initializer if tensor.external_data}
        for name in ("prefill.onnx", "decode.onnx")
    ]
    if "model.embed_tokens.weight" not in names[0] or any("embed_tokens.weight.T" in each for each in names[0] | names[1]):
        faults.append(f"the tied table is not there once: {sorted(names[0])}")
    with open(os.path.join(ROOT, "docs/export.md"), encoding="utf-8") as page:
        program = re.search(r"```python\n(.*?)```", page.read(), re.S).group(1)
    prompt = [str(i) for i in range(3, 3 + CHUNK + 5)]
    example = subprocess.run([sys.executable, "-c", program, first, *prompt], capture_output=True, text=True)
    greedy = json.loads(knapsack("run", model, "--ids", ",".join(prompt), "-n", "32", "--ignore-eos", "--json"))["token_ids"]
    if example.stdout.strip() != ",".join(map(str, greedy)):
        faults.append(f"the program of docs/export.md: {example.stdout}{example.stderr}, expected {greedy}")
    again = subprocess.run([sys.argv[1], "export", model, "-o", first], capture_output=True, text=True)
    if again.returncode != 2 or "--force" not in again.stderr:
        faults.append(f"an export over another: {again.returncode} {again.stderr}")
    odd = subprocess.run([sys.argv[1], "export", model, "-o", first, "--force", "--ctx", "96", "--chunk", "7"], capture_output=True, text=True)
    if odd.returncode != 2 or "--chunk 7" not in odd.stderr:
        faults.append(f"a chunk that does not divide the context: {odd.returncode} {odd.stderr}")
    return faults


def main():
    golden = os.path.join(ROOT, "tests/golden")
    names = sorted(name for name in os.listdir(golden) if os.path.exists(os.path.join(golden, name, "reference.json")))
    if sys.argv[2:] == ["--some"]:  # of a program under a sanitizer, which is slow
        names = names[::3]
    elif sys.argv[2:]:
        names = sys.argv[2:]
    faults = []
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            faults += run_model(name, scratch)
    if sys.argv[2:] in ([], ["--some"]):
        with tempfile.TemporaryDirectory() as scratch:
            faults += run_files(scratch)
    for fault in faults:
        print("FAULT:", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
