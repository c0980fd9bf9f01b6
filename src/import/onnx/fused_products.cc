// Products and activations as ONNX Runtime fuses them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "import/onnx/parts.h"
#include "import/quantized.h"
#include "tensor/half.h"

namespace knapsack::onnx {

// Gelu; FastGelu, its tanh form, of x + bias; BiasGelu of x + bias.
void fused_gelu(Call& call) {
  const bool tanh = call.node().op_type == "FastGelu";
  call.arity(1, call.node().op_type == "Gelu" ? 1 : 2);
  Ref x = call.in(0);
  if (call.given(1)) x = call.part("biased", Op::Add, {x, call.in(1)});
  call.make(Op::Gelu, {x}, Attrs().set(Attr::mode, tanh ? 1 : 0));
}

// x * sigmoid(alpha * x)
void quick_gelu(Call& call) {
  call.arity(1, 1);
  const double alpha = call.f("alpha", 1.702F);
  Ref x = call.in(0);
  if (call.failed()) return;
  if (alpha != 1) x = call.part("scaled", Op::Mul, {x, call.scalar(call.value(0).dtype, alpha)});
  call.make(Op::Mul, {call.in(0), call.part("gate", Op::Sigmoid, {x})});
}

// alpha * a * b, each with its last two dimensions exchanged where that is asked for.
void fused_mat_mul(Call& call) {
  call.arity(2, 2);
  const double alpha = call.f("alpha", 1);
  if (call.flag("transBatchA") || call.flag("transBatchB"))
    call.refuse("transBatchA or transBatchB; the nearest form is Transpose and MatMul");
  const auto side = [&](std::size_t i, const char* name) {
    const bool turns = call.flag(name);
    const std::int64_t rank = call.rank(i);
    if (!turns || rank < 2 || call.failed()) return call.in(i);
    Sizes perm(static_cast<std::size_t>(rank));
    std::iota(perm.begin(), perm.end(), 0);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return transposed(call, name, call.in(i), std::move(perm));
  };
  const Ref a = side(0, "transA");
  const Ref b = side(1, "transB");
  if (alpha == 1) {
    call.make(Op::MatMul, {a, b});
    return;
  }
  const Ref product = call.part("product", Op::MatMul, {a, b});
  if (call.failed()) return;
  call.make(Op::Mul, {product, call.scalar(call.value(0).dtype, alpha)});
}

namespace {

// Unsigned numbers of `bits`, the first in the lowest, each row from a whole byte on.
std::uint8_t code_at(std::span<const std::byte> data, std::int64_t row, std::int64_t row_bytes, std::int64_t i,
                     std::int64_t bits) {
  const std::int64_t bit = i * bits;
  const auto byte = std::to_integer<unsigned>(data[static_cast<std::size_t>(row * row_bytes + bit / 8)]);
  return static_cast<std::uint8_t>((byte >> (bit % 8)) & ((1U << bits) - 1));
}

std::vector<double> all_of(Call& call, std::size_t i, std::int64_t count, const char* what) {
  const Value& v = call.value(i);
  if (call.failed()) return {};
  const bool floats = v.dtype == DType::F32 || v.dtype == DType::F16 || v.dtype == DType::BF16;
  if (v.kind != ValueKind::constant || !floats || v.elements() != count) {
    call.refuse("its {} must be {} floats that the file has", what, count);
    return {};
  }
  std::vector<float> numbers(static_cast<std::size_t>(count));
  format(v.dtype).decode(v.weight->slabs.front(), numbers.data(), count);
  return {numbers.begin(), numbers.end()};
}

}  // namespace

// a [.., K], codes [N, blocks, bytes], scales [N, blocks], zero points?, order?, bias? -> a w^T + bias, where
// w = scale * (code - zero) for each block of columns
void mat_mul_n_bits(Call& call) {
  call.arity(3, 6);
  const std::int64_t cols = call.i("K", 0);
  const std::int64_t rows = call.i("N", 0);
  const std::int64_t bits = call.i("bits", 4);
  const std::int64_t block = call.i("block_size", 32);
  call.ignore({"accuracy_level", "weight_prepacked"});
  if (bits != 4 && bits != 8) call.refuse("bits={}; the nearest forms are bits=4 and bits=8", bits);
  if (call.given(4)) call.refuse("g_idx, an order of columns; the nearest form is without it");
  constexpr std::int64_t most = std::int64_t{1} << 31;
  if (cols < 1 || rows < 1 || cols > most || rows > most || cols * rows > most || block < 16 || block > most)
    call.broken("says N={}, K={}, block_size={}", rows, cols, block);
  if (call.failed()) return;
  const OnnxTensor* codes = call.raw(1);
  if (codes == nullptr || codes->type != OnnxType::u8) {
    call.refuse("its codes must be bytes that the file has");
    return;
  }
  GroupedCodes q;
  q.rows = rows;
  q.cols = cols;
  q.groups = (cols + block - 1) / block;
  const std::int64_t row_bytes = q.groups * (block * bits / 8);
  if (std::ssize(codes->data) != rows * row_bytes) {
    call.broken("has {} bytes of codes, N={}, K={} and block_size={} need {}", codes->data.size(), rows, cols, block,
                rows * row_bytes);
    return;
  }
  const auto scales = all_of(call, 2, rows * q.groups, "scales");
  if (call.failed()) return;
  std::vector<double> zeros(scales.size(), bits == 4 ? 8 : 128);
  if (call.given(3)) {
    const OnnxTensor* packed = call.raw(3);
    const std::int64_t zero_bytes = (q.groups * bits + 7) / 8;
    if (packed == nullptr) {
      zeros = all_of(call, 3, rows * q.groups, "zero points");
    } else if (packed->type != OnnxType::u8 || std::ssize(packed->data) != rows * zero_bytes) {
      call.broken("has {} bytes of zero points, expected {}", packed->data.size(), rows * zero_bytes);
    } else {
      for (std::int64_t n = 0; n < rows; ++n)
        for (std::int64_t g = 0; g < q.groups; ++g)
          zeros[static_cast<std::size_t>(n * q.groups + g)] = code_at(packed->data, n, zero_bytes, g, bits);
    }
  }
  if (std::any_of(zeros.begin(), zeros.end(), [](double z) { return z != std::floor(z) || z < 0 || z > 255; }))
    call.refuse("zero points that are no whole numbers; the nearest form is with bytes");
  if (call.failed()) return;
  q.scales.resize(scales.size());
  q.zeros.resize(scales.size());
  for (std::int64_t n = 0; n < rows; ++n)
    for (std::int64_t g = 0; g < q.groups; ++g) {
      const auto from = static_cast<std::size_t>(n * q.groups + g);
      const auto to = static_cast<std::size_t>(g * rows + n);
      q.scales[to] = static_cast<float>(scales[from]);
      q.zeros[to] = static_cast<std::uint16_t>(zeros[from]);
    }
  q.group.resize(static_cast<std::size_t>(cols));
  for (std::int64_t c = 0; c < cols; ++c) q.group[static_cast<std::size_t>(c)] = static_cast<std::int32_t>(c / block);
  q.codes.resize(static_cast<std::size_t>(rows * cols));
  for (std::int64_t n = 0; n < rows; ++n)
    for (std::int64_t c = 0; c < cols; ++c)
      q.codes[static_cast<std::size_t>(n * cols + c)] = code_at(codes->data, n, row_bytes, c, bits);
  const auto weight = weight_of_codes(q, bits, codes->name);
  if (weight->dtype == DType::F32)
    call.note(fmt::format("MatMulNBits: weights are F32 here, {}",
                          cols % 32 != 0 ? "since K is no multiple of 32" : "since scales do not fit in float16"));
  const Ref right = call.turned(weight);
  if (!call.given(5)) {
    call.make(Op::MatMul, {call.in(0), right});
    return;
  }
  const Ref product = call.part("product", Op::MatMul, {call.in(0), right});
  call.make(Op::Add, {product, call.in(5)});
}

}  // namespace knapsack::onnx
