// The AVX-VNNI pieces of packed.h: AVX2 with vpdpbusd in its VEX form.
#include "kernels/x86/packed_dot.h"
#include "kernels/x86/x86.h"

namespace knapsack {
namespace {

struct Vector : OnePanel {
  static constexpr int tokens = 4;
  static constexpr int vectors = 2;
  static constexpr bool opens = false;
  static constexpr bool dots = true;
  static KNAP_INLINE Ints dot(Ints sum, Ints codes, Ints q) { return _mm256_dpbusd_avx_epi32(sum, codes, q); }
};

}  // namespace

const PackedTable& avxvnni_packed() {
  static constexpr PackedTable table{.store = avx2_store_panel,
                                     .round = round<true>,
                                     .panels = panels<Vector, Vector>,
                                     .fetches = true,
                                     .two_vectors = true};
  return table;
}

}  // namespace knapsack
