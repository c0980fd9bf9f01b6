#include "align/dump_source.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace knapsack {
namespace {

struct Rows2d {
  std::int64_t rows = 1, cols = 1;
};

// [1, T, a, b] and [T, a, b] are T rows.
Rows2d rows_of(const NpyArray& array) {
  std::span<const std::int64_t> shape = array.shape;
  if (shape.size() > 2 && shape[0] == 1) shape = shape.subspan(1);
  Rows2d out;
  if (shape.empty()) return out;
  out.rows = shape[0];
  for (const std::int64_t dimension : shape.subspan(1)) out.cols *= dimension;
  return out;
}

class DumpSource final : public Source {
 public:
  DumpSource(NpzFile file, std::string label, std::int64_t rows)
      : file_(std::move(file)), label_(std::move(label)), rows_(rows) {
    for (const NpyArray& array : file_.arrays) {
      if (!array.floats()) continue;
      nodes_.push_back({.name = array.name, .cols = rows_of(array).cols});
      arrays_.push_back(&array);
    }
  }
  [[nodiscard]] const std::string& label() const override { return label_; }
  [[nodiscard]] std::span<const SourceNode> nodes() const override { return nodes_; }
  [[nodiscard]] std::int64_t vocab() const override { return 0; }
  [[nodiscard]] std::int64_t longest() const override { return rows_; }
  [[nodiscard]] std::int64_t rows() const override { return rows_; }
  [[nodiscard]] bool replays() const override { return false; }

  Result<void> run(std::span<const std::int32_t> ids, std::int64_t first, Lane, const Visit& visit) override {
    const auto rows = static_cast<std::int64_t>(ids.size());
    CHECK(first >= 0 && first + rows <= rows_);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      row_.resize(static_cast<std::size_t>(rows * nodes_[i].cols));
      arrays_[i]->floats_at(first * nodes_[i].cols, row_);
      visit.values(nodes_[i].name, rows, nodes_[i].cols, row_.data());
    }
    return {};
  }

 private:
  NpzFile file_;
  std::string label_;
  std::int64_t rows_;
  std::vector<SourceNode> nodes_;
  std::vector<const NpyArray*> arrays_;
  std::vector<float> row_;
};

}  // namespace

Result<Dump> dump_source(NpzFile file, const std::string& label) {
  Dump dump;
  std::int64_t rows = -1;
  std::string from;
  for (const NpyArray& array : file.arrays) {
    if (array.name == "ids") {
      if (array.floats()) return bad_input("{}: array 'ids': expected whole numbers, found floats", label);
      const std::int64_t count = array.elements();
      dump.ids.reserve(static_cast<std::size_t>(count));
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t id = array.integer_at(i);
        if (id < 0 || id > std::numeric_limits<std::int32_t>::max())
          return bad_input("{}: array 'ids': {} at {} is no token id", label, id, i);
        dump.ids.push_back(static_cast<std::int32_t>(id));
      }
    }
    if (array.name != "ids" && !array.floats()) continue;
    const std::int64_t found = array.name == "ids" ? array.elements() : rows_of(array).rows;
    if (rows >= 0 && found != rows)
      return bad_input("{}: array '{}' has {} rows, '{}' has {}; expected one for each token in both", label,
                       array.name, found, from, rows);
    rows = found;
    from = array.name;
  }
  if (rows <= 0 || std::none_of(file.arrays.begin(), file.arrays.end(), [](const auto& a) { return a.floats(); }))
    return bad_input("{}: expected arrays of floats, a row for each token, found none", label);
  dump.source = std::make_unique<DumpSource>(std::move(file), label, rows);
  return dump;
}

}  // namespace knapsack
