#!/usr/bin/env python3
"""Cases of each ONNX operator that a graph may have, with ONNX Runtime's values.

    python tools/golden/make_onnx_ops.py tests/data/onnx [OPSET ...|microsoft]

For each opset one model ops-OPSET.onnx, and ops-microsoft.onnx with ONNX Runtime's own operators, whose nodes are cases of their own, with ops-OPSET.npz: the inputs by name,
`values`, all outputs one after the other, and `shapes`, the rank and the dimensions of each. Where ONNX Runtime has no
kernel for a type, onnx's reference gives the values. Needs onnx and onnxruntime.
"""

import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

TYPES = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float16): TensorProto.FLOAT16,
    np.dtype(np.float64): TensorProto.DOUBLE,
    np.dtype(np.int64): TensorProto.INT64,
    np.dtype(np.int32): TensorProto.INT32,
    np.dtype(np.int16): TensorProto.INT16,
    np.dtype(np.int8): TensorProto.INT8,
    np.dtype(np.bool_): TensorProto.BOOL,
    np.dtype(np.uint8): TensorProto.UINT8,
}
MICROSOFT = "com.microsoft"


class Const:
    """An input that the file knows."""

    def __init__(self, array, dtype=np.int64):
        self.array = np.asarray(array, dtype=dtype)


class Suite:
    def __init__(self, opset, name=None):
        self.opset = opset
        self.name = name or opset
        self.random = np.random.default_rng(opset)
        self.inputs = {}
        self.constants = {}
        self.nodes = []
        self.outputs = []
        self.values = []
        self.by_reference = []

    def x(self, *shape, dtype=np.float32, low=-2.0, high=2.0):
        """An input of the model; the same one for all that ask for the same."""
        name = "_".join([np.dtype(dtype).name, *map(str, shape), f"{low:g}_{high:g}"]).replace("-", "m")
        if name not in self.inputs:
            if np.dtype(dtype) == np.bool_:
                array = self.random.integers(0, 2, shape).astype(dtype)
            elif np.issubdtype(dtype, np.integer):
                array = self.random.integers(int(low), int(high), shape).astype(dtype)
            else:
                array = self.random.uniform(low, high, shape).astype(dtype)
            self.inputs[name] = np.asarray(array)
        return name

    def other(self, *shape, **kinds):
        """Another one of the same shape."""
        kinds.setdefault("low", -1.5)
        kinds.setdefault("high", 1.75)
        return self.x(*shape, **kinds)

    def data(self, name, array):
        self.inputs[name] = np.asarray(array)
        return name

    def case(self, op, *inputs, outputs=1, names=None, keep=None, reference=False, **attributes):
        wanted, names = names, []
        for each in inputs:
            if isinstance(each, Const):
                known = [k for k, v in self.constants.items()
                         if v.dtype == each.array.dtype and v.shape == each.array.shape and v.tobytes() == each.array.tobytes()]
                name = known[0] if known else f"c{len(self.constants)}"
                self.constants[name] = each.array
                names.append(name)
            else:
                names.append(each or "")
        made = [f"{op}.{len(self.nodes)}_{k}" if wanted is None or wanted[k] else "" for k in range(len(wanted) if wanted else outputs)]
        node = helper.make_node(op, names, made, name=f"{op}.{len(self.nodes)}", **attributes)
        used = list(dict.fromkeys(n for n in names if n in self.inputs))
        graph = self.graph([node], used, [onnx.ValueInfoProto(name=m) for m in made if m], [n for n in names if n in self.constants])
        feed = {n: self.inputs[n] for n in used}
        model = self.model(graph)
        try:
            if reference:
                raise NotImplementedError
            options = ort.SessionOptions()
            options.log_severity_level = 4
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            results = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feed)
        except Exception as error:  # noqa: BLE001
            if "NOT_IMPLEMENTED" not in str(type(error)) + str(error).upper() and "NotImplemented" not in type(error).__name__:
                raise
            results = ReferenceEvaluator(model).run(None, feed)
            self.by_reference.append(node.name)
        self.nodes.append(node)
        for name, value in list(zip([m for m in made if m], results))[:keep]:
            value = np.asarray(value)
            self.outputs.append(helper.make_tensor_value_info(name, TYPES[value.dtype], value.shape))
            self.values.append(value)

    def graph(self, nodes, inputs, outputs, constants):
        return helper.make_graph(
            nodes,
            "ops",
            [helper.make_tensor_value_info(n, TYPES[self.inputs[n].dtype], self.inputs[n].shape) for n in inputs],
            outputs,
            [numpy_helper.from_array(self.constants[n], n) for n in dict.fromkeys(constants)],
        )

    def model(self, graph):
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)] if self.name == "microsoft" else
                                 [helper.make_opsetid("", self.opset)], ir_version=8 if self.opset < 23 else 11)

    def write(self, folder):
        model = self.model(self.graph(self.nodes, self.inputs, self.outputs, self.constants))
        if self.name == self.opset:
            onnx.checker.check_model(model, full_check=True)
        onnx.save(model, f"{folder}/ops-{self.name}.onnx")
        arrays = {n: a.astype(np.int32) if a.dtype in (np.bool_, np.int8, np.int16) else a for n, a in self.inputs.items()}
        shapes = []
        for value in self.values:
            shapes += [value.ndim, *value.shape]
        flat = np.concatenate([v.reshape(-1).astype(np.float64) for v in self.values])
        np.savez_compressed(f"{folder}/ops-{self.name}.npz", values=flat, shapes=np.array(shapes, np.int64), **arrays)
        print(f"{self.name}: {len(self.nodes)} cases, of onnx's reference: {self.by_reference}")


