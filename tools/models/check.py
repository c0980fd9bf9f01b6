#!/usr/bin/env python3
"""Recomputes the parameters of every shape in models/ from its config, and says where that is not what stands there.

    tools/models/check.py [MODEL.json ...]

Written from the architectures' matrices, not from the engine: the two must come to the same.
"""

import glob
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def attention(c, kind):
    hidden, heads = c["hidden_size"], c["num_attention_heads"]
    if kind == "deepseek_v2":
        query_head = c["qk_nope_head_dim"] + c["qk_rope_head_dim"]
        query = hidden * heads * query_head
        if c.get("q_lora_rank"):
            query = c["q_lora_rank"] * (hidden + 1 + heads * query_head)  # two matrices and a norm
        latent = hidden * (c["kv_lora_rank"] + c["qk_rope_head_dim"]) + c["kv_lora_rank"]
        return query + latent + heads * (c["qk_nope_head_dim"] + c["v_head_dim"]) * c["kv_lora_rank"] + heads * c["v_head_dim"] * hidden
    dim = c.get("head_dim") or hidden // heads
    wide, narrow = heads * dim, c["num_key_value_heads"] * dim
    count = hidden * (wide + 2 * narrow) + wide * hidden
    if kind in ("qwen2", "qwen2_moe"):
        count += wide + 2 * narrow  # biases
    if kind in ("qwen3", "qwen3_moe", "gemma3_text"):
        count += 2 * dim  # norms of Q and K
    return count


def mlp(c, kind, layer, experts):
    """experts: how many of the routed ones are counted; None: all."""
    hidden = c["hidden_size"]
    dense = 3 * hidden * c["intermediate_size"]
    if kind == "deepseek_v2":
        count = c.get("n_routed_experts")
        if not count or layer < c["first_k_dense_replace"]:
            return dense
        one = 3 * hidden * c["moe_intermediate_size"]
        return (count if experts is None else experts) * one + c["n_shared_experts"] * one + count * hidden
    if kind in ("qwen2_moe", "qwen3_moe"):
        count = c["num_experts"]
        total = (count if experts is None else experts) * 3 * hidden * c["moe_intermediate_size"] + count * hidden
        if kind == "qwen2_moe":
            total += 3 * hidden * c["shared_expert_intermediate_size"] + hidden
        return total
    return dense


def parameters(c, active=False):
    """All, or those that one token is multiplied with and the input table left out unless it is the output's, too."""
    kind, hidden = c["model_type"], c["hidden_size"]
    table = c["vocab_size"] * hidden
    tables = 1 if c["tie_word_embeddings"] or active else 2
    norms = 4 if kind == "gemma3_text" else 2
    experts = c.get("num_experts_per_tok") if active else None
    layers = sum(attention(c, kind) + mlp(c, kind, i, experts) + norms * hidden for i in range(c["num_hidden_layers"]))
    return tables * table + layers + hidden


def kv_elements(c):
    """Numbers a token adds to the cache, windows apart."""
    if c["model_type"] == "deepseek_v2":
        return c["num_hidden_layers"] * (c["kv_lora_rank"] + c["qk_rope_head_dim"])
    dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    return 2 * c["num_hidden_layers"] * c["num_key_value_heads"] * dim


def main():
    paths = sys.argv[1:] or sorted(glob.glob(os.path.join(ROOT, "models", "*.json")))
    wrong = 0
    for path in paths:
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        stated, found = config["knapsack"]["parameters"], parameters(config)
        # A shape that stands for another architecture may lack norms of that one's, no matrix.
        if abs(stated - found) > (1e-4 * stated if "shape_only" in config["knapsack"] else 0):
            print(f"{path}: says {stated} parameters, its shape has {found} ({found / stated - 1:+.2%})")
            wrong += 1
    print(f"{len(paths)} models, {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
