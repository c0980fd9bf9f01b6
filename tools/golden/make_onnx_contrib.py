"""Tiny models with ONNX Runtime's own operators (com.microsoft), as those write them who do: ONNX Runtime GenAI's model
builder, ONNX Runtime's optimizer for transformers, and its session when it keeps what it optimized (tests/data/onnx).

Each NAME.npz has the inputs and what ONNX Runtime makes of them; PyTorch agrees where there are floats of 32 bits.
Products with 4-bit weights are computed in float there (accuracy_level 0), not on activations of 8 bits.
Run: PYTHONPATH=GENAI python tools/golden/make_onnx_contrib.py tests/data/onnx [name ...]
GENAI is a folder with onnxruntime-genai 0.10.0 (pip install --no-deps --target). Versions: tests/data/onnx/README.md.
"""
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
import torch
import transformers
from onnxruntime.transformers import optimizer
from onnxruntime_genai.models import builder

TINY = dict(vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=1, head_dim=16, max_position_embeddings=64, bos_token_id=0, eos_token_id=1, pad_token_id=1)
BEFORE = 11


def checkpoint(kind, folder, **more):
    config = transformers.AutoConfig.for_model(kind, **dict(TINY, **more))
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    generator = torch.Generator().manual_seed(sum(kind.encode()))
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            noise = torch.randn(tensor.shape, generator=generator)
            if tensor.ndim > 1:
                tensor.copy_(noise / tensor[0].numel() ** 0.5)
            else:
                tensor.copy_((1.0 if name.endswith("weight") else 0.0) + 0.1 * noise)
    model.config.architectures = [type(model).__name__]
    model.save_pretrained(folder)
    return model


def built(kind, precision, path, **more):
    """As the model builder writes it for a CPU; the tokenizer, which it also wants to write, there is none."""
    builder.Model.save_processing = lambda *_: None
    with tempfile.TemporaryDirectory() as folder:
        model = checkpoint(kind, folder, **more)
        builder.create_model(folder, folder, folder + "/out", precision, "cpu", folder + "/cache")
        onnx.save(onnx.load(folder + "/out/model.onnx"), path)
    return model


def session(path):
    model = onnx.load(path)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "accuracy_level":
                attribute.i = 0
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def step(run, ids, before, past):
    types = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
    every = {
        "input_ids": ids[None, before:],
        "attention_mask": np.ones((1, len(ids)), np.int64),
        "position_ids": np.arange(before, len(ids))[None],
    }
    feed = {}
    for each in run.get_inputs():
        if each.name in every:
            feed[each.name] = every[each.name].astype(np.int64)
        else:
            feed[each.name] = past.get(each.name, np.zeros((1, each.shape[1], 0, each.shape[3]), types[each.type]))
    names = [each.name for each in run.get_outputs()]
    return feed, dict(zip(names, run.run(names, feed)))


def decoder(kind, precision, path, tokens=2, **more):
    model = built(kind, precision, path, **more)
    run = session(path)
    ids = np.random.default_rng(7).integers(2, TINY["vocab_size"], BEFORE + tokens)
    _, first = step(run, ids[:BEFORE], 0, {})
    past = {name.replace("present", "past_key_values"): value for name, value in first.items() if name != "logits"}
    feed, made = step(run, ids, BEFORE, past)
    with torch.no_grad():
        wanted = model(torch.tensor(ids[None])).logits[:, BEFORE:].numpy()
    off = float(np.abs(made["logits"] - wanted).max())
    print(f"  PyTorch's float model differs by {off:.2g}")
    if precision == "fp32" and off > 1e-4:
        raise SystemExit("ONNX Runtime differs from PyTorch")
    return feed | made | {"ids": ids}


def fused(source, heads, path):
    """By ONNX Runtime's optimizer for transformers."""
    model = optimizer.optimize_model(str(source), model_type="bert", num_heads=heads, hidden_size=16, opt_level=0)
    model.save_model_to_file(path)


def kept(source, _, path):
    """By its session, at the level that fuses and is not for one processor."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = path
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def optimized(how, source, heads, out, path):
    """With the values of the file that it is made of, which are PyTorch's."""
    how(out / f"{source}.onnx", heads, path)
    return dict(np.load(out / f"{source}.npz"))


MODELS = {
    "llama-genai": lambda out, path: decoder("llama", "fp32", path),
    "qwen2-genai-f16": lambda out, path: decoder("qwen2", "fp16", path, tokens=1),
    "qwen3-genai-int4": lambda out, path: decoder("qwen3", "int4", path, num_hidden_layers=2, intermediate_size=64),
    "bert-fused": lambda out, path: optimized(fused, "bert", 2, out, path),
    "qwen2-fused": lambda out, path: optimized(fused, "qwen2-optimum", 4, out, path),
    "qwen2-kept": lambda out, path: optimized(kept, "qwen2-optimum", 4, out, path),
    "vit-kept": lambda out, path: optimized(kept, "vit", 2, out, path),
}


def make(name, out):
    path = str(out / f"{name}.onnx")
    arrays = MODELS[name](out, path)
    model = onnx.load(path)
    del model.graph.value_info[:]
    for node in model.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    onnx.save(model, path)
    np.savez_compressed(out / f"{name}.npz", **{k: v.astype(np.float32) if v.dtype == np.float16 else v for k, v in arrays.items()})
    own = sorted({node.op_type for node in model.graph.node if node.domain})
    sizes = [(out / f"{name}.{kind}").stat().st_size for kind in ("onnx", "npz")]
    print(f"{name}: {sizes[0]} + {sizes[1]} bytes, {len(model.graph.node)} nodes: {', '.join(own)}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for each in sys.argv[2:] or MODELS:
        make(each, pathlib.Path(sys.argv[1]))
