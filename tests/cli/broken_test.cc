// Broken files end to end: each is refused with its exit code and one message, in little memory, with nothing written.
// The parsers' own tests (tests/files, tests/import, tests/text) take the cases apart; here the whole program meets
// them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <string>

#include "support/support.h"

namespace knapsack {
namespace {

using testing::binary;
using testing::run;
using testing::TempDir;

const std::string talker = testing::data_path("golden/qwen2-tied-gqa").string();
const std::string mute = testing::data_path("golden/llama-mha-gelu").string();

long own_rss_kib() {
  static const long kib = run({binary(), "version"}).peak_rss_kib;
  return kib;
}

void expect_little_memory(const testing::CommandResult& result, const std::string& what) {
#if defined(__SANITIZE_ADDRESS__)
  constexpr long most_kib = 256 << 10;  // red zones, and freed blocks that are kept to catch their use
#else
  constexpr long most_kib = 64 << 10;
#endif
  EXPECT_LT(result.peak_rss_kib, own_rss_kib() + most_kib) << what;
}

std::size_t entries(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::recursive_directory_iterator(folder), {}));
}

// Every command that opens a model refuses it alike.
void expect_refused(const std::string& model, int code, const std::string& what) {
  const auto folder = std::filesystem::path(model).parent_path();
  const std::size_t before = entries(folder);
  const std::vector<std::vector<std::string>> commands{{"inspect", model},
                                                       {"inspect", model, "--check"},
                                                       {"run", model, "--ids", "1", "-n", "1"},
                                                       {"logits", model, "--ids", "1", "-o", model + ".npy"},
                                                       {"convert", model, "-o", model + ".out"}};
  for (const auto& words : commands) {
    std::vector<std::string> argv{binary()};
    argv.insert(argv.end(), words.begin(), words.end());
    const auto result = run(argv);
    ASSERT_EQ(result.exit_code, code) << what << ": " << words[0] << ": " << result.out << result.err;
    ASSERT_EQ(result.out, "") << what;
    const auto at = result.err.find("knapsack: error: ");
    ASSERT_NE(at, std::string::npos) << what;
    ASSERT_EQ(result.err.find('\n', at), result.err.size() - 1) << what << ": one line: " << result.err;
    ASSERT_NE(result.err.find(std::filesystem::path(model).filename().string()), std::string::npos)
        << what << ": names the file: " << result.err;
    expect_little_memory(result, what);
  }
  ASSERT_EQ(entries(folder), before) << what << ": nothing is written";
}

// A GGUF of the small model, made once.
const std::string& good_gguf() {
  static const std::string bytes = [] {
    TempDir folder;
    const auto made = run({binary(), "convert", talker, "-o", folder.file("m.gguf"), "--type", "f32"});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return testing::read_file(folder.file("m.gguf"));
  }();
  return bytes;
}

template <class T>
std::string put(std::string bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
  return bytes;
}

// Where what follows the key's name begins: its type, then its value.
std::size_t after_key(const std::string& bytes, const std::string& name) {
  const std::size_t at = bytes.find(name);
  EXPECT_NE(at, std::string::npos) << name;
  return at + name.size();
}

