// One op's inputs and attributes under inspection: what the shape rules (shape.cc, shape_primitive.cc) are written
// with. Not for anyone else.
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "graph/shape.h"

namespace knapsack {

// Columns and attributes stay below this, so that products of a few of them cannot wrap.
inline constexpr std::int64_t max_extent = std::int64_t{1} << 31;

// One op's inputs and attributes under inspection. The first broken rule is kept; later calls then do nothing useful
// but stay harmless, which keeps each op's rule a flat list.
class Inspector {
 public:
  Inspector(Op op, const Attrs& attrs, std::span<const Value* const> inputs)
      : info_(op_info(op)), attrs_(attrs), inputs_(inputs) {
    const auto n = static_cast<int>(inputs.size());
    if (n < info_.min_inputs || n > info_.max_inputs)
      fail("takes {} to {} inputs, found {}", info_.min_inputs, info_.max_inputs, n);
  }

  [[nodiscard]] bool failed() const { return error_.has_value(); }
  [[nodiscard]] Error error() const { return *error_; }

  template <class... A>
  void fail(fmt::format_string<A...> f, A&&... a) {
    if (!error_) error_ = Error{Code::bad_input, std::string(info_.text) + " " + fmt::format(f, std::forward<A>(a)...)};
  }
  void require(bool condition, std::string_view rule) {
    if (!condition) fail("{}", rule);
  }

  // Attributes the op knows. Those in `needed` must be there; anything else is an error.
  void attributes(std::initializer_list<Attr> needed, std::initializer_list<Attr> optional) {
    for (const Attr key : needed)
      if (!has(key)) fail("needs the attribute {}", attr_text(key));
    for (const Attrs::Entry& e : attrs_.entries()) {
      bool known = false;
      for (const Attr key : needed) known |= key == e.key;
      for (const Attr key : optional) known |= key == e.key;
      if (!known) fail("has no attribute {}", attr_text(e.key));
      if (!std::isfinite(e.f)) fail("attribute {} is not finite", attr_text(e.key));
      if (attr_kind(e.key) == AttrKind::integer && (e.i < 0 || e.i >= max_extent || static_cast<double>(e.i) != e.f))
        fail("attribute {} must be a whole number in [0, {}), found {}", attr_text(e.key), max_extent, e.f);
    }
  }
  [[nodiscard]] std::int64_t i(Attr key, std::int64_t otherwise = 0) const { return attrs_.i(key, otherwise); }
  // An integer attribute that counts something and so is at least 1.
  std::int64_t count(Attr key, std::int64_t otherwise = 0) {
    const std::int64_t n = attrs_.i(key, otherwise);
    if (n < 1) fail("attribute {} must be at least 1, found {}", attr_text(key), n);
    return std::max<std::int64_t>(n, 1);
  }
  void at_most(Attr key, std::int64_t limit) {
    if (attrs_.i(key) > limit) fail("attribute {} must be at most {}, found {}", attr_text(key), limit, attrs_.i(key));
  }
  void positive(Attr key) {
    if (!(attrs_.f(key) > 0)) fail("attribute {} must be above 0, found {}", attr_text(key), attrs_.f(key));
  }

  [[nodiscard]] bool given(std::size_t index) const { return index < inputs_.size(); }
  // An activation [rows, cols]. Returns a stand-in after a failure.
  const Value& activation(std::size_t index, DType dtype = DType::F32) {
    const Value& v = at(index);
    const bool computed = v.kind == ValueKind::input || (v.kind == ValueKind::computed && v.state < 0);
    if (!computed) fail("input {} must be an activation, found {}", index, v.name);
    if (v.dims.size() != 2) fail("input {} must have rows and columns, found {}", index, v.name);
    if (v.dtype != dtype) fail("input {} must be {}, found {}", index, name(dtype), name(v.dtype));
    return v;
  }
  const Value& state(std::size_t index) {
    const Value& v = at(index);
    if (v.state < 0) fail("input {} must be a state, found {}", index, v.name);
    return v;
  }
  const Weight& matrix(std::size_t index, std::size_t dims = 2) {
    const Weight& w = constant(index);
    if (w.shape.size() != dims)
      fail("input {} ({}) must have {} dimensions, found {}", index, w.name, dims, w.shape.size());
    return w.shape.size() == dims ? w : (dims == 2 ? any_matrix() : any_experts());
  }
  void vector(std::size_t index, std::int64_t length, DType dtype = DType::F32) {
    const Weight& w = constant(index);
    if (w.dtype != dtype)
      fail("input {} ({}) must be stored as {}, found {}", index, w.name, name(dtype), name(w.dtype));
    if (w.shape.size() != 1 || w.shape[0] != length)
      fail("input {} ({}) must be a vector of {}, found {}", index, w.name, length, dims_text(w.shape));
  }
  // Numbers of columns: how many.
  std::int64_t indices(std::size_t index) {
    const Weight& w = constant(index);
    require(w.shape.size() == 1, "columns are chosen by a vector");
    vector(index, w.cols(), DType::I32);
    return w.cols();
  }
  void equal(std::string_view what, std::int64_t found, std::int64_t expected) {
    if (found != expected) fail("{} must be {}, found {}", what, expected, found);
  }
  void same_rows(const Value& a, const Value& b) {
    require(a.rows() == b.rows(), "mixes rows of all tokens with selected rows");
  }
  void all_tokens(const Value& v) { require(v.rows() != selected_dim, "works on all tokens, not on selected rows"); }

 private:
  [[nodiscard]] bool has(Attr key) const {
    for (const Attrs::Entry& e : attrs_.entries())
      if (e.key == key) return true;
    return false;
  }
  const Value& at(std::size_t index) {
    static const Value none{.name = "nothing", .dims = {1, 1}};
    if (index < inputs_.size()) return *inputs_[index];
    fail("input {} is absent", index);
    return none;
  }
  const Weight& constant(std::size_t index) {
    const Value& v = at(index);
    if (v.kind == ValueKind::constant && v.weight != nullptr && !v.transposed) return *v.weight;
    fail("input {} must be a constant, as it is stored, found {}", index, v.name);
    return any_matrix();
  }
  static const Weight& any_matrix() {
    static const Weight w{.name = "nothing", .shape = {1, 1}};
    return w;
  }
  static const Weight& any_experts() {
    static const Weight w{.name = "nothing", .shape = {1, 1, 1}};
    return w;
  }
  const OpInfo& info_;
  const Attrs& attrs_;
  std::span<const Value* const> inputs_;
  std::optional<Error> error_;
};

// The outputs of a row of primitives.inc, without names.
Result<std::vector<Value>> infer_primitive(Op op, const Attrs& attrs, std::span<const Value* const> inputs);

}  // namespace knapsack
