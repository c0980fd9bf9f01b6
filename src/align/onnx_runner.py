"""Runs a decoder, as `knapsack export --to onnx` writes it, under ONNX Runtime, and hands back what its nodes make.

`knapsack align MODEL FOLDER:ort` starts it; needs numpy, onnx and onnxruntime. By hand:

    python onnx_runner.py FOLDER SCRATCH

Reads a JSON object a line from standard input, writes one a line to standard output:
    {"describe": true}                  -> {"nodes": [{"name", "op", "cols", "inputs"}], "vocab", "ctx", "chunk", "version"}
    {"outputs": [names], "threads": n}  -> {}: the values that steps hand back; sessions are made
    {"ids": [...], "first": n}          -> {"npz": path}: [tokens, cols] in float32 by name, in SCRATCH; tokens n, n + 1, ...
                                           of a sequence, of which those before have been run
    and for all of them {"error": text} where that cannot be done.
"""
import sys

sys.path = [folder for folder in sys.path if folder]  # not the folder that someone happens to be in

import json  # noqa: E402
import os  # noqa: E402
import shutil  # noqa: E402

# What libraries print is no answer.
answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)


def answer(value):
    answers.write(json.dumps(value) + "\n")
    answers.flush()


try:
    import numpy as np
    import onnx
    import onnxruntime as ort
except ImportError as error:
    sys.stdin.readline()
    answer({"missing": str(error)})
    sys.exit(0)

FLOATS = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16}
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
PAST, PRESENT = "past_key_values.", "present."


class Model:
    """One of the two models; session: once it is known which values it is to hand back."""

    def __init__(self, folder, name):
        self.folder = folder
        self.proto = onnx.load(os.path.join(folder, name + ".onnx"), load_external_data=False)
        graph = self.proto.graph
        self.values = {}  # name -> (type, shape), of shapes that are known
        for each in [*graph.value_info, *graph.input, *graph.output]:
            tensor = each.type.tensor_type
            shape = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
            if None not in shape:
                self.values[each.name] = (tensor.elem_type, shape)
        self.inputs = {each.name for each in graph.input}
        self.outputs = [each.name for each in graph.output]
        if not {"input_ids", "position_ids"} <= self.inputs or "logits" not in self.outputs:
            raise ValueError(f"{name}.onnx: expected inputs input_ids and position_ids and an output logits, as knapsack export "
                             f"writes them; found inputs {sorted(self.inputs)[:6]}, outputs {self.outputs[:6]}")
        self.tokens = self.values["input_ids"][1][-1]

    def open(self, wanted, threads):
        graph = self.proto.graph
        made = {name for node in graph.node for name in node.output}
        for name in wanted:
            if name in made and name not in self.outputs:
                kind, shape = self.values[name]
                graph.output.append(onnx.helper.make_tensor_value_info(name, kind, shape))
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        # Each node as the file has it: fused ones would not make what is asked for.
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", self.folder)
        self.session = ort.InferenceSession(self.proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        self.names = [each.name for each in self.session.get_outputs()]


class Decoder:
    def __init__(self, folder, scratch):
        self.scratch = scratch
        self.decode = Model(folder, "decode")
        chunked = os.path.exists(os.path.join(folder, "prefill.onnx"))
        self.prefill = Model(folder, "prefill") if chunked else None
        if self.prefill and self.prefill.tokens == 1:
            self.prefill = None
        if self.decode.tokens != 1:
            raise ValueError(f"decode.onnx: expected a step of one token, found {self.decode.tokens}")
        self.chunk = self.prefill.tokens if self.prefill else 1
        states = {name: shape for name, (_, shape) in self.decode.values.items() if name.startswith(PAST)}
        self.ctx = min((shape[2] for shape in states.values()), default=0)
        self.axis = {}  # where the tokens of a value's prefill shape are; None: it has the last one's alone
        for name, (kind, shape) in self.decode.values.items():
            if kind not in FLOATS or name in self.decode.inputs or name.startswith(PRESENT):
                continue
            if self.prefill is None:
                self.axis[name] = None
                continue
            _, other = self.prefill.values.get(name, (None, []))
            differs = [i for i, (one, many) in enumerate(zip(shape, other)) if one != many]
            if len(shape) == len(other) and len(differs) == 1 and (shape[differs[0]], other[differs[0]]) == (1, self.chunk):
                self.axis[name] = differs[0]
            elif shape == other and all(size == 1 for size in shape[:-1]):  # behind the selection of a row
                self.axis[name] = None

    def describe(self):
        nodes = [{"name": name, "op": node.op_type, "inputs": list(node.input),
                  "cols": int(np.prod(self.decode.values[name][1], dtype=np.int64))}
                 for node in self.decode.proto.graph.node for name in node.output if name in self.axis]
        vocab = self.decode.values["logits"][1][-1]
        return {"nodes": nodes, "vocab": vocab, "ctx": self.ctx, "chunk": self.chunk, "version": ort.__version__}

    def open(self, wanted, threads):
        self.wanted = set(wanted)
        for model in (self.prefill, self.decode):
            if model:
                model.open(wanted, threads)
        self.zeros = {each.name: np.zeros(each.shape, TYPES[each.type])
                      for each in self.decode.session.get_inputs() if each.name.startswith(PAST)}

    def run(self, model, ids, first):
        feeds = {"input_ids": np.array([ids], np.int64),
                 "position_ids": np.arange(first, first + len(ids), dtype=np.int64)[None], **self.past}
        made = dict(zip(model.names, model.session.run(None, feeds)))
        self.past = {PAST + name[len(PRESENT):]: value for name, value in made.items() if name.startswith(PRESENT)}
        return made

    def step(self, ids, first):
        if first == 0:
            self.past = self.zeros
        values = {}
        if self.prefill and len(ids) == self.chunk and first + self.chunk <= self.ctx:
            for name, value in self.run(self.prefill, ids, first).items():
                if name in self.wanted:
                    axis = self.axis[name]
                    value = value.astype(np.float32)
                    values[name] = value.reshape(1, -1) if axis is None else np.moveaxis(value, axis, 0).reshape(len(ids), -1)
        else:
            for i, token in enumerate(ids):
                for name, value in self.run(self.decode, [token], first + i).items():
                    if name in self.wanted:
                        values.setdefault(name, []).append(value.astype(np.float32).reshape(1, -1))
            values = {name: np.concatenate(rows) for name, rows in values.items()}
        path = os.path.join(self.scratch, "step.npz")
        np.savez(path, **values)
        return path


def main():
    decoder = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "describe" in request:
                decoder = Decoder(*sys.argv[1:3])
                answer(decoder.describe())
            elif "outputs" in request:
                decoder.open(request["outputs"], request["threads"])
                answer({})
            else:
                answer({"npz": decoder.step(request["ids"], request["first"])})
        except Exception as error:  # pylint: disable=broad-except
            answer({"error": f"{type(error).__name__}: {error}"})
    shutil.rmtree(sys.argv[2], ignore_errors=True)  # whoever asked may have been killed


main()
