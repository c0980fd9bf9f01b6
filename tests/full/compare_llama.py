#!/usr/bin/env python3
"""Knapsack beside llama.cpp on real models: greedy text of 64 tokens for ten prompts, and perplexity.

  compare_llama.py --record           run llama.cpp (llama-cpp-python 0.3.36), write tests/data/llama_cpp.json
  compare_llama.py                    run knapsack, compare with that file; and compare its logits, on the model as it is,
                                      with llama.cpp's on the same weights decoded to float32, where llama.cpp does not
                                      round activations: a far sharper test (--exact: only this)

Texts agree when they are equal, or when the first difference is at a step where llama.cpp's top two logits are closer
than twice the largest difference between the engines' logits there, and closer than 0.5: llama.cpp rounds activations
to 8 bits, so a near-tie may fall either way. A wider gap is told as such, and passes only if llama.cpp itself takes our
token there once the weights are decoded to float32, so that it rounds no activations. Perplexities agree within 0.5 %. Exit 0: all agree; 1: some do not.

The models are read from models/ (tools/setup/fetch_models.py puts them there) or $KNAPSACK_MODELS; a model that is not
there is skipped and said so.
"""
import argparse
import contextlib
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import llama_cpp as ll
import numpy as np

from _llama import Llama

REPO = pathlib.Path(__file__).resolve().parents[2]
# llama-cpp-python 0.3.36, gguf and numpy come with `make test-full`'s set-up.
MODELS = pathlib.Path(os.environ.get("KNAPSACK_MODELS", REPO / "models"))
GOLDEN = REPO / "tests/data/llama_cpp.json"
PROMPTS = REPO / "tests/data/prompts.txt"
TEXT = REPO / "tests/data/perplexity.txt"
NAMES = ["SmolLM2-135M-Instruct.Q4_1.gguf", "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf", "gemma-3-270m.Q4_K_M.gguf"]
TOKENS, CTX, WINDOW, TOP = 64, 512, 512, 5
SHORT = 20000  # bytes of the text for all models but the first: some nine chunks


def text_for(name):
    text = TEXT.read_text(encoding="ascii")
    return text if name == NAMES[0] else text[:SHORT]


def prompts():
    return PROMPTS.read_text(encoding="utf-8").splitlines()


class Reference(Llama):
    """llama.cpp as these tests want it: CTX tokens, flash attention off, logits as arrays."""

    def __init__(self, path, f32_kv=False):
        super().__init__(path, CTX, int(os.environ.get("KNAPSACK_THREADS", "2")), f32_kv=f32_kv)
        self.width = ll.llama_vocab_n_tokens(self.vocab)

    def run(self, ids, past, wanted):
        """Logits of the positions in `wanted` (indices into ids), float32 [len(wanted), vocab]."""
        return np.stack([np.ctypeslib.as_array(p, (self.width,)).copy() for p in self.decode(ids, past, wanted)])

    def last_logits(self, ids):
        self.clear()
        return self.run(ids, 0, [len(ids) - 1])[0]

    def greedy(self, prompt):
        ids = self.tokenize(prompt)
        self.clear()
        logits = self.run(ids, 0, [len(ids) - 1])[0]
        made, top = [], []
        end = False
        while len(made) < TOKENS:
            best = np.argsort(-logits, kind="stable")[:TOP]
            top.append([[int(i), round(float(logits[i]), 4)] for i in best])
            token = int(best[0])
            if ll.llama_vocab_is_eog(self.vocab, token):
                end = True
                break
            made.append(token)
            if len(made) < TOKENS:
                logits = self.run([token], len(ids) + len(made) - 1, [0])[0]
        return {"prompt_ids": ids, "ids": made, "end": end, "text": self.text(made), "top": top}

    def perplexity(self, text):
        ids = self.tokenize(text)
        add_bos = ll.llama_vocab_get_add_bos(self.vocab)
        first = WINDOW // 2
        total, count, early = 0.0, 0, None
        for begin in range(0, len(ids) - WINDOW + 1, WINDOW):
            chunk = ids[begin:begin + WINDOW]
            target = chunk[first + 1:]
            if add_bos:
                chunk[0] = ll.llama_vocab_bos(self.vocab)
            self.clear()
            logits = self.run(chunk, 0, range(first, WINDOW))[:-1].astype(np.float64)
            top = logits.max(axis=1)
            total += float((top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
                            - logits[np.arange(len(target)), target]).sum())
            count += len(target)
            if begin == 3 * WINDOW:
                early = round(math.exp(total / count), 4)
            print(f"  llama.cpp {count} tokens: {math.exp(total / count):.4f}", file=sys.stderr)
        return {"perplexity": round(math.exp(total / count), 4), "scored": count, "tokens": len(ids), "of_4_chunks": early}


def save(golden):
    parts = []
    for name, found in golden.items():
        rows = ",\n".join("    " + json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in found["greedy"])
        parts.append(f' {json.dumps(name)}: {{\n  "perplexity": {json.dumps(found.get("perplexity"))},\n'
                     f'  "greedy": [\n{rows}\n  ]}}')
    GOLDEN.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def record(names, text_too):
    golden = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}
    for name in names:
        llama = Reference(MODELS / name)
        print(f"{name}: greedy", file=sys.stderr)
        golden.setdefault(name, {})["greedy"] = [llama.greedy(p) for p in prompts()]
        save(golden)
        if text_too:
            golden[name]["perplexity"] = llama.perplexity(text_for(name))
            save(golden)


def knapsack(binary, *args):
    done = subprocess.run([binary, *args], capture_output=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join([binary, *args])}: exit {done.returncode}: {done.stderr.decode()[-2000:]}")
    return done.stdout


