#include "graph/shape.h"

#include <limits>

#include "graph/inspector.h"

namespace knapsack {
namespace {

Value activation_of(std::int64_t rows, std::int64_t cols, DType dtype = DType::F32) {
  return Value{.kind = ValueKind::computed, .dtype = dtype, .dims = {rows, cols}};
}

std::vector<Value> head_linear_shape(Inspector& in, const Value& x, const Weight& w) {
  const auto heads = in.count(Attr::heads);
  const auto stride = in.count(Attr::in_stride);
  const auto rows = in.count(Attr::rows);
  const auto head_rows = in.count(Attr::head_rows);
  const auto row_offset = in.i(Attr::row_offset);
  in.at_most(Attr::transposed, 1);
  const bool transposed = in.i(Attr::transposed) != 0;
  in.equal("columns of x", x.cols(), heads * stride);
  const auto width = transposed ? rows : w.shape[1];
  in.require(in.i(Attr::in_offset) + width <= stride, "reads past the end of a head (in_offset + in > in_stride)");
  in.require(row_offset + rows <= head_rows, "takes rows past the end of a head's (row_offset + rows > head_rows)");
  in.require((heads - 1) * head_rows + row_offset + rows <= w.shape[0], "takes rows past the end of w");
  return {activation_of(x.rows(), heads * (transposed ? w.shape[1] : rows))};
}

std::vector<Value> head_concat_shape(Inspector& in, const Value& a, const Value& b) {
  const auto heads = in.count(Attr::heads);
  const auto a_cols = in.count(Attr::a_cols);
  const auto b_cols = in.count(Attr::b_cols);
  const auto b_stride = in.count(Attr::b_stride);
  in.same_rows(a, b);
  in.equal("columns of a", a.cols(), heads * a_cols);
  in.equal("columns of b", b.cols(), heads * b_stride);
  in.require(in.i(Attr::b_offset) + b_cols <= b_stride, "reads past the end of a head (b_offset + b_cols > b_stride)");
  return {activation_of(a.rows(), heads * (a_cols + b_cols))};
}

std::vector<Value> attention_shape(Inspector& in, const Value& q, const Value& k, const Value& v) {
  const auto heads = in.count(Attr::heads);
  const auto kv_heads = in.count(Attr::kv_heads);
  const auto head_dim = in.count(Attr::head_dim);
  const auto v_dim = in.count(Attr::v_dim, head_dim);
  const auto v_stride = in.count(Attr::v_stride, v_dim);
  in.all_tokens(q);
  in.require(heads % kv_heads == 0, "heads must be a multiple of kv_heads");
  in.equal("columns of q", q.cols(), heads * head_dim);
  in.require(kv_heads * head_dim <= k.cols(), "reads past the end of the k state (kv_heads * head_dim)");
  in.require((kv_heads - 1) * v_stride + v_dim <= v.cols(), "reads past the end of the v state");
  // Several heads share a state evenly, as it is laid out by heads.
  if (kv_heads > 1) in.equal("columns of the k state", k.cols(), kv_heads * head_dim);
  if (kv_heads > 1) in.equal("columns of the v state", v.cols(), kv_heads * v_stride);
  return {activation_of(q.rows(), heads * v_dim)};
}

std::vector<Value> router_shape(Inspector& in, const Value& logits) {
  const auto experts = in.count(Attr::experts);
  in.equal("columns of logits", logits.cols(), experts);
  const auto top_k = in.count(Attr::top_k);
  const auto groups = in.count(Attr::groups, 1);
  const auto top_groups = in.count(Attr::top_groups, 1);
  in.at_most(Attr::score, 1);
  in.at_most(Attr::norm_topk, 1);
  in.at_most(Attr::group_score, 1);
  in.require(top_k <= experts, "cannot choose more experts than there are (top_k)");
  in.require(experts % groups == 0, "experts must divide evenly into groups");
  in.require(top_groups <= groups, "cannot keep more groups than there are (top_groups)");
  in.require(groups == 1 || in.i(Attr::group_score) == 0 || experts / groups >= 2,
             "needs groups of two experts or more to add the two best");
  if (in.given(1)) in.vector(1, experts);
  return {activation_of(logits.rows(), top_k, DType::I32), activation_of(logits.rows(), top_k)};
}

std::vector<Value> moe_shape(Inspector& in, const Value& x) {
  const Value& ids = in.activation(1, DType::I32);
  const Value& weights = in.activation(2);
  const Weight& gate = in.matrix(3, 3);
  const Weight& up = in.matrix(4, 3);
  const Weight& down = in.matrix(5, 3);
  in.at_most(Attr::act, 2);
  in.same_rows(x, ids);
  in.same_rows(x, weights);
  in.equal("columns of ids", ids.cols(), in.count(Attr::top_k));
  in.equal("columns of weights", weights.cols(), ids.cols());
  in.equal("columns of gate", gate.shape[2], x.cols());
  in.require(gate.shape == up.shape, "needs gate and up of one shape");
  in.require(down.shape == std::vector{gate.shape[0], gate.shape[2], gate.shape[1]},
             "needs down [E,H,F] for gate [E,F,H]");
  return {activation_of(x.rows(), x.cols())};
}

std::vector<Value> rotated_shape(Inspector& in, const Value& x) {
  const auto heads = in.count(Attr::heads);
  const auto stride = in.count(Attr::stride);
  const auto rotary = in.count(Attr::rotary);
  in.all_tokens(x);
  in.at_most(Attr::interleaved, 1);
  in.equal("columns of x", x.cols(), heads * stride);
  in.require(rotary % 2 == 0, "rotates pairs: rotary must be even");
  in.require(in.i(Attr::begin) + rotary <= stride, "rotates past the end of a head (begin + rotary > stride)");
  return {activation_of(x.rows(), x.cols())};
}

std::vector<Value> fused_linear_shape(Inspector& in, bool act) {
  const Value& x = in.activation(0);
  const Weight& w = in.matrix(1);
  for (const Attr key : {Attr::norm, Attr::bias, Attr::residual}) in.at_most(key, 1);
  in.at_most(Attr::act, 2);
  in.equal("columns of x", x.cols(), w.shape[1]);
  in.require(!act || w.shape[0] % 2 == 0, "needs as many rows of gate as of up");
  const std::int64_t cols = act ? w.shape[0] / 2 : w.shape[0];
  std::size_t next = 2;
  if (in.i(Attr::norm) != 0) in.vector(next++, x.cols());
  if (in.i(Attr::bias) != 0) in.vector(next++, w.shape[0]);
  if (in.i(Attr::residual) != 0) {
    const Value& residual = in.activation(next++);
    in.same_rows(x, residual);
    in.equal("columns of the residual", residual.cols(), cols);
  }
  in.require(!in.given(next), "has more inputs than its attributes say");
  return {activation_of(x.rows(), cols)};
}

std::vector<Value> shape_of(Op op, const Attrs& attrs, Inspector& in) {
  switch (op) {
    case Op::embed: {
      in.attributes({}, {Attr::scale});
      const Value& ids = in.activation(0, DType::I32);
      in.equal("columns of ids", ids.cols(), 1);
      return {activation_of(ids.rows(), in.matrix(1).shape[1])};
    }
    case Op::rms_norm: {
      in.attributes({Attr::eps}, {Attr::offset, Attr::width});
      const Value& x = in.activation(0);
      const auto width = in.count(Attr::width, x.cols());
      in.require(x.cols() % width == 0, "columns of x must be a multiple of width");
      if (in.given(1)) in.vector(1, width);
      return {activation_of(x.rows(), x.cols())};
    }
    case Op::linear: {
      in.attributes({}, {});
      const Value& x = in.activation(0);
      const Weight& w = in.matrix(1);
      in.equal("columns of x", x.cols(), w.shape[1]);
      if (in.given(2)) in.vector(2, w.shape[0]);
      return {activation_of(x.rows(), w.shape[0])};
    }
    case Op::head_linear:
      in.attributes({Attr::heads, Attr::in_stride, Attr::head_rows, Attr::rows},
                    {Attr::in_offset, Attr::row_offset, Attr::transposed});
      return head_linear_shape(in, in.activation(0), in.matrix(1));
    case Op::head_concat:
      in.attributes({Attr::heads, Attr::a_cols, Attr::b_stride, Attr::b_cols}, {Attr::b_offset});
      return head_concat_shape(in, in.activation(0), in.activation(1));
    case Op::gather_cols: {
      in.attributes({}, {});
      const Value& x = in.activation(0);
      return {activation_of(x.rows(), in.indices(1))};
    }
    case Op::rope: {
      in.attributes({Attr::heads, Attr::stride, Attr::rotary}, {Attr::begin, Attr::interleaved, Attr::scale});
      auto rotated = rotated_shape(in, in.activation(0));
      in.vector(1, in.count(Attr::rotary) / 2);
      return rotated;
    }
    case Op::kv_write: {
      in.attributes({}, {Attr::col});
      const Value& x = in.activation(0);
      const Value& state = in.state(1);
      in.all_tokens(x);
      in.require(in.i(Attr::col) + x.cols() <= state.cols(),
                 "writes past the end of the state's row (col + columns of x)");
      return {Value{.kind = ValueKind::computed, .dtype = state.dtype, .dims = state.dims, .state = state.state}};
    }
    case Op::attention:
      in.attributes({Attr::heads, Attr::kv_heads, Attr::head_dim, Attr::scale},
                    {Attr::v_dim, Attr::v_stride, Attr::window, Attr::softcap});
      return attention_shape(in, in.activation(0), in.state(1), in.state(2));
    case Op::add: {
      in.attributes({}, {});
      const Value& a = in.activation(0);
      const Value& b = in.activation(1);
      in.same_rows(a, b);
      in.equal("columns of b", b.cols(), a.cols());
      return {activation_of(a.rows(), a.cols())};
    }
    case Op::scale:
      in.attributes({Attr::scale}, {});
      return {activation_of(in.activation(0).rows(), in.activation(0).cols())};
    case Op::gated_act: {
      in.attributes({}, {Attr::act});
      const Value& gate = in.activation(0);
      const Value& up = in.activation(1);
      in.at_most(Attr::act, 2);
      in.same_rows(gate, up);
      in.equal("columns of up", up.cols(), gate.cols());
      return {activation_of(gate.rows(), gate.cols())};
    }
    case Op::sigmoid_scale: {
      in.attributes({}, {});
      const Value& x = in.activation(0);
      in.same_rows(x, in.activation(1));
      in.equal("columns of gate", in.activation(1).cols(), 1);
      return {activation_of(x.rows(), x.cols())};
    }
    case Op::softcap:
      in.attributes({Attr::softcap}, {});
      in.positive(Attr::softcap);
      return {activation_of(in.activation(0).rows(), in.activation(0).cols())};
    case Op::router:
      in.attributes({Attr::experts, Attr::top_k},
                    {Attr::score, Attr::norm_topk, Attr::scale, Attr::groups, Attr::top_groups, Attr::group_score});
      return router_shape(in, in.activation(0));
    case Op::moe:
      in.attributes({Attr::top_k}, {Attr::act});
      return moe_shape(in, in.activation(0));
    case Op::select_rows: {
      in.attributes({}, {});
      const Value& x = in.activation(0);
      in.all_tokens(x);
      // Of a static graph the last row.
      return {activation_of(x.symbolic() ? selected_dim : 1, x.cols())};
    }
    case Op::positions: {
      in.attributes({}, {Attr::rows});
      const bool fixed = attrs.has(Attr::rows);
      return {activation_of(fixed ? in.count(Attr::rows) : tokens_dim, 1, DType::I32)};
    }
    case Op::kv_read: {
      in.attributes({Attr::heads}, {Attr::transposed});
      const Value& state = in.state(0);
      const auto heads = in.count(Attr::heads);
      in.require(state.dims.size() == 2, "reads states of a static context");
      in.require(state.cols() % heads == 0, "columns of the state must be a multiple of heads");
      std::vector<std::int64_t> dims{1, heads, state.dims.front(), state.cols() / heads};
      if (in.i(Attr::transposed) != 0) std::swap(dims[2], dims[3]);
      return {Value{.kind = ValueKind::computed, .dtype = DType::F32, .dims = std::move(dims)}};
    }
    case Op::fused_linear:
      in.attributes({}, {Attr::norm, Attr::eps, Attr::offset, Attr::bias, Attr::act, Attr::residual});
      return fused_linear_shape(in, attrs.has(Attr::act));
    case Op::rope_cached: {
      in.attributes({Attr::heads, Attr::stride, Attr::rotary}, {Attr::begin, Attr::interleaved});
      const Weight& cos = in.matrix(1);
      const Weight& sin = in.matrix(2);
      in.require(cos.shape == sin.shape && cos.dtype == DType::F32 && sin.dtype == DType::F32,
                 "needs two tables of F32 of one shape");
      in.equal("columns of the tables", cos.cols(), in.count(Attr::rotary) / 2);
      return rotated_shape(in, in.activation(0));
    }
    default:
      in.fail("has no shape rule here");
  }
  return {};
}

}  // namespace

Result<void> check_constant(const Weight& weight) {
  if (weight.shape.size() > max_rank)
    return bad_input("constant {} has {} dimensions; at most {} are known", weight.name, weight.shape.size(), max_rank);
  std::int64_t elements = 1;
  for (const auto extent : weight.shape) {
    if (extent < 1 || extent >= max_extent)
      return bad_input("constant {} has a dimension of {}; expected 1 to {}", weight.name, extent, max_extent - 1);
    if (__builtin_mul_overflow(elements, extent, &elements) || elements > std::numeric_limits<std::int64_t>::max() / 64)
      return bad_input("constant {} has too many elements", weight.name);
  }
  const FormatInfo& f = format(weight.dtype);
  if (weight.cols() % f.block != 0)
    return bad_input("constant {} has rows of {}; {} stores whole blocks of {}", weight.name, weight.cols(), f.name,
                     f.block);
  return {};
}

std::string dims_text(std::span<const std::int64_t> dims) {
  std::string text = "[";
  for (const std::int64_t d : dims) {
    if (text.size() > 1) text += ", ";
    text += d == tokens_dim ? "T" : d == selected_dim ? "S" : std::to_string(d);
  }
  return text + "]";
}

std::vector<std::int64_t> seen_dims(const Weight& weight, bool transposed) {
  std::vector<std::int64_t> dims = weight.shape;
  if (transposed && dims.size() >= 2) std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  return dims;
}

Result<void> check_dims(std::span<const std::int64_t> dims) {
  if (dims.size() > max_rank) return bad_input("{} dimensions; at most {} are known", dims.size(), max_rank);
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool symbolic = i == 0 && dims.size() == 2 && (dims[i] == tokens_dim || dims[i] == selected_dim);
    if (!symbolic && (dims[i] < 1 || dims[i] >= max_extent))
      return bad_input("a dimension of {}; expected 1 to {}", dims[i], max_extent - 1);
    if (symbolic) continue;
    if (__builtin_mul_overflow(elements, dims[i], &elements) ||
        elements > std::numeric_limits<std::int64_t>::max() / 64)
      return bad_input("too many elements");
  }
  return {};
}

Result<std::vector<Value>> infer(Op op, const Attrs& attrs, std::span<const Value* const> inputs) {
  Inspector in(op, attrs, inputs);
  if (in.failed()) return in.error();
  std::vector<Value> outputs;
  if (op_info(op).primitive) {
    TRY(outputs, infer_primitive(op, attrs, inputs));
  } else {
    outputs = shape_of(op, attrs, in);
  }
  if (in.failed()) return in.error();
  for (const Value& v : outputs)
    if (const auto fine = check_dims(v.dims); !fine) in.fail("makes {}", fine.error().message);
  if (in.failed()) return in.error();
  return outputs;
}

}  // namespace knapsack
