#!/usr/bin/env python3
"""Writes src/tensor/formats/iq_grids.cc: the code books of the IQ formats, from PyPI gguf's packed form.

Usage: iq_grids.py > src/tensor/formats/iq_grids.cc
"""
import gguf.quants as q

TABLES = [("iq2_xxs", q.IQ2_XXS), ("iq2_xs", q.IQ2_XS), ("iq2_s", q.IQ2_S), ("iq1", q.IQ1_S),
          ("iq3_xxs", q.IQ3_XXS), ("iq3_s", q.IQ3_S)]

print("// Written by tools/golden/iq_grids.py. Each entry is one code word, element 0 in the lowest bits.")
print('#include "tensor/formats/iq_grids.h"\n')
print("namespace knapsack::formats {\n// clang-format off")
for name, kind in TABLES:
    raw = bytes.fromhex(kind.grid_hex.decode())
    words = [raw[i] | raw[i + 1] << 8 for i in range(0, len(raw), 2)]
    assert len(words) == kind.grid_shape[0], name
    print(f"\nconst std::array<std::uint16_t, {len(words)}> {name}_grid = {{")
    for i in range(0, len(words), 16):
        print("    " + " ".join(f"0x{w:04x}," for w in words[i:i + 16]))
    print("};")
print("\n// clang-format on\n}  // namespace knapsack::formats")
