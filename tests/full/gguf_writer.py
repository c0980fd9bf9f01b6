#!/usr/bin/env python3
"""What `knapsack convert` writes, read back by llama.cpp's own Python package (PyPI gguf).

For each float checkpoint under tests/golden and each type: the file opens, its tensors are aligned and do not overlap,
and its matrices hold exactly the checkpoint's values rounded to the type. (In which order is architecture's business:
llama.cpp permutes, splits and stacks some of them. So values are compared sorted.)
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import gguf
import numpy as np

REPO = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("KNAPSACK_BINARY", str(REPO / "build/src/knapsack"))
TYPES = {"f32": gguf.GGMLQuantizationType.F32, "f16": gguf.GGMLQuantizationType.F16, "bf16": gguf.GGMLQuantizationType.BF16}


def widen_bf16(words):
    return (words.astype(np.uint32) << 16).view(np.float32)


def round_bf16(values):
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)


def checkpoint(folder):
    """Name -> float32 array of every tensor, or None where some are not float."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + size])
        header.pop("__metadata__", None)
        for name, info in header.items():
            begin, end = (8 + size + offset for offset in info["data_offsets"])
            raw = data[begin:end]
            if info["dtype"] == "F32":
                values = np.frombuffer(raw, np.float32)
            elif info["dtype"] == "F16":
                values = np.frombuffer(raw, np.float16).astype(np.float32)
            elif info["dtype"] == "BF16":
                values = widen_bf16(np.frombuffer(raw, np.uint16))
            else:
                return None
            tensors[name] = values.reshape(info["shape"])
    return tensors


class Refused(Exception):
    """GGUF has no place for something of this model."""


def matrices(arrays):
    # A matrix of one row (the gate of Qwen2-MoE's shared expert) is a vector in GGUF.
    flat = [a.ravel() for a in arrays if a.squeeze().ndim >= 2]
    return np.sort(np.concatenate(flat))


def read_back(path, expected_type):
    reader = gguf.GGUFReader(path)
    arrays, end = [], 0
    for tensor in sorted(reader.tensors, key=lambda t: t.data_offset):
        assert tensor.data_offset % 32 == 0, f"{tensor.name} is not aligned"
        assert tensor.data_offset >= end, f"{tensor.name} overlaps"
        end = tensor.data_offset + tensor.n_bytes
        shape = tuple(int(d) for d in reversed(tensor.shape))
        values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape)
        if values.ndim >= 2:
            assert tensor.tensor_type in (expected_type, gguf.GGMLQuantizationType.F32), f"{tensor.name} is {tensor.tensor_type}"
        arrays.append((tensor.tensor_type, values))
    assert end <= path.stat().st_size
    architecture = reader.get_field("general.architecture").contents()
    assert architecture and reader.get_field(f"{architecture}.block_count").contents() > 0
    return arrays


def check(folder, kind, tensors):
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "out.gguf"
        run = subprocess.run([BINARY, "convert", str(folder), "-o", str(out), "--type", kind], capture_output=True, text=True)
        if run.returncode == 4:
            raise Refused(run.stderr.strip().splitlines()[-1])
        assert run.returncode == 0, f"convert: exit {run.returncode}: {run.stderr.strip()}"
        assert [p.name for p in out.parent.iterdir()] == ["out.gguf"], "something else was left beside the file"
        arrays = read_back(out, TYPES[kind])
        stored = matrices([values for _, values in arrays])
        wanted = matrices(tensors.values())
        # Matrices that stay F32 (routers) are compared after rounding, as the others are.
        if kind == "f16":
            stored, wanted = stored.astype(np.float16), wanted.astype(np.float16)
        elif kind == "bf16":
            stored, wanted = round_bf16(stored), round_bf16(wanted)
        assert stored.size == wanted.size, f"{stored.size} values in matrices, {wanted.size} in the checkpoint"
        assert np.array_equal(stored, wanted), "values differ"


def main():
    passed = failed = skipped = 0
    for config in sorted((REPO / "tests/golden").glob("*/config.json")):
        tensors = checkpoint(config.parent)
        if not tensors:
            continue
        for kind in TYPES:
            try:
                check(config.parent, kind, tensors)
                passed += 1
            except Refused as reason:
                skipped += 1
                print(f"skip {config.parent.name} as {kind}: {reason}")
            except Exception as error:  # one model's failure must not hide the others
                failed += 1
                print(f"{config.parent.name} as {kind}: {error}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
