// Operators that choose by indices.
#include <algorithm>
#include <array>
#include <numeric>

#include "import/onnx/call.h"

namespace knapsack::onnx {

void gather(Call& call) {
  call.arity(2, 2);
  call.make(Op::Gather, {call.in(0), call.in(1)}, Attrs().set(Attr::axis, call.axis("axis", 0)));
}

void gather_elements(Call& call) {
  call.arity(2, 2);
  call.make(Op::GatherElements, {call.in(0), call.in(1)}, Attrs().set(Attr::axis, call.axis("axis", 0)));
}

void gather_nd(Call& call) {
  call.arity(2, 2);
  if (call.i("batch_dims", 0) != 0)
    call.refuse("batch_dims={}; the nearest form is batch_dims=0", call.i("batch_dims", 0));
  call.make(Op::GatherND, {call.in(0), call.in(1)});
}

void scatter(Call& call) {
  const Op op = *op_from_text(call.node().op_type);
  call.arity(3, 3);
  constexpr std::array<std::string_view, 5> reductions{"none", "add", "mul", "max", "min"};
  const std::string how = call.s("reduction", "none");
  const auto known = std::find(reductions.begin(), reductions.end(), how);
  if (known == reductions.end()) call.refuse("reduction='{}'; the nearest form is reduction='none'", how);
  Attrs attrs;
  if (how != "none") attrs.set(Attr::reduction, static_cast<std::int64_t>(known - reductions.begin()));
  if (op == Op::ScatterElements) attrs.set(Attr::axis, call.axis("axis", 0));
  call.make(op, {call.in(0), call.in(1), call.in(2)}, std::move(attrs));
}

void top_k(Call& call) {
  call.arity(2, 2);
  call.ignore({"sorted"});  // ours are: any order is right where it is 0
  const std::int64_t axis = call.axis("axis", -1);
  const std::int64_t k = call.number(1, "k");
  call.make(Op::TopK, {call.in(0)},
            Attrs().set(Attr::axis, axis).set(Attr::k, k).set(Attr::largest, call.flag("largest", true) ? 1 : 0));
}

// indices, depth, values [off, on]. Ours has 0 and 1 in I64 along a last axis.
void one_hot(Call& call) {
  call.arity(3, 3);
  const std::int64_t depth = call.number(1, "depth");
  const auto values = call.reals(2, "values");
  const std::int64_t made_rank = call.rank() + 1;
  const std::int64_t axis = call.axis_of(call.i("axis", -1), made_rank);
  if (!call.failed() && values.size() != 2) call.broken("needs two values, has {}", values.size());
  if (call.failed()) return;
  const DType dtype = call.value(2).dtype;
  const bool last = axis + 1 == made_rank;
  const bool plain = values[0] == 0 && values[1] == 1;
  const Attrs of_depth = Attrs().set(Attr::depth, depth);
  if (last && plain && dtype == DType::I64) {
    call.make(Op::OneHot, {call.in(0)}, of_depth);
    return;
  }
  Ref hot = call.part("hot", Op::OneHot, {call.in(0)}, of_depth);
  if (!last) {
    std::vector<std::int64_t> perm(static_cast<std::size_t>(made_rank - 1));
    std::iota(perm.begin(), perm.end(), 0);
    perm.insert(perm.begin() + axis, made_rank - 1);
    const Attrs attrs = Attrs().set(Attr::perm, std::move(perm));
    if (plain && dtype == DType::I64) {
      call.make(Op::Transpose, {hot}, attrs);
      return;
    }
    hot = call.part("moved", Op::Transpose, {hot}, attrs);
  }
  if (plain) {
    call.make(Op::Cast, {hot}, Attrs().set(Attr::to, static_cast<std::int64_t>(dtype)));
    return;
  }
  hot = call.cast("chosen", hot, DType::BOOL);
  call.make(Op::Where, {hot, call.scalar(dtype, values[1]), call.scalar(dtype, values[0])});
}

// How many there are depends on data, but for constants: there `most` is how many there are.
void non_zero(Call& call) {
  call.arity(1, 1);
  const Value& x = call.value(0);
  if (call.failed()) return;
  std::int64_t most = x.elements();
  if (x.kind == ValueKind::constant && x.dims.size() == 1 && x.elements() <= 1 << 16 && x.elements() > 0) {
    const auto numbers = call.reals(0, "values");
    most = std::count_if(numbers.begin(), numbers.end(), [](double each) { return each != 0; });
    if (most == 0) {
      call.make(call.constant(DType::I64, {1, 0}, {}));
      return;
    }
  }
  call.make(Op::NonZero, {call.in(0)}, Attrs().set(Attr::most, most));
}

}  // namespace knapsack::onnx
