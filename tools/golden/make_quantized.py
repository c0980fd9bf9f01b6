"""Makes tiny GPTQ, AWQ and block-scaled FP8 checkpoints under tests/golden, with reference logits.

Quantizes a random float model with numpy, packs it as AutoGPTQ, GPTQModel, AutoAWQ and DeepSeek do, and takes as
reference the logits of the real `transformers` over the dequantized weights: what the packed numbers mean.
Run: python tools/golden/make_quantized.py tests/golden [name ...]
"""
import json
import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

import make_models
from make_models import forward, greedy, randomise

BASE = dict(vocab_size=128, hidden_size=128, intermediate_size=256, num_hidden_layers=1, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-5, bos_token_id=0, eos_token_id=1,
            pad_token_id=1)
MOE = dict(BASE, hidden_size=64, intermediate_size=64, head_dim=16, num_experts=4, num_experts_per_tok=2,
           moe_intermediate_size=32, norm_topk_prob=True)
V3 = dict(make_models.MLA, vocab_size=128, num_hidden_layers=2, n_routed_experts=4, num_experts_per_tok=2, n_group=2,
          topk_group=1, norm_topk_prob=True, routed_scaling_factor=2.5)

MODELS = {
    # name: (model_type, base config, method, options)
    "llama-gptq-4bit-g128": ("llama", BASE, "gptq", dict(bits=4, group=128, sym=True)),
    "qwen2-gptq-4bit-g32-actorder": ("qwen2", BASE, "gptq", dict(bits=4, group=32, sym=False, desc_act=True, file=True)),
    "llama-gptq-4bit-g16": ("llama", dict(BASE, hidden_size=64, intermediate_size=96), "gptq", dict(bits=4, group=16, sym=False)),
    "llama-gptq-8bit-all-v2": ("llama", BASE, "gptq", dict(bits=8, group=-1, sym=False, desc_act=True, v2=True)),
    "phi3-gptq-8bit-g32-actorder": ("phi3", BASE, "gptq", dict(bits=8, group=32, sym=True, desc_act=True)),
    "qwen3-moe-gptq-4bit-actorder": ("qwen3_moe", MOE, "gptq", dict(bits=4, group=32, sym=False, desc_act=True)),
    "llama-awq-4bit-g32": ("llama", BASE, "awq", dict(bits=4, group=32)),
    "qwen2-awq-4bit-g128": ("qwen2", BASE, "awq", dict(bits=4, group=128)),
    "llama-fp8-blocks": ("llama", dict(BASE, hidden_size=160, intermediate_size=200, head_dim=40), "fp8", dict(block=[64, 64])),
    "deepseek-v3-fp8": ("deepseek_v3", V3, "fp8", dict(block=[128, 128])),
}


