// Any bytes as a NumPy archive.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "files/npz.h"

namespace knapsack {
namespace {

void check(const std::uint8_t* data, std::size_t size) {
  const auto arrays = parse_npz(std::as_bytes(std::span(data, size)), "fuzz.npz");
  if (!arrays) {
    CHECK(!arrays.error().message.empty());
    return;
  }
  for (const NpyArray& array : *arrays) {
    if (array.elements() == 0) continue;
    float last = 0;
    if (array.floats()) {
      array.floats_at(array.elements() - 1, {&last, 1});
    } else {
      (void)array.integer_at(array.elements() - 1);
    }
  }
}

}  // namespace
}  // namespace knapsack

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  knapsack::check(data, size);
  return 0;
}
