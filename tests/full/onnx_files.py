"""ONNX files beside PyPI onnx and onnxruntime: what these write is read right, what we write they check, load and run.

Needs onnx, onnxruntime and numpy. KNAPSACK_BINARY: the program of the build whose tests/onnx_program is tested.
"""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import AttributeProto as A
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from onnx.external_data_helper import load_external_data_for_tensor

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("KNAPSACK_BINARY", ROOT / "build/src/knapsack"))
PROGRAM = BINARY.parents[1] / "tests/onnx_program"
sys.path.insert(0, str(ROOT / "tools/golden"))
import onnx_files as golden  # noqa: E402

passed, faults = 0, []


def expect(condition, what):
    global passed
    if condition:
        passed += 1
    else:
        faults.append(what)
        print("FAILED:", what)


def program(*words):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)


def told(path):
    ran = program("tell", path)
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr.strip())
    return json.loads(ran.stdout)


# --- What is read, beside what onnx reads.

def tensor_of(tensor, folder):
    if tensor.data_location == T.EXTERNAL:
        tensor = T.FromString(tensor.SerializeToString())
        load_external_data_for_tensor(tensor, str(folder))
    array = numpy_helper.to_array(tensor)
    return {"type": golden.name_of(tensor.data_type), "dims": list(tensor.dims),
            "sha256": hashlib.sha256(golden.packed(array, tensor.data_type)).hexdigest()}


def number(value):
    """Floats as our JSON has them: the nearest double of a float."""
    return float(np.float32(value))


def attribute_of(attribute, folder):
    if attribute.ref_attr_name:
        return {"ref": attribute.ref_attr_name}
    kind = attribute.type
    if kind == A.UNDEFINED:  # IR version 1: what is there
        kind = {"f": A.FLOAT, "i": A.INT, "s": A.STRING, "t": A.TENSOR, "g": A.GRAPH, "floats": A.FLOATS, "ints": A.INTS,
                "strings": A.STRINGS}[[f.name for f, _ in attribute.ListFields() if f.name != "name"][0]]
    return {
        A.FLOAT: lambda: number(attribute.f), A.INT: lambda: attribute.i, A.STRING: lambda: attribute.s.decode(),
        A.TENSOR: lambda: tensor_of(attribute.t, folder), A.GRAPH: lambda: graph_of(attribute.g, folder),
        A.FLOATS: lambda: [number(v) for v in attribute.floats], A.INTS: lambda: list(attribute.ints),
        A.STRINGS: lambda: [s.decode() for s in attribute.strings],
    }.get(kind, lambda: A.AttributeType.Name(kind).lower())()


def domain_of(domain):
    return "" if domain == "ai.onnx" else domain


def nodes_of(nodes, folder):
    return [{"name": n.name, "op_type": n.op_type, "domain": domain_of(n.domain), "inputs": list(n.input),
             "outputs": list(n.output), "attributes": {a.name: attribute_of(a, folder) for a in n.attribute}}
            for n in nodes]


def values_of(values):
    out = []
    for value in values:
        kind = value.type.WhichOneof("value")
        one = {"name": value.name, "kind": kind.replace("_type", "").replace("_", " ") if kind else "no type", "type": 0}
        if kind == "tensor_type":
            one["type"] = value.type.tensor_type.elem_type
            if value.type.tensor_type.HasField("shape"):
                one["shape"] = [d.dim_value if d.HasField("dim_value") else d.dim_param
                                for d in value.type.tensor_type.shape.dim]
        out.append(one)
    return out


def graph_of(graph, folder):
    return {"name": graph.name, "nodes": nodes_of(graph.node, folder),
            "initializers": {t.name: tensor_of(t, folder) for t in graph.initializer},
            "inputs": values_of(graph.input), "outputs": values_of(graph.output), "values": values_of(graph.value_info),
            "sparse": [s.values.name for s in graph.sparse_initializer]}


def expected(path):
    model = onnx.load(str(path), load_external_data=False)
    folder = path.parent
    return {"ir_version": model.ir_version, "producer": model.producer_name,
            "opsets": {domain_of(o.domain): o.version for o in model.opset_import},
            "metadata": {p.key: p.value for p in model.metadata_props}, "graph": graph_of(model.graph, folder),
            "functions": [{"domain": domain_of(f.domain), "name": f.name, "inputs": list(f.input),
                           "outputs": list(f.output), "nodes": nodes_of(f.node, folder)} for f in model.functions]}


def first_difference(ours, theirs, where="model"):
    if type(ours) is not type(theirs) and not (isinstance(ours, (int, float)) and isinstance(theirs, (int, float))):
        return f"{where}: {ours!r}, onnx has {theirs!r}"
    if isinstance(ours, dict):
        for key in {**ours, **theirs}:
            if key not in ours or key not in theirs:
                return f"{where}: {key!r} is only in {'ours' if key in ours else 'theirs'}"
            difference = first_difference(ours[key], theirs[key], f"{where}/{key}")
            if difference:
                return difference
        return None
    if isinstance(ours, list):
        if len(ours) != len(theirs):
            return f"{where}: {len(ours)} items, onnx has {len(theirs)}"
        return next(filter(None, (first_difference(a, b, f"{where}/{i}") for i, (a, b) in enumerate(zip(ours, theirs)))),
                    None)
    return None if ours == theirs else f"{where}: {ours!r}, onnx has {theirs!r}"