def quantize(weight, bits, group, sym, order):
    """weight [N, K] -> codes [K, N], scales f16 and zeros [groups, N], group of each column; order: columns by group."""
    n, k = weight.shape
    size = k if group == -1 else group
    g_idx = np.empty(k, np.int32)
    g_idx[order] = np.arange(k) // size
    groups, top = int(g_idx.max()) + 1, 2**bits - 1
    scales, zeros = np.zeros((groups, n), np.float16), np.zeros((groups, n), np.int64)
    codes = np.zeros((k, n), np.int64)
    for g in range(groups):
        columns = np.flatnonzero(g_idx == g)
        part = weight[:, columns].astype(np.float64)
        low, high = np.minimum(part.min(1), 0), np.maximum(part.max(1), 0)
        if sym:
            high = np.maximum(-low, high)
            low = -high
        scale = np.float16((high - low) / top + 1e-6)
        zero = np.full(n, (top + 1) // 2) if sym else np.clip(np.round(-low / scale.astype(np.float64)), 0, top)
        scales[g], zeros[g] = scale, zero
        codes[columns] = np.clip(np.round(part / scale.astype(np.float64)[:, None] + zero[:, None]), 0, top).T.astype(np.int64)
    meant = scales.astype(np.float32)[g_idx] * (codes - zeros[g_idx]).astype(np.float32)
    return codes, scales, zeros, g_idx, meant.T.copy()


def pack(values, bits, axis, lanes=None):
    """Packs integers into int32 words along an axis; lanes[i]: which of a word's values goes to bit position i."""
    per = 32 // bits
    lanes = lanes or list(range(per))
    values = np.moveaxis(values, axis, 0)
    words = np.zeros((values.shape[0] // per, values.shape[1]), np.uint32)
    for i, lane in enumerate(lanes):
        words |= (values[lane::per].astype(np.uint32)) << np.uint32(bits * i)
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(words, 0, axis)).view(np.int32))


def gptq(stem, weight, rng, options):
    bits, n, k = options["bits"], *weight.shape
    order = rng.permutation(k) if options.get("desc_act") else np.arange(k)
    codes, scales, zeros, g_idx, meant = quantize(weight, bits, options["group"], options["sym"], order)
    stored = zeros if options.get("v2") else (zeros - 1) & (2**bits - 1)
    return meant, {stem + "qweight": pack(codes, bits, 0), stem + "qzeros": pack(stored, bits, 1),
                   stem + "scales": torch.from_numpy(scales), stem + "g_idx": torch.from_numpy(g_idx)}


def awq(stem, weight, rng, options):
    codes, scales, zeros, _, meant = quantize(weight, options["bits"], options["group"], False, np.arange(weight.shape[1]))
    lanes = [0, 2, 4, 6, 1, 3, 5, 7]
    return meant, {stem + "qweight": pack(codes, 4, 1, lanes), stem + "qzeros": pack(zeros, 4, 1, lanes),
                   stem + "scales": torch.from_numpy(scales)}


def fp8(stem, weight, rng, options):
    rows, cols = options["block"]
    n, k = weight.shape
    scale = torch.zeros(-(-n // rows), -(-k // cols))
    codes, meant = torch.zeros(n, k, dtype=torch.float8_e4m3fn), torch.zeros(n, k)
    for r in range(scale.shape[0]):
        for c in range(scale.shape[1]):
            at = (slice(r * rows, (r + 1) * rows), slice(c * cols, (c + 1) * cols))
            part = torch.from_numpy(weight)[at]
            scale[r, c] = part.abs().max() / 448
            codes[at] = (part / scale[r, c]).to(torch.float8_e4m3fn)
            meant[at] = codes[at].float() * scale[r, c]
    return meant.numpy(), {stem + "weight": codes, stem + "weight_scale_inv": scale}


def is_quantized(name, method):
    if not name.endswith("proj.weight") and not name.endswith("kv_a_proj_with_mqa.weight"):
        return False
    return method != "gptq" or "kv_b" not in name


def make(name, folder):
    model_type, fields, method, options = MODELS[name]
    config = AutoConfig.for_model(model_type, **json.loads(json.dumps(fields)))
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    seed = sum(ord(c) for c in name)
    randomise(model, seed)
    rng = np.random.default_rng(seed)
    tensors = {}
    with torch.no_grad():
        for key, value in model.state_dict().items():
            if is_quantized(key, method):
                meant, parts = globals()[method](key[: -len("weight")], value.numpy(), rng, options)
                value.copy_(torch.from_numpy(meant))
                tensors.update(parts)
            else:
                half = value if "correction" in key else value.half()
                value.copy_(half.float())
                tensors[key] = half.clone()
    out = pathlib.Path(folder) / name
    out.mkdir(parents=True, exist_ok=True)
    save_file({k: v.contiguous() for k, v in tensors.items()}, out / "model.safetensors", metadata={"format": "pt"})
    quant = {"gptq": lambda: dict(quant_method="gptq", bits=options["bits"], group_size=options["group"], sym=options["sym"],
                                  desc_act=options.get("desc_act", False),
                                  **(dict(checkpoint_format="gptq_v2") if options.get("v2") else {})),
             "awq": lambda: dict(quant_method="awq", bits=4, group_size=options["group"], version="gemm", zero_point=True,
                                 modules_to_not_convert=None),
             "fp8": lambda: dict(quant_method="fp8", fmt="e4m3", activation_scheme="dynamic",
                                 weight_block_size=options["block"])}[method]()
    described = json.loads(config.to_json_string())
    described["architectures"] = [type(model).__name__]
    described["torch_dtype"] = "float16"
    if options.get("file"):  # AutoGPTQ's older way: a file of its own, without the method's name
        quant.pop("quant_method")
        (out / "quantize_config.json").write_text(json.dumps(quant, indent=2) + "\n")
    else:
        described["quantization_config"] = quant
    (out / "config.json").write_text(json.dumps(described, indent=2) + "\n")

    vocab = config.vocab_size
    ids_a, ids_b = rng.integers(2, vocab, 48).tolist(), rng.integers(2, vocab, 7).tolist()
    while True:
        prompt = rng.integers(2, vocab, 12).tolist()
        tokens, margin = greedy(model, prompt, 32)
        if margin > 2e-3:
            break
    logits_a, hidden_a = forward(model, ids_a)
    logits_b, _ = forward(model, ids_b)
    logits_a.astype("<f4").tofile(out / "logits_a.f32")
    logits_b.astype("<f4").tofile(out / "logits_b.f32")
    hidden_a.astype("<f4").tofile(out / "hidden_a.f32")
    reference = dict(name=name, note=f"{method} {options}", dtype="f32", ids_a=ids_a, ids_b=ids_b, vocab=vocab,
                     hidden_a_shape=list(hidden_a.shape), greedy_prompt=prompt, greedy_tokens=tokens[len(prompt):],
                     greedy_min_margin=margin)
    (out / "reference.json").write_text(json.dumps(reference) + "\n")
    print(name, "max |logit|", float(np.abs(logits_a).max()), "margin", margin)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for wanted in sys.argv[2:] or MODELS:
        make(wanted, sys.argv[1])
