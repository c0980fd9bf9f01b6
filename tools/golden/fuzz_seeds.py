#!/usr/bin/env python3
"""Writes the seed corpora of the fuzz targets gguf, safetensors and json: small valid files, each with other features,
and a few that are nearly valid. Run from the repository's root; past crashers beside them are left alone."""
import json
import struct
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "tests" / "fuzz"


def put(target, name, data):
    folder = ROOT / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def text(value):
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}


def entry(key, kind, value):
    head = text(key) + struct.pack("<I", kind)
    return head + (text(value) if kind == 8 else struct.pack("<" + SCALARS[kind], value))


def array(key, kind, values):
    head = text(key) + struct.pack("<IIQ", 9, kind, len(values))
    return head + b"".join(text(v) if kind == 8 else struct.pack("<" + SCALARS[kind], v) for v in values)


def gguf(entries, tensors, version=3, alignment=32, pad=True):
    """tensors: (name, dims in the file's order, type, bytes)"""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries)) + b"".join(entries)
    data = b""
    for name, dims, kind, payload in tensors:
        head += text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
        head += struct.pack("<IQ", kind, len(data))
        data += payload + b"\0" * (-len(payload) % alignment)
    if tensors or pad:
        head += b"\0" * (-len(head) % alignment)
    return head + data


def gguf_seeds():
    arch = entry("general.architecture", 8, "llama")
    f32 = ("token_embd.weight", [4, 2], 0, bytes(32))
    put("gguf", "empty", gguf([], [], pad=False))
    put("gguf", "one", gguf([arch], [f32]))
    put("gguf", "v2", gguf([arch], [f32], version=2))
    put("gguf", "scalars", gguf([entry(f"k{k}", k, 1) for k in SCALARS], [f32]))
    put("gguf", "arrays", gguf([array(f"a{k}", k, [1, 0]) for k in SCALARS] + [array("s", 8, ["<s>", "", "b"])], []))
    put("gguf", "vocab", gguf([arch, array("tokenizer.ggml.tokens", 8, ["<unk>", "<0x00>", "a"]),
                               array("tokenizer.ggml.scores", 6, [0.0, -1.0, -2.5]),
                               array("tokenizer.ggml.token_type", 5, [2, 6, 1])], []))
    for alignment in (8, 24, 64):
        put("gguf", f"align{alignment}", gguf([entry("general.alignment", 4, alignment)], [f32, ("b", [3], 0, bytes(12))],
                                              alignment=alignment))
    blocks = [(2, 32, 18), (8, 32, 34), (12, 256, 144), (14, 256, 210), (30, 1, 2), (39, 32, 17), (24, 1, 1)]
    put("gguf", "types", gguf([], [(f"t{k}", [block, 2], k, bytes(2 * size)) for k, block, size in blocks]))
    put("gguf", "dims4", gguf([], [("x", [2, 1, 3, 2], 1, bytes(24))]))
    put("gguf", "split", gguf([entry("split.no", 2, 0), entry("split.count", 2, 2),
                               entry("split.tensors.count", 5, 2)], [f32]))
    put("gguf", "bigendian", b"GGUF" + struct.pack(">IQQ", 3, 0, 0))
    put("gguf", "nested", gguf([text("n") + struct.pack("<IIQIQB", 9, 9, 1, 0, 1, 7)], []))
    put("gguf", "html", b"<!DOCTYPE html><html><body>404</body></html>")


def safetensors_seeds():
    def file(header, size):
        data = header if isinstance(header, bytes) else json.dumps(header).encode()
        return struct.pack("<Q", len(data)) + data + bytes(size)

    def tensor(dtype, shape, begin, end):
        return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}

    put("safetensors", "empty", file({}, 0))
    put("safetensors", "one", file({"a": tensor("F32", [2, 3], 0, 24)}, 24))
    put("safetensors", "metadata", file({"__metadata__": {"format": "pt"}, "a": tensor("BF16", [2], 0, 4)}, 4))
    put("safetensors", "padded", file(json.dumps({"a": tensor("I8", [1], 0, 1)}).encode() + b"   ", 1))
    kinds = [("F64", 8), ("F32", 4), ("F16", 2), ("I64", 8), ("U32", 4), ("U8", 1), ("BOOL", 1), ("F8_E4M3", 1)]
    header, at = {}, 0
    for name, size in kinds:
        header[name] = tensor(name, [2], at, at + 2 * size)
        at += 2 * size
    put("safetensors", "types", file(header, at))
    put("safetensors", "scalar", file({"s": tensor("I64", [], 0, 8)}, 8))
    put("safetensors", "e5m2", file({"a": tensor("F8_E5M2", [1], 0, 1)}, 1))
    put("safetensors", "duplicate", file(b'{"a":{},"a":{}}', 0))
    put("safetensors", "index", json.dumps({"metadata": {"total_size": 8}, "weight_map": {
        "a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}).encode())
    put("safetensors", "index_out", b'{"weight_map":{"a":"../x"}}')


def json_seeds():
    config = {"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
              "rope_scaling": None, "tie_word_embeddings": True, "layer_types": ["full_attention"], "torch_dtype": "float32"}
    put("json", "config", json.dumps(config, indent=2).encode())
    put("json", "infinity", b'{"a": [Infinity, -Infinity, "Infinity"], "b": NaN}')
    put("json", "bom", b"\xef\xbb\xbf{}")
    put("json", "escapes", rb'["\u00e9\ud83d\ude00\n\t\"\\\/\b\f\r", "\u0000"]')
    put("json", "numbers", b"[0, -0, 1e5, 1.5E-3, 18446744073709551615, 18446744073709551616, -9223372036854775808, 5e-324]")
    put("json", "deep", b"[" * 64 + b"]" * 64)
    put("json", "duplicate", b'{"a":1,"\\u0061":2}')
    put("json", "utf8", "[\"é中😀\"]".encode())
    put("json", "bare", b"true")


gguf_seeds()
safetensors_seeds()
json_seeds()
