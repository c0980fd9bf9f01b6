// What commands take at their peak: what `inspect` says, and 32 MiB for the process itself.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/command.h"
#include "support/support.h"

namespace knapsack {
namespace {

using testing::binary;
using testing::object_of_success;
using testing::run;
using testing::TempDir;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;  // red zones, shadow memory, freed blocks that are kept
#else
constexpr bool sanitized = false;
#endif
constexpr std::int64_t process = std::int64_t{32} << 20;

TEST(Memory, ARunTakesNoMoreThanInspectSays) {
  if (sanitized) GTEST_SKIP() << "a sanitizer's own memory would be measured";
  for (const char* model : {"qwen2-tied-gqa", "llama-mha-gelu", "gemma3-text", "deepseek-v3", "qwen3-moe"}) {
    const std::string path = testing::data_path(std::string("golden/") + model).string();
    SCOPED_TRACE(model);
    const auto memory =
        object_of_success(run({binary(), "inspect", path, "--json", "-c", "64"})).at("memory").as_object();
    const auto result = run({binary(), "run", path, "--ids", "1", "-n", "16", "--ignore-eos", "-c", "64"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_LE(std::int64_t{result.peak_rss_kib} << 10, memory.at("total").as_int64() + process);
  }
}

// 150,000 tokens of one to four letters, each made of a shorter one and a letter.
std::string large_tokenizer() {
  std::vector<std::string> tokens;
  for (char c = 'a'; c <= 'z'; ++c) tokens.emplace_back(1, c);
  std::string merges;
  for (std::size_t i = 0; tokens.size() < 150'000; ++i)
    for (char c = 'a'; c <= 'z'; ++c) {
      merges += fmt::format("{}[\"{}\",\"{}\"]", merges.empty() ? "" : ",", tokens[i], c);
      tokens.push_back(tokens[i] + c);
    }
  std::string vocab;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    vocab += fmt::format("{}\"{}\":{}", vocab.empty() ? "" : ",", tokens[i], i);
  return fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,"pre_tokenizer":null,)"
      R"("post_processor":null,"decoder":null,"model":{{"type":"BPE","dropout":null,"unk_token":null,)"
      R"("continuing_subword_prefix":"","end_of_word_suffix":"","fuse_unk":false,"byte_fallback":false,)"
      R"("ignore_merges":false,"vocab":{{{}}},"merges":[{}]}}}})",
      vocab, merges);
}

TEST(Memory, ALargeTokenizerTakesNoMoreThanInspectSays) {
  if (sanitized) GTEST_SKIP() << "a sanitizer's own memory would be measured";
  TempDir folder;
  const std::string text = large_tokenizer();
  testing::write_file(folder.file("tokenizer.json"), text);
  const auto result = run({binary(), "tokenize", folder.file("tokenizer.json"), "abcd"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "27 81\n") << "ab and cd, which come before abc";
  const std::int64_t itself = std::int64_t{run({binary(), "version"}).peak_rss_kib} << 10;
  const std::int64_t tokenizer = 2 * static_cast<std::int64_t>(text.size());  // as inspect has it
  constexpr std::int64_t slack = std::int64_t{8} << 20;
  EXPECT_LE(std::int64_t{result.peak_rss_kib} << 10, itself + tokenizer + slack);
}

}  // namespace
}  // namespace knapsack
