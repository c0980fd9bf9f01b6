"""Dumps what the modules of a transformers model make, a row for each token, for `knapsack align` (docs/align.md).

Run: python tools/golden/dump_transformers.py MODEL-FOLDER OUT.npz --text "The sky is blue because"
     python tools/golden/dump_transformers.py MODEL-FOLDER OUT.npz --ids 1,2,3
Needs torch, transformers and numpy; reads the model in float32.
"""
import argparse

import numpy as np
import torch
import transformers

# Modules whose result is that of their last part, or is no value of a token.
SKIPPED = {"", "model", "rotary_emb", "rotary_emb_local", "self_attn", "mlp", "act_fn", "activation_fn", "lm_head",
           "shared_expert", "shared_experts"}
# What these read is a value of its own that no module makes. It gets a name of the graph's (docs/graph.md).
READ = {"o_proj": "context", "down_proj": "act"}


def by_token(value, tokens):
    """[1, T, ...] or [T, ...] as it is; [1, heads, T, n] with the tokens in front. None where no row is a token's."""
    shape = value.shape
    if value.ndim == 4 and shape[0] == 1 and tokens in shape[1:3]:
        if shape[1] == shape[2]:
            raise SystemExit(f"{tokens} tokens and as many heads, so which is which cannot be told: take a token more")
        return value if shape[1] == tokens else value.transpose(1, 2)
    rows = shape[1] if value.ndim > 2 and shape[0] == 1 else shape[0]
    return value if rows == tokens else None


def parts(name, value, config):
    """Projections that hold several, as those that the graph has."""
    before, _, last = name.rpartition(".")
    if last == "gate_up_proj":
        names, sizes = ("gate_proj", "up_proj"), [value.shape[-1] // 2] * 2
    elif last == "qkv_proj":
        head = value.shape[-1] // (config.num_attention_heads + 2 * config.num_key_value_heads)
        names = ("q_proj", "k_proj", "v_proj")
        sizes = [head * config.num_attention_heads] + [head * config.num_key_value_heads] * 2
    elif last == "kv_a_proj_with_mqa":
        names, sizes = ("kv_latent", "k_pos"), [config.kv_lora_rank, config.qk_rope_head_dim]
    else:
        return {name: value}
    return {f"{before}.{part}": piece for part, piece in zip(names, value.split(sizes, dim=-1))}


def taps(model):
    """(module, name, whether what it reads is meant) of all that is kept."""
    for name, module in model.named_modules():
        before, _, last = name.rpartition(".")
        # An expert has the rows of the tokens that were sent to it.
        if ".experts" in name or isinstance(module, torch.nn.Dropout):
            continue
        if last in READ:
            yield module, f"{before}.{READ[last]}", True
        if last == "mlp" and hasattr(module, "experts"):
            shared = hasattr(module, "shared_expert") or hasattr(module, "shared_experts")
            yield module, name + (".sum" if shared else ".routed"), False
        # The sum after the attention: what the norm before the MLP reads.
        if hasattr(module, "self_attn"):
            norm = getattr(module, "pre_feedforward_layernorm", None) or module.post_attention_layernorm
            yield norm, f"{name}.self_attn.out", True
        if last not in SKIPPED:
            yield module, name, False


def dump(model, ids):
    values = {}

    def keep(name, value):
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return
        for part, piece in parts(name, value.detach(), model.config).items():
            piece = by_token(piece, len(ids))
            if piece is not None:
                values[part] = np.ascontiguousarray(piece.float().numpy())
    hooks = []
    for module, name, reads in taps(model):
        if reads:
            hooks.append(module.register_forward_pre_hook(lambda _, inputs, name=name: keep(name, inputs[0])))
        else:
            hooks.append(module.register_forward_hook(lambda _, inputs, out, name=name: keep(
                name, out[0] if isinstance(out, tuple) else out)))
    with torch.no_grad():
        values["logits"] = model(torch.tensor([ids]), use_cache=False).logits[0].float().numpy()
    for hook in hooks:
        hook.remove()
    return {"ids": np.array(ids), **values}


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("model")
    options.add_argument("out")
    what = options.add_mutually_exclusive_group(required=True)
    what.add_argument("--text")
    what.add_argument("--ids", type=lambda text: [int(word) for word in text.split(",")])
    options.add_argument("--compressed", action="store_true",
                         help="as savez_compressed: a tenth smaller, but align then holds all of it in memory")
    given = options.parse_args()
    ids = given.ids or transformers.AutoTokenizer.from_pretrained(given.model)(given.text).input_ids
    model = transformers.AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.float32,
                                                              attn_implementation="eager")
    save = np.savez_compressed if given.compressed else np.savez
    save(given.out, **dump(model.eval(), ids))


if __name__ == "__main__":
    main()
