// The main program of a fuzz target where there is no fuzzer: replay FOLDER MUTATIONS. Runs every file of the folder
// (the committed corpus, past crashers among them) and so many random mutations of each through LLVMFuzzerTestOneInput.
// The same inputs every time. Not a substitute for `make fuzz`, which looks where the code branches.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

std::size_t below(std::mt19937& random, std::size_t count) { return random() % count; }

void mutate(Bytes& bytes, const std::vector<Bytes>& seeds, std::mt19937& random) {
  for (std::size_t changes = 1 + below(random, 4); changes > 0; --changes) {
    if (bytes.empty()) bytes.push_back(0);
    const std::size_t at = below(random, bytes.size());
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const auto some = static_cast<std::ptrdiff_t>(1 + below(random, std::min<std::size_t>(16, bytes.size() - at)));
    switch (below(random, 7)) {
      case 0:
        bytes[at] ^= static_cast<std::uint8_t>(1U << below(random, 8));
        break;
      case 1:
        bytes[at] = static_cast<std::uint8_t>(random());
        break;
      case 2: {  // the edges of integers
        constexpr std::uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff};
        std::fill_n(begin, some, edges[below(random, std::size(edges))]);
        break;
      }
      case 3:
        bytes.erase(begin, begin + some);
        break;
      case 4: {
        const Bytes copy(begin, begin + some);
        bytes.insert(begin, copy.begin(), copy.end());
        break;
      }
      case 5:
        bytes.resize(at);
        break;
      default: {  // a piece of another seed
        const Bytes& other = seeds[below(random, seeds.size())];
        if (other.empty()) break;
        const std::size_t from = below(random, other.size());
        const std::size_t count = 1 + below(random, std::min<std::size_t>(64, other.size() - from));
        const auto piece = other.begin() + static_cast<std::ptrdiff_t>(from);
        bytes.insert(begin, piece, piece + static_cast<std::ptrdiff_t>(count));
        break;
      }
    }
  }
}

// The input at work, in a file: left behind when a run dies, so that it can be looked at; removed when all went well.
class LastInput {
 public:
  explicit LastInput(const char* path) : path_(path), file_(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {}
  ~LastInput() {
    close(file_);
    std::filesystem::remove(path_);
  }
  LastInput(const LastInput&) = delete;
  LastInput& operator=(const LastInput&) = delete;
  void set(const Bytes& bytes) const {
    const bool kept = pwrite(file_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()) &&
                      ftruncate(file_, static_cast<off_t>(bytes.size())) == 0;
    if (!kept) std::fprintf(stderr, "%s: not written\n", path_);
  }

 private:
  const char* path_;
  int file_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s FOLDER MUTATIONS LAST_INPUT\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Bytes> seeds;
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  if (seeds.empty()) {
    std::fprintf(stderr, "%s: no inputs\n", argv[1]);
    return 1;
  }
  const LastInput last(argv[3]);
  std::mt19937 random(1);
  const int mutations = std::atoi(argv[2]);
  long runs = 0;
  for (const Bytes& seed : seeds) {
    last.set(seed);
    LLVMFuzzerTestOneInput(seed.data(), seed.size());
    ++runs;
    for (int i = 0; i < mutations; ++i, ++runs) {
      Bytes bytes = seed;
      mutate(bytes, seeds, random);
      last.set(bytes);
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    }
  }
  std::printf("%ld inputs\n", runs);
  return 0;
}
