// Vocabularies as GGUF holds them: made from the small tokenizer.json files, they must tokenize as those do; broken
// ones are errors that name the entry.
#include "text/gguf_vocab.h"

#include <gtest/gtest.h>

#include <deque>
#include <limits>

#include "base/json.h"
#include "support/support.h"
#include "text/tokenizer.h"

namespace knapsack {
namespace {

using testing::data_path;
using testing::read_file;

json::value parsed(const std::string& path) {
  auto value = parse_json(read_file(data_path(path)), path);
  EXPECT_TRUE(value.has_value());
  return *value;
}

// A vocabulary only refers to its strings.
std::string_view kept(std::string text) {
  static std::deque<std::string> all;
  return all.emplace_back(std::move(text));
}

// The vocabulary of a tokenizer.json as llama.cpp's converter would store it.
GgufVocab from_tokenizer(const std::string& name, const std::string& model, const std::string& pre) {
  const json::value file = parsed("data/text/tokenizers/" + name + "/tokenizer.json");
  GgufVocab vocab;
  vocab.model = model;
  vocab.pre = pre;
  const json::object& tokens = file.at("model").at("vocab").as_object();
  std::size_t count = tokens.size();
  for (const auto& added : file.at("added_tokens").as_array()) {
    count = std::max(count, added.at("id").to_number<std::size_t>() + 1);
  }
  vocab.tokens.resize(count);
  vocab.types.assign(count, 1);
  vocab.scores.assign(count, -1e6F);
  for (const auto& [token, id] : tokens) vocab.tokens[id.to_number<std::size_t>()] = kept(token);
  for (const auto& added : file.at("added_tokens").as_array()) {
    const auto id = added.at("id").to_number<std::size_t>();
    vocab.tokens[id] = kept(std::string(added.at("content").as_string()));
    vocab.types[id] = vocab.tokens[id] == "<unk>" ? 2 : added.at("special").as_bool() ? 3 : 4;
  }
  float score = 0;
  for (const auto& merge : file.at("model").at("merges").as_array()) {
    const std::string left(merge.is_array() ? std::string(merge.at(0).as_string())
                                            : std::string(merge.as_string().subview(0, merge.as_string().find(' '))));
    const std::string right(merge.is_array() ? std::string(merge.at(1).as_string())
                                             : std::string(merge.as_string().subview(merge.as_string().find(' ') + 1)));
    vocab.merges.push_back(kept(left + " " + right));
    float& own = vocab.scores[tokens.at(left + right).to_number<std::size_t>()];
    own = std::max(own, score);
    score -= 1;
  }
  if (model == "llama") {
    for (std::size_t i = 0; i < count; ++i) {
      if (vocab.tokens[i].size() == 6 && vocab.tokens[i].starts_with("<0x")) vocab.types[i] = 6;
    }
    vocab.bos = 1;
    vocab.eos = 2;
    vocab.unk = 0;
  } else {
    vocab.scores.clear();
  }
  return vocab;
}

std::shared_ptr<const Tokenizer> made(const GgufVocab& vocab) {
  auto text = tokenizer_json_from(vocab, "model.gguf");
  EXPECT_TRUE(text.has_value()) << text.error().message;
  if (!text.has_value()) return nullptr;
  auto tokenizer = Tokenizer::from_json(*text, "model.gguf");
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  return tokenizer.has_value() ? *tokenizer : nullptr;
}

struct Kind {
  const char *folder, *model, *pre;
};

class Equal : public ::testing::TestWithParam<Kind> {};

TEST_P(Equal, TokenizesAsTheTokenizerItCameFrom) {
  const Kind kind = GetParam();
  GgufVocab vocab = from_tokenizer(kind.folder, kind.model, kind.pre);
  if (std::string(kind.model) == "llama") vocab.merges.clear();
  const auto tokenizer = made(vocab);
  ASSERT_NE(tokenizer, nullptr);
  const json::value vectors = parsed("data/text/tokenizers/" + std::string(kind.folder) + "/vectors.json");
  for (const auto& c : vectors.at("cases").as_array()) {
    const std::string text(c.at("text").as_string());
    SCOPED_TRACE(text.substr(0, 60));
    std::vector<std::int32_t> expected;
    for (const auto& id : c.at("ids").as_array()) expected.push_back(id.to_number<std::int32_t>());
    EXPECT_EQ(tokenizer->encode(text, false).value(), expected);
    EXPECT_EQ(tokenizer->decode(expected, false), std::string(c.at("decoded").as_string()));
  }
}

INSTANTIATE_TEST_SUITE_P(Small, Equal,
                         ::testing::Values(Kind{"qwen2", "gpt2", "qwen2"}, Kind{"llama3", "gpt2", "llama-bpe"},
                                           Kind{"deepseek", "gpt2", "deepseek-v3"}, Kind{"llama2-sp", "llama", ""}),
                         [](const auto& instance) {
                           std::string name = instance.param.folder;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

GgufVocab tiny() {
  GgufVocab vocab;
  vocab.model = "llama";
  vocab.tokens = {"<unk>", "<s>", "</s>", "<0x0A>", "▁", "a", "▁a", "aa"};
  vocab.types = {2, 3, 3, 6, 1, 1, 1, 1};
  vocab.scores = {0, 0, 0, 0, -1, -2, -3, -4};
  vocab.bos = 1;
  vocab.eos = 2;
  vocab.unk = 0;
  return vocab;
}

using Ids = std::vector<std::int32_t>;

TEST(GgufVocab, SentencePieceWithBosEosAndSpacePrefix) {
  GgufVocab vocab = tiny();
  EXPECT_EQ(made(vocab)->encode("a aa\n", true).value(), (Ids{1, 6, 6, 5, 3}));
  EXPECT_EQ(made(vocab)->encode("a<s>a", false).value(), (Ids{6, 1, 6}));  // a space after every special token
  EXPECT_EQ(made(vocab)->encode("ab", false).value(), (Ids{6, 0}));
  vocab.add_bos = 0;
  vocab.add_eos = 1;
  EXPECT_EQ(made(vocab)->encode("a", true).value(), (Ids{6, 2}));
  vocab.add_space_prefix = 0;
  EXPECT_EQ(made(vocab)->encode("a", true).value(), (Ids{5, 2}));
  EXPECT_EQ(made(vocab)->decode(Ids{6, 5}, false), " aa");
  EXPECT_TRUE(made(vocab)->is_special(1));
}

TEST(GgufVocab, EveryPretokenizerHasRegularExpressionsThatCompile) {
  for (const std::string pre : {
#define PRE(name, splits, ignores_merges, adds_bos) name,
#include "text/pretokenizers.inc"
#undef PRE
           "gemma4", "sarvam-moe"}) {
    GgufVocab vocab;
    vocab.model = "gpt2";
    vocab.pre = pre;
    vocab.tokens = {"a", "b", "ab", "Ġ", "1"};
    vocab.merges = {"a b"};
    SCOPED_TRACE(pre);
    const auto tokenizer = made(vocab);
    ASSERT_NE(tokenizer, nullptr);
    auto ids = tokenizer->encode("ab 1", false);
    ASSERT_TRUE(ids.has_value()) << ids.error().message;
    EXPECT_EQ(ids->front(), 2);
  }
}

void refused(const GgufVocab& vocab, const std::string& part, Code code = Code::bad_input) {
  auto text = tokenizer_json_from(vocab, "broken.gguf");
  ASSERT_FALSE(text.has_value()) << part;
  EXPECT_EQ(text.error().code, code);
  EXPECT_EQ(text.error().message.rfind("broken.gguf: ", 0), 0U) << text.error().message;
  EXPECT_NE(text.error().message.find(part), std::string::npos) << text.error().message;
}

TEST(GgufVocab, BrokenOnesAreErrorsThatNameTheEntry) {
  for (const char* token : {"<0x-1>", "<0xGG>", "<0x1FF>", "<0x>", "<0x 1>", "<0x+1>"}) {
    GgufVocab vocab = tiny();
    vocab.tokens[3] = token;
    refused(vocab, "tokens[3]");
    vocab.types[3] = 1;
    refused(vocab, "tokens[3]");
    vocab.types.clear();
    refused(vocab, "tokens[3]");
  }
  GgufVocab vocab = tiny();
  vocab.types.pop_back();
  refused(vocab, "token_type has 7");
  vocab = tiny();
  vocab.scores.push_back(0);
  refused(vocab, "scores has 9");
  vocab = tiny();
  vocab.scores.clear();
  refused(vocab, "scores is missing");
  vocab = tiny();
  vocab.scores[2] = std::numeric_limits<float>::quiet_NaN();
  refused(vocab, "scores[2]");
  vocab = tiny();
  vocab.tokens[5] = "\xC3";
  refused(vocab, "tokens[5]");
  vocab = tiny();
  vocab.tokens[5] = "▁a";
  refused(vocab, "[5] and [6]");
  vocab = tiny();
  vocab.bos = 99;
  refused(vocab, "bos_token_id is 99");
  vocab = tiny();
  vocab.tokens.clear();
  refused(vocab, "is empty");
  vocab = tiny();
  vocab.model = "t5";
  refused(vocab, "\"t5\"", Code::unsupported);
  vocab = tiny();
  vocab.model = "gpt2";
  vocab.types[3] = 1;
  vocab.pre = "from-the-future";
  refused(vocab, "from-the-future", Code::unsupported);
  vocab.pre = "qwen2";
  vocab.merges = {"a a", "aa"};
  refused(vocab, "merges[1]");
  vocab.merges = {"a zz"};
  refused(vocab, "merges[0]");
}

TEST(GgufVocab, ALargeVocabularyIsMadeAtOnce) {
  GgufVocab vocab = tiny();
  // 200,000 tokens that are made of each other.
  for (int i = 0; vocab.tokens.size() < 200'000; ++i) {
    vocab.tokens.push_back(kept("x" + std::to_string(i)));
    vocab.types.push_back(1);
    vocab.scores.push_back(static_cast<float>(-i));
  }
  for (const char* digit : {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "x"}) {
    vocab.tokens.emplace_back(digit);
    vocab.types.push_back(1);
    vocab.scores.push_back(-1e6F);
  }
  const auto tokenizer = made(vocab);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->encode("x123456", false).value().size(), 2U);
}

}  // namespace
}  // namespace knapsack
