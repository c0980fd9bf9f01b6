"""Makes the tiny random-weight models under tests/golden whose names are in MODELS, with reference logits.

The reference is the real `transformers` (4.57.1 on torch 2.6.0, CPU, float32, eager). Weights are random: the models
test arithmetic, never quality. Run: python tools/golden/make_models.py tests/golden [name ...]
"""
import json
import math
import pathlib
import sys

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

COMMON = dict(vocab_size=128, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-5, bos_token_id=0, eos_token_id=1,
              pad_token_id=1)
MLA = dict(COMMON, num_key_value_heads=4, kv_lora_rank=32, q_lora_rank=24, qk_nope_head_dim=16, qk_rope_head_dim=8,
           v_head_dim=16, n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=3, moe_intermediate_size=32,
           first_k_dense_replace=1)
FACTORS = [1.0 + 0.25 * i for i in range(6)]

MODELS = {
    # name: (model_type, config, note)
    "mistral-window": ("mistral", dict(COMMON, sliding_window=8, head_dim=24), "sliding window 8, explicit head_dim"),
    "phi3-partial": ("phi3", dict(COMMON, partial_rotary_factor=0.5, sliding_window=None),
                     "fused projections, half of each head rotated"),
    "phi3-longrope": ("phi3", dict(COMMON, original_max_position_embeddings=32, num_attention_heads=4, hidden_size=48,
                                   rope_scaling={"type": "longrope", "short_factor": [1.0 + 0.1 * i for i in range(6)],
                                                 "long_factor": FACTORS}),
                      "LongRoPE: ids_a is longer than the original context (long factors), ids_b and greedy are not"),
    "qwen3-moe": ("qwen3_moe", dict(COMMON, head_dim=24, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=32,
                                    norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[0]),
                  "normalised top-3 of 8, a dense layer between"),
    "qwen2-moe-sparse": ("qwen2_moe", dict(COMMON, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32,
                                           shared_expert_intermediate_size=48, decoder_sparse_step=2),
                         "every second layer has experts"),
    "qwen2-window": ("qwen2", dict(COMMON, use_sliding_window=True, sliding_window=8, max_window_layers=1),
                     "windows on the layers from max_window_layers on"),
    "qwen3-window-bias": ("qwen3", dict(COMMON, head_dim=32, attention_bias=True, use_sliding_window=True, sliding_window=6,
                                        max_window_layers=1), "biases on all four projections, one window layer"),
    "llama-linear-bias": ("llama", dict(COMMON, head_dim=24, attention_bias=True, mlp_bias=True, hidden_act="gelu_pytorch_tanh",
                                        rope_scaling={"rope_type": "linear", "factor": 4.0}),
                          "linear RoPE, explicit head_dim, biases everywhere, gelu_tanh"),
    "llama-mha-gelu": ("llama", dict(COMMON, num_key_value_heads=4, hidden_act="gelu", tie_word_embeddings=True),
                       "multi-head attention, exact gelu, tied head"),
    "deepseek-v2-groups": ("deepseek_v2", dict(MLA, topk_method="group_limited_greedy", n_group=4, topk_group=2,
                                               routed_scaling_factor=2.0, norm_topk_prob=False, n_shared_experts=2),
                           "q_lora, experts limited to the best groups, scaled"),
    "deepseek-v3-yarn": ("deepseek_v3", dict(MLA, n_group=4, topk_group=2, routed_scaling_factor=2.5, norm_topk_prob=True,
                                             max_position_embeddings=640,
                                             rope_scaling={"rope_type": "yarn", "factor": 40.0, "mscale": 1.0,
                                                           "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1,
                                                           "original_max_position_embeddings": 16}),
                         "YaRN with mscale_all_dim, sigmoid noaux_tc groups"),
    "deepseek-v3-plain": ("deepseek_v3", dict(MLA, q_lora_rank=None, n_group=1, topk_group=1, routed_scaling_factor=1.0,
                                              norm_topk_prob=False, rope_interleave=False, attention_bias=True),
                          "no q_lora, no groups, half-split RoPE, attention biases"),
    "gemma3-linear": ("gemma3_text", dict(COMMON, head_dim=16, query_pre_attn_scalar=24, sliding_window=6,
                                          layer_types=["sliding_attention", "full_attention"],
                                          rope_scaling={"rope_type": "linear", "factor": 8.0}, rope_theta=1e6,
                                          final_logit_softcapping=5.0, num_key_value_heads=2),
                      "linear RoPE on the full layers, softcapped logits, own query scale"),
}


def randomise(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
            if "inv_freq" in name or "embed_scale" in name or not tensor.is_floating_point():
                continue
            noise = torch.randn(tensor.shape, generator=generator)
            if name.endswith("e_score_correction_bias"):
                tensor.copy_(0.1 * noise)
            elif tensor.ndim >= 2:
                tensor.copy_(noise / math.sqrt(tensor.shape[-1]) * (0.7 if "embed" in name else 1.0))
            elif "norm" in name:
                offset = 0.0 if model.config.model_type == "gemma3_text" else 1.0
                tensor.copy_(offset + 0.1 * noise)
            else:
                tensor.copy_(0.1 * noise)


def forward(model, ids):
    with torch.no_grad():
        out = model(torch.tensor([ids]), output_hidden_states=True, use_cache=False)
    return out.logits[0].numpy(), torch.stack(out.hidden_states)[:, 0].numpy()


def greedy(model, ids, count):
    ids, margin = list(ids), math.inf
    for _ in range(count):
        logits, _ = forward(model, ids)
        top = np.sort(logits[-1])
        margin = min(margin, float(top[-1] - top[-2]))
        ids.append(int(logits[-1].argmax()))
    return ids, margin


def make(name, folder):
    model_type, fields, note = MODELS[name]
    config = AutoConfig.for_model(model_type, **json.loads(json.dumps(fields)))
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    seed = sum(ord(c) for c in name)
    randomise(model, seed)
    rng = np.random.default_rng(seed)
    vocab = config.vocab_size
    ids_a, ids_b = rng.integers(2, vocab, 48).tolist(), rng.integers(2, vocab, 7).tolist()
    count = 20 if name == "phi3-longrope" else 32
    while True:
        prompt = rng.integers(2, vocab, 12).tolist()
        tokens, margin = greedy(model, prompt, count)
        if margin > 2e-3:
            break
    logits_a, hidden_a = forward(model, ids_a)
    logits_b, _ = forward(model, ids_b)
    out = pathlib.Path(folder) / name
    out.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(out, safe_serialization=True)
    (out / "generation_config.json").unlink(missing_ok=True)
    logits_a.astype("<f4").tofile(out / "logits_a.f32")
    logits_b.astype("<f4").tofile(out / "logits_b.f32")
    hidden_a.astype("<f4").tofile(out / "hidden_a.f32")
    import transformers
    reference = dict(name=name, note=note, transformers=transformers.__version__, torch=torch.__version__, dtype="f32",
                     ids_a=ids_a, ids_b=ids_b, vocab=vocab, hidden_a_shape=list(hidden_a.shape), greedy_prompt=prompt,
                     greedy_tokens=tokens[len(prompt):], greedy_min_margin=margin)
    (out / "reference.json").write_text(json.dumps(reference) + "\n")
    print(name, "max |logit|", float(np.abs(logits_a).max()), "margin", margin)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for wanted in sys.argv[2:] or MODELS:
        make(wanted, sys.argv[1])
