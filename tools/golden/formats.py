#!/usr/bin/env python3
"""Writes tests/golden/formats/*.bin: random blocks of every storage format and the float32 values they stand for.

ggml's types are decoded by PyPI gguf's own dequantizer, ours (F8, G) by a second definition in numpy.
File: u32 blocks, the blocks, the values as float32. Usage: formats.py OUTPUT_DIR
"""
import struct
import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

# Where the f16 scales of a block lie, so that some blocks get extreme ones.
HALVES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108],
          T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0], T.IQ1_S: [0], T.IQ2_XXS: [0],
          T.IQ2_XS: [0], T.IQ2_S: [0], T.IQ3_XXS: [0], T.IQ3_S: [0], T.TQ1_0: [52], T.TQ2_0: [64]}
EXTREMES = [0x0001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x8001, 0x0000, 0x8000]
rng = np.random.default_rng(3)


def write(directory, name, blocks, values):
    assert np.isfinite(values).all(), name
    raw = blocks.astype(np.uint8).tobytes()
    (directory / f"{name}.bin").write_bytes(struct.pack("<I", len(blocks)) + raw + values.astype("<f4").tobytes())


def ggml(directory):
    for kind in [T.BF16, T.MXFP4, T.IQ1_M, *HALVES]:
        size, width = GGML_QUANT_SIZES[kind]
        count = {1: 256, 32: 40}.get(size, 12)
        blocks = rng.integers(0, 256, (8 * count, width), dtype=np.uint8)
        for at in HALVES.get(kind, []):  # scales of an ordinary size in some of the blocks
            half = rng.normal(0, 0.1, 4 * count).astype("<f2")
            blocks[: 4 * count, at : at + 2] = half.view(np.uint8).reshape(-1, 2)
        for i, extreme in enumerate(EXTREMES):
            for at in HALVES.get(kind, []):
                blocks[i, at : at + 2] = np.frombuffer(struct.pack("<H", extreme), np.uint8)
        with np.errstate(all="ignore"):
            values = dequantize(blocks, kind).reshape(len(blocks), size)
        keep = np.isfinite(values).all(axis=1).nonzero()[0][:count]
        assert len(keep) == count, kind
        write(directory, kind.name, blocks[keep], values[keep])


def e4m3(codes):
    sign = np.where(codes & 0x80, -1.0, 1.0)
    exponent, mantissa = (codes >> 3 & 15).astype(np.int64), (codes & 7).astype(np.float64)
    normal = (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    return sign * np.where(exponent == 0, mantissa / 8 * 2.0**-6, normal)


def ours(directory):
    codes = np.array([c for c in range(256) if c & 0x7F != 0x7F], dtype=np.uint8)
    write(directory, "F8_E4M3", codes.reshape(-1, 1), e4m3(codes))
    scales = rng.normal(0, 1, 24).astype("<f4")
    picked = rng.choice(codes, (24, 32))
    write(directory, "F8_B32", np.hstack([scales.view(np.uint8).reshape(-1, 4), picked]),
          scales.reshape(-1, 1) * e4m3(picked).astype(np.float32))
    scales = rng.normal(0, 0.1, 24).astype("<f2")
    raw = scales.view(np.uint8).reshape(-1, 2)
    zeros = rng.integers(0, 17, (24, 1))
    codes = rng.integers(0, 16, (24, 32))
    write(directory, "G4", np.hstack([raw, zeros, codes[:, :16] | codes[:, 16:] << 4]),
          scales.astype(np.float32).reshape(-1, 1) * (codes - zeros).astype(np.float32))
    zeros = rng.integers(0, 257, (24, 1))
    zeros[0] = 256
    codes = rng.integers(0, 256, (24, 32))
    write(directory, "G8", np.hstack([raw, zeros & 255, zeros >> 8, codes]),
          scales.astype(np.float32).reshape(-1, 1) * (codes - zeros).astype(np.float32))


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    ggml(out)
    ours(out)
