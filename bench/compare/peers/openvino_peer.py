"""OpenVINO GenAI, which reads some GGUF files itself (Llama and Qwen2 in Q4_0, Q4_1, Q4_K, Q6_K, Q8_0 mixes)."""

import importlib.metadata

import numpy as np
import openvino
import openvino_genai
from worker import ids, serve

VOCAB = 1000  # ids below every model's vocabulary


def open_peer(options):
    pipeline = openvino_genai.LLMPipeline(options.model, "CPU", INFERENCE_NUM_THREADS=options.threads)

    asked = 0

    def metrics(prompt, gen):
        nonlocal asked
        asked += 1  # another text each time: what a former one began with is kept and would not be computed again
        config = openvino_genai.GenerationConfig(max_new_tokens=gen, min_new_tokens=gen, ignore_eos=True, do_sample=False)
        tokens = openvino.Tensor(np.array([ids(prompt, VOCAB, asked)], dtype=np.int64))
        return pipeline.generate(tokens, config).perf_metrics

    def measure(prompt, gen, depth):
        if prompt:
            if depth:
                raise ValueError("a prompt after a depth is not measured here")
            return prompt / metrics(prompt, 1).get_ttft().mean * 1000
        return 1000 / metrics(max(1, depth), gen + 1).get_tpot().mean

    version = importlib.metadata.version("openvino-genai")
    return {"peer": "OpenVINO GenAI", "version": f"openvino-genai {version}", "setting": options.setting}, measure


serve(open_peer)
