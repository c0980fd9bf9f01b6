// The x86 pieces under linear, head_linear and moe, for x86.cc's list.
// Not for what they compute: matmul.h and packed.h define that.
#pragma once

#include "kernels/matmul.h"
#include "kernels/packed.h"

namespace knapsack {

const MatmulTable& avx2_matmul();
const MatmulTable& avx512_matmul();  // the same bits
// Columns [col, col + count) of a row of the job's weights, and zeros up to a multiple of 8.
void avx2_decode(const MatmulJob& job, std::int64_t row, std::int64_t col, std::int64_t count, float* out);
bool avx2_store_panel(const PackedKind& kind, const Levels& rows, std::int64_t cols, std::byte* panel);
const PackedTable& avx2_packed();
const PackedTable& avxvnni_packed();     // 256 bits
const PackedTable& avx512_packed();      // F, BW, DQ, VL
const PackedTable& avx512vnni_packed();  // and VNNI
const PackedTable& amx_packed();         // all of these, and AMX-TILE and AMX-INT8

}  // namespace knapsack
