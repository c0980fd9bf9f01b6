// Integer products by sdot (Armv8.2's dotprod, in most cores since 2018).
#include "kernels/arm/arm.h"
#include "kernels/arm/dot_products.h"

namespace knapsack {

const PackedTable& dotprod_packed() { return packed_table_of<DotProducts, 4>(); }

}  // namespace knapsack
