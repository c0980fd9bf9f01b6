// Every scalar reference against its formula, written a second time here in double; and what every kernel must keep:
// a row's result does not depend on the chunk it came in nor on the threads.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "kernels/op_cases.h"
#include "kernels/sweep.h"

namespace knapsack {
namespace {

using testing::OpCase;
using Matrix = std::vector<std::vector<double>>;  // rows
using Outputs = std::vector<Matrix>;

double value(const OpCase& c, std::size_t input, std::int64_t row, std::int64_t col) {
  const auto index = static_cast<std::size_t>(row * c.in[input].cols + col);
  if (!c.in[input].i32.empty()) return c.in[input].i32[index];
  return c.in[input].f32[index];
}

// Element of a constant, decoded; `row` counts through the experts of a 3-D one.
double weight(const OpCase& c, std::size_t input, std::int64_t row, std::int64_t col) {
  const Weight& w = *c.in[input].weight;
  const FormatInfo& f = format(w.dtype);
  std::vector<float> block(static_cast<std::size_t>(f.block));
  const std::int64_t n = w.shape.size() == 3 ? w.shape[1] : row + 1;
  const std::byte* at = w.slab(row / n) + row % n * w.row_size();
  f.decode(at + col / f.block * f.block_bytes, block.data(), 1);
  return block[static_cast<std::size_t>(col % f.block)];
}

// values[index] as the KV cache keeps it; values begins with a whole block.
double kept(DType kv, const float* values, std::int64_t index) {
  if (kv == DType::F32) return values[index];
  if (kv == DType::F16) return half_to_float(float_to_half(values[index]));
  std::array<std::byte, 34> block{};
  std::array<float, 32> out{};
  format(kv).encode(values + index / 32 * 32, block.data(), 1);
  format(kv).decode(block.data(), out.data(), 1);
  return out[static_cast<std::size_t>(index % 32)];
}

double cached(const OpCase& c, std::size_t input, std::int64_t position, std::int64_t col) {
  const auto s = static_cast<std::size_t>(c.in[input].state);
  return kept(c.kv, c.history[s].data() + position * c.states[s], col);
}

double act(std::int64_t kind, double x) {
  if (kind == 0) return x / (1 + std::exp(-x));
  if (kind == 1) return x * std::erfc(-x / std::sqrt(2.0)) / 2;
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * std::pow(x, 3))));
}

Matrix each(const OpCase& c, const std::function<double(std::int64_t row, std::int64_t col)>& f, std::size_t out = 0) {
  Matrix m;
  for (std::int64_t row = 0; row < c.rows; ++row) {
    auto& values = m.emplace_back();
    for (std::int64_t col = 0; col < c.out_cols[out]; ++col) values.push_back(f(row, col));
  }
  return m;
}

Outputs embed(const OpCase& c) {
  return {each(c, [&](auto row, auto col) {
    return weight(c, 1, static_cast<std::int64_t>(value(c, 0, row, 0)), col) * c.attrs.f(Attr::scale, 1);
  })};
}

Outputs rms_norm(const OpCase& c) {
  const std::int64_t width = c.attrs.i(Attr::width, c.in[0].cols);
  return {each(c, [&](auto row, auto col) {
    double squares = 0;
    for (std::int64_t i = 0; i < width; ++i) squares += std::pow(value(c, 0, row, col / width * width + i), 2);
    const double factor = c.in.size() == 1 ? 1 : weight(c, 1, 0, col % width) + c.attrs.f(Attr::offset, 0);
    return value(c, 0, row, col) / std::sqrt(squares / static_cast<double>(width) + c.attrs.f(Attr::eps)) * factor;
  })};
}

Outputs linear(const OpCase& c) {
  return {each(c, [&](auto row, auto col) {
    double sum = c.in.size() > 2 ? weight(c, 2, 0, col) : 0;
    for (std::int64_t k = 0; k < c.in[0].cols; ++k) sum += value(c, 0, row, k) * weight(c, 1, col, k);
    return sum;
  })};
}

Outputs head_linear(const OpCase& c) {
  const Attrs& a = c.attrs;
  const bool transposed = a.i(Attr::transposed) == 1;
  const std::int64_t cols = c.in[1].cols;
  const std::int64_t out = transposed ? cols : a.i(Attr::rows);
  const std::int64_t in = transposed ? a.i(Attr::rows) : cols;
  return {each(c, [&](auto row, auto col) {
    const std::int64_t h = col / out;
    double sum = 0;
    for (std::int64_t i = 0; i < in; ++i) {
      const std::int64_t r = h * a.i(Attr::head_rows) + a.i(Attr::row_offset) + (transposed ? i : col % out);
      sum += value(c, 0, row, h * a.i(Attr::in_stride) + a.i(Attr::in_offset) + i) *
             weight(c, 1, r, transposed ? col % out : i);
    }
    return sum;
  })};
}