I64 = np.int64
F16 = np.float16


def elementwise(s):
    x, y = s.x(2, 3, 4), s.other(2, 3, 4)
    for op in ["Add", "Sub", "Mul", "Div", "Max", "Min"]:
        s.case(op, x, y)
        s.case(op, x, s.other(3, 1))
        s.case(op, s.other(4), x)
        s.case(op, x, Const(0.75, np.float32))
        s.case(op, s.x(5, dtype=F16), s.other(5, dtype=F16))
        s.case(op, s.x(2, 5, dtype=I64, low=-9, high=9), s.x(5, dtype=I64, low=1, high=5))
        s.case(op, s.x(2, 5, dtype=np.int32, low=-9, high=9), s.x(5, dtype=np.int32, low=1, high=5))
    s.case("Add", s.x(3, dtype=np.float64), s.other(3, dtype=np.float64))
    s.case("Max", x, y, s.other(4))
    s.case("Min", x)
    s.case("Sum", x, y, s.other(4))
    s.case("Mean", x, y, s.other(4))
    s.case("Pow", s.x(2, 3, low=0.1, high=2), s.other(3))
    s.case("Pow", x, Const(2, np.float32))
    s.case("Pow", x, Const(3))
    s.case("Pow", s.x(2, 5, dtype=I64, low=-9, high=9), s.x(5, dtype=I64, low=1, high=5))
    s.case("Mod", s.x(2, 5, dtype=I64, low=-9, high=9), s.x(5, dtype=I64, low=1, high=5))
    s.case("Mod", s.x(2, 5, dtype=I64, low=-9, high=9), Const([-4], I64))
    s.case("Mod", x, s.other(2, 3, 4), fmod=1)
    for op in ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"]:
        s.case(op, s.x(3, 4, dtype=I64, low=0, high=3), s.x(4, dtype=I64, low=0, high=3))
        s.case(op, x, s.other(3, 1))
    s.case("Equal", s.x(3, 4, dtype=np.bool_), s.x(4, dtype=np.bool_))
    for op in ["And", "Or", "Xor"]:
        s.case(op, s.x(3, 4, dtype=np.bool_), s.x(4, dtype=np.bool_))
    s.case("Not", s.x(3, 4, dtype=np.bool_))
    s.case("PRelu", x, Const([[0.1], [0.2], [-0.3]], np.float32))
    s.case("Where", s.x(3, 1, dtype=np.bool_), x, s.other(4))
    s.case("Where", s.x(3, 4, dtype=np.bool_), s.x(3, 4, dtype=I64, low=0, high=3), Const(-7))
    for op in ["Sqrt", "Log", "Reciprocal"]:
        s.case(op, s.x(2, 3, low=0.1, high=2))
        s.case(op, s.x(5, dtype=F16, low=0.1, high=2))
    for op in ["Exp", "Sigmoid", "Tanh", "Erf", "Neg", "Abs", "Sign", "Floor", "Ceil", "Round", "Sin", "Cos", "Softplus",
               "Relu", "LeakyRelu", "Elu", "HardSigmoid", "HardSwish", "Identity"]:
        s.case(op, x)
        s.case(op, s.x(5, dtype=F16))
    s.case("Sqrt", s.x(5))
    s.case("Exp", s.x(2, 3, low=-90, high=90))
    s.case("Sigmoid", s.x(2, 3, low=-90, high=90))
    s.case("Tanh", s.x(2, 3, low=-90, high=90))
    s.case("Softplus", s.x(2, 3, low=-90, high=90))
    s.case("Round", s.data("halves", np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49], np.float32)))
    for op in ["Neg", "Abs", "Sign", "Relu"]:
        s.case(op, s.x(2, 5, dtype=np.int32, low=-9, high=9))
    s.case("LeakyRelu", x, alpha=0.3)
    s.case("Elu", x, alpha=0.3)
    s.case("HardSigmoid", x, alpha=0.3, beta=0.4)
    s.case("IsNaN", s.data("nans", np.array([1, np.nan, np.inf, -np.inf], np.float32)))
    s.case("Clip", x, Const(-0.5, np.float32), Const(0.5, np.float32))
    s.case("Clip", x, "", Const(0.5, np.float32))
    s.case("Clip", x, Const(-0.5, np.float32))
    s.case("Clip", x)
    s.case("Clip", s.x(2, 5, dtype=I64, low=-9, high=9), Const(-3), Const(2**40))
    s.case("Clip", x, s.data("low", np.float32(-0.25)), s.data("high", np.float32(0.75)))
    s.case("Clip", s.x(5, dtype=F16), Const(-0.5, F16), Const(0.5, F16))
    for to in [np.float32, F16, np.float64, I64, np.int32, np.int16, np.int8, np.bool_]:
        s.case("Cast", x, to=TYPES[np.dtype(to)])
    s.case("Cast", s.x(2, 5, dtype=I64, low=-9, high=9), to=TensorProto.FLOAT)
    s.case("Cast", s.x(2, 5, dtype=I64, low=-9, high=9), to=TensorProto.BOOL)
    s.case("Cast", s.x(3, 4, dtype=np.bool_), to=TensorProto.FLOAT)
    s.case("Cast", s.x(5, dtype=F16), to=TensorProto.FLOAT)
    s.case("CastLike", x, s.x(5, dtype=F16))
    s.case("Dropout", x)


