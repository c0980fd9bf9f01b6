#include "graph/join_rows.h"

#include <utility>

#include "base/check.h"

namespace knapsack {

std::shared_ptr<const Weight> join_rows(std::string name, std::span<const Weight* const> parts, bool data) {
  auto whole = std::make_shared<Weight>(*parts.front());
  whole->name = std::move(name);
  whole->shape[0] = 0;
  bool adjacent = true;
  const std::byte* end = nullptr;
  for (const Weight* part : parts) {
    CHECK(part->dtype == whole->dtype && part->shape.size() == whole->shape.size() && part->shape.size() <= 2);
    CHECK(part->shape.size() == 1 || part->cols() == whole->shape[1]);
    whole->shape[0] += part->shape[0];
    data = data && part->slabs.size() == 1;
    adjacent = adjacent && data && (end == nullptr || part->slabs[0] == end);
    if (data) end = part->slabs[0] + part->bytes();
    whole->owners.insert(whole->owners.end(), part->owners.begin(), part->owners.end());
  }
  if (!data) whole->slabs.clear();
  if (!data || adjacent) return whole;
  auto bytes = std::make_shared<std::vector<std::byte>>();
  bytes->reserve(static_cast<std::size_t>(whole->bytes()));
  for (const Weight* part : parts) bytes->insert(bytes->end(), part->slabs[0], part->slabs[0] + part->bytes());
  whole->slabs = {bytes->data()};
  whole->owners = {bytes};
  return whole;
}

}  // namespace knapsack
