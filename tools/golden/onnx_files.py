#!/usr/bin/env python3
"""Writes tests/golden/onnx: models as PyPI onnx writes them, and what onnx itself reads out of them; the same files are
seeds of the fuzz target. Run from the repository's root, in .venv with tools/setup/requirements.txt."""
import json
import pathlib

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests/golden/onnx"
SEEDS = ROOT / "tests/fuzz/onnx"

NUMBERS = {
    T.FLOAT: [0.0, -1.5, 3e38, 1e-45, float("inf"), -0.0],
    T.DOUBLE: [0.0, -1.5, 1e308, 5e-324, 2.0, 1 / 3],
    T.FLOAT16: [0.0, -1.5, 65504.0, 6e-8, 1.0, -2.0],
    T.BFLOAT16: [0.0, -1.5, 3e38, 1.0, 2.0, -0.5],
    T.INT64: [0, -1, 2**63 - 1, -(2**63), 127, 128],
    T.INT32: [0, -1, 2**31 - 1, -(2**31), 127, 128],
    T.INT16: [0, -1, 2**15 - 1, -(2**15), 127, 128],
    T.INT8: [0, -1, 127, -128, 1, 2],
    T.UINT64: [0, 1, 2**64 - 1, 2**63, 127, 128],
    T.UINT32: [0, 1, 2**32 - 1, 2**31, 127, 128],
    T.UINT16: [0, 1, 2**16 - 1, 2**15, 127, 128],
    T.UINT8: [0, 1, 255, 128, 127, 2],
    T.BOOL: [True, False, True, True, False, False],
    T.FLOAT8E4M3FN: [0.0, -1.5, 448.0, 1.0, 2.0, -0.5],
    T.FLOAT8E5M2: [0.0, -1.5, 57344.0, 1.0, 2.0, -0.5],
    T.INT4: [0, -1, 7, -8, 3, -5],
    T.UINT4: [0, 1, 15, 8, 3, 5],
}


def packed(array, data_type):
    """What our reader shall give: little-endian, nibbles two a byte."""
    if data_type in (T.INT4, T.UINT4):
        nibbles = [int(v) & 15 for v in array.reshape(-1)]
        nibbles += [0] * (len(nibbles) % 2)
        return bytes(a | b << 4 for a, b in zip(nibbles[::2], nibbles[1::2]))
    return array.tobytes()


def name_of(data_type):
    return T.DataType.Name(data_type).lower()


def opsets(version, *others):
    return [helper.make_opsetid("", version)] + [helper.make_opsetid(d, v) for d, v in others]


def graph_of(initializers):
    """Each initializer goes to an output of its own."""
    nodes, outputs = [], []
    for tensor in initializers:
        nodes.append(helper.make_node("Identity", [tensor.name], [tensor.name + "_out"], name="to_" + tensor.name))
        outputs.append(helper.make_tensor_value_info(tensor.name + "_out", tensor.data_type, tensor.dims))
    return helper.make_graph(nodes, "tensors", [], outputs, initializers)


def typed():
    tensors = []
    for data_type, values in NUMBERS.items():
        name = name_of(data_type)
        tensors.append(helper.make_tensor(name, data_type, [2, 3], values))
        tensors.append(helper.make_tensor(name + "_odd", data_type, [5], values[:5]))
        tensors.append(helper.make_tensor(name + "_scalar", data_type, [], values[1:2]))
        tensors.append(helper.make_tensor(name + "_none", data_type, [3, 0], []))
        array = numpy_helper.to_array(tensors[-4])
        raw = numpy_helper.from_array(array, name + "_raw")
        assert raw.HasField("raw_data") and raw.data_type == data_type
        tensors.append(raw)
    return helper.make_model(graph_of(tensors), opset_imports=opsets(21), ir_version=10, producer_name="typed")


def external():
    tensors = [
        numpy_helper.from_array(np.arange(24, dtype=np.float32).reshape(4, 6), "weight"),
        numpy_helper.from_array(np.arange(7, dtype=np.float16), "half"),
        numpy_helper.from_array(np.array([-3, 4], dtype=np.int64), "ids"),
        helper.make_tensor("nibbles", T.INT4, [3, 3], bytes([0x98, 0xFA, 0x10, 0x65, 0x07]), raw=True),
    ]
    return helper.make_model(graph_of(tensors), opset_imports=opsets(21), ir_version=10, producer_name="external")


