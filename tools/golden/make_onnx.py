"""Exports tiny models from PyTorch as ONNX, with inputs of theirs and what PyTorch makes of them (tests/data/onnx).

One is a golden model (make_models.py), whose checkpoint and ONNX can be compared; the others are tinier, random with a
seed. Each is run in ONNX Runtime and must agree with PyTorch. Versions: tests/data/onnx/README.md.
Run: python tools/golden/make_onnx.py tests/golden tests/data/onnx [name ...]
"""
import contextlib
import json
import math
import pathlib
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
import torchvision
import transformers
from torch import nn
from transformers import masking_utils
from transformers.cache_utils import DynamicCache, DynamicLayer

TORCHSCRIPT_OPSET, DYNAMO_OPSET = 17, 18


# --- What the tracing exporter cannot follow in transformers, said otherwise with the same values.

def broadcast_mask(batch_size, cache_position, kv_length, kv_offset=0, mask_function=masking_utils.causal_mask_function,
                   attention_mask=None, **_):
    """The boolean mask by broadcasting; transformers makes it with vmap, which cannot be traced."""
    if attention_mask is not None:
        mask_function = masking_utils.and_masks(mask_function, masking_utils.padding_mask_function(attention_mask))
    row = torch.arange(batch_size)[:, None, None, None]
    column = (torch.arange(kv_length) + kv_offset)[None, None, None, :]
    mask = mask_function(row, torch.zeros_like(row), cache_position[None, None, :, None], column)
    return mask.expand(batch_size, 1, cache_position.shape[0], kv_length)


def broadcast_float_mask(*args, dtype=torch.float32, **kwargs):
    return torch.where(broadcast_mask(*args, **kwargs), torch.tensor(0.0, dtype=dtype), torch.finfo(dtype).min)


def layer_update(self, keys, values, cache_kwargs=None):
    """Appends; transformers' own also appends to nothing, which leaves an empty Concat."""
    if not self.is_initialized:
        self.lazy_initialization(keys)
        self.keys, self.values = keys, values
    else:
        self.keys, self.values = torch.cat([self.keys, keys], dim=-2), torch.cat([self.values, values], dim=-2)
    return self.keys, self.values


def chosen_rows(x, weights, chosen, experts):
    """The sum of the chosen experts: each gathers its rows, and adds its results to them."""
    out = torch.zeros_like(x)
    for index, expert in enumerate(experts):
        row, column = torch.where(chosen == index)
        out = out.index_add(0, row, expert(x[row]) * weights[row, column, None])
    return out


def all_rows(x, weights, chosen, experts):
    """The same, every expert on every row: the dynamo exporter cannot count the rows that an expert is given."""
    return sum(expert(x) * (weights * (chosen == index)).sum(-1, keepdim=True) for index, expert in enumerate(experts))


def qwen2_moe_forward(mix, self, hidden_states):
    x = hidden_states.reshape(-1, hidden_states.shape[-1])
    logits = self.gate(x)
    weights, chosen = torch.topk(F.softmax(logits, dim=1, dtype=torch.float), self.top_k, dim=-1)
    if self.norm_topk_prob:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    out = mix(x, weights, chosen, self.experts)
    out = out + torch.sigmoid(self.shared_expert_gate(x)) * self.shared_expert(x)
    return out.reshape(hidden_states.shape), logits


def deepseek_moe(mix, self, hidden_states, topk_ids, topk_weight):
    return mix(hidden_states, topk_weight, topk_ids, self.experts)


def deepseek_angles(self, x, position_ids):
    freqs = position_ids[:, :, None].float() * self.inv_freq[None, None, :]
    return torch.stack([freqs.cos(), freqs.sin()], dim=-1) * self.attention_scaling


def deepseek_rotate(xq, xk, angles):
    """Complex numbers, which ONNX has not, as pairs."""
    cos, sin = (angles[..., i].unsqueeze(1) for i in (0, 1))

    def turn(x):
        even, odd = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(3)
    return turn(xq), turn(xk)


