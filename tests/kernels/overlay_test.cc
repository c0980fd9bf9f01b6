// Every fast kernel but the products against the scalar reference, and its bits against itself for other numbers of
// rows and threads. Tolerances are a few ulp of the largest term of a sum.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/call.h"
#include "kernels/random_weight.h"

namespace knapsack {

// A wider set's source, compiled for AVX2 through SIMDe (tests/CMakeLists.txt).
namespace simde_avx512 {
void attention(const OpCall& call);
}  // namespace simde_avx512

namespace {

using testing::Call;
using testing::emulated;
using testing::fast_isas;
using testing::random_floats;

void expect_near(const std::vector<float>& got, const std::vector<float>& want, float relative, float absolute) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i])) {
      ASSERT_TRUE(std::isnan(got[i])) << i;
    } else if (std::isinf(want[i])) {
      ASSERT_EQ(got[i], want[i]) << i;
    } else {
      ASSERT_NEAR(got[i], want[i], relative * std::fabs(want[i]) + absolute) << i;
    }
  }
}

void expect_same(const std::vector<float>& got, const float* want) {
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want[i])) << i;
}

const std::vector<float> extremes = {0.0F,     -0.0F, 1e-30F, -1e-30F, 1e-45F, 88.0F, 89.0F,    -88.0F, -104.0F,
                                     -1000.0F, 1e4F,  -1e4F,  1e18F,   -1e18F, 0.5F,  INFINITY, NAN,    20.0F,
                                     -20.0F,   3e38F, -3e38F, 1.0F,    -1.0F,  10.0F, -10.0F};

TEST(Overlay, GatedActivations) {
  for (const Isa isa : fast_isas(Op::gated_act)) {
    SCOPED_TRACE(isa_name(isa));
    for (const int act : {0, 1, 2}) {
      for (const std::int64_t cols : {1, 7, 8, 1025, 5000}) {
        SCOPED_TRACE(std::to_string(act) + " " + std::to_string(cols));
        auto gate = random_floats(3 * cols, 1, 4);
        for (std::size_t i = 0; i < extremes.size() && i < gate.size(); ++i) gate[i] = extremes[i];
        const auto up = random_floats(3 * cols, 2);
        Attrs attrs;
        attrs.set(Attr::act, act);
        ThreadPool one(1);
        ThreadPool three(3);
        Call call(Op::gated_act, 3, attrs);
        call.activation(gate.data(), cols).activation(up.data(), cols);
        const auto got = call.run(isa, three, cols);
        // Far below zero gelu_tanh's reference is 0 where 1 + tanh cancels, up to an ulp of 1 times x.
        expect_near(got, call.run(Isa::scalar, one, cols), 1e-6F, act == 0 ? 1e-37F : 4e-6F);
        expect_same(got, call.run(isa, one, cols).data());
        Call row(Op::gated_act, 1, attrs);
        row.activation(gate.data() + cols, cols).activation(up.data() + cols, cols);
        expect_same(row.run(isa, one, cols), got.data() + cols);
      }
    }
  }
}

TEST(Overlay, AddAndScaleAreExact) {
  for (const Isa isa : fast_isas(Op::add)) {
    SCOPED_TRACE(isa_name(isa));
    ThreadPool pool(2);
    for (const std::int64_t cols : {1, 9, 4099}) {
      const auto a = random_floats(2 * cols, 3);
      const auto b = random_floats(2 * cols, 4);
      Attrs attrs;
      attrs.set(Attr::scale, 0.37F);
      Call add(Op::add, 2, {});
      add.activation(a.data(), cols).activation(b.data(), cols);
      EXPECT_EQ(add.run(isa, pool, cols), add.run(Isa::scalar, pool, cols));
      Call scale(Op::scale, 2, attrs);
      scale.activation(a.data(), cols);
      EXPECT_EQ(scale.run(isa, pool, cols), scale.run(Isa::scalar, pool, cols));
    }
  }
}

