// CHECK: our own mistakes, in all builds. No input may reach one.
#pragma once

namespace knapsack {
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
}

#define CHECK(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::knapsack::check_failed(#condition, __FILE__, __LINE__))
#ifdef NDEBUG
#define DCHECK(condition) static_cast<void>(0)
#else
#define DCHECK(condition) CHECK(condition)
#endif
