#!/usr/bin/env python3
"""`knapsack align` against exports under ONNX Runtime: they agree, and a weight changed in the file is found at its node.

    tests/align/onnx_test.py KNAPSACK

Without onnx and onnxruntime (tools/setup) it is skipped.
"""

import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
from onnxruntime_here import np, onnx  # noqa: E402

CTX, CHUNK = 96, 16
IDS = [(i * 37 + 5) % 127 for i in range(45)]  # two whole chunks, and more
# Of a model: what is changed in its weights file, and the node that must be named.
MODELS = {
    "qwen2-tied-gqa": ("model.layers.1.self_attn.o_proj.weight.T", "layers.1.attn.o_proj"),
    "llama-llama3rope": ("model.layers.1.mlp.up_proj.weight.T", "layers.1.mlp.up_proj"),
    "gemma3-text": ("model.layers.1.mlp.down_proj.weight.T", "layers.1.mlp.down_proj"),
    "mistral-window": ("model.layers.0.self_attn.k_proj.weight.T", "layers.0.attn.k_proj"),
    "phi3-partial": ("model.layers.1.self_attn.o_proj.weight.T", "layers.1.attn.o_proj"),
    "qwen3-moe": ("model.layers.1.self_attn.v_proj.weight.T", "layers.1.attn.v_proj"),
    "deepseek-v2-lite": ("model.layers.1.self_attn.o_proj.weight.T", "layers.1.attn.o_proj"),
}
# Of these the file, run by ourselves, is the same decoder.
RECOGNISED = {"qwen2-tied-gqa", "llama-llama3rope", "gemma3-text", "mistral-window", "phi3-partial"}
CONTRIB = {"qwen2-tied-gqa", "gemma3-text"}


def align(a, b, *words):
    done = subprocess.run([sys.argv[1], "align", a, b, "--ids", ",".join(map(str, IDS)), "--python", sys.executable, "--json", *words],
                          capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"align {a} {b}: {done.returncode}\n{done.stderr}{done.stdout}")
    return done.returncode, json.loads(done.stdout)


def export(model, folder, *words):
    subprocess.run([sys.argv[1], "export", model, "-o", folder, "--ctx", str(CTX), "--chunk", str(CHUNK), *words],
                   check=True, capture_output=True)
    return folder


def scale_weight(folder, name, by):
    proto = onnx.load(os.path.join(folder, "decode.onnx"), load_external_data=False)
    tensor = next(each for each in proto.graph.initializer if each.name == name)
    where = {entry.key: entry.value for entry in tensor.external_data}
    with open(os.path.join(folder, where["location"]), "r+b") as file:
        file.seek(int(where["offset"]))
        values = np.frombuffer(file.read(int(where["length"])), np.float32) * np.float32(by)
        file.seek(int(where["offset"]))
        file.write(values.tobytes())


def agree(what, code, found):
    faults = []
    if code != 0 or found["born"]:
        faults.append(f"{what}: exit code {code}, born {found['born'][:5]}")
    low = [node["name"] for node in found["nodes"] if not node["cosine"] > 0.9999]
    if low:
        faults.append(f"{what}: cosine not above 0.9999 at {low[:5]}")
    names = {node["name"] for node in found["nodes"]}
    lacking = {"embed", "layers.0.attn.q_proj", "layers.1.attn.context", "layers.1.attn.o_proj", "layers.1.mlp_norm", "layers.1.out",
               "norm", "logits"} - names
    if lacking:
        faults.append(f"{what}: not compared: {sorted(lacking)}")
    # Two chunks have the logits of their last token, what follows has its own.
    if found["tokens"] != len(IDS) or found["logits"]["tokens"] != len(IDS) // CHUNK + len(IDS) % CHUNK:
        faults.append(f"{what}: {found['tokens']} tokens, logits of {found['logits']['tokens']}")
    if found["logits"]["top1"] != 1 or not found["logits"]["kl"] < 1e-6:
        faults.append(f"{what}: logits {found['logits']['kl']}, top-1 {found['logits']['top1']}")
    return faults


def run_model(name, scratch):
    model = os.path.join(ROOT, "tests/golden", name)
    weight, node = MODELS[name]
    folder = export(model, os.path.join(scratch, "export"))
    code, found = align(model + ":reference", folder + ":ort")
    faults = agree(name, code, found)
    if found["replayed"] != "a":
        faults.append(f"{name}: replayed {found['replayed']}")
    print(f"{name}: {len(found['nodes'])} values, cosine at least {min(each['cosine'] for each in found['nodes']):.9f}", flush=True)
    # The other way round, a file named instead of its folder.
    faults += agree(name + " reversed", *align(os.path.join(folder, "decode.onnx:ort"), model + ":reference"))
    if name in CONTRIB:
        contrib = export(model, os.path.join(scratch, "contrib"), "--ops", "contrib")
        code, found = align(model + ":reference", contrib + ":ort")
        if code != 0 or found["born"] or not all(each["cosine"] > 0.9999 for each in found["nodes"]):
            faults.append(f"{name} contrib: exit code {code}, born {found['born']}")
    scale_weight(folder, weight, 1.2)
    code, found = align(model + ":reference", folder + ":ort")
    if code != 1 or found["born"] != [node]:
        faults.append(f"{name}: {weight} scaled: exit code {code}, born {found['born']}, expected {node}")
    if name in RECOGNISED:
        code, found = align(model + ":reference", os.path.join(folder, "prefill.onnx:reference"))
        if code != 1 or found["born"] != [node]:
            faults.append(f"{name}: {weight} scaled, run by ourselves: exit code {code}, born {found['born']}")
        # And the file against itself under ONNX Runtime: the same numbers from the same weights.
        code, found = align(os.path.join(folder, "prefill.onnx:reference"), folder + ":ort")
        if code != 0 or found["born"]:
            faults.append(f"{name}: the file by ourselves and by ONNX Runtime: exit code {code}, born {found['born']}")
    return faults


def main():
    faults = []
    some = sys.argv[2:] == ["--some"]  # of a program under a sanitizer, which is slow
    for name in list(MODELS)[:2] if some else MODELS:
        with tempfile.TemporaryDirectory() as scratch:
            faults += run_model(name, scratch)
    for fault in faults:
        print("FAULT:", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
