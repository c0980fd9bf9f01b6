#include "base/huge_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>

namespace knapsack {

std::shared_ptr<std::byte[]> huge_memory(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));  // 16 or 64 KiB on some of ARM's systems
  constexpr std::size_t huge = std::size_t{2} << 20;
  // A mapping begins at any small page: more is asked for, and what lies before the first huge page's border and after
  // the end is given back. The end stays where it is, so that no huge page holds more than was asked for.
  const std::size_t size = (bytes + page - 1) / page * page;
  const std::size_t asked = size + (size >= huge ? huge - page : 0);
  if (bytes == 0 || asked < bytes) throw std::bad_alloc();
  void* memory = mmap(nullptr, asked, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<std::byte*>(memory);
  if (size >= huge) {
    const std::size_t before = (huge - reinterpret_cast<std::uintptr_t>(begin) % huge) % huge;
    if (before > 0) munmap(begin, before);
    begin += before;
    if (asked - before > size) munmap(begin + size, asked - before - size);
    madvise(begin, size, MADV_HUGEPAGE);  // a wish: without huge pages small ones do
  }
  return {begin, [size](std::byte* p) { munmap(p, size); }};
}

}  // namespace knapsack
