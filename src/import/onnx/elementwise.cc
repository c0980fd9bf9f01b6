// Operators that work element by element.
#include <cmath>

#include "import/onnx/call.h"

namespace knapsack::onnx {
namespace {

// The op of ours by the same name.
Op same_op(const Call& call) {
  const auto op = op_from_text(call.node().op_type);
  CHECK(op.has_value());
  return *op;
}

bool whole(DType dtype) {
  return dtype == DType::I64 || dtype == DType::I32 || dtype == DType::I16 || dtype == DType::I8;
}

// One after the other, as many as there are; the last one makes the node's output, where `last` is not false.
Ref chain(Call& call, Op op, bool last) {
  if (call.failed()) return -1;
  Ref sum = call.in(0);
  for (std::size_t i = 1; i < call.count(); ++i) {
    if (last && i + 1 == call.count()) {
      call.make(op, {sum, call.in(i)});
      return -1;
    }
    sum = call.part(fmt::format("{}", i), op, {sum, call.in(i)});
  }
  if (last) call.make(Op::Identity, {sum});
  return sum;
}

constexpr std::size_t many = 1 << 16;

}  // namespace

void one(Call& call) {
  call.arity(1, 1);
  call.make(same_op(call), {call.in(0)});
}

void two(Call& call) {
  call.arity(2, 2);
  call.make(same_op(call), {call.in(0), call.in(1)});
}

void where(Call& call) {
  call.arity(3, 3);
  call.make(Op::Where, {call.in(0), call.in(1), call.in(2)});
}

void several(Call& call) {
  call.arity(1, many);
  chain(call, same_op(call), true);
}

void sum(Call& call) {
  call.arity(1, many);
  chain(call, Op::Add, true);
}

void mean(Call& call) {
  call.arity(1, many);
  const Ref total = chain(call, Op::Add, false);
  call.make(Op::Div, {total, call.scalar(call.value_of(total).dtype, static_cast<double>(call.count()))});
}

// The exponent may be of another type.
void pow(Call& call) {
  call.arity(2, 2);
  const DType base = call.value(0).dtype;
  if (whole(base) && !whole(call.value(1).dtype))
    call.refuse("a power of whole numbers with an exponent of {}; the nearest form is Cast to float and Pow",
                name(call.value(1).dtype));
  call.make(Op::Pow, {call.in(0), call.cast("exponent", call.in(1), base)});
}

void mod(Call& call) {
  call.arity(2, 2);
  if (call.flag("fmod") && whole(call.value(0).dtype))
    call.refuse("fmod=1 of whole numbers; the nearest form is Mod with fmod=0");
  if (!call.flag("fmod") && !whole(call.value(0).dtype)) call.broken("needs fmod=1 for floats");
  call.make(Op::Mod, {call.in(0), call.in(1)});
}

void cast_to(Call& call) {
  call.arity(1, 1);
  call.ignore({"saturate"});  // of 8-bit floats, which are refused
  const std::int64_t to = call.i("to", 0);
  const OnnxType type = to < 0 || to > 255 ? OnnxType::undefined : static_cast<OnnxType>(to);
  const auto dtype = dtype_from_onnx(type);
  if (!dtype) call.refuse("a cast to {}: this version has no such type", onnx_type_name(type));
  call.make(Op::Cast, {call.in(0)}, Attrs().set(Attr::to, static_cast<std::int64_t>(dtype.value_or(DType::F32))));
}

void cast_like(Call& call) {
  call.arity(2, 2);
  call.ignore({"saturate"});
  call.make(Op::Cast, {call.in(0)}, Attrs().set(Attr::to, static_cast<std::int64_t>(call.value(1).dtype)));
}

// Bounds that are no constants, or that a float does not hold, are a Max and a Min.
void clip(Call& call) {
  call.arity(1, 3);
  Attrs attrs;
  bool plain = true;
  for (const std::size_t i : {1U, 2U}) {
    if (!call.given(i)) continue;
    if (!call.constant(i)) {
      plain = false;
      continue;
    }
    const double bound = call.real(i, i == 1 ? "lower bound" : "upper bound");
    if (std::isnan(bound)) call.broken("has a bound that is no number");
    plain &= static_cast<double>(static_cast<float>(bound)) == bound || call.value(0).dtype == DType::F32;
    if (!std::isinf(bound)) attrs.set(i == 1 ? Attr::low : Attr::high, bound);
  }
  if (plain) {
    call.make(Op::Clip, {call.in(0)}, std::move(attrs));
    return;
  }
  Ref x = call.in(0);
  if (call.given(1) && call.given(2)) x = call.part("low", Op::Max, {x, call.in(1)});
  call.make(call.given(2) ? Op::Min : Op::Max, {x, call.in(call.given(2) ? 2 : 1)});
}

// What training leaves behind: in inference it drops nothing, whatever its inputs say.
void dropout(Call& call) {
  call.arity(1, 3);
  call.ignore({"seed", "ratio"});
  call.make(Op::Dropout, {call.in(0)});
}

void elu(Call& call) {
  call.arity(1, 1);
  call.make(Op::Elu, {call.in(0)}, Attrs().set(Attr::alpha, call.f("alpha", 1.0F)));
}

void leaky_relu(Call& call) {
  call.arity(1, 1);
  call.make(Op::LeakyRelu, {call.in(0)}, Attrs().set(Attr::alpha, call.f("alpha", 0.01F)));
}

void hard_sigmoid(Call& call) {
  call.arity(1, 1);
  call.make(Op::HardSigmoid, {call.in(0)},
            Attrs().set(Attr::alpha, call.f("alpha", 0.2F)).set(Attr::beta, call.f("beta", 0.5F)));
}

void gelu(Call& call) {
  call.arity(1, 1);
  call.make(Op::Gelu, {call.in(0)}, Attrs().set(Attr::mode, call.choice("approximate", "none", {"none", "tanh"})));
}

}  // namespace knapsack::onnx
