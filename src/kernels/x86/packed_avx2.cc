// The AVX2 pieces of packed.h.
#include "kernels/x86/packed_dot.h"
#include "kernels/x86/x86.h"

namespace knapsack {
namespace {

struct Vector : OnePanel {
  static constexpr int tokens = 4;
  static constexpr int vectors = 2;
  static constexpr bool opens = true;
  static constexpr bool dots = false;
};

}  // namespace

const PackedTable& avx2_packed() {
  static constexpr PackedTable table{.store = avx2_store_panel,
                                     .round = round<false>,
                                     .panels = panels<Vector, Vector>,
                                     .fetches = true,
                                     .two_vectors = true};
  return table;
}

}  // namespace knapsack