def products(s):
    for a, b in [((2, 3), (3, 4)), ((3,), (3, 4)), ((2, 3), (3,)), ((3,), (3,)), ((2, 2, 3), (3, 4)), ((2, 1, 2, 3), (3, 3, 4)),
                 ((1, 2, 3), (5, 3, 2)), ((3, 1, 2, 5), (1, 2, 5, 3))]:
        s.case("MatMul", s.x(*a), s.other(*b))
    s.case("MatMul", s.x(2, 2, 3), Const(s.random.uniform(-1, 1, (3, 5)), np.float32))
    s.case("MatMul", s.x(2, 2, 3), Const(s.random.uniform(-1, 1, (2, 3, 5)), np.float32))
    s.case("MatMul", Const(s.random.uniform(-1, 1, (4, 2)), np.float32), s.x(2, 2, 3))
    s.case("MatMul", s.x(2, 3, dtype=F16), s.other(3, 4, dtype=F16))
    s.case("MatMul", s.x(2, 3, dtype=F16), Const(s.random.uniform(-1, 1, (3, 5)), F16))
    s.case("Gemm", s.x(2, 3), s.other(3, 4))
    s.case("Gemm", s.x(2, 3), s.other(3, 4), s.other(4), alpha=0.5, beta=2.0)
    s.case("Gemm", s.x(3, 2), s.other(4, 3), s.other(2, 1), transA=1, transB=1)
    s.case("Gemm", s.x(2, 3), Const(s.random.uniform(-1, 1, (4, 3)), np.float32), Const(0.5, np.float32), transB=1)


def windows(s):
    image = s.x(1, 4, 6, 7)
    w = Const(s.random.uniform(-1, 1, (2, 4, 3, 3)), np.float32)
    b = Const([0.5, -0.25], np.float32)
    s.case("Conv", image, w, b)
    s.case("Conv", image, w, pads=[1, 2, 0, 1], strides=[2, 1], kernel_shape=[3, 3])
    s.case("Conv", image, w, dilations=[2, 2], pads=[2, 2, 2, 2])
    s.case("Conv", image, Const(s.random.uniform(-1, 1, (6, 2, 3, 2)), np.float32), group=2)
    s.case("Conv", image, Const(s.random.uniform(-1, 1, (4, 1, 3, 3)), np.float32), group=4, auto_pad="SAME_UPPER", strides=[2, 2])
    s.case("Conv", image, Const(s.random.uniform(-1, 1, (2, 4, 2, 4)), np.float32), auto_pad="SAME_LOWER")
    s.case("Conv", image, w, auto_pad="VALID")
    s.case("Conv", s.x(2, 3, 8), Const(s.random.uniform(-1, 1, (2, 3, 3)), np.float32), strides=[2])
    s.case("Conv", s.x(1, 2, 3, 3, 3), Const(s.random.uniform(-1, 1, (1, 2, 2, 2, 2)), np.float32), pads=[0, 1, 0, 1, 0, 0])
    s.case("Conv", image, s.other(2, 4, 3, 3))
    wt = Const(s.random.uniform(-1, 1, (4, 2, 3, 3)), np.float32)
    small = s.x(1, 4, 3, 2)
    s.case("ConvTranspose", small, wt, b)
    s.case("ConvTranspose", small, wt, strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])
    s.case("ConvTranspose", small, wt, strides=[2, 3], dilations=[2, 1], pads=[1, 0, 2, 1])
    s.case("ConvTranspose", small, Const(s.random.uniform(-1, 1, (4, 1, 2, 2)), np.float32), group=2, strides=[2, 2])
    s.case("ConvTranspose", small, wt, strides=[2, 2], output_shape=[6, 4])
    s.case("ConvTranspose", small, wt, strides=[2, 2], auto_pad="SAME_UPPER")
    s.case("ConvTranspose", s.x(1, 2, 4), Const(s.random.uniform(-1, 1, (2, 2, 3)), np.float32), strides=[3])
    for op in ["MaxPool", "AveragePool"]:
        s.case(op, image, kernel_shape=[2, 3])
        s.case(op, image, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        s.case(op, image, kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1)
        s.case(op, image, kernel_shape=[3, 3], strides=[2, 2], pads=[0, 1, 1, 0], ceil_mode=1)
        s.case(op, image, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
        s.case(op, image, kernel_shape=[2, 2], auto_pad="SAME_LOWER")
        s.case(op, s.x(2, 3, 8), kernel_shape=[3])
        s.case(op, s.x(1, 2, 3, 3, 3), kernel_shape=[2, 2, 2])
    s.case("MaxPool", image, kernel_shape=[2, 2], dilations=[2, 3])
    s.case("AveragePool", image, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    # ONNX Runtime 1.23 divides by all places of a window, those behind the padding too; onnx and PyTorch do not.
    s.case("AveragePool", image, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], count_include_pad=1, ceil_mode=1,
           reference=True)
    s.case("GlobalAveragePool", image)
    s.case("GlobalMaxPool", image)
    for coords in ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]:
        for mode in ["nearest", "linear"]:
            s.case("Resize", s.x(1, 1, 3, 4), "", "", Const([1, 1, 5, 6]), mode=mode, coordinate_transformation_mode=coords)
            s.case("Resize", s.x(1, 1, 3, 4), "", "", Const([1, 1, 2, 3]), mode=mode, coordinate_transformation_mode=coords)
    for rounding in ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]:
        s.case("Resize", s.x(1, 1, 3, 4), "", Const([1, 1, 2, 2.5], np.float32), nearest_mode=rounding,
               coordinate_transformation_mode="asymmetric")
        s.case("Resize", s.x(1, 1, 3, 4), "", Const([1, 1, 3, 2], np.float32), nearest_mode=rounding)
    s.case("DepthToSpace", s.x(1, 8, 2, 3), blocksize=2)
    s.case("DepthToSpace", s.x(1, 8, 2, 3), blocksize=2, mode="CRD")


