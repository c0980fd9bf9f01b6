"""Operator support, from facts/npu_ops.csv to devices/toolchains/NAME-VERSION.json, one file a toolchain and version."""

import re

from constraints import CONSTRAINTS, DTYPES_SINCE
from facts import FactError, table

# The name and version in npu_ops.csv -> file, name, version. None: its rows go into other files, or into profiles.
FILES = {
    ("ORT QNN EP (HTP)", "onnxruntime @00cd7c6d"): ("onnxruntime-qnn", "ONNX Runtime QNN execution provider", "00cd7c6d"),
    ("QAIRT/QNN converter + HTP", "2.39-2.49"): ("qairt", "Qualcomm AI Runtime converter for HTP", "2.39-2.49"),
    ("ExecuTorch QNN (HTP)", "executorch @cff6f4dd"): ("executorch-qnn", "ExecuTorch QNN backend", "cff6f4dd"),
    ("RKNN-Toolkit2", "2.1.0"): ("rknn-toolkit2", "RKNN-Toolkit2", "2.1.0"),
    ("RKNN rknpu2", ""): None,
    ("Vela Ethos-U55/U65", "5.2.0"): ("vela-ethos-u55-u65", "Vela for Ethos-U55 and U65", "5.2.0"),
    ("Vela Ethos-U85", "5.2.0"): ("vela-ethos-u85", "Vela for Ethos-U85", "5.2.0"),
    ("Vela (all)", "5.2.0"): None,
    ("ExecuTorch Ethos-U55", "executorch @cff6f4dd"): ("executorch-ethos-u55", "ExecuTorch Ethos-U55 backend", "cff6f4dd"),
    ("ExecuTorch Ethos-U85", "executorch @cff6f4dd"): ("executorch-ethos-u85", "ExecuTorch Ethos-U85 backend", "cff6f4dd"),
    ("ExecuTorch Samsung ENN", "executorch @cff6f4dd"): ("executorch-enn", "ExecuTorch Samsung ENN backend", "cff6f4dd"),
    ("ExecuTorch NXP Neutron", "executorch @cff6f4dd"): ("executorch-neutron", "ExecuTorch NXP Neutron backend", "cff6f4dd"),
    ("ORT CoreML EP", "onnxruntime @0111a73c"): ("onnxruntime-coreml", "ONNX Runtime CoreML execution provider", "0111a73c"),
    ("Core ML on ANE (practice notes)", ""): ("coreml-ane", "Core ML on the Neural Engine (notes from practice)", "unstated"),
    ("ExecuTorch Core ML", "executorch @cff6f4dd"): ("executorch-coreml", "ExecuTorch Core ML backend", "cff6f4dd"),
    ("ORT CANN EP (Ascend)", "onnxruntime @03fba64c"): ("onnxruntime-cann", "ONNX Runtime CANN execution provider", "03fba64c"),
    ("OpenVINO NPU", "2025-2026"): ("openvino-npu", "OpenVINO NPU plugin", "2025-2026"),
    ("HTP architecture features", ""): None,
}
ALSO_IN = {"RKNN rknpu2": ["rknn-toolkit2"], "Vela (all)": ["vela-ethos-u55-u65", "vela-ethos-u85"]}

DTYPES = {
    "": [],
    "int8, uint8, int16 (quantised, static)": ["int8", "uint8", "int16"],
    "8x8": ["a8w8"],
    "16x8 / 8x8": ["a16w8", "a8w8"],
    "8a8w, 16a8w, 16a4w, fp16 (V73+)": ["a8w8", "a16w8", "a16w4", "fp16"],
    "u8/s8/u16 QDQ; fp16": ["uint8", "int8", "uint16", "fp16"],
    "static int8": ["int8"],
    "int8, fp16 (w8a8 in RKLLM)": ["int8", "fp16"],
    "fp32/fp16": ["fp32", "fp16"],
    "fp16, fp32, int8 for some": ["fp16", "fp32"],  # for which is not said
    "fp16; int8/int4 palettised weights": ["fp16"],
    "fp16; int4/int8 weights": ["fp16", "a16w4", "a16w8"],
    "bf16 since 2.44; fp16/int16": ["bf16", "fp16", "int16"],
    "int16 act, int4 weights since 2.44": ["a16w4"],
    "a8w2 since 2.49": ["a8w2"],
    "fp32 out": ["fp32"],
    "fp16": ["fp16"],
    "int4 symmetric, group or channel wise": ["int4"],
}
# Types of weights, which only products have.
WEIGHT_DTYPES = {"fp16; int8/int4 palettised weights": ["a16w4", "a16w8"]}
# Rows that are no operator of a graph but a trait of the toolchain.
TRAITS = {
    "dynamic_shape": "dynamic_shape",
    "attention_mask_-inf": "infinite_mask",
    "compile host memory": "compile_host_memory",
    "per-axis quantisation": "per_axis_quantization",
    "READ_VARIABLE/ASSIGN_VARIABLE": "state_variables",
    "_to_dim_order_copy": "dim_order",
    "MatMul API": "matmul_api",
    "4-bit weights": "int4_weights",
    "memory": "memory",
    "(ops not listed here)": "other_ops",
}
SPLIT = {"Lstm/NonZero/OneHot/NMS": ["LSTM", "NonZero", "OneHot", "NonMaxSuppression"]}


