// What the decompositions (rules.cc, experts.cc) are written with: nodes are added by operator, and a value of our
// graph is had in the form its reader wants: [1, tokens, columns], cut into heads, heads first. The nodes between the
// forms are made when they are first needed, where exporters have them, too.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/decompose/primitive.h"

namespace knapsack {

class Decomposer {
 public:
  using Numbers = std::vector<std::int64_t>;

  Decomposer(const Graph& source, const DecomposeOptions& options);
  PrimitiveGraph run();

  [[nodiscard]] const Graph& source() const { return source_; }
  [[nodiscard]] std::int64_t tokens() const { return out_.tokens; }
  [[nodiscard]] std::int64_t reach() const { return out_.tokens + out_.past; }  // tokens that attention may look at

  // Nodes are named after the node of ours they come from.
  int add(OnnxOp op, std::vector<int> inputs, const Numbers& numbers = {});
  std::vector<int> add_all(OnnxOp op, std::vector<int> inputs, const Numbers& numbers = {});
  int cast(int tensor, OnnxType type);  // the tensor itself where it is of that type
  [[nodiscard]] const OnnxShape& shape(int tensor) const { return out_.tensor(tensor).shape; }

  // Constants; the same again is the same tensor.
  int number(double value, OnnxType type);  // a scalar
  // A weight as [columns, rows], the right side of MatMul; expert >= 0: of a stack.
  int matrix(ValueId weight, std::int64_t expert = -1);
  int matrix_rows(const std::string& name, std::span<const ValueId> parts);  // parts one below the other
  int weight(ValueId weight, OnnxType type = OnnxType::float16);             // as it is stored
  int constant(std::string name, OnnxShape shape, std::int64_t bytes, std::string stored);
  int input(const std::string& name, OnnxShape shape);

  // A value's forms.
  int flat(ValueId value);                        // [1, tokens, columns]
  int split(ValueId value, std::int64_t heads);   // [1, tokens, heads, columns of one]
  int headed(ValueId value, std::int64_t heads);  // [1, heads, tokens, columns of one]
  int columns(ValueId value, std::int64_t heads, std::int64_t begin, std::int64_t count);  // of each head, heads first
  void set_flat(ValueId value, int tensor);
  void set_split(ValueId value, int tensor);
  void set_headed(ValueId value, int tensor);
  // Heads whose columns are made apart: [begin, begin + count) of the value are `part`, the others those of `rest`.
  void set_part(ValueId value, int part, std::int64_t begin, std::int64_t count, ValueId rest);

  // What layers share.
  std::pair<int, int> rope_table(ValueId inv_freq, float scale);  // cos, sin: [1, 1, tokens, columns]
  int mask(std::int64_t window);                                  // [1, 1, tokens, reach]
  // The KV cache after the step's rows: [1, heads, reach, columns of one].
  int cache(ValueId state, std::int64_t heads);
  void write(ValueId after, ValueId before, ValueId rows, std::int64_t column);

  // Attention on a latent, which our graph has in absorbed form, as exporters write it: K and V of all heads are made
  // from the latent, and these are kept. All of [1, heads, tokens or reach, columns of one]. Nothing: it is another
  // attention.
  struct Latent {
    int q, keys, values;
    ValueId out;
  };
  std::optional<Latent> latent(const Node& attention);
  // Whether the node is a part of such an attention, which writes it otherwise.
  [[nodiscard]] bool in_latent(const Node& node) const { return in_latent_.contains(&node); }

  // Values whose matrices are parts of one in the checkpoint; empty: `value` is no such one.
  [[nodiscard]] std::vector<const Node*> siblings(const Node& node) const;

  void purpose(Purpose purpose) { purpose_ = purpose; }

 private:
  struct Forms {
    int flat = -1, split = -1, headed = -1;
    std::map<std::pair<std::int64_t, std::int64_t>, int> columns;  // by begin and count
    std::int64_t part_begin = 0, part_count = 0;
    ValueId rest = -1;
  };
  struct Write {
    ValueId before, rows;
    std::int64_t column;
    const Node* node;
  };
  // What nodes are of, for as long as it lives.
  class Scope {
   public:
    Scope(Decomposer& decomposer, Op from, std::string name, Purpose purpose);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Decomposer& decomposer_;
    Op from_;
    std::string name_;
    Purpose purpose_;
  };

  Forms& forms(ValueId value) { return forms_[static_cast<std::size_t>(value)]; }
  // As the checkpoint has it; 0 and empty: without data.
  [[nodiscard]] std::int64_t stored_bytes(const Weight& weight) const;
  [[nodiscard]] std::string stored_name(const Weight& weight) const;
  int positions();
  void join_parts(ValueId value);
  // What was under that name, and the rows behind it; the rows where nothing was. An output of the graph.
  int append(const std::string& name, int rows);
  void find_latents();
  [[nodiscard]] const Node* maker(ValueId value) const;
  [[nodiscard]] const Node* reader(ValueId value) const;
  [[nodiscard]] std::string unique(std::string name);

  const Graph& source_;
  bool stored_;
  PrimitiveGraph out_;
  std::vector<Forms> forms_;
  std::map<std::string, int, std::less<>> constants_;
  std::map<std::string, std::int64_t, std::less<>> names_;
  std::map<std::string, std::vector<const Node*>, std::less<>> families_;
  std::map<ValueId, Write> writes_;
  std::map<ValueId, int> caches_;
  std::vector<int> kept_;  // the caches, in the order of layers
  // By attention; every other node that is written otherwise with it.
  struct Absorbed {
    const Node *into, *concat, *out_of, *latent_write, *rope_write;
  };
  std::map<const Node*, Absorbed> latents_;
  std::set<const Node*> in_latent_;
  std::map<std::pair<ValueId, float>, std::pair<int, int>> ropes_;
  std::map<std::int64_t, int> masks_;
  int positions_ = -1;
  Op from_{};
  std::string from_node_;
  Purpose purpose_ = Purpose::plain;
};

// One rule an op: how `node` is written in primitive operators.
#define KNAP_OP(id, text, cls, min_in, max_in, out) void decompose_##id(Decomposer& d, const Node& node);
#include "ops/ops.inc"
#undef KNAP_OP

}  // namespace knapsack
