#include "base/version.h"

#include "base/version_gen.h"

namespace knapsack {

const char* version() { return KNAP_VERSION; }
const char* git_commit() { return KNAP_COMMIT; }

#if defined(__clang__)
const char* compiler() { return "clang++ " __clang_version__; }
#else
const char* compiler() { return "g++ " __VERSION__; }
#endif

}  // namespace knapsack
