// Any bytes as a GGUF file: parsed in memory; where they parse, opened as a file and asked for everything.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "files/gguf.h"
#include "files/gguf_parse.h"

namespace knapsack {
namespace {

void check(const std::uint8_t* data, std::size_t size) {
  const auto part = parse_gguf(std::as_bytes(std::span(data, size)), "fuzz.gguf");
  if (!part) {
    CHECK(!part.error().message.empty());
    return;
  }
  const int fd = memfd_create("fuzz.gguf", MFD_CLOEXEC);
  CHECK(fd >= 0 && write(fd, data, size) == static_cast<ssize_t>(size));
  {
    const auto file = GgufFile::open("/proc/self/fd/" + std::to_string(fd));
    if (file) {  // a split's part alone does not open
      for (const auto& [key, value] : (*file)->metadata()) {
        CHECK((*file)->find(key) == &value);
        (void)(*file)->integer(key);
        (void)(*file)->number(key);
        (void)(*file)->string(key);
        (void)(*file)->boolean(key);
        (void)(*file)->f32_array(key);
        (void)(*file)->i32_array(key);
        (void)(*file)->bool_array(key);
        (void)(*file)->string_array(key);
      }
      for (const auto& tensor : (*file)->tensors()) {
        CHECK((*file)->tensor(tensor.name) == &tensor);
        volatile std::byte last = tensor.data.back();
        (void)last;
      }
      CHECK((*file)->header(0).size() <= size);
    }
  }
  close(fd);
}

}  // namespace
}  // namespace knapsack

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  knapsack::check(data, size);
  return 0;
}