TEST(BrokenGguf, IsRefusedByEveryCommand) {
  const std::string& good = good_gguf();
  const std::size_t arch = after_key(good, "general.architecture");
  const std::size_t tensor = after_key(good, "token_embd.weight");  // n_dims u32, dimensions u64, type u32, offset u64
  struct Case {
    const char* what;
    int code;
    std::string bytes;
  };
  std::string renamed = good;
  renamed.replace(renamed.find("blk.1.attn_norm.weight"), 22, "blk.0.attn_norm.weight");
  const std::vector<Case> cases{
      {"empty", 3, ""},
      {"HTML", 3, "<!DOCTYPE html><html><body>404</body></html>"},
      {"LFS pointer", 3, "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 12345\n"},
      {"v1", 4, put<std::uint32_t>(good, 4, 1)},
      {"v99", 4, put<std::uint32_t>(good, 4, 99)},
      {"big-endian", 4, put<std::uint32_t>(good, 4, 0x03000000)},
      {"2^62 tensors", 3, put<std::uint64_t>(good, 8, std::uint64_t{1} << 62)},
      {"2^62 keys", 3, put<std::uint64_t>(good, 16, std::uint64_t{1} << 62)},
      {"a key of 2^62 bytes", 3, put<std::uint64_t>(good, 24, std::uint64_t{1} << 62)},
      {"a string of 2^62 bytes", 3, put<std::uint64_t>(good, arch + 4, std::uint64_t{1} << 62)},
      {"an unknown value type", 3, put<std::uint32_t>(good, arch, 77)},
      {"n_dims 0", 3, put<std::uint32_t>(good, tensor, 0)},
      {"n_dims 5", 3, put<std::uint32_t>(good, tensor, 5)},
      {"n_dims 2^32-1", 3, put<std::uint32_t>(good, tensor, 0xffffffff)},
      {"dimensions that wrap", 3,
       put<std::uint64_t>(put<std::uint64_t>(good, tensor + 4, std::uint64_t{1} << 33), tensor + 12,
                          std::uint64_t{1} << 33)},
      {"an offset beyond the file", 3, put<std::uint64_t>(good, tensor + 24, std::uint64_t{1} << 40)},
      {"two tensors of one name", 3, renamed},
      {"an unknown architecture", 4, std::string(good).replace(arch + 12, 5, "xwenX")},
      {"2^62 tokens", 3,
       put<std::uint64_t>(good, after_key(good, "tokenizer.ggml.tokens") + 8, std::uint64_t{1} << 62)},
  };
  TempDir folder;
  for (const auto& broken : cases) {
    testing::write_file(folder.file("m.gguf"), broken.bytes);
    ASSERT_NO_FATAL_FAILURE(expect_refused(folder.file("m.gguf"), broken.code, broken.what));
  }
}

TEST(BrokenGguf, CutAnywhere) {
  const std::string& good = good_gguf();
  TempDir folder;
  for (std::size_t cut = 0; cut < 64; ++cut) {
    // Half of the cuts in the first bytes and the table, half anywhere.
    const std::size_t at = cut < 32 ? 1 + cut * 97 : good.size() * (cut - 31) / 33 - 1;
    testing::write_file(folder.file("m.gguf"), good.substr(0, at));
    const auto result = run({binary(), "inspect", folder.file("m.gguf"), "--json"});
    ASSERT_EQ(result.exit_code, 3) << at << ": " << result.err;
    ASSERT_TRUE(result.out.starts_with("{\"error\": {\"code\": 3, \"message\": \"")) << result.out;
  }
}

