// The fuzz targets' corpora, past crashers among them, through the same parsers without a fuzzer.
#include <gtest/gtest.h>

#include <functional>

#include "base/json.h"
#include "files/gguf_parse.h"
#include "files/safetensors_parse.h"
#include "support/support.h"

namespace knapsack::testing {
namespace {

void replay(const std::string& target, const std::function<void(const std::string&)>& parse) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(data_path("fuzz/" + target))) {
    SCOPED_TRACE(entry.path().filename().string());
    parse(read_file(entry.path()));
    ++files;
  }
  EXPECT_GT(files, 5);
}

TEST(Corpus, Gguf) {
  int valid = 0;
  replay("gguf", [&](const std::string& bytes) {
    const auto part = parse_gguf(std::as_bytes(std::span(bytes)), "seed");
    EXPECT_TRUE(part.has_value() || part.error().message.starts_with("seed: "));
    valid += part.has_value() ? 1 : 0;
  });
  EXPECT_GE(valid, 10);
}

TEST(Corpus, Safetensors) {
  int valid = 0;
  replay("safetensors", [&](const std::string& bytes) {
    const auto part = parse_safetensors(std::as_bytes(std::span(bytes)), "seed");
    EXPECT_TRUE(part.has_value() || !part.error().message.empty());
    valid += part.has_value() ? 1 : 0;
    (void)parse_safetensors_index(bytes, "seed");
  });
  EXPECT_GE(valid, 5);
}

TEST(Corpus, Json) {
  replay("json", [](const std::string& text) {
    const auto value = parse_json(text, "seed");
    EXPECT_TRUE(value.has_value() || value.error().message.starts_with("seed: "));
  });
}

}  // namespace
}  // namespace knapsack::testing