@contextlib.contextmanager
def traceable(mix):
    from transformers.models.deepseek_v2 import modeling_deepseek_v2 as deepseek
    from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek_v3
    from transformers.models.qwen2_moe import modeling_qwen2_moe as qwen2_moe
    masks = masking_utils.ALL_MASK_ATTENTION_FUNCTIONS
    kept = {name: masks[name] for name in ("eager", "sdpa")}
    spots = [(masking_utils, "find_packed_sequence_indices", torch.zeros_like), (DynamicLayer, "update", layer_update),
             (qwen2_moe.Qwen2MoeSparseMoeBlock, "forward", lambda *args: qwen2_moe_forward(mix, *args)),
             (deepseek.DeepseekV2MoE, "moe", lambda *args: deepseek_moe(mix, *args)),
             (deepseek.DeepseekV2RotaryEmbedding, "forward", deepseek_angles),
             (deepseek, "apply_rotary_emb", deepseek_rotate)]
    if mix is all_rows:  # V3's own loop can be traced
        spots.append((deepseek_v3.DeepseekV3MoE, "moe", lambda *args: deepseek_moe(mix, *args)))
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in spots]
    masks.register("eager", broadcast_float_mask)
    masks.register("sdpa", broadcast_mask)
    for owner, name, value in spots:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, function in kept.items():
            masks.register(name, function)
        for owner, name, value in before:
            setattr(owner, name, value)


# --- Decoders

# As small as goes: these test the form of a graph, not its arithmetic.
TINY = dict(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, bos_token_id=0, eos_token_id=1, pad_token_id=1)
ONE = dict(TINY, num_hidden_layers=1)
EXPERTS = dict(ONE, num_experts_per_tok=2, moe_intermediate_size=8)
LATENT = dict(EXPERTS, num_key_value_heads=4, kv_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=4,
              n_shared_experts=1, first_k_dense_replace=0)
GROUPS = dict(LATENT, q_lora_rank=6, v_head_dim=6, n_routed_experts=8, n_group=4, topk_group=2,
              routed_scaling_factor=2.5)
MODELS = {
    "llama": dict(ONE, tie_word_embeddings=False),
    "qwen2": dict(TINY, tie_word_embeddings=True),
    "phi3": dict(ONE, partial_rotary_factor=0.5),
    "qwen3": dict(TINY, head_dim=8, tie_word_embeddings=True),
    "gemma3_text": dict(TINY, head_dim=8, query_pre_attn_scalar=12, sliding_window=6, final_logit_softcapping=10.0,
                        layer_types=["sliding_attention", "full_attention"]),
    "qwen2_moe": dict(EXPERTS, num_experts=4, shared_expert_intermediate_size=12, tie_word_embeddings=False),
    "deepseek_v2": dict(LATENT, q_lora_rank=None, v_head_dim=8, n_routed_experts=4),
    "deepseek_v2_groups": dict(GROUPS, topk_method="group_limited_greedy"),
    "deepseek_v3_groups": dict(GROUPS, norm_topk_prob=True),
    "deepseek_v3": dict(GROUPS, norm_topk_prob=True, n_routed_experts=4, n_group=2, topk_group=1),
}