TEST(BrokenFolder, IsRefusedByEveryCommand) {
  const std::string weights = testing::read_file(mute + "/model.safetensors");
  const std::string config = testing::read_file(mute + "/config.json");
  std::uint64_t length = 0;
  std::memcpy(&length, weights.data(), 8);
  const std::string header = weights.substr(8, length), data = weights.substr(8 + length);
  const auto with_header = [&](const std::string& text) {
    std::string out(8, '\0');
    const std::uint64_t size = text.size();
    std::memcpy(out.data(), &size, 8);
    return out + text + data;
  };
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  struct Case {
    const char* what;
    int code;
    std::string weights, config;
  };
  const std::vector<Case> cases{
      {"header length 0", 3, put<std::uint64_t>(weights, 0, 0), config},
      {"header length 2^60", 3, put<std::uint64_t>(weights, 0, std::uint64_t{1} << 60), config},
      {"header length 2^64-4", 3, put<std::uint64_t>(weights, 0, ~std::uint64_t{3}), config},
      {"header not JSON", 3, with_header("{" + std::string(header.size() - 1, 'x')), config},
      {"unknown dtype", 3, with_header(replaced(header, "\"F32\"", "\"F33\"")), config},
      {"weights cut", 3, weights.substr(0, weights.size() / 2), config},
      {"a tensor missing", 3, with_header(replaced(header, "model.norm.weight", "model.Norm.weight")), config},
      {"config not JSON", 3, weights, "{"},
      {"config a list", 3, weights, "[]"},
      {"unknown architecture", 4, weights,
       replaced(replaced(config, "LlamaForCausalLM", "LlamoForCausalLM"), "\"llama\"", "\"llamo\"")},
      {"hidden_size missing", 3, weights, replaced(config, "hidden_size", "hidden_sise")},
      {"hidden_size negative", 3, weights, replaced(config, "\"hidden_size\": 64", "\"hidden_size\": -64")},
      {"hidden_size huge", 3, weights, replaced(config, "\"hidden_size\": 64", "\"hidden_size\": 4611686018427387904")},
      {"hidden_size text", 3, weights, replaced(config, "\"hidden_size\": 64", "\"hidden_size\": \"64\"")},
  };
  for (const auto& broken : cases) {
    TempDir folder;
    const std::string model = folder.file("model");
    std::filesystem::create_directory(model);
    testing::write_file(model + "/model.safetensors", broken.weights);
    testing::write_file(model + "/config.json", broken.config);
    ASSERT_NO_FATAL_FAILURE(expect_refused(model, broken.code, broken.what));
  }
}

testing::CommandResult shell(const std::string& script, const TempDir& folder) {
  return run({"bash", "-c", "cd '" + folder.path().string() + "' || exit\n" + script}, "", {"KNAPSACK=" + binary()});
}