def along_axes(s):
    x = s.x(2, 3, 4)
    axes_input = s.opset >= 18
    for op in ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2"]:
        inputs = axes_input or (op == "ReduceSum" and s.opset >= 13)
        for axes, keep in [([1], 1), ([-1], 0), ([0, -1], 1), ([2, 0], 0), (None, 1), (None, 0)]:
            if axes is None:
                s.case(op, x, keepdims=keep)
            elif inputs:
                s.case(op, x, Const(axes), keepdims=keep)
            else:
                s.case(op, x, axes=axes, keepdims=keep)
        s.case(op, s.x(2, 5, dtype=np.int32, low=-9, high=9))
        if inputs:
            s.case(op, x, Const([], I64), noop_with_empty_axes=1)
    s.case("ReduceMean", s.x(2, 3, dtype=F16))
    s.case("ReduceSum", s.x(2, 5, dtype=I64, low=-9, high=9))
    s.case("ArgMax", x)
    s.case("ArgMax", x, axis=-1, keepdims=0)
    s.case("ArgMax", s.x(3, 4, dtype=np.int32, low=0, high=3), axis=1)
    for op in ["Softmax", "LogSoftmax"]:
        s.case(op, x)
        s.case(op, x, axis=1)
        s.case(op, x, axis=-3)
        s.case(op, s.x(2, 3, low=-90, high=90))
        s.case(op, s.x(2, 3, dtype=F16))
    s.case("CumSum", x, Const(1))
    s.case("CumSum", x, Const(-1), exclusive=1)
    s.case("CumSum", x, Const(0), reverse=1)
    s.case("CumSum", s.x(2, 5, dtype=I64, low=-9, high=9), Const(1), reverse=1, exclusive=1)
    if s.opset >= 17:
        s.case("LayerNormalization", x, Const([0.5, 1, 1.5, -2], np.float32))
        s.case("LayerNormalization", x, s.other(4), s.x(4), epsilon=0.25)
        s.case("LayerNormalization", x, s.other(3, 4), axis=1)
        s.case("LayerNormalization", s.x(2, 3, 4, dtype=F16), Const([0.5, 1, 1.5, -2], F16))
    c = [Const(v, np.float32) for v in ([1, -0.5, 2], [0.5, 0, -1], [0.25, -0.5, 1], [1, 0.5, 2])]
    s.case("BatchNormalization", x, *c)
    s.case("BatchNormalization", s.x(2, 3), *c, epsilon=0.25)
    s.case("BatchNormalization", s.x(1, 3, 2, 2), *c)
    s.case("InstanceNormalization", x, c[0], c[1])
    s.case("InstanceNormalization", s.x(1, 3, 2, 2), c[0], c[1], epsilon=0.25)