Outputs head_concat(const OpCase& c) {
  const std::int64_t a = c.attrs.i(Attr::a_cols);
  const std::int64_t both = a + c.attrs.i(Attr::b_cols);
  return {each(c, [&](auto row, auto col) {
    const std::int64_t h = col / both;
    if (col % both < a) return value(c, 0, row, h * a + col % both);
    return value(c, 1, row, h * c.attrs.i(Attr::b_stride) + c.attrs.i(Attr::b_offset) + col % both - a);
  })};
}

Outputs gather_cols(const OpCase& c) {
  const std::vector<std::int64_t> index{5, 0, 3, 2, 1, 4};
  return {each(c, [&](auto row, auto col) { return value(c, 0, row, index[static_cast<std::size_t>(col)]); })};
}

Outputs rope(const OpCase& c) {
  const std::int64_t stride = c.attrs.i(Attr::stride);
  const std::int64_t half = c.attrs.i(Attr::rotary) / 2;
  const bool interleaved = c.attrs.i(Attr::interleaved) == 1;
  return {each(c, [&](auto row, auto col) {
    const std::int64_t place = col % stride - c.attrs.i(Attr::begin);
    if (place < 0 || place >= 2 * half) return value(c, 0, row, col);
    const std::int64_t pair = interleaved ? place / 2 : place % half;
    const bool second = interleaved ? place % 2 == 1 : place >= half;
    const std::int64_t other = col + (interleaved ? 1 : half) * (second ? -1 : 1);
    const double turn = static_cast<float>(c.positions[static_cast<std::size_t>(row)]) * c.in[1].weight->f32()[pair];
    return c.attrs.f(Attr::scale) *
           (value(c, 0, row, col) * std::cos(turn) + value(c, 0, row, other) * std::sin(turn) * (second ? 1 : -1));
  })};
}

Outputs kv_write(const OpCase& c) {
  Matrix m;
  for (std::int64_t p = 0; p < c.ctx; ++p) {
    auto& row = m.emplace_back();
    for (std::int64_t col = 0; col < c.states[0]; ++col) row.push_back(cached(c, 1, p, col));
  }
  for (std::int64_t r = 0; r < c.rows; ++r)
    for (std::int64_t col = 0; col < c.in[0].cols; ++col)
      m[static_cast<std::size_t>(c.positions[static_cast<std::size_t>(r)])]
       [static_cast<std::size_t>(col + c.attrs.i(Attr::col))] = kept(c.kv, c.in[0].f32.data() + r * c.in[0].cols, col);
  return {m};
}

Outputs attention(const OpCase& c) {
  const Attrs& a = c.attrs;
  const std::int64_t d = a.i(Attr::head_dim);
  const std::int64_t v_dim = a.i(Attr::v_dim, d);
  const std::int64_t v_stride = a.i(Attr::v_stride, v_dim);
  const std::int64_t window = a.i(Attr::window) > 0 ? a.i(Attr::window) : c.ctx;
  Matrix m;
  for (std::int64_t row = 0; row < c.rows; ++row) {
    auto& out = m.emplace_back();
    const std::int64_t position = c.positions[static_cast<std::size_t>(row)];
    for (std::int64_t h = 0; h < a.i(Attr::heads); ++h) {
      const std::int64_t kv = h * a.i(Attr::kv_heads) / a.i(Attr::heads);
      std::map<std::int64_t, double> share;
      double sum = 0;
      for (std::int64_t p = 0; p <= position; ++p) {
        if (position - p >= window) continue;
        double score = 0;
        for (std::int64_t i = 0; i < d; ++i) score += value(c, 0, row, h * d + i) * cached(c, 1, p, kv * d + i);
        score *= a.f(Attr::scale);
        if (const double cap = a.f(Attr::softcap); cap > 0) score = cap * std::tanh(score / cap);
        sum += share[p] = std::exp(score);
      }
      for (std::int64_t i = 0; i < v_dim; ++i) {
        double mixed = 0;
        for (const auto& [p, s] : share) mixed += s / sum * cached(c, 2, p, kv * v_stride + i);
        out.push_back(mixed);
      }
    }
  }
  // The states stay as they were.
  Outputs outputs{m};
  for (std::size_t s = 0; s < c.states.size(); ++s) {
    auto& rows = outputs.emplace_back();
    for (std::int64_t p = 0; p < c.ctx; ++p) {
      auto& row = rows.emplace_back();
      for (std::int64_t col = 0; col < c.states[s]; ++col) row.push_back(cached(c, 1 + s, p, col));
    }
  }
  return outputs;
}

