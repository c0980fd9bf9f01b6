#!/usr/bin/env python3
"""Writes tests/data/rope.json: RoPE frequencies as transformers computes them in float32, with the configs they are of.

inv_freq is kept as the bits of each float32. Usage: rope.py OUTPUT (needs transformers 4.57 and torch)
"""
import json
import sys

import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

LONG = [1.0 + 0.37 * i for i in range(48)]
SHORT = [1.0 + 0.013 * i for i in range(48)]
CASES = [
    (128, 1e4, 4096, None),
    (64, 1e5, 8192, None),
    (128, 1e6, 131072, None),
    (256, 1e6, 32768, {"rope_type": "linear", "factor": 8.0}),
    (128, 1e4, 8192, {"rope_type": "linear", "factor": 3.0}),
    (128, 5e5, 131072, {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                        "original_max_position_embeddings": 8192}),
    (64, 5e5, 131072, {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                       "original_max_position_embeddings": 8192}),
    (64, 1e4, 163840, {"rope_type": "yarn", "factor": 40.0, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707,
                       "mscale_all_dim": 0.707, "original_max_position_embeddings": 4096}),
    (64, 1e4, 163840, {"rope_type": "yarn", "factor": 40.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
                       "mscale_all_dim": 0.5, "original_max_position_embeddings": 4096}),
    (128, 1e6, 131072, {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}),
    (96, 1e4, 131072, {"rope_type": "longrope", "long_factor": LONG, "short_factor": SHORT,
                       "original_max_position_embeddings": 4096, "factor": 32.0}),
]


def main():
    rows = []
    for head_dim, theta, ctx, scaling in CASES:
        config = LlamaConfig(hidden_size=2 * head_dim, num_attention_heads=2, head_dim=head_dim, rope_theta=theta,
                             max_position_embeddings=ctx, rope_scaling=scaling)
        if scaling and scaling["rope_type"] == "longrope":
            config.original_max_position_embeddings = scaling["original_max_position_embeddings"]
        kind = scaling["rope_type"] if scaling else "default"
        inv_freq, scale = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=ctx)
        rows.append({
            "config": {"rope_theta": theta, "max_position_embeddings": ctx, "rope_scaling": scaling,
                       **({"original_max_position_embeddings": 4096} if kind == "longrope" else {})},
            "rotary": head_dim, "scale": scale,
            "inv_freq": inv_freq.to(torch.float32).view(torch.int32).tolist()})
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


if __name__ == "__main__":
    main()
