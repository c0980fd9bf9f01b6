// The AVX-512 pieces of packed.h for CPUs without VNNI: maddubs, two panels at once.
#include "kernels/x86/two_panels.h"
#include "kernels/x86/x86.h"

namespace knapsack {
namespace {

struct Two : TwoPanels {
  static constexpr int tokens = 8;
  static constexpr int vectors = 1;
  static constexpr bool opens = false;
  static constexpr bool dots = false;
};
struct One : OnePanel {
  static constexpr int tokens = 2;
  static constexpr int vectors = 1;
  static constexpr bool opens = false;
  static constexpr bool dots = false;
};

}  // namespace

const PackedTable& avx512_packed() {
  static constexpr PackedTable table{
      .store = avx2_store_panel, .round = round<false>, .panels = panels<Two, One>, .fetches = true};
  return table;
}

}  // namespace knapsack