Outputs router(const OpCase& c) {
  const Attrs& a = c.attrs;
  const std::int64_t experts = c.in[0].cols;
  const std::int64_t groups = a.i(Attr::groups, 1);
  Outputs outputs(2);
  for (std::int64_t row = 0; row < c.rows; ++row) {
    std::vector<double> score, choice;
    double sum = 0;
    for (std::int64_t e = 0; e < experts; ++e) {
      const double x = value(c, 0, row, e);
      score.push_back(a.i(Attr::score) == 1 ? 1 / (1 + std::exp(-x)) : std::exp(x));
      sum += score.back();
    }
    for (std::int64_t e = 0; e < experts; ++e) {
      auto& s = score[static_cast<std::size_t>(e)];
      if (a.i(Attr::score) == 0) s /= sum;
      choice.push_back(s + (c.in.size() > 1 ? weight(c, 1, 0, e) : 0));
    }
    std::vector<std::pair<double, std::int64_t>> ranked_groups;
    for (std::int64_t g = 0; g < groups; ++g) {
      std::vector<double> members(choice.begin() + g * experts / groups, choice.begin() + (g + 1) * experts / groups);
      std::sort(members.rbegin(), members.rend());
      ranked_groups.emplace_back(-(a.i(Attr::group_score) == 1 ? members[0] + members[1] : members[0]), g);
    }
    std::sort(ranked_groups.begin(), ranked_groups.end());
    for (std::int64_t k = a.i(Attr::top_groups, 1); k < groups; ++k) {
      const std::int64_t g = ranked_groups[static_cast<std::size_t>(k)].second;
      for (std::int64_t e = g * experts / groups; e < (g + 1) * experts / groups; ++e)
        choice[static_cast<std::size_t>(e)] = 0;
    }
    std::vector<std::pair<double, std::int64_t>> ranked;
    for (std::int64_t e = 0; e < experts; ++e) ranked.emplace_back(-choice[static_cast<std::size_t>(e)], e);
    std::sort(ranked.begin(), ranked.end());
    auto& ids = outputs[0].emplace_back();
    auto& weights = outputs[1].emplace_back();
    double total = 0;
    for (std::int64_t k = 0; k < a.i(Attr::top_k); ++k) {
      const std::int64_t e = ranked[static_cast<std::size_t>(k)].second;
      ids.push_back(static_cast<double>(e));
      weights.push_back(score[static_cast<std::size_t>(e)]);
      total += weights.back();
    }
    for (double& w : weights) w = (a.i(Attr::norm_topk) == 1 ? w / total : w) * a.f(Attr::scale, 1);
  }
  return outputs;
}

Outputs moe(const OpCase& c) {
  const std::int64_t ffn = c.in[3].weight->shape[1];
  const std::int64_t hidden = c.in[3].weight->shape[2];
  Matrix m = each(c, [](auto, auto) { return 0.0; });
  for (std::int64_t row = 0; row < c.rows; ++row)
    for (std::int64_t k = 0; k < c.in[1].cols; ++k) {
      const auto e = static_cast<std::int64_t>(value(c, 1, row, k));
      std::vector<double> inner;
      for (std::int64_t f = 0; f < ffn; ++f) {
        double gate = 0, up = 0;
        for (std::int64_t i = 0; i < hidden; ++i) {
          gate += value(c, 0, row, i) * weight(c, 3, e * ffn + f, i);
          up += value(c, 0, row, i) * weight(c, 4, e * ffn + f, i);
        }
        inner.push_back(act(c.attrs.i(Attr::act), gate) * up);
      }
      for (std::int64_t i = 0; i < hidden; ++i)
        for (std::int64_t f = 0; f < ffn; ++f)
          m[static_cast<std::size_t>(row)][static_cast<std::size_t>(i)] +=
              value(c, 2, row, k) * inner[static_cast<std::size_t>(f)] * weight(c, 5, e * hidden + i, f);
    }
  return {m};
}

