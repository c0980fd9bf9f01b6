// What is known while a model is imported: its values by name, the graph that grows, what cannot be had.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "import/onnx.h"

namespace knapsack::onnx {

using Ref = int;  // of a value; -1: an optional one that is not given

struct Entry {
  Value value{};         // a constant with its weight, which may have no elements here
  ValueId id = -1;       // in the graph; -1: a constant that no node uses yet
  bool missing = false;  // it could not be made
  std::string blame{};   // of what is missing and not reported yet: what is to be said once it is used
  std::string op{}, node{};
  const OnnxTensor* raw = nullptr;  // of a constant whose type no value here has: bytes, for who knows what they are
};

// One operator or form that this version has not.
struct Problem {
  std::string op, what, node;
};

class Importer {
 public:
  explicit Importer(const OnnxModel& model) : model_(model) {}

  Result<ImportedOnnx> run(const OnnxPins& pins);

  [[nodiscard]] std::int64_t opset() const { return opset_; }
  [[nodiscard]] const Entry& entry(Ref ref) const { return entries_[static_cast<std::size_t>(ref)]; }
  [[nodiscard]] const Value& value(Ref ref) const { return entry(ref).value; }

  // The op on these values: computed where all are constants, else a node. Infer's errors.
  Result<std::vector<Ref>> emit(Op op, const std::vector<Ref>& inputs, Attrs attrs, const std::string& name,
                                bool as_node = false);
  // A constant; `bytes` are those of dims.
  Result<Ref> constant(std::string name, DType dtype, std::vector<std::int64_t> dims, std::vector<std::byte> bytes);
  Result<Ref> constant(const OnnxTensor& tensor, const std::string& name);
  // A matrix seen with its two dimensions exchanged, [K, N] of what is stored as [N, K].
  Ref turned(std::shared_ptr<const Weight> weight);
  void note(std::string text) { ++notes_[std::move(text)]; }
  // What several nodes have in common (a mask), by a name for how it is made; -1: not made yet.
  Ref& common(const std::string& key) { return common_.try_emplace(key, -1).first->second; }
  // From here on the file's value of that name is this one.
  Result<void> define(const std::string& name, Ref ref);
  // The node's output `index`, which is not made: an error where something takes it.
  Result<void> define_missing(const OnnxNode& node, std::size_t index);

 private:
  Ref add(Entry entry);
  Result<void> check_model();
  Result<void> initializers();
  Result<void> translate(const OnnxNode& node);
  Result<void> outputs(ImportedOnnx& made);
  Result<std::vector<Ref>> emit_empty(Op op, const std::vector<Ref>& inputs, const Attrs& attrs,
                                      const std::string& name);
  // The graph's number of a value; a constant is declared when it is first asked for.
  ValueId id_of(Ref ref);
  // A name that `count` outputs can have in the graph.
  std::string fresh(const std::string& name, std::size_t count);
  Result<void> spend(std::int64_t bytes);
  void blame(Entry& entry);
  [[nodiscard]] Error problems() const;

  const OnnxModel& model_;
  std::int64_t opset_ = 0;
  Graph graph_;
  std::deque<Entry> entries_;
  std::map<std::string, Ref, std::less<>> named_;
  std::map<std::string, int, std::less<>> suffixes_;
  std::set<std::pair<std::string_view, std::string_view>> functions_;  // of the file's own: domain and name
  std::vector<Problem> problems_;
  std::map<std::string, Ref> common_;
  std::map<std::string, int> notes_;  // what is to be said, and how often
  std::int64_t computed_bytes_ = 0;
};

}  // namespace knapsack::onnx
