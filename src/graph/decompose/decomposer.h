// What the decompositions (rules.cc, experts.cc, latent.cc) are written with: nodes are added by operator, and a value
// of the source is had in the form its reader wants: [tokens, columns], [1, tokens, columns], cut into heads, heads
// first. The nodes between the forms are made when they are first needed, where exporters have them, too.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/decompose/decompose.h"
#include "graph/rewrite.h"

namespace knapsack {

class Decomposer {
 public:
  using Numbers = std::vector<std::int64_t>;

  Decomposer(const Graph& source, const DecomposeOptions& options);
  Graph run();

  [[nodiscard]] const Graph& source() const { return source_; }
  [[nodiscard]] std::int64_t tokens() const { return options_.tokens; }
  // Tokens that attention may look at.
  [[nodiscard]] std::int64_t reach() const { return appends() ? options_.tokens + options_.past : options_.ctx; }
  [[nodiscard]] bool appends() const { return options_.kv == KvForm::appended; }
  [[nodiscard]] DType floats() const { return options_.floats; }

  // Nodes are named after the node of the source they come from.
  ValueId add(Op op, std::vector<ValueId> inputs, Attrs attrs = {});
  std::vector<ValueId> add_all(Op op, std::vector<ValueId> inputs, Attrs attrs = {});
  ValueId cast(ValueId value, DType type);  // the value itself where it is of that type
  ValueId reshape(ValueId value, Numbers shape);
  ValueId transpose(ValueId value, Numbers perm);
  ValueId slice(ValueId value, std::int64_t axis, std::int64_t begin, std::int64_t end);
  ValueId concat(std::vector<ValueId> values, std::int64_t axis);
  std::vector<ValueId> split(ValueId value, std::int64_t axis, Numbers sizes);
  ValueId unsqueeze(ValueId value, std::int64_t axis);
  ValueId expand(ValueId value, Numbers shape);
  [[nodiscard]] const std::vector<std::int64_t>& dims(ValueId value) const { return out_.value(value).dims; }
  [[nodiscard]] DType type(ValueId value) const { return out_.value(value).type(); }

  // Constants; the same again is the same value.
  ValueId number(double value, DType type);  // a scalar
  ValueId fill(const std::string& name, Numbers dims, DType type, double value);
  // A weight as the right side of MatMul, [.., columns, rows]; expert >= 0: the one of a stack.
  ValueId matrix(ValueId weight, std::int64_t expert = -1);
  ValueId matrix_rows(const std::string& name, std::span<const ValueId> parts);  // parts one below the other
  ValueId weight(ValueId weight, std::optional<DType> as = std::nullopt);        // as it is stored
  ValueId shifted(ValueId weight, float by);                                     // each element and `by`, in F32
  ValueId index(ValueId weight);                                                 // whole numbers, as I64
  ValueId constant(std::shared_ptr<const Weight> weight, ConstantView view);
  ValueId input(const std::string& name, DType type, Numbers dims);
  ValueId ids();        // of the tokens: appended I64 [1, tokens], indexed I32 [tokens, 1]
  ValueId positions();  // [1, tokens] of integers

  // A value's forms.
  ValueId rows(ValueId value);                        // [tokens, columns]
  ValueId flat(ValueId value);                        // [1, tokens, columns]
  ValueId split(ValueId value, std::int64_t heads);   // [1, tokens, heads, columns of one]
  ValueId headed(ValueId value, std::int64_t heads);  // [1, heads, tokens, columns of one]
  ValueId columns(ValueId value, std::int64_t heads, std::int64_t begin, std::int64_t count);  // of each head, headed
  void set_rows(ValueId value, ValueId made);
  void set_flat(ValueId value, ValueId made);
  void set_split(ValueId value, ValueId made);
  void set_headed(ValueId value, ValueId made);
  // Heads whose columns are made apart: [begin, begin + count) of the value are `part`, the others those of `rest`.
  void set_part(ValueId value, ValueId part, std::int64_t begin, std::int64_t count, ValueId rest);

