// The bridge against vectors that Hugging Face's own Python package gave, streaming, and files that are broken.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "base/json.h"
#include "support/support.h"
#include "text/chat_template.h"

namespace knapsack {
namespace {

using testing::data_path;
using testing::read_file;

std::shared_ptr<const Tokenizer> load(const std::string& name) {
  auto made = Tokenizer::from_json(read_file(data_path("data/text/tokenizers/" + name + "/tokenizer.json")), name);
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return made.has_value() ? *made : nullptr;
}

std::shared_ptr<const Tokenizer> make(const std::string& json) {
  auto made = Tokenizer::from_json(json, "made.json");
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return made.has_value() ? *made : nullptr;
}

json::value vectors(const std::string& path) {
  auto parsed = parse_json(read_file(data_path(path)), path);
  EXPECT_TRUE(parsed.has_value());
  return *parsed;
}

std::vector<std::int32_t> ids_in(const json::value& list) {
  std::vector<std::int32_t> ids;
  for (const auto& id : list.as_array()) ids.push_back(id.to_number<std::int32_t>());
  return ids;
}

std::string streamed(const std::shared_ptr<const Tokenizer>& tokenizer, const std::vector<std::int32_t>& ids,
                     bool skip_special) {
  StreamDecoder stream(tokenizer, skip_special);
  std::string text;
  for (const std::int32_t id : ids) {
    const std::string piece = stream.push(id);
    EXPECT_TRUE(json::serialize(json::value(piece)).size() >= 2);
    text += piece;
  }
  return text + stream.finish();
}

class Vectors : public ::testing::TestWithParam<std::string> {};

TEST_P(Vectors, EncodeDecodeAndStreamAsHuggingFace) {
  const auto tokenizer = load(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  const auto all = vectors("data/text/tokenizers/" + GetParam() + "/vectors.json");
  EXPECT_EQ(tokenizer->vocab_size(), all.at("vocab").to_number<std::int64_t>());
  for (const auto& c : all.at("cases").as_array()) {
    const std::string text(c.at("text").as_string());
    SCOPED_TRACE(text.substr(0, 80));
    const auto ids = ids_in(c.at("ids"));
    auto plain = tokenizer->encode(text, false);
    ASSERT_TRUE(plain.has_value());
    EXPECT_EQ(*plain, ids);
    std::string many;
    for (int i = 0; i < 40; ++i) many += text;
    EXPECT_LE(tokenizer->least_tokens(text), static_cast<std::int64_t>(ids.size()));
    EXPECT_LE(tokenizer->least_tokens(many), static_cast<std::int64_t>(tokenizer->encode(many, false)->size()));
    auto special = tokenizer->encode(text, true);
    ASSERT_TRUE(special.has_value());
    EXPECT_EQ(*special, ids_in(c.at("ids_with_special")));
    EXPECT_EQ(tokenizer->decode(ids, false), std::string(c.at("decoded").as_string()));
    EXPECT_EQ(tokenizer->decode(ids, true), std::string(c.at("decoded_skip_special").as_string()));
    EXPECT_EQ(streamed(tokenizer, ids, false), tokenizer->decode(ids, false));
    EXPECT_EQ(streamed(tokenizer, ids, true), tokenizer->decode(ids, true));
  }
}

TEST_P(Vectors, ALongTextHasManyTokens) {
  const auto tokenizer = load(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  for (const std::string word : {"word ", "\n\n<|im_end|>x", "我们", "\xD1\x84\xC3\xA9"}) {
    std::string text;
    while (text.size() < 3'000'000) text += word;
    EXPECT_GT(tokenizer->least_tokens(text), 500) << word;
  }
  EXPECT_EQ(tokenizer->least_tokens(""), 0);
  EXPECT_EQ(tokenizer->least_tokens("\xFF word"), 0);  // encode() says what is wrong
}

TEST_P(Vectors, ChatsRenderAndTokenizeAsTransformers) {
  const auto tokenizer = load(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  const std::string folder = "data/text/tokenizers/" + GetParam();
  const auto all = vectors(folder + "/vectors.json");
  const auto config = vectors(folder + "/tokenizer_config.json");
  const std::string source(config.at("chat_template").as_string());
  for (const auto& chat : all.at("chats").as_array()) {
    json::object variables;
    for (const char* name : {"bos_token", "eos_token", "pad_token", "unk_token"}) {
      const json::value* token = config.as_object().if_contains(name);
      if (token == nullptr || token->is_null()) continue;
      variables[name] = token->is_object() ? token->at("content") : *token;
    }
    variables["messages"] = chat.at("messages");
    variables["add_generation_prompt"] = chat.at("add_generation_prompt");
    if (const auto* tools = chat.as_object().if_contains("tools")) variables["tools"] = *tools;
    auto text = render_chat_template(source, json::serialize(variables), std::nullopt, GetParam());
    ASSERT_TRUE(text.has_value()) << text.error().message;
    EXPECT_EQ(*text, std::string(chat.at("rendered").as_string()));
    auto ids = tokenizer->encode(*text, false);
    ASSERT_TRUE(ids.has_value());
    EXPECT_EQ(*ids, ids_in(chat.at("ids")));
  }
}

TEST_P(Vectors, StreamingEqualsDecodingForAnyIds) {
  const auto tokenizer = load(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  std::mt19937 random(7);
  const auto largest = static_cast<int>(tokenizer->largest_id());
  for (int round = 0; round < 300; ++round) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(random() % 40));
    // Low ids are bytes in all four vocabularies: half of the rounds make broken characters of them.
    const int limit = round % 2 == 0 ? largest + 3 : 300;
    for (auto& id : ids) id = static_cast<std::int32_t>(random() % static_cast<unsigned>(limit));
    for (const bool skip : {false, true}) {
      ASSERT_EQ(streamed(tokenizer, ids, skip), tokenizer->decode(ids, skip)) << "round " << round;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Small, Vectors, ::testing::Values("qwen2", "llama3", "deepseek", "llama2-sp"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Tokenizer, NeverGivesHalfACharacter) {
  const auto tokenizer = load("qwen2");
  ASSERT_NE(tokenizer, nullptr);
  const std::string text = "naïve 你好 👩‍👩‍👧 end";
  auto ids = tokenizer->encode(text, false);
  ASSERT_TRUE(ids.has_value());
  StreamDecoder stream(tokenizer, true);
  std::string sofar;
  for (const std::int32_t id : *ids) {
    const std::string piece = stream.push(id);
    EXPECT_EQ(piece.find("\xEF\xBF\xBD"), std::string::npos);
    sofar += piece;
    EXPECT_EQ(text.substr(0, sofar.size()), sofar);
    EXPECT_TRUE(sofar.size() == text.size() || (static_cast<unsigned char>(text[sofar.size()]) & 0xC0U) != 0x80U);
  }
  EXPECT_EQ(sofar + stream.finish(), text);
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const auto tokenizer = load("qwen2");
  ASSERT_NE(tokenizer, nullptr);
  auto ids = tokenizer->encode("abc\xE4\xBDxyz", false);
  ASSERT_FALSE(ids.has_value());
  EXPECT_EQ(ids.error().code, Code::bad_input);
  EXPECT_NE(ids.error().message.find("offset 3"), std::string::npos) << ids.error().message;
}

TEST(Tokenizer, KnowsItsPieces) {
  const auto tokenizer = load("qwen2");
  ASSERT_NE(tokenizer, nullptr);
  const auto id = tokenizer->id_of("<|im_end|>");
  ASSERT_TRUE(id.has_value());
  EXPECT_TRUE(tokenizer->is_special(*id));
  EXPECT_EQ(tokenizer->piece(*id), "<|im_end|>");
  EXPECT_EQ(tokenizer->piece(-1), "");
  EXPECT_EQ(tokenizer->piece(1'000'000), "");
  EXPECT_FALSE(tokenizer->id_of("no such token").has_value());
  EXPECT_FALSE(tokenizer->is_special(-5));
}

TEST(Tokenizer, AMegabyteIsNoTrouble) {
#if defined(__SANITIZE_ADDRESS__)
  constexpr std::size_t megabyte = std::size_t{1} << 16U;  // every allocation is recorded there: a minute for the whole
#else
  constexpr std::size_t megabyte = std::size_t{1} << 20U;
#endif
  for (const char* name : {"qwen2", "llama2-sp"}) {
    const auto tokenizer = load(name);
    ASSERT_NE(tokenizer, nullptr);
    for (const std::string unit : {"a", " ", "😀", "\n", "你", "word ", "<|im_end|>", "1", "=-"}) {
      std::string text;
      const bool pathological = unit == "a" || unit == " " || unit == "😀";
      while (text.size() < (pathological ? megabyte : std::size_t{1} << 16U)) text += unit;
      auto ids = tokenizer->encode(text, false);
      ASSERT_TRUE(ids.has_value()) << name << ids.error().message;
      EXPECT_EQ(tokenizer->decode(*ids, false) == text, true) << name << " " << unit;
    }
  }
}

TEST(Tokenizer, BrokenFilesAreErrors) {
  const std::string good = read_file(data_path("data/text/tokenizers/qwen2/tokenizer.json"));
  const auto refused = [](const std::string& text) {
    auto made = Tokenizer::from_json(text, "broken.json");
    EXPECT_FALSE(made.has_value()) << text.substr(0, 80);
    if (made.has_value()) return;
    EXPECT_EQ(made.error().code, Code::bad_input);
    EXPECT_EQ(made.error().message.rfind("broken.json: ", 0), 0U) << made.error().message;
  };
  refused("");
  refused("not json");
  refused("{}");
  refused("[]");
  refused("{\"version\":\"1.0\"}");
  refused("\xFF\xFE");
  refused(good.substr(0, good.size() / 2));
  refused(std::string(1'000'000, '['));
  std::string deep = R"({"version":"1.0","normalizer":)";
  for (int i = 0; i < 100'000; ++i) deep += R"({"type":"Sequence","normalizers":[)";
  refused(deep);
  const auto model = [](const std::string& rest) { return R"({"version":"1.0","model":{"type":"BPE",)" + rest + "}}"; };
  refused(model(R"("vocab":{"a":-1},"merges":[])"));
  refused(model(R"("vocab":{"a":4294967295},"merges":[])"));
  refused(model(R"("vocab":{"a":3000000000},"merges":[])"));
  refused(model(R"("vocab":{"a":1e30},"merges":[])"));
  refused(model(R"("vocab":{"a":"b"},"merges":[])"));
  refused(model(R"("vocab":{"a":0},"merges":["a"])"));
  refused(model(R"("vocab":{"a":0},"merges":["a a"])"));
  refused(model(R"("vocab":{"a":0},"merges":[["a","b"]])"));
  refused(model(R"("vocab":[],"merges":[])"));
  refused(
      R"({"version":"1.0","pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated","invert":false},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})");
}

std::string bpe(const std::string& added, const std::string& extra = "\"normalizer\":null,\"pre_tokenizer\":null") {
  return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)" + added + "]," + extra +
         R"(,"post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,)"
         R"("use_regex":false},"model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"Ġ":4,"abc":5},)"
         R"("merges":[["a","b"],["ab","c"]]}})";
}

std::string added(int id, const std::string& content, const std::string& flag = "") {
  const auto is = [&](const char* name) { return flag == name ? "true" : "false"; };
  return "{\"id\":" + std::to_string(id) + ",\"content\":" + json::serialize(json::value(content)) +
         ",\"single_word\":" + is("single_word") + ",\"lstrip\":" + is("lstrip") + ",\"rstrip\":" + is("rstrip") +
         ",\"normalized\":" + is("normalized") + ",\"special\":" + is("special") + "}";
}

TEST(Tokenizer, AddedTokensWithFlags) {
  const std::string level =
      R"("normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":false})";
  const auto tokenizer = make(bpe(added(6, "<l>", "lstrip") + "," + added(7, "<r>", "rstrip") + "," +
                                      added(8, "<w>", "single_word") + "," + added(9, "<n>"),
                                  level));
  ASSERT_NE(tokenizer, nullptr);
  const auto ids = [&](const std::string& text) { return tokenizer->encode(text, false).value(); };
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(ids("a <l> b"), (Ids{0, 6, 4, 1}));
  EXPECT_EQ(ids("a <r> b"), (Ids{0, 4, 7, 1}));
  EXPECT_EQ(ids("a <w> b"), (Ids{0, 4, 8, 4, 1}));
  EXPECT_EQ(ids("a<n>abc"), (Ids{0, 9, 5}));
}

TEST(Tokenizer, FourThousandAddedTokensWithRegexCharacters) {
  std::string list;
  for (int i = 0; i < 4000; ++i) {
    if (i != 0) list += ',';
    list += added(6 + i, "(?<|x" + std::to_string(i) + ".*+[^\\]$|)", i % 2 == 0 ? "special" : "normalized");
  }
  const auto tokenizer = make(bpe(list));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocab_size(), 4006);
  std::string text;
  std::vector<std::int32_t> expected;
  for (int i = 3999; i >= 0; i -= 7) {
    text += "ab(?<|x" + std::to_string(i) + ".*+[^\\]$|)";
    expected.push_back(3);
    expected.push_back(6 + i);
  }
  EXPECT_EQ(tokenizer->encode(text, false).value(), expected);
}

}  // namespace
}  // namespace knapsack
