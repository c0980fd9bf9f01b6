#include "graph/evaluate.h"

#include <memory>
#include <utility>

#include "graph/shape.h"
#include "kernels/kernel.h"

namespace knapsack {
namespace {

Operand operand_of(const Value& value) {
  Operand operand{.dtype = value.dtype, .dims = value.dims, .transposed = value.transposed};
  operand.cols = value.cols();
  operand.rows = value.elements() / operand.cols;
  operand.weight = value.weight.get();
  return operand;
}

}  // namespace

Result<std::vector<std::shared_ptr<const Weight>>> evaluate(Op op, const Attrs& attrs,
                                                            std::span<const Value* const> inputs) {
  if (!op_info(op).primitive) return unsupported("{} is not evaluated on constants", op_info(op).text);
  for (const Value* v : inputs)
    CHECK(v->kind == ValueKind::constant && v->weight != nullptr && !v->weight->slabs.empty());
  TRY(const auto outputs, infer(op, attrs, inputs));
  std::vector<std::vector<std::byte>> results;
  results.reserve(outputs.size());
  std::vector<Operand> out;
  out.reserve(outputs.size());
  for (const Value& v : outputs) {
    if (v.dynamic && op != Op::NonZero) return unsupported("{} has dimensions that depend on data", op_info(op).text);
    if (v.elements() > max_evaluated_bytes / format(v.dtype).block_bytes)
      return unsupported("{} makes {} of {}: more than {} MiB", op_info(op).text, dims_text(v.dims), name(v.dtype),
                         max_evaluated_bytes >> 20);
    results.emplace_back(static_cast<std::size_t>(v.elements() * format(v.dtype).block_bytes));
    out.push_back(operand_of(v));
    out.back().data = results.back().data();
  }
  std::vector<Operand> in;
  in.reserve(inputs.size());
  for (const Value* v : inputs) in.push_back(operand_of(*v));
  const Kernel& kernel = KernelTable::get(Isa::scalar)[op];
  const RowInfo rows;
  ThreadPool pool(1);
  OpCall call{.in = in, .out = out, .attrs = &attrs, .rows = &rows, .pool = &pool};
  std::vector<std::byte> scratch;
  if (kernel.scratch_bytes != nullptr) {
    constexpr std::size_t alignment = 64;
    scratch.resize(kernel.scratch_bytes(call, 1, pool.size()) + alignment);
    void* begin = scratch.data();
    std::size_t space = scratch.size();
    CHECK(std::align(alignment, space - alignment, begin, space) != nullptr);
    call.scratch = {static_cast<std::byte*>(begin), space};
  }
  kernel.run(call);
  std::vector<std::shared_ptr<const Weight>> made;
  made.reserve(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i)
    made.push_back(owned_weight({}, outputs[i].dtype, outputs[i].dims, std::move(results[i])));
  return made;
}

}  // namespace knapsack
