// Norms as ONNX Runtime fuses them: RMS norm, with the sum before it, and the sum of embeddings.
#include <algorithm>

#include "import/onnx/parts.h"

namespace knapsack::onnx {

// x, weight -> y, 1 / root of the mean square
void simplified_layer_normalization(Call& call) {
  call.arity(2, 2);
  call.ignore({"stash_type"});  // it is computed in float in any case
  const std::int64_t axis = call.axis("axis", -1);
  const RmsNorm norm = rms_norm(call, call.in(0), call.f("epsilon", 1e-5F), axis);
  const Ref y = weighed(call, norm.y, call.in(1), call.value(1).dtype);
  call.make({y, norm.inverse});
}

// x, skip, gamma, beta (not of the simplified one), bias -> y, mean, 1 / deviation, x + skip + bias
void skip_layer_normalization(Call& call) {
  const bool simplified = call.node().op_type == "SkipSimplifiedLayerNormalization";
  const std::size_t bias = simplified ? 3 : 4;
  call.arity(3, bias + 1);
  const double eps = call.f("epsilon", 1e-12F);
  if (call.failed()) return;
  const std::int64_t axis = call.rank() - 1;
  if (axis < 1 || call.dims(0).back() != call.value(2).elements()) {
    call.broken("needs a factor for each column");
    return;
  }
  Ref skip = call.in(1);
  // Of one row for the whole batch.
  if (call.rank(1) + 1 == call.rank())
    skip = call.part("skip", Op::Unsqueeze, {skip}, Attrs().set(Attr::axes, Sizes{0}));
  if (call.given(bias)) skip = call.part("biased", Op::Add, {skip, call.in(bias)});
  const Ref sum = call.output(3, Op::Add, {call.in(0), skip});
  if (call.failed()) return;
  if (call.value_of(sum).dims != call.dims(0)) {
    call.broken("adds {} to {}", call.value_of(skip).dims.size(), call.dims(0).size());
    return;
  }
  Ref mean = -1;
  Ref inverse = -1;
  Ref y = -1;
  if (simplified) {
    const RmsNorm norm = rms_norm(call, sum, eps, axis);
    y = weighed(call, norm.y, call.in(2), call.value(0).dtype);
    inverse = norm.inverse;
    if (call.wanted(1))
      call.refuse("its output 1 is a mean, which it has not; the nearest form is without that output");
  } else {
    std::vector<Ref> inputs{sum, call.in(2)};
    if (call.given(3)) inputs.push_back(call.in(3));
    y = call.output(0, Op::LayerNormalization, std::move(inputs), Attrs().set(Attr::axis, axis).set(Attr::eps, eps));
    const auto along = [&](const char* suffix, Op op, Ref x) {
      return call.part(suffix, op, {x}, Attrs().set(Attr::axes, Sizes{axis}).set(Attr::keepdims, 1));
    };
    if (call.wanted(1) || call.wanted(2)) {
      const Ref in = call.cast("float", sum, DType::F32);
      mean = along("mean", Op::ReduceMean, in);
      const Ref off = call.part("off", Op::Sub, {in, mean});
      const Ref variance = along("variance", Op::ReduceMean, call.part("squares", Op::Mul, {off, off}));
      const Ref shifted = call.part("shifted", Op::Add, {variance, call.scalar(DType::F32, eps)});
      inverse = call.part("inverse", Op::Reciprocal, {call.part("root", Op::Sqrt, {shifted})});
    }
  }
  call.make({y, mean, inverse, sum});
}

// ids, segments?, words, positions, segment table?, gamma, beta, mask?, position ids? -> y, tokens of each row, sum
void embed_layer_normalization(Call& call) {
  call.arity(1, 9);
  const double eps = call.f("epsilon", 1e-12F);
  call.ignore({"mask_index_type"});
  if (call.failed()) return;
  const Sizes dims = call.dims(0);
  if (dims.size() != 2) {
    call.broken("needs ids of two dimensions");
    return;
  }
  const auto rows = [&](const char* suffix, Ref table, Ref ids) {
    return call.part(suffix, Op::Gather, {table, ids}, Attrs().set(Attr::axis, 0));
  };
  Ref places = call.given(8) ? call.in(8) : counted(call, {1, dims[1]}, 0);
  const Ref words = rows("words", call.in(2), call.in(0));
  Ref sum = -1;
  if (call.given(1) && call.given(4)) {
    const Ref both = call.part("placed", Op::Add, {words, rows("positions", call.in(3), places)});
    sum = call.output(2, Op::Add, {both, rows("segments", call.in(4), call.in(1))});
  } else {
    sum = call.output(2, Op::Add, {words, rows("positions", call.in(3), places)});
  }
  const Ref y = call.output(0, Op::LayerNormalization, {sum, call.in(5), call.in(6)},
                            Attrs().set(Attr::axis, 2).set(Attr::eps, eps));
  Ref lengths = -1;
  if (call.wanted(1) && call.given(7)) {
    const Ref ones = call.cast("seen", call.cast("mask", call.in(7), DType::BOOL), DType::I32);
    lengths = call.output(1, Op::ReduceSum, {ones}, Attrs().set(Attr::axes, Sizes{1}).set(Attr::keepdims, 0));
  } else if (call.wanted(1)) {
    lengths = call.constant(DType::I32, {dims[0]},
                            bytes_of(DType::I32, std::vector<double>(static_cast<std::size_t>(dims[0]), 0)));
  }
  call.make({y, lengths, sum});
}

}  // namespace knapsack::onnx