TEST(Overlay, RmsNorm) {
  for (const Isa isa : fast_isas(Op::rms_norm)) {
    SCOPED_TRACE(isa_name(isa));
    ThreadPool pool(3);
    ThreadPool one(1);
    for (const std::int64_t width : {1, 5, 8, 64, 577}) {
      for (const float size : {1.0F, 1e-12F, 1e15F}) {
        for (const bool weighted : {false, true}) {
          const std::int64_t cols = 3 * width;
          const auto x = random_floats(4 * cols, 5, size);
          const auto values = random_floats(width, 6);
          const Weight w = testing::vector_weight(values);
          Attrs attrs;
          attrs.set(Attr::eps, 1e-6F).set(Attr::width, width).set(Attr::offset, 1.0F);
          Call call(Op::rms_norm, 4, attrs);
          call.activation(x.data(), cols);
          if (weighted) call.weight(w);
          const auto got = call.run(isa, pool, cols);
          expect_near(got, call.run(Isa::scalar, one, cols), 2e-7F, 0);
          Call row(Op::rms_norm, 1, attrs);
          row.activation(x.data() + 2 * cols, cols);
          if (weighted) row.weight(w);
          expect_same(row.run(isa, one, cols), got.data() + 2 * cols);
        }
      }
    }
  }
}

TEST(Overlay, RopeUpToLongContexts) {
  for (const Isa isa : fast_isas(Op::rope)) {
    SCOPED_TRACE(isa_name(isa));
    ThreadPool pool(3);
    ThreadPool one(1);
    for (const std::int64_t rotary : {2, 6, 16, 20, 64, 128}) {
      for (const bool interleaved : {false, true}) {
        const std::int64_t heads = 3;
        const std::int64_t begin = rotary == 64 ? 8 : 0;
        const std::int64_t stride = rotary + begin + (rotary == 20 ? 4 : 0);
        std::vector<float> freq;
        for (std::int64_t i = 0; i < rotary / 2; ++i)
          freq.push_back(std::pow(10000.0F, -2.0F * static_cast<float>(i) / static_cast<float>(rotary)));
        const Weight w = testing::vector_weight(freq);
        Attrs attrs;
        attrs.set(Attr::heads, heads).set(Attr::stride, stride).set(Attr::begin, begin).set(Attr::rotary, rotary);
        attrs.set(Attr::interleaved, interleaved ? 1 : 0).set(Attr::scale, 1.2F);
        const std::vector<std::int32_t> positions = {0, 1, 2, 100, 2047, 8191, 131071, 1000000};
        const std::vector<std::int32_t> slots(positions.size(), 0);
        const auto rows = static_cast<std::int64_t>(positions.size());
        const std::int64_t cols = heads * stride;
        const auto x = random_floats(rows * cols, 7);
        Call call(Op::rope, rows, attrs);
        call.activation(x.data(), cols).weight(w);
        const auto got = call.run(isa, pool, cols, {.positions = positions, .slots = slots});
        expect_near(got, call.run(Isa::scalar, one, cols, {.positions = positions, .slots = slots}), 2e-7F, 2e-6F);
        Call row(Op::rope, 1, attrs);
        row.activation(x.data() + 5 * cols, cols).weight(w);
        expect_same(row.run(isa, one, cols, {.positions = {&positions[5], 1}, .slots = {slots.data(), 1}}),
                    got.data() + 5 * cols);
      }
    }
  }
}

TEST(Overlay, KvWriteStoresTheSameBytes) {
  for (const Isa isa : fast_isas(Op::kv_write)) {
    SCOPED_TRACE(isa_name(isa));
    ThreadPool pool(2);
    for (const DType dtype : {DType::F16, DType::F32, DType::Q8_0}) {
      const std::int64_t unit = dtype == DType::Q8_0 ? 32 : 1;
      auto x = random_floats(4 * 19 * unit, 8);
      x[0] = 1e-7F;
      x[1] = 1e6F;
      const testing::State scalar(dtype, 24 * unit, 2, 2, 3);
      const testing::State fast(dtype, 24 * unit, 2, 2, 3);
      const std::vector<std::int32_t> positions = {63, 64, 5, 127};
      const std::vector<std::int32_t> slots = {0, 0, 1, 1};
      Attrs attrs;
      attrs.set(Attr::col, 3 * unit);
      for (const auto& [each, state] : {std::pair{Isa::scalar, &scalar}, std::pair{isa, &fast}}) {
        Call call(Op::kv_write, 4, attrs);
        call.activation(x.data(), 19 * unit).state(*state);
        call.run(each, pool, 24 * unit, {.positions = positions, .slots = slots});
      }
      EXPECT_TRUE(scalar == fast);
    }
  }
}

struct AttentionCase {
  const char* name;
  std::int64_t heads, kv_heads, head_dim, v_dim, v_stride, window;
  float softcap;
  DType dtype;
};

