// Opens a file that is no model through the installed library, and expects to be refused.
#include <cstdio>

#include "pipeline/pipeline.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto bundle = knapsack::open_bundle(argv[1], {});
  if (bundle.has_value()) return 1;
  std::printf("refused with exit code %d\n", static_cast<int>(bundle.error().code));
  return 0;
}
