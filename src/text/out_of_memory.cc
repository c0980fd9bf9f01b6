#include "text/out_of_memory.h"

#include "text/bridge/bridge.h"

namespace knapsack {

void when_out_of_memory(void (*end)()) { knap_when_out_of_memory(end); }

}  // namespace knapsack