Outputs expected(const OpCase& c) {
  switch (c.op) {
    case Op::embed:
      return embed(c);
    case Op::rms_norm:
      return rms_norm(c);
    case Op::linear:
      return linear(c);
    case Op::head_linear:
      return head_linear(c);
    case Op::head_concat:
      return head_concat(c);
    case Op::gather_cols:
      return gather_cols(c);
    case Op::rope:
      return rope(c);
    case Op::kv_write:
      return kv_write(c);
    case Op::attention:
      return attention(c);
    case Op::router:
      return router(c);
    case Op::moe:
      return moe(c);
    case Op::add:
      return {each(c, [&](auto r, auto i) { return value(c, 0, r, i) + value(c, 1, r, i); })};
    case Op::scale:
      return {each(c, [&](auto r, auto i) { return value(c, 0, r, i) * c.attrs.f(Attr::scale); })};
    case Op::gated_act:
      return {
          each(c, [&](auto r, auto i) { return act(c.attrs.i(Attr::act), value(c, 0, r, i)) * value(c, 1, r, i); })};
    case Op::sigmoid_scale:
      return {each(c, [&](auto r, auto i) { return value(c, 0, r, i) / (1 + std::exp(-value(c, 1, r, 0))); })};
    case Op::softcap: {
      const double cap = c.attrs.f(Attr::softcap);
      return {each(c, [&](auto r, auto i) { return cap * std::tanh(value(c, 0, r, i) / cap); })};
    }
    case Op::select_rows: {
      Matrix m;
      for (const auto row : c.selected) {
        m.emplace_back();
        for (std::int64_t i = 0; i < c.in[0].cols; ++i) m.back().push_back(value(c, 0, row, i));
      }
      return {m};
    }
    default:
      return {};
  }
}

TEST(RefOps, EveryOpHasAKernelAndACase) {
  std::map<Op, int> cases;
  for (const OpCase& c : testing::all_op_cases()) ++cases[c.op];
  for (const OpInfo& info : all_ops()) {
    EXPECT_NE(KernelTable::get(Isa::scalar)[info.op].run, nullptr) << info.text;
    // Primitives are held to ONNX Runtime's values (tests/import/onnx_ops_test.cc), what passes and decompositions make
    // to the ops it stands for (tests/passes, tests/import/decompose_test.cc).
    const bool elsewhere = info.primitive || info.op == Op::positions || info.op == Op::kv_read ||
                           info.op == Op::fused_linear || info.op == Op::rope_cached;
    if (!elsewhere) {
      EXPECT_GT(cases[info.op], 0) << info.text << " has no case in op_cases.h";
    }
  }
}

TEST(RefOps, EveryIsaCoversEveryOp) {
  for (const Isa isa : supported_isas())
    for (const OpInfo& info : all_ops()) EXPECT_NE(KernelTable::get(isa)[info.op].run, nullptr) << info.text;
}

// Largest error allowed, in parts of the output's largest value: sums cancel, and then only their terms' size counts.
constexpr double tolerance = 3e-6;

TEST(RefOps, MatchTheirFormulasOnEveryIsa) {
  for (const Isa isa : supported_isas())
    for (const OpCase& c : testing::all_op_cases()) {
      SCOPED_TRACE(c.name + ", " + std::string(isa_name(isa)));
      const auto found = testing::run_case(c, isa);
      const Outputs want = expected(c);
      ASSERT_EQ(found.size(), want.size());
      for (std::size_t o = 0; o < want.size(); ++o) {
        double size = 1e-3;
        for (const auto& row : want[o])
          for (const double v : row) size = std::max(size, std::abs(v));
        std::size_t at = 0;
        for (std::size_t row = 0; row < want[o].size(); ++row)
          for (std::size_t col = 0; col < want[o][row].size(); ++col, ++at)
            ASSERT_NEAR(found[o][at], want[o][row][col], size * tolerance)
                << "output " << o << ", " << row << ", " << col;
        ASSERT_EQ(at, found[o].size());
      }
    }
}

TEST(RefOps, ARowDependsNeitherOnItsChunkNorOnThreads) {
  for (const Isa isa : supported_isas())
    for (const OpCase& c : testing::all_op_cases()) {
      SCOPED_TRACE(c.name + ", " + std::string(isa_name(isa)));
      const auto whole = testing::run_case(c, isa);
      for (const std::int64_t chunk : {std::int64_t{1}, std::int64_t{2}, std::int64_t{5}, c.rows})
        for (const int threads : testing::thread_counts())
          ASSERT_EQ(testing::run_case(c, isa, threads, chunk), whole) << chunk << " rows, " << threads << " threads";
    }
}

}  // namespace
}  // namespace knapsack