// Rows computed together, of which each must get the same bits.
const std::vector<std::int64_t> many = {1, 2, 3, 5, 16, 100};
const std::vector<std::int64_t> few = {1, 16};

const std::vector<AttentionCase> attention_cases = {
    {"grouped", 9, 3, 64, 64, 64, 0, 0, DType::F16},         {"multi-head", 5, 5, 16, 16, 16, 0, 0, DType::F32},
    {"multi-query", 4, 1, 256, 256, 256, 0, 0, DType::F16},  {"window", 4, 2, 32, 32, 32, 70, 0, DType::F16},
    {"short window", 6, 2, 12, 12, 12, 3, 0, DType::F32},    {"softcap", 4, 2, 20, 20, 20, 0, 5, DType::F32},
    {"latent", 7, 1, 72, 64, 64, 0, 0, DType::F16},          {"values apart", 3, 3, 24, 10, 16, 0, 0, DType::F32},
    {"large group", 100, 1, 8, 8, 8, 0, 0, DType::F32},      {"in 8 bits", 9, 3, 64, 64, 64, 0, 0, DType::Q8_0},
    {"latent, 8 bits", 7, 1, 96, 64, 64, 0, 0, DType::Q8_0},
};

// Slot 0 has 200 positions, slot 1 has 3; keys and values written by kv_write.
struct Cache {
  testing::State k, v;
  explicit Cache(const AttentionCase& c)
      : k(c.dtype, c.kv_heads * c.head_dim, 2, 4, c.kv_heads), v(c.dtype, c.kv_heads * c.v_stride, 2, 4, c.kv_heads) {
    ThreadPool pool(1);
    std::vector<std::int32_t> positions;
    std::vector<std::int32_t> slots;
    for (std::int32_t i = 0; i < 203; ++i) {
      positions.push_back(i < 200 ? i : i - 200);
      slots.push_back(i < 200 ? 0 : 1);
    }
    for (const testing::State* state : {&k, &v}) {
      const auto x = random_floats(203 * state->view().cols, state == &k ? 20 : 21);
      Call call(Op::kv_write, 203, {});
      call.activation(x.data(), state->view().cols).state(*state);
      call.run(Isa::scalar, pool, state->view().cols, {.positions = positions, .slots = slots});
    }
  }
};

Attrs attributes(const AttentionCase& c) {
  Attrs a;
  a.set(Attr::heads, c.heads).set(Attr::kv_heads, c.kv_heads).set(Attr::head_dim, c.head_dim);
  a.set(Attr::v_dim, c.v_dim).set(Attr::v_stride, c.v_stride).set(Attr::window, c.window);
  a.set(Attr::scale, 1.5F / std::sqrt(static_cast<float>(c.head_dim))).set(Attr::softcap, c.softcap);
  return a;
}

