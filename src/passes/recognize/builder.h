// The decoder that is being built: nodes of ops.inc on rows of activations, made when a form needs them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "passes/recognize/form.h"
#include "passes/recognize/side.h"

namespace knapsack::recognition {

class Builder {
 public:
  // data: weights that are cut or turned are made; without, they have a shape alone.
  Builder(bool data, Angles& angles) : data_(data), angles_(angles) {}

  Graph& graph() { return graph_; }
  // Name for the nodes that are made from here on: that of the imported graph's.
  void at(std::string name) { name_ = std::move(name); }
  ValueId node(Op op, std::vector<ValueId> inputs, Attrs attrs = {});
  std::vector<ValueId> nodes(Op op, std::vector<ValueId> inputs, Attrs attrs);
  [[nodiscard]] const Node* maker(ValueId id) const;

  // A weight without data.
  static std::shared_ptr<const Weight> shape_alone(std::string name, DType dtype, std::vector<std::int64_t> shape);
  // Constants. turned: `v` [K, N] as [N, K]; vector: F32.
  std::shared_ptr<const Weight> turned(const Value& v);
  // [heads, K, N] as [heads * N, K]; and what is stored as [heads, rows, columns] as [heads * rows, columns].
  std::shared_ptr<const Weight> flat(const Value& v);
  // a [heads * A, K] and b [heads * B, K] as [heads * (A + B), K], of each head a's rows, then b's.
  [[nodiscard]] std::shared_ptr<const Weight> interleaved(const Weight& a, const Weight& b, std::int64_t heads) const;
  static std::shared_ptr<const Weight> below_each_other(const Weight& w);
  Result<std::shared_ptr<const Weight>> vector(const Value& v) const;
  ValueId constant(const std::shared_ptr<const Weight>& weight);

  // The columns of an activation, in this order: itself, or a product by those rows of its weight, or gather_cols.
  ValueId select(ValueId base, const std::vector<std::int32_t>& columns);
  // factor * grid as an activation [T, elements], in the order of the elements: RoPE where they are rotated.
  Result<ValueId> rows(const Grid& grid, double factor);
  // The same with rotated columns told by what rotates them: one part, nothing scaled but by the factor, which it
  // changes.
  Result<Grid> settled(const Grid& grid, double& factor);

  // Stands for the matrices of the experts that a router chose, [top_k * N, K] without data, until a sum of experts is
  // made of all of them. all: [experts, K, N].
  struct StandIn {
    std::shared_ptr<const Value> all;
    Choice choice;
  };
  ValueId stand_in(const std::shared_ptr<const Value>& all, const Choice& choice);
  [[nodiscard]] const StandIn* stand_in(ValueId constant) const;
  [[nodiscard]] const std::map<ValueId, StandIn>& stand_ins() const { return stand_ins_; }

  ValueId linear(ValueId x, const std::shared_ptr<const Weight>& weight);
  // The cache that keeps x [T, columns]; the same for the same x. past: the input it continues; empty: none.
  ValueId cache(ValueId x, const std::string& past);

  struct CacheInfo {
    ValueId write = -1, x = -1;
    std::vector<ValueId> parts{};  // what is written, in the order of columns
    std::string past{};            // the input's name
  };
  [[nodiscard]] const std::vector<CacheInfo>& caches() const { return caches_; }
  [[nodiscard]] std::int64_t columns(ValueId id) const { return graph_.value(id).cols(); }

 private:
  struct Pair;
  ValueId scaled(ValueId x, double factor);
  Result<ValueId> by_heads(const std::vector<Column>& wanted);
  ValueId inv_freq(const std::vector<float>& values);
  Result<ValueId> rotate(ValueId base, std::vector<Pair> pairs, double scale);
  std::string unique();

  Graph graph_;
  bool data_;
  Angles& angles_;
  std::string name_;
  int count_ = 0;
  std::vector<int> maker_;
  std::set<ValueId> read_;
  std::vector<CacheInfo> caches_;
  std::map<const Weight*, ValueId> constants_;
  std::map<const Weight*, std::shared_ptr<const Weight>> turned_;
  std::map<std::pair<ValueId, std::vector<std::int32_t>>, ValueId> selected_;
  std::vector<std::pair<std::vector<float>, ValueId>> tables_;
  std::map<std::string, ValueId> rotated_;  // by what is done
  std::map<ValueId, StandIn> stand_ins_;
};

}  // namespace knapsack::recognition