def our_last_logits(binary, path, ids):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "logits.npy")
        knapsack(binary, "logits", str(path), "--ids", ",".join(map(str, ids)), "-o", out)
        return np.load(out)[-1]


def decoded_copy(source, target):
    """The same GGUF with every tensor as float32."""
    import gguf
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type", "general.quantization_version"):
            continue
        if field.types[0] == gguf.GGUFValueType.ARRAY:
            writer.add_array(key, field.contents())
        else:
            writer.add_key_value(key, field.contents(), field.types[0])
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.ascontiguousarray(gguf.dequantize(tensor.data, tensor.tensor_type), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@contextlib.contextmanager
def decoded_llama(name):
    """llama.cpp on the model's weights as float32."""
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "f32.gguf")
        decoded_copy(MODELS / name, copy)
        yield Reference(copy, f32_kv=True)


def exact(names, binary):
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    verdicts = []
    for name in names:
        # llama.cpp looks GELU up in a table of f16, which only Gemma's activation meets.
        limit = 3e-2 if name.startswith("gemma") else 1e-3
        with decoded_llama(name) as llama:
            for prompt, row in zip(prompts(), golden[name]["greedy"], strict=True):
                ids = row["prompt_ids"] + row["ids"]
                x, y = our_last_logits(binary, MODELS / name, ids), llama.last_logits(ids)
                difference = float(abs(x - y).max())
                verdicts.append(difference <= limit)
                print(f"{name}, {prompt[:24]}, {len(ids)} tokens: largest logit difference {difference:.6f} at a spread of "
                      f"{float(y.std()):.2f}{'' if difference <= limit else ' WRONG'}", flush=True)
    return verdicts


def compare(names, binary, text_too):
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    verdicts = []
    print("| model | prompt | equal tokens | top-2 gap | largest logit difference | verdict |\n|---|---|---|---|---|---|")
    for name in names:
        path = MODELS / name
        llama = None
        for prompt, theirs in zip(prompts(), golden[name]["greedy"], strict=True):
            ours = json.loads(knapsack(binary, "run", str(path), "-p", prompt, "-n", str(TOKENS), "--ctx", str(CTX),
                                       "--json"))
            a, b = ours["token_ids"], theirs["ids"]
            same = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            shown = prompt[:24].replace("|", "/")
            if ours["prompt_tokens"] != len(theirs["prompt_ids"]):
                verdicts.append(False)
                print(f"| {name} | {shown} | - | - | - | WRONG: {ours['prompt_tokens']} prompt tokens, "
                      f"llama.cpp has {len(theirs['prompt_ids'])} |")
                continue
            if a == b and ours["text"] == theirs["text"]:
                verdicts.append(True)
                print(f"| {name} | {shown} | {same} of {len(b)} | | | equal |", flush=True)
                continue
            if a == b:
                verdicts.append(False)
                print(f"| {name} | {shown} | {same} of {len(b)} | | | WRONG: same ids, text {ours['text']!r} "
                      f"for {theirs['text']!r} |")
                continue
            llama = llama or Reference(path)
            ids = theirs["prompt_ids"] + b[:same]
            x, y = our_last_logits(binary, path, ids), llama.last_logits(ids)
            difference = float(abs(x - y).max())
            top = theirs["top"][same]
            gap = top[0][1] - top[1][1]
            verdict = "near-tie" if gap < 2 * difference and gap < 0.5 else "WRONG"
            if verdict == "WRONG" and same < len(a):
                with decoded_llama(name) as float_llama:
                    if int(float_llama.last_logits(ids).argmax()) == a[same]:
                        verdict = "wider than a near-tie; on decoded weights llama.cpp takes our token"
            verdicts.append(verdict != "WRONG")
            print(f"| {name} | {shown} | {same} of {len(b)} | {gap:.4f} | {difference:.4f} | {verdict} |", flush=True)
        if text_too:
            with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
                file.write(text_for(name))
                file.flush()
                ours = json.loads(knapsack(binary, "perplexity", str(path), file.name, "--method", "llama", "--json"))
            if not golden[name]["perplexity"]:  # not recorded: asked for now
                llama = llama or Reference(path)
                golden[name]["perplexity"] = llama.perplexity(text_for(name))
            theirs = golden[name]["perplexity"]["perplexity"]
            off = ours["perplexity"] / theirs - 1
            verdicts.append(abs(off) <= 0.005)
            print(f"| {name} | perplexity {ours['perplexity']:.4f}, llama.cpp {theirs:.4f} | | | | {off:+.3%}"
                  f"{' WRONG' if abs(off) > 0.005 else ''} |", flush=True)
    return verdicts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--exact", action="store_true", help="only the sharper test")
    parser.add_argument("--knapsack", default=os.environ.get("KNAPSACK_BINARY", str(REPO / "build/src/knapsack")))
    parser.add_argument("--model", action="append", help="only models whose file name contains this")
    parser.add_argument("--no-perplexity", action="store_true")
    options = parser.parse_args()
    names = [n for n in NAMES if not options.model or any(m.lower() in n.lower() for m in options.model)]
    there = [n for n in names if (MODELS / n).exists()]
    for name in names:
        if name not in there:
            print(f"skipped: {MODELS / name} is not there", file=sys.stderr)
    if options.record:
        record(there, not options.no_perplexity)
        return 0
    verdicts = exact(there, options.knapsack)
    if not options.exact:
        verdicts += compare(there, options.knapsack, not options.no_perplexity)
    print(f"{verdicts.count(True)} passed, {verdicts.count(False)} failed, {len(names) - len(there)} skipped")
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