def moving(s):
    x = s.x(2, 3, 4)
    whole = s.x(2, 5, dtype=I64, low=-9, high=9)
    s.case("Reshape", x, Const([4, 6]))
    s.case("Reshape", x, Const([0, -1]))
    s.case("Reshape", x, Const([2, 1, -1, 3], I64), allowzero=1)
    s.case("Reshape", whole, Const([-1]))
    s.case("Reshape", s.x(1, 1), Const([], I64))
    s.case("Flatten", x)
    s.case("Flatten", x, axis=0)
    s.case("Flatten", x, axis=-1)
    s.case("Transpose", x)
    s.case("Transpose", x, perm=[1, 0, 2])
    s.case("Transpose", whole, perm=[1, 0])
    s.case("Concat", x, s.other(2, 1, 4), x, axis=1)
    s.case("Concat", x, axis=0)
    s.case("Concat", s.x(3, 4, dtype=I64, low=0, high=3), s.x(3, 1, dtype=I64), axis=-1)
    s.case("Concat", s.x(3, 4, dtype=np.bool_), s.x(1, 4, dtype=np.bool_), axis=-2)
    big = 2**63 - 1
    s.case("Slice", x, Const([1, 0]), Const([3, 2]), Const([1, 2]))
    s.case("Slice", x, Const([-3]), Const([big]), Const([-1]))
    s.case("Slice", x, Const([-1]), Const([-big]), Const([2]), Const([-2]))
    s.case("Slice", x, Const([3, 9]), Const([-9, 0]), Const([2, 1]), Const([-3, -1]))
    s.case("Slice", x, Const([0, 1]), Const([2, -1]))
    s.case("Slice", whole, Const([0]), Const([5]), Const([1]), Const([3]))
    s.case("Slice", whole, Const([0], np.int32), Const([5], np.int32), Const([1], np.int32), Const([100], np.int32))
    if s.opset >= 18:
        s.case("Split", s.x(2, 5), axis=1, num_outputs=2, outputs=2)
        s.case("Split", s.x(7), axis=-1, num_outputs=4, outputs=4)
    else:
        s.case("Split", x, axis=2, outputs=2)
    s.case("Split", s.x(2, 5), Const([1, 4]), axis=-1, outputs=2)
    s.case("Unsqueeze", x, Const([0]))
    s.case("Unsqueeze", x, Const([-1, 1]))
    s.case("Squeeze", s.x(1, 3, 1, 2))
    s.case("Squeeze", s.x(1, 3, 1, 2), Const([-2]))
    s.case("Expand", s.other(3, 1), Const([2, 1, 4]))
    s.case("Expand", x, Const([1]))
    s.case("Expand", s.x(1, 5, dtype=I64), Const([3, 1]))
    s.case("Tile", x, Const([1, 2, 3]))
    s.case("Tile", whole, Const([2, 1]))
    for mode in ["constant", "reflect", "edge"]:
        s.case("Pad", x, Const([0, 1, 2, 1, 0, 3]), mode=mode)
    s.case("Pad", x, Const([0, 1, 2, 1, 0, 3]), Const(0.5, np.float32))
    s.case("Pad", x, Const([0, -1, 2, -1, 0, -1]), Const(0.5, np.float32))
    s.case("Pad", whole, Const([1, 0, 0, 2]), Const(-7))
    if s.opset >= 18:
        s.case("Pad", x, Const([1, 2]), Const(0.5, np.float32), Const([-2]))
    for upper in [0, 1]:
        s.case("Trilu", x, upper=upper)
        s.case("Trilu", x, Const(1), upper=upper)
        s.case("Trilu", s.x(3, 4, dtype=I64, low=0, high=3), Const(-2), upper=upper)
        s.case("Trilu", x, Const(100), upper=upper)


def by_index(s):
    x = s.x(2, 3, 4)
    rows = s.data("rows", np.array([[0, 2], [-1, 1]], np.int64))
    s.case("Gather", x, rows, axis=1)
    s.case("Gather", x, Const(1), axis=0)
    s.case("Gather", x, Const([-1, 0], np.int32), axis=-1)
    s.case("Gather", s.x(2, 5, dtype=I64, low=-9, high=9), rows, axis=1)
    s.case("GatherElements", s.x(3, 4), s.data("places", np.array([[0, -1, 2], [2, 1, 0]], np.int64)), axis=0)
    s.case("GatherElements", s.x(3, 4), s.data("places32", np.array([[0, -1], [2, 1], [3, 3]], np.int32)), axis=-1)
    s.case("GatherND", x, s.data("nd", np.array([[0, 1], [1, -1]], np.int64)))
    s.case("GatherND", x, s.data("nd3", np.array([[[0, 1, 2]], [[1, 2, -1]]], np.int64)))
    s.case("GatherND", s.x(3, 4, dtype=np.bool_), Const([[2], [0]]))
    s.case("ScatterElements", s.x(3, 4), s.data("to", np.array([[2, 1, 0], [0, -1, 1]], np.int64)), s.other(2, 3))
    s.case("ScatterElements", s.x(3, 4), s.data("to1", np.array([[3, 0], [-1, 1]], np.int64)), s.other(2, 2), axis=1)
    s.case("ScatterND", x, s.data("nd2", np.array([[0, 2], [1, 0]], np.int64)), s.other(2, 4))
    s.case("ScatterND", s.x(2, 5, dtype=I64, low=-9, high=9), Const([[1]]), Const([[7, 8, 9, 10, 11]]))
    s.case("TopK", x, Const([2]), outputs=2)
    s.case("TopK", x, Const([3]), axis=1, largest=0, outputs=2)
    s.case("TopK", s.x(3, 4, dtype=I64, low=0, high=3), Const([4]), outputs=2)
    hot = s.data("hot", np.array([0, 2, -1, 1], np.int64))
    s.case("OneHot", hot, Const(3), Const([0, 1]))
    s.case("OneHot", hot, Const([3]), Const([0, 1], np.float32), axis=0)
    s.case("OneHot", rows, Const(3), Const([-1.5, 2.5], np.float32), axis=1)
    s.case("NonZero", Const([0, 3, 0, -1]))