def entry_of(row, name):
    if row["dtypes"] not in DTYPES:
        raise FactError(f"npu_ops.csv: dtypes '{row['dtypes']}' is not one of the forms known here")
    out = {"op": name, "support": row["support"]}
    if DTYPES[row["dtypes"]]:
        out["dtypes"] = DTYPES[row["dtypes"]] + (WEIGHT_DTYPES.get(row["dtypes"], []) if name in ("Gemm", "Conv") else [])
    constraint = re.sub(r"\. $", "", row["constraint"]).strip()
    if constraint:
        out["constraint"] = constraint
    if name and row["support"] == "partial" and constraint not in CONSTRAINTS:
        raise FactError(f"npu_ops.csv: {row['toolchain']}: {name}: constraints.py does not say what '{constraint}' means")
    if name and row["support"] != "no":
        out.update(CONSTRAINTS.get(constraint, {}))
    if name and (match := re.search(r"fp16 \(V(\d+)\+\)", row["dtypes"])):
        out["fp16_since_generation"] = int(match[1])
    if row["dtypes"] in DTYPES_SINCE:
        out["dtypes_since_version"] = DTYPES_SINCE[row["dtypes"]]
    out["source"] = row["source"]
    return out


def toolchains():
    """File name without .json -> its content."""
    out = {}
    for row in table("npu_ops.csv"):
        key = (row["toolchain"], row["version"])
        if key not in FILES:
            raise FactError(f"npu_ops.csv: toolchain {key} has no file name in toolchains.py")
        if row["support"] not in ("yes", "partial", "no"):
            raise FactError(f"npu_ops.csv: {key}: {row['op']}: support '{row['support']}'")
        stems = ALSO_IN.get(row["toolchain"], []) if FILES[key] is None else [FILES[key][0]]
        for stem in stems:
            _, name, version = next(entry for entry in FILES.values() if entry and entry[0] == stem)
            content = out.setdefault(f"{stem}-{version}", {"id": f"{stem}-{version}", "name": name, "version": version, "ops": [], "traits": []})
            if row["op"] in TRAITS:
                trait = entry_of(row, "")
                del trait["op"]
                content["traits"].append({"trait": TRAITS[row["op"]], **trait})
            else:
                content["ops"] += [entry_of(row, name) for name in SPLIT.get(row["op"], [row["op"]])]
    for content in out.values():
        content["ops"].sort(key=lambda entry: entry["op"])
        content["traits"].sort(key=lambda entry: entry["trait"])
    return out


FEATURES = {
    "8a8w": "a8w8",
    "16a8w": "a16w8",
    "16a4w per-channel": "a16w4-channel",
    "16a4w block (LPBQ)": "a16w4-block",
    "16a16w LayerNorm": "a16w16-norm",
    "16-bit MatMul second input": "kv-16bit",
    "weight sharing between graphs": "weight-sharing",
    "fp16 graph": "fp16",
    "multi-core NPU": "multi-core",
}


def hexagon_features(generation):
    """What a Hexagon generation has, and the source that says so."""
    rows = [row for row in table("npu_ops.csv") if row["toolchain"] == "HTP architecture features"]
    have = [FEATURES[row["op"]] for row in rows if int(re.match(r"V(\d+)", row["constraint"])[1]) <= generation]
    return have, rows[0]["source"]