def randomise(model, seed):
    """Weights that matter (as they come, biases are zero and norms do nothing)."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if not tensor.is_floating_point() or "inv_freq" in name or "embed_scale" in name:
                continue
            noise = torch.randn(tensor.shape, generator=generator)
            if name.endswith("running_var"):
                tensor.copy_(0.5 + noise.abs())
            elif tensor.ndim >= 2:
                tensor.copy_(noise / math.sqrt(tensor[0].numel()))
            else:
                # Gemma adds the one itself.
                gemma = isinstance(model, transformers.Gemma3ForCausalLM)
                tensor.copy_((1.0 if name.endswith("weight") and not gemma else 0.0) + 0.1 * noise)
    return model


def as_prefill(model):
    """A whole prompt, no cache: logits of every token. No module stands around the model: its names are optimum's."""
    whole = model.forward

    def forward(input_ids, attention_mask):
        return whole(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits
    model.forward = forward
    return model


def as_decode(model):
    """Keys and values in, and out with those of the new tokens behind them, as optimum names them."""
    whole = model.forward

    def forward(input_ids, attention_mask, position_ids, past):
        cache = DynamicCache.from_legacy_cache(tuple(zip(past[0::2], past[1::2])))
        out = whole(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids,
                    past_key_values=cache, use_cache=True)
        return (out.logits, *(value for layer in out.past_key_values.to_legacy_cache() for value in layer[:2]))
    model.forward = forward
    return model


def decoder(source, attention):
    """Of a golden folder, or of a type in MODELS."""
    if isinstance(source, pathlib.Path):
        model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    else:
        config = transformers.AutoConfig.for_model(source.removesuffix("_groups"),
                                                   **json.loads(json.dumps(MODELS[source])))
        model = randomise(transformers.AutoModelForCausalLM.from_config(config).float(), sum(source.encode()))
    model.set_attn_implementation(attention)
    return model.eval()


def ids_of(source, rows, tokens):
    """A golden model's own first tokens; a second row, which only tracing needs, is the first one backwards."""
    if isinstance(source, pathlib.Path):
        ids = torch.tensor([json.loads((source / "reference.json").read_text())["ids_a"][:tokens]])
    else:
        ids = torch.randint(2, TINY["vocab_size"], (1, tokens), generator=torch.Generator().manual_seed(7))
    return torch.cat([ids, ids.flip(1)])[:rows]


def past_names(layers, prefix):
    return [f"{prefix}.{i}.{part}" for i in range(layers) for part in ("key", "value")]


def prefill_inputs(source, rows, tokens):
    ids = ids_of(source, rows, tokens)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def prefill_case(source, attention="eager", tokens=12):
    inputs = prefill_inputs(source, 1, tokens)
    axes = {0: "batch_size", 1: "sequence_length"}
    return dict(model=as_prefill(decoder(source, attention)), inputs=inputs, traced=prefill_inputs(source, 2, 9),
                outputs=["logits"], axes={name: axes for name in [*inputs, "logits"]}, ids=inputs["input_ids"])


def decode_inputs(model, ids, before):
    """Those of a step behind `before` tokens; the cache is the one that the model itself made of them."""
    cache = DynamicCache()
    with torch.no_grad():
        model(input_ids=ids[:, :before], past_key_values=cache, use_cache=True)
    past = [value for layer in cache.to_legacy_cache() for value in layer[:2]]
    positions = torch.arange(before, ids.shape[1]).expand(len(ids), -1).contiguous()
    inputs = {"input_ids": ids[:, before:], "attention_mask": torch.ones_like(ids), "position_ids": positions}
    return inputs | dict(zip(past_names(len(past) // 2, "past_key_values"), past))


def decode_case(source, attention="eager", before=11):
    model = decoder(source, attention)
    ids = ids_of(source, 1, before + 1)
    inputs = decode_inputs(model, ids, before)
    step, whole = {0: "batch_size", 1: "sequence_length"}, "past_sequence_length + sequence_length"
    axes = {"input_ids": step, "position_ids": step, "logits": step, "attention_mask": {0: "batch_size", 1: whole}}
    layers = model.config.num_hidden_layers
    axes.update({name: {0: "batch_size", 2: "past_sequence_length"} for name in past_names(layers, "past_key_values")})
    present = past_names(layers, "present")
    axes.update({name: {0: "batch_size", 2: whole} for name in present})
    # What is 1 in the traced inputs is taken for a constant by the dynamo exporter.
    traced = decode_inputs(model, ids_of(source, 2, 10), 7)
    return dict(model=as_decode(model), inputs=inputs, traced=traced,
                outputs=["logits", *present], axes=axes, named=3, ids=ids)


# --- Vision and encoders

def image(seed, size):
    return torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(seed))


def giving(model, output):
    """A transformers model that gives one tensor of its inputs."""
    whole = model.forward
    if output == "logits":
        model.forward = lambda pixel_values: whole(pixel_values).logits
    else:
        model.forward = lambda input_ids, attention_mask, token_type_ids: whole(
            input_ids, attention_mask, token_type_ids).last_hidden_state
    return model.eval()


def image_case(model, size):
    return dict(model=model, inputs={"pixel_values": image(1, size)}, outputs=["logits"],
                axes={"pixel_values": {0: "batch_size"}, "logits": {0: "batch_size"}})


class TinyResNet(nn.Module):
    """transformers' ResNet with the dropout that a classifier trained from scratch has."""

    def __init__(self):
        super().__init__()
        config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4, 8], depths=[1, 2], layer_type="basic",
                                           num_labels=10)
        self.resnet = transformers.ResNetModel(config)
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(8, 10)

    def forward(self, pixel_values):
        return self.classifier(self.dropout(self.resnet(pixel_values).pooler_output.flatten(1)))


def resnet_case(_=None):
    return image_case(randomise(TinyResNet(), 2).eval(), 16)


def mobilenet_case(_=None):
    from torchvision.models.mobilenetv3 import InvertedResidualConfig as Block
    blocks = [Block(8, 3, 8, 8, True, "RE", 2, 1, 0.5), Block(8, 5, 24, 12, True, "HS", 2, 1, 0.5),
              Block(12, 3, 32, 12, False, "HS", 1, 1, 0.5)]
    return image_case(randomise(torchvision.models.MobileNetV3(blocks, 32, num_classes=10), 3).eval(), 16)


def bert_case(_=None, attention="eager"):
    config = transformers.BertConfig(vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                                     intermediate_size=32, max_position_embeddings=32, attn_implementation=attention)
    model = giving(randomise(transformers.BertModel(config), 4), "last_hidden_state")
    ids = torch.randint(0, 64, (2, 9), generator=torch.Generator().manual_seed(4))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": (torch.arange(9) > 4).long().expand(2, 9)}
    axes = {0: "batch_size", 1: "sequence_length"}
    return dict(model=model, inputs={k: v.contiguous() for k, v in inputs.items()}, outputs=["last_hidden_state"],
                axes={name: axes for name in [*inputs, "last_hidden_state"]})


def vit_case(_=None, attention="eager"):
    config = transformers.ViTConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
                                    image_size=16, patch_size=4, num_labels=10, attn_implementation=attention)
    model = randomise(transformers.ViTForImageClassification(config), 5)
    return image_case(giving(model, "logits"), 16)