def old(s):
    """What was said otherwise before opset 13."""
    x = s.x(2, 3, 4)
    for axes in [[1], [0, -1]]:
        s.case("ReduceSum", x, axes=axes)
    s.case("Squeeze", s.x(1, 3, 1, 2), axes=[2])
    s.case("Squeeze", s.x(1, 3, 1, 2))
    s.case("Unsqueeze", x, axes=[0, -1])
    s.case("Split", s.x(2, 5), split=[1, 4], axis=-1, outputs=2)
    s.case("Split", x, axis=2, outputs=2)
    s.case("Softmax", x)
    s.case("Softmax", x, axis=0)
    s.case("Softmax", x, axis=-1)
    s.case("LogSoftmax", x, axis=1)
    s.case("Clip", x, Const(-0.5, np.float32), Const(0.5, np.float32))
    s.case("Pad", x, Const([0, 1, 2, 1, 0, 3]), Const(0.5, np.float32))
    s.case("BatchNormalization", x, *[Const(v, np.float32) for v in ([1, -0.5, 2], [0.5, 0, -1], [0.25, -0.5, 1], [1, 0.5, 2])])
    s.case("Resize", s.x(1, 1, 3, 4), Const([], np.float32), Const([1, 1, 2, 2], np.float32), mode="linear")
    s.case("Dropout", x, ratio=0.25) if s.opset < 12 else s.case("Dropout", x, Const(0.25, np.float32))


def transformers(s):
    """What the standard has for transformers from opset 23 on."""
    s.case("RMSNormalization", s.x(2, 3, 8), s.other(8))
    s.case("RMSNormalization", s.x(2, 3, 8), s.other(3, 8), axis=1, epsilon=1e-3)
    s.case("RMSNormalization", s.x(2, 8, dtype=F16), s.other(8, dtype=F16))
    cos, sin = s.x(16, 4), s.other(16, 4)
    places = s.data("places", np.array([[0, 1, 2], [5, 7, 15]], np.int64))
    for interleaved in [0, 1]:
        s.case("RotaryEmbedding", s.x(2, 2, 3, 8), cos, sin, places, interleaved=interleaved)
        s.case("RotaryEmbedding", s.x(2, 3, 16), cos, sin, places, interleaved=interleaved, num_heads=2)
    s.case("RotaryEmbedding", s.x(2, 3, 24), s.x(2, 3, 4), s.other(2, 3, 4), num_heads=2, rotary_embedding_dim=8)
    q, k, v = s.x(2, 4, 3, 8), s.x(2, 2, 5, 8), s.other(2, 2, 5, 6)
    past = s.x(2, 2, 4, 8), s.other(2, 2, 4, 6)
    s.case("Attention", q, k, v)
    s.case("Attention", q, k, v, is_causal=1, scale=0.3)
    s.case("Attention", q, k, v, s.x(3, 5), softcap=0.5)
    s.case("Attention", q, k, v, s.data("seen", np.tril(np.ones((2, 1, 3, 5))).astype(np.bool_)))
    s.case("Attention", q, k, v, None, *past, outputs=3, is_causal=1)
    s.case("Attention", q, k, v, s.data("all", np.triu(np.ones((3, 9))).astype(np.bool_)[:, ::-1].copy()), *past, outputs=3)
    s.case("Attention", s.x(2, 3, 32), s.x(2, 5, 16), s.other(2, 5, 16), q_num_heads=4, kv_num_heads=2)


