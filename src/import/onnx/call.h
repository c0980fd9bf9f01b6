// One node while it is translated: its inputs and attributes, checked as they are asked for. The first thing that is
// wrong is kept; later calls then do nothing and give harmless values, which keeps each operator's translation flat.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "import/onnx/importer.h"

namespace knapsack::onnx {

class Call {
 public:
  Call(Importer& importer, const OnnxNode& node, std::vector<Ref> inputs)
      : importer_(importer), node_(node), inputs_(std::move(inputs)) {}

  [[nodiscard]] const OnnxNode& node() const { return node_; }
  [[nodiscard]] std::int64_t opset() const { return importer_.opset(); }
  [[nodiscard]] std::size_t outputs() const { return node_.outputs.size(); }

  // Inputs. `arity` says how many there may be; the others need it to have been called.
  void arity(std::size_t least, std::size_t most);
  [[nodiscard]] std::size_t count() const { return inputs_.size(); }
  [[nodiscard]] bool given(std::size_t i) const { return i < inputs_.size() && inputs_[i] >= 0; }
  Ref in(std::size_t i);
  const Value& value(std::size_t i);
  const Value& value_of(Ref ref);
  const std::vector<std::int64_t>& dims(std::size_t i) { return value(i).dims; }
  std::int64_t rank(std::size_t i = 0) { return std::ssize(value(i).dims); }
  // The bytes of a constant whose type no value has; null: it is none.
  const OnnxTensor* raw(std::size_t i);
  bool constant(std::size_t i) { return value(i).kind == ValueKind::constant; }
  // The numbers of an input that must be constant: `what` names it in messages.
  std::vector<std::int64_t> numbers(std::size_t i, std::string_view what);
  std::int64_t number(std::size_t i, std::string_view what);
  double real(std::size_t i, std::string_view what);
  std::vector<double> reals(std::size_t i, std::string_view what);

  // Attributes. Those never asked for are refused.
  [[nodiscard]] bool has(std::string_view name) const { return node_.attribute(name) != nullptr; }
  std::int64_t i(std::string_view name, std::int64_t otherwise);
  bool flag(std::string_view name, bool otherwise = false) { return i(name, otherwise ? 1 : 0) != 0; }
  double f(std::string_view name, float otherwise);
  std::string s(std::string_view name, std::string_view otherwise);
  std::vector<std::int64_t> ints(std::string_view name);
  const OnnxAttribute* attribute(std::string_view name, OnnxAttributeType type);
  void ignore(std::initializer_list<std::string_view> names);
  // One of the names; its number in the list.
  std::int64_t choice(std::string_view name, std::string_view otherwise, std::initializer_list<std::string_view> known);

  // Counted from the front.
  std::int64_t axis_of(std::int64_t axis, std::int64_t rank);
  std::int64_t axis(std::string_view name, std::int64_t otherwise) { return axis_of(i(name, otherwise), rank()); }
  std::vector<std::int64_t> axes_of(std::vector<std::int64_t> axes, std::int64_t rank);

  [[nodiscard]] bool failed() const { return error_.has_value(); }
  [[nodiscard]] const Error& error() const { return *error_; }
  template <class... A>
  void refuse(fmt::format_string<A...> f, A&&... a) {
    if (!error_) error_ = unsupported(f, std::forward<A>(a)...);
  }
  template <class... A>
  void broken(fmt::format_string<A...> f, A&&... a) {
    if (!error_) error_ = bad_input(f, std::forward<A>(a)...);
  }

  // A value on the way to the result, named after it.
  Ref part(std::string_view suffix, Op op, std::vector<Ref> inputs, Attrs attrs = {});
  // The node's outputs, as many as the op makes; what the node has beyond them is missing.
  void make(Op op, std::vector<Ref> inputs, Attrs attrs = {});
  // The node's output is that value.
  void make(Ref ref);
  // Of a node whose outputs several ops make: whether that one is asked for; the op that makes it, under its name; and
  // at the end the outputs in order, -1: not made.
  [[nodiscard]] bool wanted(std::size_t output) const {
    return output < node_.outputs.size() && !node_.outputs[output].empty();
  }
  Ref output(std::size_t output, Op op, std::vector<Ref> inputs, Attrs attrs = {});
  void make(const std::vector<Ref>& outputs);
  Ref constant(DType dtype, std::vector<std::int64_t> dims, std::vector<std::byte> bytes);
  Ref constant(const OnnxTensor& tensor);
  Ref scalar(DType dtype, double number);  // of the type
  Ref turned(std::shared_ptr<const Weight> weight) { return importer_.turned(std::move(weight)); }
  void note(std::string text) { importer_.note(std::move(text)); }
  // What nodes like this one have in common is made once: by the first that asks for it under this key.
  Ref once(const std::string& key, const std::function<Ref()>& make);
  // To that type, where it is another.
  Ref cast(std::string_view suffix, Ref ref, DType to);

 private:
  [[nodiscard]] std::string base_name() const;
  Ref emitted(const std::string& name, Op op, const std::vector<Ref>& inputs, Attrs attrs);
  bool all_known();
  void bind(const std::vector<Ref>& made);

  Importer& importer_;
  const OnnxNode& node_;
  std::vector<Ref> inputs_;
  std::set<std::string, std::less<>> asked_;
  std::optional<Error> error_;
};

// Bytes of numbers of a plain type, integers or floats.
std::vector<std::byte> bytes_of(DType dtype, const std::vector<double>& numbers);
std::vector<std::byte> bytes_of(const std::vector<std::int64_t>& numbers);  // I64

using Translation = void (*)(Call&);

// How the operator is translated; null: this version does not have it.
Translation translation_of(std::string_view domain, std::string_view op);
// Whether it reads constants of types that no value has (unsigned bytes), as codes.
bool takes_codes(std::string_view domain, std::string_view op);
// What to use in an operator's place.
std::string nearest_form(std::string_view domain, std::string_view op);

// Operators of ai.onnx: shape arithmetic and constants (shapes.cc), element by element (elementwise.cc), along axes
// (axes.cc), windows (windows.cc), moving data (moving.cc), by indices (indices.cc).
#define KNAP_ONNX(name, function) void function(Call& call);
#include "import/onnx/operators.inc"
#undef KNAP_ONNX
// Of com.microsoft: attention, fused_norms, fused_products, rotary.
#define KNAP_ONNX(name, function) void function(Call& call);
#include "import/onnx/microsoft.inc"
#undef KNAP_ONNX

}  // namespace knapsack::onnx