  // What layers share.
  std::pair<ValueId, ValueId> rope_table(ValueId inv_freq, float scale);  // cos, sin: [1, 1, tokens, columns]
  std::pair<ValueId, ValueId> rope_rows(ValueId cos, ValueId sin);        // the same, of tables
  ValueId mask(std::int64_t window);                                      // [1, 1, tokens, reach]
  // The KV cache after the step's rows: [1, heads, reach, columns of one].
  ValueId cache(ValueId state, std::int64_t heads);
  void write(const Node& node);

  // Attention on a latent, which our graph has in absorbed form, as exporters write it: K and V of all heads are made
  // from the latent, and these are kept. All of [1, heads, tokens or reach, columns of one]. Nothing: it is another
  // attention, or the form that runs, which stays absorbed.
  struct Latent {
    ValueId q, keys, values;
    ValueId out;
  };
  std::optional<Latent> latent(const Node& attention);
  // Whether the node is a part of such an attention, which writes it otherwise.
  [[nodiscard]] bool in_latent(const Node& node) const { return in_latent_.contains(&node); }

  // Nodes whose matrices are parts of one in the checkpoint; empty: it is no such one.
  [[nodiscard]] std::vector<const Node*> siblings(const Node& node) const;

  void purpose(Purpose purpose) { purpose_ = purpose; }

 private:
  struct Forms {
    ValueId rows = -1, flat = -1, split = -1, headed = -1;
    std::map<std::pair<std::int64_t, std::int64_t>, ValueId> columns;  // by begin and count
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
  [[nodiscard]] bool decomposes(const Node& node) const;
  void keep(const Node& node);
  void declare();
  // Without data where a config alone says what there is.
  [[nodiscard]] std::shared_ptr<const Weight> known(std::shared_ptr<const Weight> weight) const;
  void join_parts(ValueId value);
  // What was under that name, and the rows behind it; the rows where nothing was. An output of the graph.
  ValueId append(const std::string& name, ValueId rows);
  void find_latents();
  [[nodiscard]] const Node* maker(ValueId value) const;
  [[nodiscard]] const Node* reader(ValueId value) const;
  [[nodiscard]] std::string unique(std::string name);

  const Graph& source_;
  DecomposeOptions options_;
  Uses uses_;
  Graph out_;
  std::vector<Forms> forms_;
  std::vector<ValueId> states_;  // indexed: by value of the source, its version in the result
  std::map<std::string, ValueId, std::less<>> constants_;
  std::map<std::string, std::int64_t, std::less<>> names_;
  std::map<std::string, std::vector<const Node*>, std::less<>> families_;
  std::map<ValueId, Write> writes_;
  std::map<std::pair<ValueId, std::int64_t>, ValueId> caches_;  // by state and heads
  std::vector<ValueId> kept_;                                   // the caches, in the order of layers
  // By attention; every other node that is written otherwise with it.
  struct Absorbed {
    const Node *into, *concat, *out_of, *latent_write, *rope_write;
  };
  std::map<const Node*, Absorbed> latents_;
  std::set<const Node*> in_latent_;
  std::map<std::pair<ValueId, float>, std::pair<ValueId, ValueId>> ropes_;
  std::map<ValueId, std::pair<ValueId, ValueId>> rope_rows_;
  std::map<std::int64_t, ValueId> masks_;
  ValueId positions_ = -1;
  ValueId ids_ = -1;
  Op from_{};
  std::string from_node_;
  Purpose purpose_ = Purpose::plain;
};

// Attributes, as the operators want them.
Attrs axis(std::int64_t axis);
Attrs axes(std::vector<std::int64_t> axes, bool keep);

// One rule an op: how `node` is written in primitive operators.
#define KNAP_OP(id, text, cls, min_in, max_in, out) void decompose_##id(Decomposer& d, const Node& node);
#include "ops/ops.inc"
#undef KNAP_OP

}  // namespace knapsack