// The weights are mapped: cutting the file takes its pages away from under the program.
TEST(BrokenGguf, CutWhileItIsInUse) {
  TempDir folder;
  testing::write_file(folder.file("m.gguf"), good_gguf());
  const auto result = shell(
      "(echo hello; for i in $(seq 1000); do [ -s out ] && break; sleep 0.02; done; truncate -s 4096 m.gguf; echo "
      "again) | "
      "\"$KNAPSACK\" chat m.gguf -n 3 -q > out",
      folder);
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_TRUE(result.err.starts_with("knapsack: error: m.gguf: byte ")) << result.err;
  EXPECT_NE(result.err.find("and has 4096 now"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;

  testing::write_file(folder.file("m.gguf"), good_gguf());
  const auto json = shell(
      "mkfifo talk; (exec 3> talk; echo hello >&3; sleep 1; truncate -s 4096 m.gguf; echo again >&3) & "
      "\"$KNAPSACK\" chat m.gguf -n 3 -q --json < talk",
      folder);
  EXPECT_EQ(json.exit_code, 3) << json.err;
  EXPECT_TRUE(json.out.starts_with("{\"error\": {\"code\": 3, \"message\": \"m.gguf: byte ")) << json.out;
}

// ulimit -f: the signal that comes with it must not end the program before it has tidied up.
TEST(Limits, AFileThatMayNotGrowIsAResourceErrorAndLeavesNothing) {
  TempDir folder;
  for (const std::string& words : {"convert '" + talker + "' -o out", "logits '" + talker + "' --ids 1,2,3 -o out"}) {
    const auto result = shell("ulimit -f 2; \"$KNAPSACK\" " + words, folder);
    EXPECT_EQ(result.exit_code, 5) << result.err;
    EXPECT_TRUE(result.err.starts_with("knapsack: error: out: cannot write: ")) << result.err;
    EXPECT_EQ(entries(folder.path()), 0U) << words;
  }
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // whose shadow memory is larger than any limit here
TEST(Limits, TooLittleMemoryIsAResourceErrorWherever) {
  TempDir folder;
  int refused = 0;
  // From too little for the first thread to enough, so that it runs out in every part, the tokenizer's too.
  for (int mib = 20; mib < 90; mib += 2) {
    const auto result =
        shell(fmt::format("ulimit -v {}; \"$KNAPSACK\" tokenize '{}' hello", mib * 1024, talker), folder);
    // 127: not even its libraries have room. The C++ library's own words: not even what a library sets up before main.
    const bool before_main = result.exit_code == 127 || result.err.starts_with("terminate called without");
    if (result.out.empty() && !before_main) {
      ++refused;
      ASSERT_EQ(result.exit_code, 5) << mib << ": " << result.err;
      ASSERT_TRUE(result.err.starts_with("knapsack: error: ")) << result.err;
    }
  }
  EXPECT_GT(refused, 0);
  const auto threads =
      shell("ulimit -v 2000000; \"$KNAPSACK\" run '" + talker + "' --ids 1 -n 1 --threads 1000", folder);
  EXPECT_EQ(threads.exit_code, 5) << threads.err;
  EXPECT_NE(threads.err.find("cannot start 1000 threads"), std::string::npos) << threads.err;
}
#endif

TEST(Limits, ProcessorTimeThatIsUsedUpLeavesNothing) {
  TempDir folder;
  const auto result =
      shell("\"$KNAPSACK\" logits '" + talker +
                "' --ids-file <(for i in $(seq 30000); do echo 1; done) -q -o out & job=$!; "
                "for i in $(seq 1000); do ls -l /proc/$job/fd | grep -q \"$PWD/\" && break; sleep 0.01; done; "
                "kill -XCPU $job; wait $job",
            folder);
  EXPECT_EQ(result.exit_code, 128 + SIGXCPU) << result.err;
  EXPECT_EQ(entries(folder.path()), 0U);
}

TEST(BrokenFolder, AMissingShardIsNamed) {
  TempDir folder;
  const std::string model = folder.file("model");
  std::filesystem::copy(testing::data_path("golden/llama-sharded-bf16"), model);
  for (const auto& entry : std::filesystem::directory_iterator(model))
    if (entry.path().string().find("-00002-of-") != std::string::npos) std::filesystem::remove(entry.path());
  expect_refused(model, 3, "a shard is missing");
}

TEST(BrokenFolder, AStraySingleFileBesideShardsIsAWarning) {
  TempDir folder;
  const std::string model = folder.file("model");
  std::filesystem::copy(testing::data_path("golden/llama-sharded-bf16"), model);
  testing::write_file(model + "/model.safetensors", "stray");
  const auto result = run({binary(), "run", model, "--ids", "1,2", "-n", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("warning: "), std::string::npos) << result.err;
}

TEST(BrokenTokenizer, IsRefused) {
  TempDir folder;
  for (const char* text : {"", "{", "[]", "{}", R"({"model": {"type": "BPE", "vocab": [], "merges": []}})",
                           R"({"version": "1.0", "model": {"type": "Nonsense"}})"}) {
    testing::write_file(folder.file("tokenizer.json"), text);
    const auto result = run({binary(), "tokenize", folder.path().string(), "a"});
    EXPECT_EQ(result.exit_code, 3) << text << result.err;
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  }
}

TEST(BrokenTokenizer, WhatIsNoneIsToldByItsFirstBytes) {
  TempDir folder;
  const std::string path = folder.file("tokenizer.json");
  for (const auto& [text, seems] : std::vector<std::pair<std::string, std::string>>{
           {"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "a Git LFS pointer"},
           {"\n<!DOCTYPE html>", "an HTML page"}}) {
    testing::write_file(path, text);
    std::filesystem::resize_file(path, std::size_t{80} << 20);
    for (const std::string& model : {path, folder.path().string()}) {
      const auto result = run({binary(), "tokenize", model, "a"});
      EXPECT_EQ(result.exit_code, 3) << result.err;
      EXPECT_NE(result.err.find("tokenizer.json: expected a tokenizer.json, a JSON object; it seems to be " + seems),
                std::string::npos)
          << result.err;
      expect_little_memory(result, seems);
    }
  }
}

}  // namespace
}  // namespace knapsack