TEST(Overlay, Attention) {
  for (const Isa isa : fast_isas(Op::attention)) {
    SCOPED_TRACE(isa_name(isa));
    for (const AttentionCase& c : attention_cases) {
      SCOPED_TRACE(c.name);
      const Cache cache(c);
      const Attrs attrs = attributes(c);
      // A prefill chunk of slot 0 between two tokens of slot 1.
      std::vector<std::int32_t> positions = {0};
      std::vector<std::int32_t> slots = {1};
      for (std::int32_t p = 30; p < 200; ++p) {
        positions.push_back(p);
        slots.push_back(0);
      }
      positions.push_back(2);
      slots.push_back(1);
      const auto rows = static_cast<std::int64_t>(positions.size());
      const std::int64_t q_cols = c.heads * c.head_dim;
      const std::int64_t out_cols = c.heads * c.v_dim;
      const auto q = random_floats(rows * q_cols, 22);
      ThreadPool one(1);
      Call call(Op::attention, rows, attrs);
      call.activation(q.data(), q_cols).state(cache.k).state(cache.v);
      const auto all = call.run(isa, one, out_cols, {.positions = positions, .slots = slots});
      expect_near(all, call.run(Isa::scalar, one, out_cols, {.positions = positions, .slots = slots}), 1e-6F, 3e-6F);
      for (const int threads : testing::thread_counts()) {
        ThreadPool pool(threads);
        for (const std::int64_t count : emulated() ? few : many) {
          for (const std::int64_t first : {std::int64_t{0}, std::int64_t{33}, rows - count}) {
            Call some(Op::attention, count, attrs);
            some.activation(q.data() + first * q_cols, q_cols).state(cache.k).state(cache.v);
            const std::span<const std::int32_t> at = positions;
            const std::span<const std::int32_t> in = slots;
            const auto f = static_cast<std::size_t>(first);
            const auto n = static_cast<std::size_t>(count);
            expect_same(some.run(isa, pool, out_cols, {.positions = at.subspan(f, n), .slots = in.subspan(f, n)}),
                        all.data() + first * out_cols);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

#if defined(KNAPSACK_SIMDE)
TEST(Overlay, AttentionOfAvx512HasTheBitsOfAvx2) {
  if (fast_isas(Op::attention).empty()) GTEST_SKIP() << "no AVX2";
  for (const AttentionCase& c : attention_cases) {
    SCOPED_TRACE(c.name);
    const Cache cache(c);
    std::vector<std::int32_t> positions;
    for (std::int32_t p = 60; p < 200; p += p < 100 ? 1 : 9) positions.push_back(p);
    const auto all = static_cast<std::int64_t>(positions.size());
    const std::vector<std::int32_t> slots(positions.size(), 0);
    const auto q = random_floats(all * c.heads * c.head_dim, 22);
    ThreadPool pool(1);
    for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{3}, all}) {
      const auto n = static_cast<std::size_t>(rows);
      Call call(Op::attention, rows, attributes(c));
      call.activation(q.data(), c.heads * c.head_dim).state(cache.k).state(cache.v);
      const auto want = call.run(Isa::avx2, pool, c.heads * c.v_dim,
                                 {.positions = std::span(positions).first(n), .slots = std::span(slots).first(n)});
      expect_same(call.run_instead(simde_avx512::attention), want.data());
      if (HasFatalFailure()) return;
    }
  }
}
#endif

TEST(Overlay, AttentionWithExtremeScores) {
  for (const Isa isa : fast_isas(Op::attention)) {
    SCOPED_TRACE(isa_name(isa));
    const AttentionCase c = {"", 2, 1, 8, 8, 8, 0, 0, DType::F32};
    for (const float size : {1e-20F, 100.0F, 1e10F}) {
      const Cache cache(c);
      const auto q = random_floats(2 * 16, 9, size);
      const std::vector<std::int32_t> positions = {150, 199};
      const std::vector<std::int32_t> slots = {0, 0};
      ThreadPool pool(1);
      Call call(Op::attention, 2, attributes(c));
      call.activation(q.data(), 16).state(cache.k).state(cache.v);
      // A score of s has an error of s ulp, which the exponential turns into a relative one.
      expect_near(call.run(isa, pool, 16, {.positions = positions, .slots = slots}),
                  call.run(Isa::scalar, pool, 16, {.positions = positions, .slots = slots}), 0,
                  size == 100.0F ? 2e-4F : 2e-6F);
    }
  }
}

// What lies in the cache beyond a row's position, from an earlier text or another slot, must not matter.
TEST(Overlay, AttentionIgnoresWhatItDoesNotSee) {
  for (const Isa isa : fast_isas(Op::attention)) {
    SCOPED_TRACE(isa_name(isa));
    const AttentionCase c = {"", 6, 2, 16, 16, 16, 9, 0, DType::F32};
    const Cache clean(c);
    const Cache dirty(c);
    for (std::int64_t p = 0; p < 256; ++p)
      if (p > 129 || p <= 120)
        for (const testing::State* s : {&dirty.k, &dirty.v})
          for (const std::int64_t head : {0, 1})
            std::fill_n(reinterpret_cast<float*>(s->view().at(0, p, 16 * head)), 16, NAN);
    const auto q = random_floats(96, 10);
    const std::vector<std::int32_t> positions = {129};
    const std::vector<std::int32_t> slots = {0};
    ThreadPool pool(1);
    Call a(Op::attention, 1, attributes(c));
    a.activation(q.data(), 96).state(clean.k).state(clean.v);
    Call b(Op::attention, 1, attributes(c));
    b.activation(q.data(), 96).state(dirty.k).state(dirty.v);
    for (const Isa each : {Isa::scalar, isa})
      expect_same(b.run(each, pool, 96, {.positions = positions, .slots = slots}),
                  a.run(each, pool, 96, {.positions = positions, .slots = slots}).data());
  }
}

}  // namespace
}  // namespace knapsack
