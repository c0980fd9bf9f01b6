// The counting allocator: replaces the C library's entry points of this program.
#include "program/counting.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::size_t> count{0};
void counted() { count.fetch_add(1, std::memory_order_relaxed); }
}  // namespace

std::size_t knapsack::testing::allocations() { return count.load(); }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

void* operator new(std::size_t bytes) {
  counted();
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  counted();
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

#else

// glibc's own names of the functions replaced here.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  counted();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t n, std::size_t bytes) {
  counted();
  return __libc_calloc(n, bytes);
}
void* realloc(void* p, std::size_t bytes) {
  counted();
  return __libc_realloc(p, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  counted();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  counted();
  *out = __libc_memalign(alignment, bytes);
  return *out != nullptr ? 0 : ENOMEM;
}
}

#endif
