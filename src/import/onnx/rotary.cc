// RotaryEmbedding: heads turned by rows of two tables.
#include "import/onnx/parts.h"

namespace knapsack::onnx {

namespace {

// x with its heads apart, [batch, tokens, heads, columns], and back.
struct Heads {
  Sizes dims;
  bool by_heads = false;  // [batch, heads, tokens, columns]
  std::int64_t batch = 0, tokens = 0, heads = 0, columns = 0;

  Ref apart(Call& call) const {
    return by_heads ? transposed(call, "split", call.in(0), {0, 2, 1, 3})
                    : reshaped(call, "split", call.in(0), {batch, tokens, heads, columns});
  }
  void make(Call& call, Ref turned) const {
    if (by_heads) {
      call.make(Op::Transpose, {turned}, Attrs().set(Attr::perm, Sizes{0, 2, 1, 3}));
    } else {
      call.make(Op::Reshape, {turned}, Attrs().set(Attr::shape, dims));
    }
  }
};

}  // namespace

// x [batch, tokens, hidden] or [batch, heads, tokens, columns], cos and sin [positions, rotary / 2] with positions
// [batch, tokens], or [batch, tokens, rotary / 2] without
void standard_rotary_embedding(Call& call) {
  call.arity(3, 4);
  const std::int64_t heads = call.i("num_heads", 0);
  const std::int64_t said = call.i("rotary_embedding_dim", 0);
  const bool interleaved = call.flag("interleaved");
  if (call.failed()) return;
  const Sizes dims = call.dims(0);
  Heads h{.dims = dims, .by_heads = dims.size() == 4};
  if ((dims.size() != 3 && dims.size() != 4) || (!h.by_heads && (heads < 1 || dims[2] % heads != 0))) {
    call.broken("needs heads of columns");
    return;
  }
  h.batch = dims[0];
  h.tokens = dims[h.by_heads ? 2 : 1];
  h.heads = h.by_heads ? dims[1] : heads;
  h.columns = h.by_heads ? dims[3] : dims[2] / heads;
  const std::int64_t rotary = said > 0 ? said : h.columns;
  if (rotary > h.columns || call.dims(1).back() * 2 != rotary || call.dims(1) != call.dims(2)) {
    call.broken("cannot turn {} of {} columns by tables of {}", rotary, h.columns, call.dims(1).back());
    return;
  }
  const auto table = [&](const char* suffix, std::size_t i) {
    if (call.given(3)) return angles(call, suffix, call.in(i), call.cast("positions", call.in(3), DType::I64));
    return reshaped(call, suffix, call.in(i), {h.batch, h.tokens, 1, rotary / 2});
  };
  const Ref cos = table("cos", 1);
  const Ref sin = table("sin", 2);
  h.make(call, rotated(call, "turned", h.apart(call), cos, sin, rotary, interleaved));
}

// ONNX Runtime's. x [batch, tokens, hidden] or [batch, heads, tokens, columns], positions [1] (of the first token) or
// [batch, tokens], cos and sin [positions, rotary / 2]
void rotary_embedding(Call& call) {
  call.arity(4, 4);
  const std::int64_t heads_said = call.i("num_heads", 0);
  const std::int64_t rotary_said = call.i("rotary_embedding_dim", 0);
  const bool interleaved = call.flag("interleaved");
  if (call.f("scale", 1) != 1) call.refuse("scale={}; the nearest form is scale=1", call.f("scale", 1));
  if (call.flag("is_packed_batching"))
    call.refuse("is_packed_batching=1; the nearest form is is_packed_batching=0, of sequences side by side");
  if (call.failed()) return;
  const Sizes dims = call.dims(0);
  const Sizes table = call.dims(2);
  if ((dims.size() != 3 && dims.size() != 4) || table.size() != 2 || call.dims(3) != table) {
    call.broken("needs three or four dimensions and two tables of two");
    return;
  }
  Heads h{.dims = dims, .by_heads = dims.size() == 4};
  h.batch = dims[0];
  h.tokens = dims[h.by_heads ? 2 : 1];
  const std::int64_t hidden = h.by_heads ? dims[1] * dims[3] : dims[2];
  const std::int64_t rotary = rotary_said > 0 ? rotary_said : table[1] * 2;
  h.columns = h.by_heads ? dims[3] : rotary;
  if (!h.by_heads && rotary_said > 0 && heads_said > 0) h.columns = hidden / heads_said;
  if (h.columns < rotary || rotary != table[1] * 2 || hidden % h.columns != 0 || heads_said < 0) {
    call.broken("cannot turn {} of the columns {} by tables of {}", rotary, hidden, table[1]);
    return;
  }
  h.heads = hidden / h.columns;
  Ref positions = call.cast("positions", call.in(1), DType::I64);
  const auto& given = call.value_of(positions).dims;
  if (call.value_of(positions).elements() == 1) {
    const Ref first = reshaped(call, "first", positions, {1, 1});
    positions = call.part("positions", Op::Add, {first, counted(call, {1, h.tokens}, 0)});
    positions = expanded(call, "positions", positions, {h.batch, h.tokens});
  } else if (given != Sizes{h.batch, h.tokens}) {
    call.broken("needs a position for each of {} x {} tokens", h.batch, h.tokens);
    return;
  }
  const Ref cos = angles(call, "cos", call.in(2), positions);
  const Ref sin = angles(call, "sin", call.in(3), positions);
  h.make(call, rotated(call, "turned", h.apart(call), cos, sin, rotary, interleaved));
}

}  // namespace knapsack::onnx