def structure():
    value = helper.make_tensor_value_info
    branch = [
        helper.make_graph([helper.make_node("Identity", ["x"], [f"{name}_y"])], name, [],
                          [value(f"{name}_y", T.FLOAT, ["batch", 4])])
        for name in ("then", "else")
    ]
    custom = helper.make_node(
        "Custom", ["x", "", "w"], ["c", ""], name="layers.0/custom", domain="com.example",
        a_float=0.5, an_int=-7, a_string="text", floats=[1.0, -2.0], ints=[3, -4, 5], strings=["a", "", "\u4e2d"],
        a_tensor=helper.make_tensor("t", T.INT32, [2], [9, -9]))
    nodes = [
        custom,
        helper.make_node("If", ["flag"], ["y"], name="choice", then_branch=branch[0], else_branch=branch[1]),
        helper.make_node("Twice", ["y"], ["z"], name="call", domain="local", factor=3.0),
        helper.make_node("SequenceAt", ["list", "at"], ["e"], domain="ai.onnx"),
    ]
    factor = helper.make_node("Scale", ["a"], ["b"], domain="com.example")
    reference = onnx.AttributeProto(name="factor", type=onnx.AttributeProto.FLOAT, ref_attr_name="factor")
    factor.attribute.append(reference)
    function = helper.make_function("local", "Twice", ["a"], ["b"], [factor], opsets(17, ("com.example", 2)), ["factor"])
    inputs = [
        value("x", T.FLOAT, ["batch", 4]),
        value("flag", T.BOOL, []),
        value("unknown", T.INT64, [None, 2, "n"]),
        value("rankless", T.FLOAT16, None),
        helper.make_tensor_sequence_value_info("list", T.FLOAT, None),
        value("at", T.INT64, []),
    ]
    outputs = [value("z", T.FLOAT, ["batch", 4]), value("e", T.FLOAT, None)]
    sparse = helper.make_sparse_tensor(helper.make_tensor("sparse", T.FLOAT, [1], [2.0]),
                                       helper.make_tensor("at", T.INT64, [1], [3]), [8])
    graph = helper.make_graph(
        nodes, "structure", inputs, outputs, [helper.make_tensor("w", T.FLOAT, [4], [1.0, 2.0, 3.0, 4.0])],
        doc_string="left out", value_info=[value("c", T.FLOAT, ["batch", 4])], sparse_initializer=[sparse])
    model = helper.make_model(graph, opset_imports=opsets(17, ("com.example", 2), ("local", 1)), ir_version=8,
                              producer_name="structure", producer_version="1.2", functions=[function])
    helper.set_model_props(model, {"author": "a name", "empty": ""})
    return model


def small():
    """Of every field one, as a short seed."""
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"], name="add")], "g",
                              [helper.make_tensor_value_info("x", T.FLOAT, ["n", 2])],
                              [helper.make_tensor_value_info("y", T.FLOAT, ["n", 2])],
                              [helper.make_tensor("w", T.FLOAT, [2], [1.0, 2.0])])
    return helper.make_model(graph, opset_imports=opsets(17), ir_version=8)


def expected(model):
    return {
        t.name: {"type": name_of(t.data_type), "dims": list(t.dims),
                 "hex": packed(numpy_helper.to_array(t), t.data_type).hex()}
        for t in model.graph.initializer
    }


def main():
    for folder in (FOLDER, SEEDS):
        folder.mkdir(parents=True, exist_ok=True)
    for name, model in (("typed", typed()), ("external", external())):
        rows = [f"{json.dumps(tensor)}: {json.dumps(truth)}" for tensor, truth in expected(model).items()]
        (FOLDER / f"{name}.json").write_text("{" + ",\n ".join(rows) + "}\n")
        if name == "external":
            (FOLDER / "external.data").unlink(missing_ok=True)
            onnx.save_model(model, FOLDER / "external.onnx", save_as_external_data=True, location="external.data",
                            size_threshold=0)
        else:
            (FOLDER / f"{name}.onnx").write_bytes(model.SerializeToString())
    (FOLDER / "structure.onnx").write_bytes(structure().SerializeToString())
    for name in ("typed", "external", "structure"):
        (SEEDS / name).write_bytes((FOLDER / f"{name}.onnx").read_bytes())
    (SEEDS / "small").write_bytes(small().SerializeToString())
    (SEEDS / "cut").write_bytes(small().SerializeToString()[:-60])
    for name in ("typed", "external"):
        onnx.checker.check_model(str(FOLDER / f"{name}.onnx"))


if __name__ == "__main__":
    main()
