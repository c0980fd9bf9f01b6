#include "cli/cli.h"

#include <cstdio>

namespace knapsack {

int cli_main(int, char** argv) {
  std::fprintf(stderr, "%s: no commands yet\n", argv[0]);
  return 2;
}

}  // namespace knapsack
