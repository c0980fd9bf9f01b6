#!/usr/bin/env python3
"""A float Hugging Face checkpoint of a Llama GGUF, for peers whose converters read nothing else.

    .venv/bin/python bench/compare/float_checkpoint.py MODEL.gguf FOLDER

What beside.py's --onnx takes is then made by ONNX Runtime's model builder, which needs torch (a large package, so
bench/compare/install leaves it out):

    python -m venv .venv-builder
    .venv-builder/bin/pip install torch transformers onnx onnx-ir onnxruntime onnxruntime-genai==0.18.0
    .venv-builder/bin/python -m onnxruntime_genai.models.builder -i FOLDER -o OUT -p int4 -e cpu

Its 4 bits are blocks of 32 with a scale each, as Q4_0's; the output matrix is of 4 bits, too, where the GGUF's has 8.
The tokenizer is only good enough to load: the speeds are of token ids.
"""

import argparse
import json
import pathlib
import sys

import numpy
from gguf import GGUFReader, quants

OUTER = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
         "output.weight": "lm_head.weight"}
LAYER = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
         "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
CONTROL = 3  # tokenizer.ggml.token_type


def write_safetensors(path, tensors):
    """The format: 8 bytes of length, a JSON header, the data."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in tensors.values():
            file.write(array.tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    reader = GGUFReader(options.model)

    def fact(key):
        return reader.fields[key].contents()

    if fact("general.architecture") != "llama":
        sys.exit(f"{options.model}: its architecture is {fact('general.architecture')}; only llama is known here")
    heads = {"attn_q": fact("llama.attention.head_count"), "attn_k": fact("llama.attention.head_count_kv")}
    tensors = {}
    for tensor in reader.tensors:
        array = quants.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        array = array.reshape(tensor.shape[::-1])
        name = OUTER.get(tensor.name)
        if name is None:
            _, layer, kind, end = tensor.name.split(".")
            name = f"model.layers.{layer}.{LAYER[kind]}.{end}"
            if kind in heads:  # a GGUF has a head's rows as pairs that RoPE turns; Hugging Face as two halves
                array = array.reshape(heads[kind], -1, 2, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
        tensors[name] = numpy.ascontiguousarray(array)
    tokens, types = fact("tokenizer.ggml.tokens"), fact("tokenizer.ggml.token_type")
    first, last = fact("tokenizer.ggml.bos_token_id"), fact("tokenizer.ggml.eos_token_id")
    hidden = fact("llama.embedding_length")
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
              "intermediate_size": fact("llama.feed_forward_length"), "num_hidden_layers": fact("llama.block_count"),
              "num_attention_heads": heads["attn_q"], "num_key_value_heads": heads["attn_k"],
              "head_dim": hidden // heads["attn_q"], "rms_norm_eps": fact("llama.attention.layer_norm_rms_epsilon"),
              "rope_theta": fact("llama.rope.freq_base"), "vocab_size": len(tokens),
              "max_position_embeddings": fact("llama.context_length"), "tie_word_embeddings": "lm_head.weight" not in tensors,
              "hidden_act": "silu", "torch_dtype": "float32", "bos_token_id": first, "eos_token_id": last,
              "attention_bias": False, "mlp_bias": False}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
                 "added_tokens": [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                                   "normalized": False, "special": True}
                                  for i, token in enumerate(tokens) if types[i] == CONTROL],
                 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
                 "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
                 "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                           "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                           "vocab": {token: i for i, token in enumerate(tokens)}, "merges": fact("tokenizer.ggml.merges")}}
    special = {"bos_token": tokens[first], "eos_token": tokens[last]}
    options.folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(options.folder / "model.safetensors", tensors)
    for name, content in [("config.json", config), ("tokenizer.json", tokenizer),
                          ("generation_config.json", {"bos_token_id": first, "eos_token_id": last}),
                          ("tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False,
                                                     "model_max_length": fact("llama.context_length"), **special})]:
        (options.folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
