// The AVX-512-VNNI pieces of packed.h: vpdpbusd, two panels at once.
#include "kernels/x86/two_panels.h"
#include "kernels/x86/x86.h"

namespace knapsack {
namespace {

struct Two : TwoPanels {
  static constexpr int tokens = 8;
  static constexpr int vectors = 1;
  static constexpr bool opens = false;
  static constexpr bool dots = true;
  static KNAP_INLINE Ints dot(Ints sum, Ints codes, Ints q) { return _mm512_dpbusd_epi32(sum, codes, q); }
};
struct One : OnePanel {
  static constexpr int tokens = 2;
  static constexpr int vectors = 1;
  static constexpr bool opens = false;
  static constexpr bool dots = true;
  static KNAP_INLINE Ints dot(Ints sum, Ints codes, Ints q) { return _mm256_dpbusd_epi32(sum, codes, q); }
};

}  // namespace

const PackedTable& avx512vnni_packed() {
  static constexpr PackedTable table{
      .store = avx2_store_panel, .round = round<true>, .panels = panels<Two, One>, .fetches = true};
  return table;
}

}  // namespace knapsack