def read_as_onnx_does(path, name):
    try:
        difference = first_difference(told(path), expected(path))
    except RuntimeError as error:
        difference = str(error)
    expect(difference is None, f"{name}: {difference}")


def rewritten_as_it_was(path, name, folder):
    """onnx reads our copy as the file it was made of; written again it has the same bytes."""
    copy, again = folder / "copy.onnx", folder / "again.onnx"
    ran = program("rewrite", path, copy)
    expect(ran.returncode == 0, f"{name}: {ran.stderr}")
    if ran.returncode != 0:
        return
    difference = first_difference(expected(copy), expected(path))
    expect(difference is None, f"{name}, rewritten: {difference}")
    program("rewrite", copy, again)
    expect(copy.read_bytes() == again.read_bytes(), f"{name}: the bytes of two writings differ")
    # Fields stand in the order in which protobuf's own writer puts them.
    model = onnx.load(str(copy), load_external_data=False)
    expect(model.SerializeToString(deterministic=True) == copy.read_bytes(), f"{name}: not the bytes protobuf writes")


def reading():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        models = {"typed": golden.typed(), "structure": golden.structure(), "small": golden.small()}
        for name, model in models.items():
            path = folder / f"{name}.onnx"
            path.write_bytes(model.SerializeToString())
            read_as_onnx_does(path, name)
            if name != "structure":  # its sequence and its sparse initializer are read by name only
                rewritten_as_it_was(path, name, folder)
        for one_file in (True, False):
            path = folder / f"external{one_file}" / "model.onnx"
            path.parent.mkdir()
            onnx.save_model(golden.external(), path, save_as_external_data=True, all_tensors_to_one_file=one_file,
                            location="all.data" if one_file else None, size_threshold=0)
            read_as_onnx_does(path, f"external data, one file: {one_file}")
            rewritten_as_it_was(path, f"external data, one file: {one_file}", path.parent)
        # Models that PyTorch and others exported over the years, as onnx ships them for its own tests.
        shipped = sorted(pathlib.Path(onnx.__file__).parent.glob("backend/test/data/**/*.onnx"))
        expect(len(shipped) > 100, f"onnx ships {len(shipped)} models; expected more than 100")
        for path in shipped:
            name = str(path.relative_to(pathlib.Path(onnx.__file__).parent))
            refused = program("tell", path)
            if refused.returncode == 4 and "element type string" in refused.stderr:
                continue
            read_as_onnx_does(path, name)
            model = onnx.load(str(path))
            tensors = all(v.type.WhichOneof("value") in ("tensor_type", None)
                          for v in [*model.graph.input, *model.graph.output, *model.graph.value_info])
            if tensors:
                rewritten_as_it_was(path, name, folder)


# --- What is written, checked and run.

def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # As written: optimised, an int4 product becomes a kernel on int8 activations, whose error is not ours.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def writing():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        ran = program("write", folder)
        expect(ran.returncode == 0, f"write: {ran.stderr}")
        k, n = np.arange(64)[:, None], np.arange(32)[None, :]
        weight = ((k - 2 * n) / 8).astype(np.float32)
        codes = (np.arange(64 * 32) % 16).reshape(64, 32)
        dequantized = (np.where(codes > 7, codes - 16, codes) * 0.25).astype(np.float32)
        bias = np.arange(32, dtype=np.float32)

        def gemm(x):
            g = 0.5 * (x @ weight) + bias
            return g - g.mean(axis=-1, keepdims=True)

        truths = {"prefill": (8, gemm), "decode": (1, gemm), "int4": (3, lambda x: x @ dequantized),
                  "far": (2, lambda x: x @ weight + 1)}
        rng = np.random.default_rng(1)
        for name, (rows, truth) in truths.items():
            path = folder / f"{name}.onnx"
            try:
                onnx.checker.check_model(str(path), full_check=True)
                expect(True, "")
            except Exception as error:  # noqa: BLE001: the checker throws several kinds
                expect(False, f"{name}: onnx.checker: {error}")
                continue
            if name != "far":  # onnx reads the whole external file of 4 GiB, hole and all
                read_as_onnx_does(path, name)
            rewritten_as_it_was(path, name, folder)
            x = rng.standard_normal((rows, 64)).astype(np.float32)
            y = session(path).run(None, {"x": x})[0]
            error = float(np.abs(y - truth(x.astype(np.float64))).max())
            expect(error < 1e-3, f"{name}: onnxruntime is {error} away")
            print(f"{name}: onnxruntime within {error:.2g}")
        shared = [onnx.load(str(folder / f"{m}.onnx"), load_external_data=False).graph.initializer[0] for m in
                  ("prefill", "decode")]
        expect(shared[0] == shared[1] and shared[0].external_data[0].value == "weights.data",
               "prefill and decode do not share their weight")
        expect((folder / "far.data").stat().st_size > 1 << 32, "far.data does not reach beyond 4 GiB")


reading()
writing()
print(f"{passed} passed, {len(faults)} failed")
sys.exit(1 if faults else 0)
