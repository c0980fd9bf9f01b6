"""What the constraints of npu_ops.csv mean, as facts that a graph decides (devices/toolchain.schema.json: `checks`).

A constraint of an operator that is taken in part has to stand here: whatever of it no graph decides (how a quantizer sets
its zero points, which permutations a converter knows) is its `condition`. What is no constraint but a hint is `advice`.
"""


def check(rule, value=None, **more):
    return {"rule": rule, **({} if value is None else {"value": value}), **more}


CONSTANT_PARAMETERS = check("always", why="axes, starts and pads of these graphs are constants, strides are 1")
CONSTANT_RIGHT = check("constant_input", 1)
TYPES_LISTED = check("always", why="the types listed are those of the constraint")
CONVOLUTION = {"checks": [CONSTANT_RIGHT]}
# Vela reads a tensor of three dimensions as height 1; depth is the last one.
VELA_MEAN = [check("batch", 1), check("max_axis_size", 4095), check("flat_depth")]

CONSTRAINTS = {
    # ONNX Runtime QNN
    "HTP type sets (u8,u8) (u8,u16) (u16,u8); fp16 for float models": {
        "checks": [check("type_pairs", types=["uint8 x uint8", "uint8 x uint16", "uint16 x uint8"])]
    },
    "no Rsqrt op in ONNX: Sqrt+Reciprocal": {"written_as": ["Sqrt", "Reciprocal"]},
    "no Silu builder: pattern Sigmoid+Mul": {"written_as": ["Sigmoid", "Mul"]},
    "positive indices only": {"checks": [check("always", why="indices of these graphs count from 0")]},
    # QAIRT
    "native HTP op since QAIRT 2.45": {"since_version": "2.45"},
    "GroupedQueryAttention and MaskedSoftmax since 2.49": {"since_version": "2.49"},
    "rank 5 since 2.39": {"checks": [check("max_rank", 4, before_version="2.39"), check("max_rank", 5)]},
    "max rank 4": {"checks": [check("max_rank", 4)]},
    "only when it folds into Gelu": {"within": "Gelu"},
    "static shape only": {"checks": [check("static_shape")]},
    "output fp32 only": {"checks": [check("output_type", types=["float32"])]},
    "axis range limited": {"condition": "axis range limited"},
    # ExecuTorch QNN
    "16-bit second input needs V73+; V68/V69 need 8-bit KV": {"checks": [check("second_input_bits", 8, before_generation=73)]},
    "16a4w block (LPBQ) needs V73+; per-channel 16a4w on all": {"checks": [check("no_weight_blocks", before_generation=73)]},
    "no reciprocal builder: Div": {"written_as": ["Div"]},
    "no Silu row: Sigmoid x Mul": {"written_as": ["Sigmoid", "Mul"]},
    "no Erf row: use Gelu": {"within": "Gelu"},
    "no row: Tile": {"written_as": ["Tile"]},
    "16a16w needs V73+": {"checks": [check("weight_bits", 8, before_generation=73)]},
    "no row: Mul/Add/Sin/Cos": {"written_as": ["Mul", "Add", "Sin", "Cos"]},
    "no row: built from MatMul/Softmax": {"written_as": ["MatMul", "Softmax"]},
    # RKNN
    "batch 1": {"checks": [check("batch", 1)]},
    "batch 1, no broadcast": {"checks": [check("batch", 1), check("no_broadcast")]},
    "fused with Conv/activation (exSwish)": {"condition": "fused with Conv/activation (exSwish)"},
    "fused exGelu; ONNX Gelu row not checked": {"condition": "fused exGelu; ONNX Gelu row not checked"},
    "runs as CPU op": {"on_cpu": True},
    "custom op run on CPU (rknpu2 notes)": {"on_cpu": True},
    "constant condition only": {"checks": [check("constant_input", 0)]},
    # Vela
    "TFLite BATCH_MATMUL. int8 input only; depth and reduced axis <= 2^16": {
        "dtypes": ["int8"],
        "checks": [check("max_product_dim", 65536)],
    },
    "TFLite FULLY_CONNECTED. 8-bit constant weights; dynamic weights need int8 and <= 2^16; int32/int64 bias": {
        "checks": [CONSTANT_RIGHT, check("weight_bits", 8)]
    },
    "TFLite FULLY_CONNECTED. 8-bit constant weights": {"checks": [CONSTANT_RIGHT, check("weight_bits", 8)]},
    "TFLite CONV_2D. 8-bit weights; sum of |weights| <= 8323072": {
        "checks": [check("weight_bits", 8)],
        "condition": "sum of |weights| <= 8323072",
    },
    "TFLite CONV_2D. 8-bit weights; int16 weight sum <= 2130706432": {
        "checks": [check("weight_bits", 8)],
        "condition": "int16 weight sum <= 2130706432",
    },
    "TFLite RSQRT. int8 or int16": {"dtypes": ["int8", "int16"], "checks": [TYPES_LISTED]},
    "TFLite MEAN. batch 1; reduced axis < 4096; depth reduce only if h, w or c is 1; const params": {"checks": VELA_MEAN},
    "TFLite MEAN. batch 1; reduced axis < 4096; depth reduce only if h, w or c is 1": {"checks": VELA_MEAN},
    "TFLite SOFTMAX. W x H product < 65536": {"checks": [check("max_rows", 65535)]},
    "TFLite GELU. int8 or uint8, same in/out type": {"dtypes": ["int8", "uint8"], "checks": [TYPES_LISTED]},
    "TFLite GELU. int8 or uint8": {"dtypes": ["int8", "uint8"], "checks": [TYPES_LISTED]},
    "TFLite STRIDED_SLICE. constant params, no negative stride": {"checks": [CONSTANT_PARAMETERS]},
    "TFLite TRANSPOSE. N-2 axes product <= 2^16 except NHWC; int32 rank <= 4": {"checks": [check("max_outer", 65536)]},
    "TFLite ARG_MAX. depth <= 127, depth axis": {"checks": [check("last_axis"), check("max_axis_size", 127)]},
    "TFLite PAD. constant params": {"checks": [CONSTANT_PARAMETERS]},
    "TFLite GATHER. axis must equal batch_dims": {"checks": [check("axis", 0)]},
    # Samsung ENN
    "constant weights": CONVOLUTION,
    "at most 1 constant tensor": {"checks": [check("max_constant_inputs", 1)]},
    "expanding at most one axis, new dimensions must be size 1": {"checks": [check("max_expanded_axes", 1)]},
    "memory_format=contiguous only": {"checks": [check("always", why="tensors of ONNX are contiguous")]},
    "norm at last axis only": {"checks": [check("last_axis")]},
    "padding_value=0.0 only": {"condition": "padding_value=0.0 only"},
    # NXP Neutron
    "quantization zero points of inputs are equal": {"condition": "quantization zero points of inputs are equal"},
    "2D tensor only": {"checks": [check("rank", 2)]},
    "1D or 2D convolution, constant weights, groups=1 or groups=channels_count (depthwise)": CONVOLUTION,
    "alpha = 1": {"checks": [check("always", why="Add and Sub of ONNX have no factor")]},
    "divisor - static tensor or scalar value, one dimension must satisfy %8 = 0 or scalar division (all dims = 1)": {
        "checks": [CONSTANT_RIGHT, check("multiple_or_scalar", 8)]
    },
    "4D tensor only": {"checks": [check("rank", 4)]},
    "channels <= 2040, flat input size / channels <= 4096, flat input size <= 524288": {
        "checks": [check("max_last", 2040), check("max_rows", 4096), check("max_elements", 524288)]
    },
    "all inputs share quantization parameters": {"condition": "all inputs share quantization parameters"},
    "transforming split -> getitem to slice, see aten.slice_copy.Tensor": {"written_as": ["Slice"]},
    "Only specific transpositions supported, see backends/nxp/backend/ir/converter/node_converters/ops_converters/permute_copy_converter.py": {
        "condition": "only some permutations (permute_copy_converter.py)"
    },
    "H or W padding only": {"condition": "H or W padding only"},
    # Core ML
    "constant B": {"checks": [CONSTANT_RIGHT]},
    "1D/2D, constant weights": CONVOLUTION,
    "2D, constant weights": CONVOLUTION,
    "fp32 both inputs": {"checks": [check("input_type", types=["float32"])]},
    "constant mode, last two dims": {"condition": "constant mode, last two dims"},
    "bare RMSNorm is slow or falls off ANE: rewrite as LayerNorm form": {"condition": "written as LayerNorm of x and -x beside each other: bare RMSNorm is slow or falls off ANE"},
    "Linear as 1x1 Conv2d about 3x faster": {"advice": "as a 1x1 Conv2d it is about 3x faster"},
    "int32/int64 gather goes to CPU": {"on_cpu": True},
    "greater_equal on int goes to CPU": {"checks": [check("input_type", types=["float16", "float32"])]},
    "state writes with int64 index break ANE placement": {"checks": [check("no_int64_index")]},
    "fused SDPA may overflow fp16: manual softmax": {"advice": "written out, as here: the fused SDPA may overflow fp16"},
    # OpenVINO
    "Q4_0 primary; Q5_K/Q6_K requantised": {"checks": [check("stored", types=["Q4_0"])]},
}
# Of dtypes: the version from which on one is taken.
DTYPES_SINCE = {
    "bf16 since 2.44; fp16/int16": {"bf16": "2.44"},
    "int16 act, int4 weights since 2.44": {"a16w4": "2.44"},
    "a8w2 since 2.49": {"a8w2": "2.49"},
}
