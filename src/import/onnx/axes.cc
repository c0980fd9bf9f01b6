// Operators along axes, and products.
#include <algorithm>
#include <numeric>

#include "import/onnx/call.h"

namespace knapsack::onnx {
namespace {

std::vector<std::int64_t> all_axes(std::int64_t rank) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

}  // namespace

// ReduceMean and the others take their axes as an input from opset 18 on, ReduceSum from 13 on.
void reduce(Call& call) {
  const Op op = *op_from_text(call.node().op_type);
  const bool as_input = call.opset() >= (op == Op::ReduceSum ? 13 : 18);
  call.arity(1, as_input ? 2 : 1);
  std::vector<std::int64_t> axes;
  if (!as_input) axes = call.ints("axes");
  if (call.given(1)) axes = call.numbers(1, "axes");
  const bool keep = call.flag("keepdims", true);
  const bool nothing = call.flag("noop_with_empty_axes");
  axes = call.axes_of(std::move(axes), call.rank());
  if (axes.empty() && !nothing) axes = all_axes(call.rank());
  if (axes.empty()) {  // nothing is reduced, or a scalar is
    call.make(op == Op::ReduceL2 && !nothing ? Op::Abs : Op::Identity, {call.in(0)});
    return;
  }
  std::sort(axes.begin(), axes.end());
  call.make(op, {call.in(0)}, Attrs().set(Attr::axes, std::move(axes)).set(Attr::keepdims, keep ? 1 : 0));
}

void arg_max(Call& call) {
  call.arity(1, 1);
  if (call.flag("select_last_index")) call.refuse("select_last_index=1; the nearest form is without it");
  const std::int64_t axis = call.axis("axis", 0);
  call.make(Op::ArgMax, {call.in(0)},
            Attrs().set(Attr::axis, axis).set(Attr::keepdims, call.flag("keepdims", true) ? 1 : 0));
}

// Before opset 13 it is over all dimensions from `axis` on.
void softmax(Call& call) {
  const Op op = *op_from_text(call.node().op_type);
  call.arity(1, 1);
  const std::int64_t axis = call.axis("axis", call.opset() < 13 ? 1 : -1);
  if (call.failed()) return;
  const std::vector<std::int64_t> dims = call.dims(0);
  if (call.opset() >= 13 || axis + 1 == std::ssize(dims)) {
    call.make(op, {call.in(0)}, Attrs().set(Attr::axis, axis));
    return;
  }
  std::vector<std::int64_t> flat{1, 1};
  for (std::int64_t i = 0; i < std::ssize(dims); ++i) flat[i < axis ? 0 : 1] *= dims[static_cast<std::size_t>(i)];
  const Ref rows = call.part("flat", Op::Reshape, {call.in(0)}, Attrs().set(Attr::shape, flat));
  const Ref made = call.part("rows", op, {rows}, Attrs().set(Attr::axis, 1));
  call.make(Op::Reshape, {made}, Attrs().set(Attr::shape, dims));
}

void cum_sum(Call& call) {
  call.arity(2, 2);
  const std::int64_t axis = call.axis_of(call.number(1, "axis"), call.rank());
  call.make(Op::CumSum, {call.in(0)},
            Attrs()
                .set(Attr::axis, axis)
                .set(Attr::exclusive, call.flag("exclusive") ? 1 : 0)
                .set(Attr::reverse, call.flag("reverse") ? 1 : 0));
}

void gemm(Call& call) {
  call.arity(2, 3);
  std::vector<Ref> inputs{call.in(0), call.in(1)};
  if (call.given(2)) inputs.push_back(call.in(2));
  call.make(Op::Gemm, std::move(inputs),
            Attrs()
                .set(Attr::alpha, call.f("alpha", 1))
                .set(Attr::beta, call.f("beta", 1))
                .set(Attr::trans_a, call.flag("transA") ? 1 : 0)
                .set(Attr::trans_b, call.flag("transB") ? 1 : 0));
}

// stash_type says that it is computed in float, as it is here.
void layer_normalization(Call& call) {
  call.arity(2, 3);
  if (call.i("stash_type", 1) != 1) call.refuse("stash_type other than float");
  const std::int64_t axis = call.axis("axis", -1);
  std::vector<Ref> inputs{call.in(0), call.in(1)};
  if (call.given(2)) inputs.push_back(call.in(2));
  call.make(Op::LayerNormalization, std::move(inputs),
            Attrs().set(Attr::axis, axis).set(Attr::eps, call.f("epsilon", 1e-5F)));
}

void batch_normalization(Call& call) {
  call.arity(5, 5);
  call.ignore({"momentum"});
  if (call.flag("training_mode"))
    call.refuse(
        "training_mode=1; the nearest form is training_mode=0, of a model exported for inference: in PyTorch "
        "model.eval(), "
        "then torch.onnx.export with dynamo=False, training=TrainingMode.PRESERVE and do_constant_folding=False keeps "
        "these nodes, or without the last two folds them");
  call.make(Op::BatchNormalization, {call.in(0), call.in(1), call.in(2), call.in(3), call.in(4)},
            Attrs().set(Attr::eps, call.f("epsilon", 1e-5F)));
}

void instance_normalization(Call& call) {
  call.arity(3, 3);
  call.make(Op::InstanceNormalization, {call.in(0), call.in(1), call.in(2)},
            Attrs().set(Attr::eps, call.f("epsilon", 1e-5F)));
}

}  // namespace knapsack::onnx
