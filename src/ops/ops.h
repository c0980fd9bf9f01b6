// The op table: what ops exist, their arity, attributes and class. One row of ops.inc each.
// Not for how they are computed: kernels/ref/<text>.cc defines that.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace knapsack {

enum class OpClass : std::uint8_t { matrix, tensor_transform, elementwise, dynamic, sensitive };

enum class Op : std::uint8_t {
#define KNAP_OP(id, text, cls, min_in, max_in, out) id,
#include "ops/ops.inc"
#undef KNAP_OP
};

struct OpInfo {
  Op op;
  std::string_view text;
  OpClass cls;
  int min_inputs;
  int max_inputs;
  int outputs;
};

std::span<const OpInfo> all_ops();
inline const OpInfo& op_info(Op op) { return all_ops()[static_cast<std::size_t>(op)]; }
std::optional<Op> op_from_text(std::string_view text);

enum class Attr : std::uint8_t {
#define KNAP_ATTR(id, kind) id,
#include "ops/attrs.inc"
#undef KNAP_ATTR
};

std::string_view attr_text(Attr attr);
bool attr_is_float(Attr attr);
std::optional<Attr> attr_from_text(std::string_view text);

// A node's attributes, in the order they were set. Reading one that is absent gives the default asked for.
class Attrs {
 public:
  struct Entry {
    Attr key;
    std::int64_t i = 0;
    double f = 0;
    bool operator==(const Entry&) const = default;
  };
  Attrs& set(Attr key, std::int64_t value) { return put({key, value, static_cast<double>(value)}); }
  Attrs& set(Attr key, int value) { return set(key, static_cast<std::int64_t>(value)); }
  Attrs& set(Attr key, double value) {
    const bool fits = value > -0x1p62 && value < 0x1p62;
    return put({key, fits ? static_cast<std::int64_t>(value) : 0, value});
  }
  Attrs& set(Attr key, float value) { return set(key, static_cast<double>(value)); }
  [[nodiscard]] std::int64_t i(Attr key, std::int64_t otherwise = 0) const {
    const Entry* e = find(key);
    return e != nullptr ? e->i : otherwise;
  }
  [[nodiscard]] float f(Attr key, float otherwise = 0) const {
    const Entry* e = find(key);
    return e != nullptr ? static_cast<float>(e->f) : otherwise;
  }
  [[nodiscard]] std::span<const Entry> entries() const { return entries_; }
  bool operator==(const Attrs&) const = default;

 private:
  [[nodiscard]] const Entry* find(Attr key) const {
    for (const Entry& e : entries_)
      if (e.key == key) return &e;
    return nullptr;
  }
  Attrs& put(Entry entry) {
    CHECK(find(entry.key) == nullptr);
    entries_.push_back(entry);
    return *this;
  }
  std::vector<Entry> entries_;
};

}  // namespace knapsack
