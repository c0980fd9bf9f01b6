// The op tables: what ops exist, their arity, attributes and class. A row of ops.inc is an op of a decoder, on rows of
// activations; a row of primitives.inc is an operator of ONNX, on tensors of any rank.
// Not for how they are computed: kernels/ref/ defines that.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"

namespace knapsack {

enum class OpClass : std::uint8_t { matrix, tensor_transform, elementwise, dynamic, sensitive };

enum class Op : std::uint8_t {
#define KNAP_OP(id, text, cls, min_in, max_in, out) id,
#define KNAP_PRIMITIVE(id, cls, min_in, max_in, kernel) id,
#include "ops/ops.inc"
#include "ops/primitives.inc"
#undef KNAP_OP
#undef KNAP_PRIMITIVE
};

struct OpInfo {
  Op op;
  std::string_view text;
  OpClass cls;
  int min_inputs;
  int max_inputs;
  int outputs;     // 0: its attributes say how many
  bool primitive;  // a row of primitives.inc
};

std::span<const OpInfo> all_ops();
inline const OpInfo& op_info(Op op) { return all_ops()[static_cast<std::size_t>(op)]; }
std::optional<Op> op_from_text(std::string_view text);
std::string_view op_class_name(OpClass cls);

enum class Attr : std::uint8_t {
#define KNAP_ATTR(id, kind) id,
#include "ops/attrs.inc"
#undef KNAP_ATTR
};

enum class AttrKind : std::uint8_t { integer, number, list };
std::string_view attr_text(Attr attr);
AttrKind attr_kind(Attr attr);
std::optional<Attr> attr_from_text(std::string_view text);

// A node's attributes, in the order they were set. Reading one that is absent gives the default asked for.
class Attrs {
 public:
  struct Entry {
    Attr key;
    std::int64_t i = 0;
    double f = 0;
    std::vector<std::int64_t> list{};
    bool operator==(const Entry&) const = default;
  };
  Attrs& set(Attr key, std::int64_t value) { return put({key, value, static_cast<double>(value), {}}); }
  Attrs& set(Attr key, int value) { return set(key, static_cast<std::int64_t>(value)); }
  Attrs& set(Attr key, double value) {
    const bool fits = value > -0x1p62 && value < 0x1p62;
    return put({key, fits ? static_cast<std::int64_t>(value) : 0, value, {}});
  }
  Attrs& set(Attr key, float value) { return set(key, static_cast<double>(value)); }
  Attrs& set(Attr key, std::vector<std::int64_t> list) { return put({key, 0, 0, std::move(list)}); }
  [[nodiscard]] std::int64_t i(Attr key, std::int64_t otherwise = 0) const {
    const Entry* e = find(key);
    return e != nullptr ? e->i : otherwise;
  }
  [[nodiscard]] float f(Attr key, float otherwise = 0) const {
    const Entry* e = find(key);
    return e != nullptr ? static_cast<float>(e->f) : otherwise;
  }
  // Absent: empty.
  [[nodiscard]] std::span<const std::int64_t> list(Attr key) const {
    const Entry* e = find(key);
    return e != nullptr ? std::span<const std::int64_t>(e->list) : std::span<const std::int64_t>{};
  }
  [[nodiscard]] bool has(Attr key) const { return find(key) != nullptr; }
  [[nodiscard]] std::span<const Entry> entries() const { return entries_; }
  bool operator==(const Attrs&) const = default;

 private:
  [[nodiscard]] const Entry* find(Attr key) const {
    for (const Entry& e : entries_)
      if (e.key == key) return &e;
    return nullptr;
  }
  Attrs& put(Entry&& entry) {
    CHECK(find(entry.key) == nullptr);
    entries_.push_back(std::move(entry));
    return *this;
  }
  std::vector<Entry> entries_;
};

}  // namespace knapsack
