"""ONNX Runtime GenAI. MODEL is a folder that its model builder made (genai_config.json and the ONNX file)."""

import importlib.metadata
import json
import pathlib
import shutil
import tempfile
import time

import onnxruntime_genai as og
from worker import ids, serve

VOCAB = 1000  # ids below every model's vocabulary


def open_peer(options):
    # The number of threads is said in a copy of the configuration only.
    folder = pathlib.Path(tempfile.mkdtemp())
    for path in pathlib.Path(options.model).resolve().iterdir():
        (folder / path.name).symlink_to(path)
    config = json.loads((folder / "genai_config.json").read_text())
    config["model"]["decoder"].setdefault("session_options", {})["intra_op_num_threads"] = options.threads
    (folder / "genai_config.json").unlink()
    (folder / "genai_config.json").write_text(json.dumps(config))
    model = og.Model(str(folder))
    shutil.rmtree(folder)

    def generator(room):
        parameters = og.GeneratorParams(model)
        parameters.set_search_options(max_length=room, min_length=room, do_sample=False)
        return og.Generator(model, parameters)

    def measure(prompt, gen, depth):
        started = generator(depth + (prompt or gen) + 8)
        if depth:
            started.append_tokens(ids(depth, VOCAB))
        if prompt:
            began = time.perf_counter()
            started.append_tokens(ids(prompt, VOCAB))
            return prompt / (time.perf_counter() - began)
        if not depth:
            started.append_tokens(ids(1, VOCAB))
        started.generate_next_token()
        began = time.perf_counter()
        for _ in range(gen):
            started.generate_next_token()
        return gen / (time.perf_counter() - began)

    version = importlib.metadata.version("onnxruntime-genai")
    return {"peer": "ONNX Runtime GenAI", "version": f"onnxruntime-genai {version}", "setting": options.setting}, measure


serve(open_peer)
