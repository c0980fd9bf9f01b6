#include "base/mmap.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "base/lost_page.h"
#include "base/read_file.h"

namespace knapsack {
namespace {

// The mappings that exist now, by their end.
struct Mapping {
  std::string path;
  std::size_t size = 0;
};
struct Mappings {
  std::mutex mutex;
  std::map<const std::byte*, Mapping> by_end;
};
Mappings& mappings() {
  static Mappings* const made = new Mappings;  // never destroyed: a page may be lost while main returns
  return *made;
}

// The mapping that holds `at`, by its end; end() where none does. The mutex is held.
auto mapping_at(const std::byte* at) {
  auto& by_end = mappings().by_end;
  const auto entry = by_end.upper_bound(at);
  return entry == by_end.end() || at < entry->first - entry->second.size ? by_end.end() : entry;
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  TRY(const RegularFile file, open_regular(path));
  void* data = nullptr;
  if (file.size > 0) {
    data = ::mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, file.descriptor.get(), 0);
    if (data == MAP_FAILED)
      return out_of_resource("{}: cannot map {} bytes: {}", path, file.size, std::strerror(errno));
    const std::lock_guard lock(mappings().mutex);
    mappings().by_end[static_cast<const std::byte*>(data) + file.size] = {path, file.size};
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(path, static_cast<const std::byte*>(data), file.size));
}

MappedFile::~MappedFile() {
  if (size_ == 0) return;
  {
    const std::lock_guard lock(mappings().mutex);
    mappings().by_end.erase(data_ + size_);
  }
  ::munmap(const_cast<std::byte*>(data_), size_);
}

std::optional<Error> lost_page(const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  const std::lock_guard lock(mappings().mutex);
  const auto entry = mapping_at(at);
  if (entry == mappings().by_end.end()) return std::nullopt;
  const auto& [path, size] = entry->second;
  const std::byte* begin = entry->first - size;
  struct stat now {};
  if (::stat(path.c_str(), &now) == 0 && static_cast<std::size_t>(now.st_size) < size)
    return bad_input(
        "{}: byte {} is gone: the file had {} bytes when it was opened and has {} now; leave it as it is while it is "
        "in "
        "use",
        path, at - begin, size, now.st_size);
  return bad_input("{}: byte {} cannot be read: its disk failed, or the file was cut while it was in use", path,
                   at - begin);
}

void prefetch_pages(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(bytes.data() + bytes.size());
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
}

void release_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(bytes.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(bytes.data() + bytes.size()) / page * page;
  if (begin >= end) return;
  const std::lock_guard lock(mappings().mutex);
  const auto entry = mapping_at(bytes.data());
  if (entry == mappings().by_end.end() || bytes.data() + bytes.size() > entry->first) return;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace knapsack