# --- The exporters

def arguments(case, values):
    """One of each input as forward() takes them: those behind the named ones are one tuple."""
    values = tuple(values)
    named = case.get("named", len(values))
    return values if named == len(values) else (*values[:named], values[named:])


def traced(case):
    return arguments(case, case.get("traced", case["inputs"]).values())


def run(case):
    """PyTorch's own outputs, of transformers as it is."""
    with torch.no_grad():
        out = case["model"](*arguments(case, case["inputs"].values()))
    return dict(zip(case["outputs"], out if isinstance(out, tuple) else [out]))


def torchscript(case, path, training=torch.onnx.TrainingMode.EVAL):
    with traceable(chosen_rows), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(case["model"], traced(case), path, input_names=list(case["inputs"]),
                          output_names=case["outputs"], dynamic_axes=case["axes"], opset_version=TORCHSCRIPT_OPSET,
                          training=training, do_constant_folding=training == torch.onnx.TrainingMode.EVAL, dynamo=False)


def trained(case, path):
    """With what training leaves behind: BatchNormalization apart from Conv, Dropout that would drop."""
    model = case["model"].train()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    torchscript(case, path, torch.onnx.TrainingMode.PRESERVE)
    model.eval()


def dynamo(case, path):
    dims = {name: torch.export.Dim.DYNAMIC for axes in case["axes"].values() for name in axes.values()}
    shapes = [{axis: dims[name] for axis, name in case["axes"][value].items()} for value in case["inputs"]]
    with traceable(all_rows), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(case["model"], traced(case), path, input_names=list(case["inputs"]),
                          output_names=case["outputs"], dynamic_shapes=arguments(case, shapes),
                          opset_version=DYNAMO_OPSET, dynamo=True, external_data=False, verbose=False)


