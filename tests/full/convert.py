"""Golden models converted by `knapsack convert` give llama.cpp the logits transformers gave, and the same token ids.

Needs llama-cpp-python and numpy. KNAPSACK_BINARY: the program to test.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import llama_cpp

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("KNAPSACK_BINARY", str(ROOT / "build/src/knapsack"))
# In 16 bits weights move, and llama.cpp rounds activations too: an expert chosen otherwise moves a whole row, so there
# the median counts.
TOLERANCE = {"f32": 5e-3, "f16": 2e-2, "bf16": 1.5e-1}


@llama_cpp.llama_log_callback
def quiet(level, text, data):
    pass


TEXTS = ["Hello, world!", "  two  spaces\u4f60\u597d \U0001f600 123456 don't\n\n x", "a\tb  c\r\nd   e"]


def tokens_differ(model, folder):
    for text in TEXTS:
        ran = subprocess.run([BINARY, "tokenize", str(folder), text, "--json"], capture_output=True, text=True, check=True)
        want = json.loads(ran.stdout)["ids"]
        got = model.tokenize(text.encode(), add_bos=False, special=True)
        if want != got:
            return f"{text!r}: llama.cpp {got}, expected {want}"
    return None


def logits(path, ids, vocab, folder):
    model = llama_cpp.Llama(str(path), n_ctx=len(ids), n_batch=len(ids), n_ubatch=len(ids), logits_all=True, verbose=False,
                            n_threads=2, type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32)
    assert model.n_vocab() == vocab, (model.n_vocab(), vocab)
    if (folder / "tokenizer.json").exists():
        difference = tokens_differ(model, folder)
        assert difference is None, difference
    model.eval(ids)
    return np.array(model.scores[: len(ids)], dtype=np.float32)


def check(folder, kind, out):
    reference = json.loads((folder / "reference.json").read_text())
    ran = subprocess.run([BINARY, "convert", str(folder), "-o", str(out), "--type", kind], capture_output=True, text=True)
    if ran.returncode == 4:
        return None, ran.stderr.strip()
    if ran.returncode != 0:
        return False, f"exit {ran.returncode}: {ran.stderr.strip()}"
    if "llama.cpp scores groups" in ran.stderr:
        return None, ran.stderr.strip()
    which = "b" if "context_length is set to the window" in ran.stderr else "a"
    ids = reference["ids_" + which]
    want = np.fromfile(folder / f"logits_{which}.f32", "<f4").reshape(len(ids), -1)
    got = logits(out, ids, want.shape[1], folder)
    errors = np.abs(got - want)
    error = float(errors.max() if kind == "f32" else np.median(errors))
    return error <= TOLERANCE[kind], f"{'max' if kind == 'f32' else 'median'} abs logit error {error:.2g}"


def main():
    llama_cpp.llama_log_set(quiet, None)
    passed = failed = 0
    for folder in sorted(p.parent for p in (ROOT / "tests/golden").glob("*/reference.json")):
        for kind in TOLERANCE:
            with tempfile.TemporaryDirectory() as temp:
                try:
                    good, text = check(folder, kind, pathlib.Path(temp) / "model.gguf")
                except Exception as error:  # llama.cpp refused the file
                    good, text = False, f"{type(error).__name__}: {error}"
            if good is None:
                print(f"skip {folder.name} {kind}: {text}")
                continue
            passed, failed = passed + good, failed + (not good)
            print(f"{'ok  ' if good else 'FAIL'} {folder.name} {kind}: {text}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
