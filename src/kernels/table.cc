// The table of each instruction set: the scalar references, overlaid by what is faster there.
#include <algorithm>
#include <array>
#include <map>

#include "base/check.h"
#include "kernels/kernel.h"
#include "kernels/native.h"
#include "kernels/ref/ref.h"

namespace knapsack {
namespace {

KernelTable scalar_table() {
  KernelTable table;
#define KNAP_OP(id, text, cls, min_in, max_in, out) table[Op::id].run = ref::id;
#define KNAP_PRIMITIVE(id, cls, min_in, max_in, kernel) table[Op::id].run = ref::id;
#include "ops/ops.inc"
#include "ops/primitives.inc"
#undef KNAP_OP
#undef KNAP_PRIMITIVE
  table[Op::linear].scratch_bytes = ref::linear_scratch;
  table[Op::linear].joins = ref::linear_joins;
  table[Op::linear].adds = ref::linear_adds;
  for (const Op op : {Op::rms_norm, Op::gated_act}) table[op].row_wise = true;
  table[Op::head_linear].scratch_bytes = ref::head_linear_scratch;
  table[Op::attention].scratch_bytes = ref::attention_scratch;
  table[Op::router].scratch_bytes = ref::router_scratch;
  table[Op::moe].scratch_bytes = ref::moe_scratch;
  table[Op::fused_linear].scratch_bytes = ref::fused_linear_scratch;
  table[Op::MatMul].scratch_bytes = ref::matmul_primitive_scratch;
  return table;
}

// Of what this CPU runs; a table is a function pointer or two an op.
std::map<Isa, KernelTable> all_tables() {
  std::map<Isa, KernelTable> tables{{Isa::scalar, scalar_table()}};
  for (const IsaKernels& native : native_isas()) {
    if (!native.runs()) continue;
    KernelTable& table = tables[native.isa] = scalar_table();
    native.overlay(table);
  }
  return tables;
}

const IsaKernels& native_of(Isa isa) {
  const auto natives = native_isas();
  const auto at = std::find_if(natives.begin(), natives.end(), [isa](const IsaKernels& n) { return n.isa == isa; });
  CHECK(at != natives.end());
  return *at;
}

}  // namespace

const KernelTable& KernelTable::get(Isa isa) {
  static const std::map<Isa, KernelTable> tables = all_tables();
  const auto at = tables.find(isa);
  CHECK(at != tables.end());
  return at->second;
}

void OpGroup::make_row(std::int64_t row) const {
  static ThreadPool alone(1);  // runs on whichever thread calls
  constexpr std::size_t most = 4;
  CHECK(before_call->in.size() <= most && before_call->out.size() == 1);
  const auto row_of = [row](Operand operand) {
    if (operand.data == nullptr) return operand;
    operand.data += row * operand.cols * std::int64_t{sizeof(float)};
    operand.rows = 1;
    return operand;
  };
  std::array<Operand, most> in;
  std::transform(before_call->in.begin(), before_call->in.end(), in.begin(), row_of);
  const Operand out = row_of(before_call->out[0]);
  before({.in = {in.data(), before_call->in.size()}, .out = {&out, 1}, .attrs = before_call->attrs, .pool = &alone});
}

const MatmulTable& matmul_table(Isa isa) { return isa == Isa::scalar ? scalar_matmul() : native_of(isa).matmul(); }
const PackedTable& packed_table(Isa isa) { return isa == Isa::scalar ? scalar_packed() : native_of(isa).packed(); }

}  // namespace knapsack