def optimum(source, path):
    """optimum's own text-generation-with-past: TorchScript, scaled_dot_product_attention."""
    from optimum.exporters.onnx import onnx_export_from_model
    with tempfile.TemporaryDirectory() as folder:
        onnx_export_from_model(decoder(source, "sdpa"), folder, task="text-generation-with-past",
                               opset=TORCHSCRIPT_OPSET, do_validation=False)
        pathlib.Path(path).write_bytes((pathlib.Path(folder) / "model.onnx").read_bytes())


def tidy(path, scopes):
    """Leaves out what the dynamo exporter says of its making (half of a small file, with the paths of sources), and the
    shapes of values between. `scopes`: the module that each node is of stays."""
    model = onnx.load(path)
    del model.graph.value_info[:]
    for node in model.graph.node:
        node.doc_string = ""
        kept = [entry for entry in node.metadata_props if scopes and entry.key == "pkg.torch.onnx.name_scopes"]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    for value in [*model.graph.input, *model.graph.output, *model.graph.initializer]:
        del value.metadata_props[:]
    del model.graph.metadata_props[:]
    onnx.checker.check_model(model)
    onnx.save(model, path)


GOLDEN, SCOPED = "qwen2-window", "qwen3-dynamo"
# name: (case, exporter)
EXPORTS = {
    GOLDEN: (lambda golden: decode_case(golden / GOLDEN), torchscript),
    "llama-prefill": (lambda _: prefill_case("llama"), torchscript),
    "qwen2-optimum": (lambda _: decode_case("qwen2", "sdpa"), lambda _, path: optimum("qwen2", path)),
    "phi3": (lambda _: decode_case("phi3"), torchscript),
    "qwen3-dynamo": (lambda _: decode_case("qwen3"), dynamo),
    "gemma3-dynamo": (lambda _: decode_case("gemma3_text"), dynamo),
    "qwen2-moe": (lambda _: decode_case("qwen2_moe"), torchscript),
    "deepseek-v2-dynamo": (lambda _: decode_case("deepseek_v2"), dynamo),
    "deepseek-v2-groups-dynamo": (lambda _: prefill_case("deepseek_v2_groups"), dynamo),
    "deepseek-v3": (lambda _: prefill_case("deepseek_v3"), torchscript),
    "deepseek-v3-dynamo": (lambda _: decode_case("deepseek_v3_groups"), dynamo),
    "resnet": (resnet_case, torchscript),
    "resnet-trained": (resnet_case, trained),
    "mobilenet-trained": (mobilenet_case, trained),
    "bert": (bert_case, torchscript),
    "bert-dynamo": (lambda _: bert_case(attention="sdpa"), dynamo),
    "vit": (vit_case, torchscript),
}


# Of these the config, too: it says what graph importing the checkpoint gives.
CONFIGS = ["deepseek-v2-groups-dynamo", "deepseek-v3"]


def make(name, golden, out):
    make_case, exporter = EXPORTS[name]
    case = make_case(golden)
    expected = {key: value.numpy() for key, value in run(case).items()}
    path = out / f"{name}.onnx"
    exporter(case, str(path))
    tidy(str(path), scopes=name == SCOPED)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs = {key: value.numpy() for key, value in case["inputs"].items()}
    found = session.run(list(expected), {value.name: inputs[value.name] for value in session.get_inputs()})
    worst = max(float(np.abs(a - b).max()) for a, b in zip(found, expected.values()))
    if worst > 1e-4:
        raise SystemExit(f"{name}: ONNX Runtime differs from PyTorch by {worst:.2g}")
    arrays = inputs | expected | ({"ids": case["ids"][0].numpy()} if "ids" in case else {})
    np.savez(out / f"{name}.npz", **arrays)
    if name in CONFIGS:
        case["model"].config.to_json_file(out / f"{name}.json")
    sizes = [(out / f"{name}.{kind}").stat().st_size for kind in ("onnx", "npz")]
    nodes = len(onnx.load(path).graph.node)
    print(f"{name}: {sizes[0]} + {sizes[1]} bytes, {nodes} nodes, ONNX Runtime differs by {worst:.2g}")
    return sum(sizes)


if __name__ == "__main__":
    torch.set_num_threads(1)
    wanted = sys.argv[3:] or list(EXPORTS)
    print(sum(make(name, pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])) for name in wanted), "bytes")
