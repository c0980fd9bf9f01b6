// A decoder run through lower() and the executor, against plain loops written here.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/tiny.h"
#include "program/executor.h"

namespace knapsack {
namespace {

using testing::Tiny;

using Vec = std::vector<double>;

Vec times(const Vec& x, const Graph& g, const std::string& name) {
  const Weight& w = *g.value(g.find(name)).weight;
  Vec y(static_cast<std::size_t>(w.shape[0]));
  for (std::size_t n = 0; n < y.size(); ++n)
    for (std::size_t k = 0; k < x.size(); ++k) y[n] += x[k] * w.f32()[n * x.size() + k];
  return y;
}

Vec normed(const Vec& x, const Graph& g, const std::string& name) {
  const float* w = g.value(g.find(name)).weight->f32();
  double squares = 0;
  for (const double v : x) squares += v * v;
  Vec y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i] = x[i] / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5) * w[i];
  return y;
}

void rotate(Vec& x, const Tiny& t, std::size_t position, const Graph& g) {
  const auto d = static_cast<std::size_t>(t.head_dim);
  const float* inv_freq = g.value(g.find("inv_freq")).weight->f32();
  for (std::size_t h = 0; h < x.size(); h += d) {
    for (std::size_t i = 0; i < d / 2; ++i) {
      const double angle = static_cast<double>(position) * inv_freq[i];
      const double a = x[h + i], b = x[h + i + d / 2];
      x[h + i] = a * std::cos(angle) - b * std::sin(angle);
      x[h + i + d / 2] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
}

// Logits of every position.
std::vector<Vec> by_hand(const Graph& g, const Tiny& t, const std::vector<std::int32_t>& ids) {
  const auto d = static_cast<std::size_t>(t.head_dim);
  const auto hidden = static_cast<std::size_t>(t.hidden);
  std::vector<std::vector<Vec>> keys(static_cast<std::size_t>(t.layers)), values(keys);
  std::vector<Vec> logits;
  for (std::size_t p = 0; p < ids.size(); ++p) {
    const float* row = g.value(g.find("embed.weight")).weight->f32() + static_cast<std::size_t>(ids[p]) * hidden;
    Vec x(row, row + hidden);
    for (std::size_t l = 0; l < keys.size(); ++l) {
      const std::string at = "layers." + std::to_string(l) + ".";
      const Vec h = normed(x, g, at + "attn_norm.weight");
      Vec q = times(h, g, at + "attn.q.weight"), k = times(h, g, at + "attn.k.weight");
      rotate(q, t, p, g);
      rotate(k, t, p, g);
      keys[l].push_back(k);
      values[l].push_back(times(h, g, at + "attn.v.weight"));
      Vec mix(q.size());
      for (std::size_t head = 0; head < static_cast<std::size_t>(t.heads); ++head) {
        const std::size_t kv = head / static_cast<std::size_t>(t.heads / t.kv_heads) * d;
        Vec e;
        double sum = 0;
        for (std::size_t s = 0; s <= p; ++s) {
          double dot = 0;
          for (std::size_t i = 0; i < d; ++i) dot += q[head * d + i] * keys[l][s][kv + i];
          e.push_back(std::exp(dot / std::sqrt(static_cast<double>(d))));
          sum += e.back();
        }
        for (std::size_t s = 0; s <= p; ++s)
          for (std::size_t i = 0; i < d; ++i) mix[head * d + i] += e[s] / sum * values[l][s][kv + i];
      }
      const Vec o = times(mix, g, at + "attn.o.weight");
      for (std::size_t i = 0; i < hidden; ++i) x[i] += o[i];
      const Vec m = normed(x, g, at + "mlp_norm.weight");
      Vec gate = times(m, g, at + "mlp.gate.weight");
      const Vec up = times(m, g, at + "mlp.up.weight");
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
      const Vec down = times(gate, g, at + "mlp.down.weight");
      for (std::size_t i = 0; i < hidden; ++i) x[i] += down[i];
    }
    logits.push_back(times(normed(x, g, "norm.weight"), g, "head.weight"));
  }
  return logits;
}

// Logits of every position, in steps of `chunk` tokens, all rows selected.
std::vector<float> run(const Graph& g, const std::vector<std::int32_t>& ids, std::int64_t chunk, int threads,
                       bool keep_values = false, std::int32_t slot = 0) {
  auto program = lower(g, {.max_tokens = chunk, .max_selected = chunk, .keep_values = keep_values});
  EXPECT_TRUE(program) << program.error().message;
  auto kv = KvCache::create((*program)->states, slot + 1, static_cast<std::int64_t>(ids.size()), DType::F32);
  EXPECT_TRUE(kv);
  ThreadPool pool(threads);
  auto executor = Executor::create(*program, *kv, pool, Isa::scalar);
  EXPECT_TRUE(executor);
  std::vector<float> logits;
  for (std::size_t at = 0; at < ids.size(); at += static_cast<std::size_t>(chunk)) {
    const std::size_t n = std::min(ids.size() - at, static_cast<std::size_t>(chunk));
    std::vector<std::int32_t> positions, slots(n, slot), selected;
    for (std::size_t i = 0; i < n; ++i) {
      positions.push_back(static_cast<std::int32_t>(at + i));
      selected.push_back(static_cast<std::int32_t>(i));
    }
    const auto part = (*executor)->run({std::span(ids).subspan(at, n), positions, slots, selected});
    logits.insert(logits.end(), part.begin(), part.end());
  }
  return logits;
}

std::vector<std::int32_t> some_ids(std::size_t count, const Tiny& t) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < count; ++i)
    ids.push_back(static_cast<std::int32_t>(i * i * 7 + 3 * i + 1) % static_cast<std::int32_t>(t.vocab));
  return ids;
}

TEST(Decoder, MatchesPlainLoops) {
  const Tiny t;
  const Graph g = testing::tiny_graph(t);
  const auto ids = some_ids(70, t);
  const auto expected = by_hand(g, t, ids);
  const auto found = run(g, ids, 16, 1);
  ASSERT_EQ(found.size(), expected.size() * static_cast<std::size_t>(t.vocab));
  for (std::size_t p = 0; p < expected.size(); ++p)
    for (std::size_t v = 0; v < expected[p].size(); ++v)
      ASSERT_NEAR(found[p * expected[p].size() + v], expected[p][v], 2e-5) << p << " " << v;
}

TEST(Decoder, TheSameForAnyChunkThreadsSlotAndPlan) {
  const Tiny t;
  const Graph g = testing::tiny_graph(t);
  const auto ids = some_ids(70, t);
  const auto expected = run(g, ids, 1, 1);
  for (const std::int64_t chunk : {1, 3, 64, 70})
    for (const int threads : {1, 2, 3, 8}) EXPECT_EQ(run(g, ids, chunk, threads), expected) << chunk << " " << threads;
  EXPECT_EQ(run(g, ids, 16, 2, true), expected) << "every value in memory of its own";
  EXPECT_EQ(run(g, ids, 16, 2, false, 2), expected) << "in another slot";
}

}  // namespace
}  // namespace knapsack