def quantized(s, rows, cols, block, bits=4, zeros=None, halves=True):
    """Codes, scales and perhaps zero points as MatMulNBits takes them; scales that float16 holds, or do not."""
    blocks = -(-cols // block)
    codes = s.random.integers(0, 256, (rows, blocks, block * bits // 8)).astype(np.uint8)
    scales = s.random.uniform(0.01, 0.05, rows * blocks)
    made = [Const(codes, np.uint8), Const(scales.astype(F16) if halves else scales, np.float32)]
    if zeros == "bytes":
        made.append(Const(s.random.integers(0, 256, rows * -(-blocks * bits // 8)), np.uint8))
    if zeros == "floats":
        made.append(Const(s.random.integers(3, 12, rows * blocks), np.float32))
    return made


def microsoft(s):
    """What ONNX Runtime has beside the standard, in transformers."""
    def case(op, *inputs, **kinds):
        s.case(op, *inputs, domain=MICROSOFT, **kinds)

    x, skip, gamma, beta, bias = s.x(2, 3, 8), s.other(2, 3, 8), s.other(8, low=0.5), s.other(8, low=-1), s.other(8)
    # Norms
    s.case("SimplifiedLayerNormalization", x, gamma, axis=-1, epsilon=1e-5, stash_type=1)
    s.case("SimplifiedLayerNormalization", x, gamma, epsilon=1e-2, outputs=2)
    s.case("SimplifiedLayerNormalization", s.x(2, 8, dtype=F16), s.other(8, dtype=F16), epsilon=1e-6)
    case("SkipSimplifiedLayerNormalization", x, skip, gamma, epsilon=1e-5)
    case("SkipSimplifiedLayerNormalization", x, skip, gamma, bias, names=["y", "", "inverse", "sum"], epsilon=1e-5)
    case("SkipSimplifiedLayerNormalization", x, s.other(3, 8), gamma, names=["y", "", "", "sum"])
    case("SkipLayerNormalization", x, skip, gamma, beta, epsilon=1e-12)
    case("SkipLayerNormalization", x, skip, gamma, beta, bias, outputs=4, epsilon=1e-3)
    case("SkipLayerNormalization", x, s.other(1, 3, 8), gamma)
    case("SkipLayerNormalization", s.x(2, 3, 8, dtype=F16), s.other(2, 3, 8, dtype=F16), s.other(8, dtype=F16), names=["y", "", "", "sum"])
    tables = [s.other(n, 8) for n in (5, 6, 2)]
    ids = s.x(2, 3, dtype=np.int32, low=0, high=5)
    kinds = s.x(2, 3, dtype=np.int32, low=0, high=2)
    case("EmbedLayerNormalization", ids, kinds, *tables, gamma, beta, s.data("seen", np.array([[1, 1, 1], [1, 0, 0]], np.int32)), outputs=3)
    case("EmbedLayerNormalization", ids, None, *tables[:2], None, gamma, beta, names=["y", ""], epsilon=1e-3)
    case("EmbedLayerNormalization", ids, kinds, *tables, gamma, beta, None, s.data("places", np.array([[1, 2, 3], [0, 5, 2]], np.int32)), outputs=2)
    # Activations and products
    for op in ["Gelu", "FastGelu", "QuickGelu"]:
        case(op, s.x(2, 3, 8))
    case("QuickGelu", s.x(2, 3, 8), alpha=1.0)
    case("FastGelu", x, bias)
    case("BiasGelu", x, bias)
    case("FusedMatMul", s.x(2, 3, 4), s.other(4, 5), alpha=0.25)
    case("FusedMatMul", s.x(2, 4, 3), s.other(2, 5, 4), transA=1, transB=1)
    for block, zeros in [(32, None), (64, "bytes"), (128, "bytes"), (32, "floats"), (16, None)]:
        case("MatMulNBits", s.x(2, 3, 128), *quantized(s, 6, 128, block, zeros=zeros), K=128, N=6, bits=4, block_size=block)
    case("MatMulNBits", s.x(2, 128), *quantized(s, 6, 128, 32, halves=False), K=128, N=6, bits=4, block_size=32)
    case("MatMulNBits", s.x(2, 96), *quantized(s, 5, 96, 64, zeros="bytes"), K=96, N=5, bits=4, block_size=64)
    case("MatMulNBits", s.x(2, 128), *quantized(s, 6, 128, 32, bits=8, zeros="bytes"), K=128, N=6, bits=8, block_size=32)
    case("MatMulNBits", s.x(2, 128), *quantized(s, 6, 128, 32), None, None, s.other(6), K=128, N=6, bits=4, block_size=32)
    # Rotations
    cos, sin = s.x(16, 4), s.other(16, 4)
    places = s.data("turns", np.array([[0, 1, 2], [5, 7, 15]], np.int64))
    first = s.data("turn", np.array([4], np.int64))
    for positions in [places, first]:
        for interleaved in [0, 1]:
            case("RotaryEmbedding", s.x(2, 3, 16), positions, cos, sin, interleaved=interleaved)
            case("RotaryEmbedding", s.x(2, 3, 24), positions, cos, sin, interleaved=interleaved, num_heads=2, rotary_embedding_dim=8)
            case("RotaryEmbedding", s.x(2, 2, 3, 8), positions, cos, sin, interleaved=interleaved)
    # Grouped attention: 4 heads on 2, of 16 columns
    grouped = {"num_heads": 4, "kv_num_heads": 2}
    whole = lambda *shape: s.x(*shape, low=-1, high=1)
    def seen(*numbers):
        return s.data("seen_" + "_".join(map(str, numbers)), np.array(numbers, np.int32))
    # ONNX Runtime takes several tokens behind a past of one sequence alone.
    wide, wider = s.x(16, 8), s.other(16, 8)
    q, k, v = whole(1, 3, 64), whole(1, 3, 32), s.other(1, 3, 32)
    past, pasts = [[whole(n, 2, 5, 16), s.other(n, 2, 5, 16)] for n in (1, 2)]
    three, six, eight = (Const(n, np.int32) for n in (3, 6, 8))
    for kinds in [{}, {"local_window_size": 2}, {"softcap": 0.5}, {"scale": 0.2}, {"smooth_softmax": 1}]:
        case("GroupQueryAttention", q, k, v, *past, seen(7), eight, outputs=3, **grouped, **kinds)
    case("GroupQueryAttention", q, k, v, *past, seen(6), eight, outputs=3, keep=1, **grouped)
    case("GroupQueryAttention", whole(2, 3, 64), whole(2, 3, 32), s.other(2, 3, 32), None, None, seen(2, 2), three, outputs=3, **grouped, local_window_size=2)
    case("GroupQueryAttention", whole(1, 3, 128), None, None, *past, seen(7), eight, wide, wider, outputs=3, **grouped, do_rotary=1)
    case("GroupQueryAttention", whole(1, 3, 128), None, None, *past, seen(6), eight, wide, wider, outputs=3, keep=1, **grouped, do_rotary=1, rotary_interleaved=1)
    case("GroupQueryAttention", q, k, v, None, None, seen(2), three, wide, wider, outputs=3, **grouped, do_rotary=1)
    case("GroupQueryAttention", q, k, v, *past, seen(7), eight, wide, wider, s.data("turned", np.array([[5, 7, 15]], np.int64)), outputs=3, **grouped, do_rotary=1)
    case("GroupQueryAttention", q, k, v, *past, seen(7), eight, None, None, None, whole(1, 1, 3, 8), outputs=3, **grouped, softcap=0.5)
    case("GroupQueryAttention", q, k, v, *past, seen(7), eight, None, None, None, None, s.other(4), outputs=3, **grouped)
    # One token of each of two sequences, one of which is shorter
    one = whole(2, 1, 64), whole(2, 1, 32), s.other(2, 1, 32)
    case("GroupQueryAttention", *one, *pasts, seen(5, 3), six, wide, wider, outputs=3, keep=1, **grouped, do_rotary=1)
    halves = [s.x(1, 3, n, dtype=F16, low=-1, high=1) for n in (64, 32)]
    case("GroupQueryAttention", *halves, halves[1], None, None, seen(2), three, outputs=3, **grouped)
    # A cache of a context's length; what it has behind the step is not compared
    case("GroupQueryAttention", q, k, v, *past, seen(3), Const(4, np.int32), outputs=3, keep=1, **grouped)
    case("GroupQueryAttention", q, k, v, *past, seen(2), three, outputs=3, keep=1, **grouped)
    case("GroupQueryAttention", q, k, v, *past, seen(4), s.data("all", np.array(5, np.int32)), outputs=3, **grouped)
    # Attention of encoders
    mask = s.data("mask", np.array([[1, 1, 1], [1, 0, 0]], np.int32))
    counts = s.data("counts", np.array([3, 1], np.int32))
    each = s.data("each", np.tril(np.ones((2, 3, 3), np.int32)))
    q, k, v = whole(2, 3, 16), s.other(2, 3, 16), s.x(2, 3, 16, low=-0.5, high=1)
    case("MultiHeadAttention", q, k, v, num_heads=2)
    case("MultiHeadAttention", q, k, v, s.other(48), mask, num_heads=2)
    case("MultiHeadAttention", q, whole(2, 5, 16), s.other(2, 5, 16), num_heads=2, scale=0.3)
    case("MultiHeadAttention", q, k, v, None, counts, num_heads=2, mask_filter_value=-3.0)
    case("MultiHeadAttention", q, k, v, None, each, whole(1, 2, 3, 3), num_heads=2)
    case("MultiHeadAttention", q, k, v, None, None, None, whole(2, 2, 5, 8), s.other(2, 2, 5, 8), outputs=3, num_heads=2)
    case("MultiHeadAttention", q, k, v, num_heads=2, unidirectional=1)
    case("MultiHeadAttention", q, whole(2, 2, 5, 8), s.other(2, 2, 5, 8), num_heads=2)
    weight = s.other(8, 48, low=-0.5, high=0.5)
    case("Attention", x, weight, s.other(48), num_heads=2)
    case("Attention", x, weight, s.other(48), mask, num_heads=2)
    case("Attention", x, weight, None, counts, num_heads=2, scale=0.4)
    case("Attention", x, weight, s.other(48), each, None, whole(2, 2, 3, 3), num_heads=2, mask_filter_value=-2.0)
    case("Attention", x, weight, s.other(48), mask, num_heads=2, unidirectional=1)
    case("Attention", x, s.other(8, 40, low=-0.5), s.other(40), num_heads=2, qkv_hidden_sizes=[16, 16, 8])


def main():
    folder = sys.argv[1]
    wanted = sys.argv[2:]
    if not wanted or "microsoft" in wanted:
        s = Suite(17, "microsoft")
        microsoft(s)
        s.write(folder)
    for opset in [11, 12, 17, 18, 20, 21, 23]:
        if wanted and str(opset) not in wanted:
            continue
        s = Suite(opset)
        if opset < 13:
            old(s)
        elif opset == 17:
            for part in [elementwise, products, windows, along_axes, moving, by_index]:
                part(s)
        elif opset == 18:
            along_axes(s)
            moving(s)
        elif opset == 20:
            for approximate in ["none", "tanh"]:
                s.case("Gelu", s.x(2, 3, 4), approximate=approximate)
            s.case("Gelu", s.x(5, dtype=F16))
            s.case("AveragePool", s.x(1, 2, 5, 6), kernel_shape=[2, 2], dilations=[2, 3])
            s.case("ReduceMax", s.x(3, 4, dtype=np.int32, low=0, high=3), Const([1]))
        elif opset == 23:
            transformers(s)
        else:
            s.case("Reshape", s.x(2, 3, 4), Const([4, -1]))
            s.case("Squeeze", s.x(1, 3, 1, 2), Const([0]))
            s.case("Cast", s.x(2, 3, 4), to=TensorProto.INT32)
            s.case("Pad", s.x(2, 3, 4), Const([1, 2]), Const(0.5, np.float32), Const([-2]))
            for how in ["add", "mul", "max", "min"]:
                to, nd = (s.data(f"{n}_{how}", np.array(v, np.int64)) for n, v in [("to", [[2, 1, 2], [0, -1, 1]]), ("nd", [[1], [0], [1]])])
                s.case("ScatterElements", s.x(3, 4), to, s.x(2, 3), reduction=how)
                s.case("ScatterElements", s.x(3, 4, dtype=I64, low=-9, high=9), to, s.x(2, 3, dtype=I64, low=-9, high=9), reduction=how)
                s.case("ScatterND", s.x(2, 3), nd, s.x(3, 3), reduction=how)
        s.write(folder)


if __name__ == "__main__":
    main()
