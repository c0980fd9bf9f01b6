// The commands end to end, on the small golden models: what they print, their JSON, their exit codes.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "base/json.h"
#include "support/command.h"
#include "support/support.h"

namespace knapsack {
namespace {

using testing::binary;
using testing::object_of;
using testing::run;
using testing::TempDir;

const std::string talker = testing::data_path("golden/qwen2-tied-gqa").string();  // has a tokenizer and a template
const std::string mute = testing::data_path("golden/llama-mha-gelu").string();    // has neither

testing::CommandResult knapsack(std::vector<std::string> words, const std::string& input = "",
                                const std::vector<std::string>& env = {}) {
  words.insert(words.begin(), binary());
  return run(words, input, env);
}

bool one_error_line(const std::string& text) {
  const auto at = text.find("knapsack: error: ");
  return at != std::string::npos && text.find('\n', at) == text.size() - 1 &&
         text.find("knapsack: error: ", at + 1) == std::string::npos;
}

void expect_error(const testing::CommandResult& result, int code) {
  EXPECT_EQ(result.exit_code, code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(one_error_line(result.err)) << result.err;
}

TEST(Run, JsonHasEveryField) {
  const auto object = object_of(knapsack({"run", talker, "-p", "hello", "-n", "5", "--json", "--logprobs", "2"}));
  for (const char* key : {"text", "token_ids", "prompt_tokens", "completion_tokens", "finish_reason", "load_ms",
                          "ttft_ms", "prefill_tokens_per_s", "decode_tokens_per_s", "peak_rss_mib", "seed",
                          "model_hash", "version", "logprobs", "drafted", "accepted", "kv", "exact"})
    EXPECT_TRUE(object.contains(key)) << key;
  EXPECT_EQ(object.at("completion_tokens").as_int64(), 5);
  EXPECT_EQ(object.at("token_ids").as_array().size(), 5U);
  EXPECT_EQ(object.at("finish_reason").as_string(), "length");
  EXPECT_EQ(object.at("logprobs").as_array().size(), 5U);
  EXPECT_EQ(object.at("logprobs").as_array()[0].as_object().at("top").as_array().size(), 2U);
}

TEST(Run, GuessesChangeNoText) {
  const std::vector<std::string> words{"run", talker, "-p", "abc abc abc abc", "-n", "40", "--json", "--ignore-eos"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return object_of(knapsack(more));
  };
  const auto plain = with({"--speculate", "off"});
  EXPECT_EQ(plain.at("drafted").as_int64(), 0);
  const auto repeats = with({"--guesses", "5"});
  EXPECT_EQ(repeats.at("token_ids"), plain.at("token_ids"));
  const auto drafted = with({"--draft", talker, "--guesses", "4"});  // itself: always right, where repeats are not
  EXPECT_EQ(drafted.at("token_ids"), plain.at("token_ids"));
  EXPECT_GT(drafted.at("accepted").as_int64(), 0);
  EXPECT_EQ(with({}).at("text"), plain.at("text"));
}

TEST(Run, StreamedTextIsTheJsonsText) {
  const auto streamed = knapsack({"run", talker, "-p", "hello 世界", "-n", "20"});
  EXPECT_EQ(streamed.exit_code, 0);
  EXPECT_NE(streamed.err.find("tokens/s"), std::string::npos);
  const auto whole = object_of(knapsack({"run", talker, "-p", "hello 世界", "-n", "20", "--json", "-q"}));
  EXPECT_EQ(streamed.out, whole.at("text").as_string());
  EXPECT_EQ(knapsack({"run", talker, "-p", "hello 世界", "-n", "20", "-q"}).err, "");
  EXPECT_EQ(knapsack({"run", talker, "-f", "-", "-n", "20"}, "hello 世界").out, streamed.out);
}

TEST(Run, LogprobsShowTextNotBytes) {
  // The model's own choice is no Chinese; a bias makes it one. The first byte of a character alone keeps its spelling.
  const auto ids = object_of(knapsack({"tokenize", talker, "世", "--json"}));
  const auto id = std::to_string(ids.at("ids").as_array()[0].as_int64());
  const auto result =
      knapsack({"run", talker, "-p", "hello", "-n", "1", "--logprobs", "1", "--logit-bias", id + "=1000"});
  const bool whole = ids.at("ids").as_array().size() == 1;
  const std::string shown = whole ? "世" : std::string(ids.at("pieces").as_array()[0].as_string());
  EXPECT_NE(result.err.find("\"" + shown + "\""), std::string::npos) << result.err;
}

TEST(Run, ASeedWithoutSamplingIsSaidToDoNothing) {
  EXPECT_NE(knapsack({"run", talker, "-p", "hello", "-n", "1", "-s", "7"}).err.find("--seed changes nothing"),
            std::string::npos);
  for (const char* quiet : {"--top-k=4", "-q"})
    EXPECT_EQ(knapsack({"run", talker, "-p", "hello", "-n", "1", "-s", "7", quiet}).err.find("--seed"),
              std::string::npos);
}

TEST(Run, AnOptionThatChangesNothingIsNamed) {
  for (const auto& [words, idle] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--mirostat-tau", "3"}, "--mirostat-tau"},
           {{"--mirostat-eta", "0.2"}, "--mirostat-eta"},
           {{"--dry-base", "2"}, "--dry-base"},
           {{"--dry-allowed-length", "3"}, "--dry-allowed-length"},
           {{"--dry-window", "8"}, "--dry-window"},
           {{"--dry-breaker", "x"}, "--dry-breaker"},
           {{"--penalty-window", "8"}, "--penalty-window"},
           {{"--temp", "0", "--top-k", "4"}, "--top-k"},
           {{"--temp", "0", "--mirostat", "2"}, "--mirostat"},
           {{"--mirostat", "2", "--min-p", "0.1"}, "--min-p"},
           {{"--mirostat", "2", "--mirostat-tau", "3"}, ""},
           {{"--dry-multiplier", "1", "--dry-base", "2", "--dry-breaker", "x"}, ""},
           {{"--repeat-penalty", "1.1", "--penalty-window", "8"}, ""},
           {{"--top-k", "4", "--typical", "0.9"}, ""}}) {
    std::vector<std::string> all{"run", talker, "-p", "hello", "-n", "1"};
    all.insert(all.end(), words.begin(), words.end());
    const auto result = knapsack(all);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const bool warned = result.err.find("changes nothing") != std::string::npos;
    EXPECT_EQ(warned, !idle.empty()) << words[0] << result.err;
    const std::string said = idle.empty() ? "" : "knapsack: warning: " + idle + " changes nothing: ";
    EXPECT_NE(result.err.find(said), std::string::npos) << result.err;
  }
}

TEST(Run, MinusOneIsTheDefaultAsInLlamaCpp) {
  const std::vector<std::string> words{"run", talker, "-p", "hello", "--ctx", "12", "--ignore-eos", "--json"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return object_of(knapsack(more));
  };
  EXPECT_EQ(with({"-n", "-1"}).at("token_ids"), with({}).at("token_ids"));
  EXPECT_EQ(with({"-n", "-1"}).at("finish_reason").as_string(), "context");
  EXPECT_NE(with({"--temp", "1", "-s", "-1"}).at("seed"), with({"--temp", "1", "-s", "-1"}).at("seed"));
  EXPECT_EQ(with({"-s", "-1"}).at("seed").to_number<std::int64_t>(), 0) << "nothing is drawn";
  expect_error(knapsack({"run", talker, "-p", "a", "-n", "-2"}), 2);
  expect_error(knapsack({"run", talker, "-p", "a", "-s", "-2"}), 2);
}

TEST(Run, MoreThreadsThanCoresAreSaidToWait) {
  const auto with = [](const std::string& threads) {
    return knapsack({"run", talker, "-p", "hello", "-n", "1", "-t", threads, "--cpus", "0"}).err;
  };
  EXPECT_NE(with("2").find("--threads 2: this process may use 1 core;"), std::string::npos) << with("2");
  EXPECT_EQ(with("1").find("warning"), std::string::npos) << with("1");
}

TEST(Run, ASeedGivesOneTextOnAnyThreadCount) {
  const auto text = [](const char* seed, const char* threads) {
    return knapsack({"run", talker, "-p", "hello", "-n", "24", "--temp", "1.5", "--seed", seed, "--threads", threads})
        .out;
  };
  EXPECT_EQ(text("7", "1"), text("7", "3"));
  EXPECT_NE(text("7", "1"), text("8", "1"));
}

TEST(Run, TheContextIsAContract) {
  const auto too_long = knapsack({"run", talker, "-p", "hello", "--ctx", "3"});
  expect_error(too_long, 2);
  EXPECT_NE(too_long.err.find("the prompt has 4 tokens, the context holds 3"), std::string::npos) << too_long.err;
  std::string book;
  while (book.size() < 1'000'000) book += "hello ";
  const auto far_too_long = knapsack({"run", talker, "-f", "-", "--ctx", "64"}, book);
  expect_error(far_too_long, 2);
  EXPECT_NE(far_too_long.err.find("the prompt has more than "), std::string::npos) << far_too_long.err;
  EXPECT_NE(far_too_long.err.find(", the context holds 64; shorten"), std::string::npos) << far_too_long.err;
  const auto exact = object_of(knapsack({"run", talker, "-p", "hello", "--ctx", "4", "--json"}));
  EXPECT_EQ(exact.at("completion_tokens").as_int64(), 0);
  EXPECT_EQ(exact.at("finish_reason").as_string(), "context");
  const auto full = object_of(knapsack({"run", talker, "-p", "hello", "--ctx", "9", "--json", "--ignore-eos"}));
  EXPECT_EQ(full.at("completion_tokens").as_int64(), 5);
  EXPECT_EQ(full.at("finish_reason").as_string(), "context");
}

TEST(Run, IdsNeedNoTokenizer) {
  const auto object = object_of(knapsack({"run", mute, "--ids", "1,2,3", "-n", "4", "--json"}));
  EXPECT_EQ(object.at("token_ids").as_array().size(), 4U);
  expect_error(knapsack({"run", mute, "-p", "hello"}), 4);
  expect_error(knapsack({"run", mute, "--ids", "1,2,99999"}), 2);
  expect_error(knapsack({"run", mute, "--ids", "1,x"}), 2);
}

TEST(Run, UsageErrorsBeforeAnyWork) {
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"run", talker},
                                             {"run", talker, "-p", "a", "-f", "b"},
                                             {"run", talker, "-p", "a", "--temp", "-1"},
                                             {"run", talker, "-p", "a", "--top-p", "1.5"},
                                             {"run", talker, "-p", "a", "--logit-bias", "5"},
                                             {"run", talker, "-p", "a", "--logit-bias", "5=nan"},
                                             {"run", talker, "-p", "a", "--logit-bias", "99999=1"},
                                             {"run", talker, "-p", "a", "--stop", ""},
                                             {"run", talker, "-p", "a", "--mirostat", "1"},
                                             {"run", talker, "-p", "a", "--greedy", "--temp", "1"},
                                             {"run", talker, "-p", "a", "--kv", "f8"},
                                             {"run", talker, "-p", "a", "--threads", "1025"},
                                             {"run", talker, "-p", "a", "--speculate", "much"},
                                             {"run", talker, "-p", "a", "--guesses", "0"},
                                             {"run", talker, "-p", "a", "--speculate", "off", "--draft", talker},
                                             {"run", talker, "-p", "a", "--system", "b"}})
    expect_error(knapsack(words), 2);
  expect_error(knapsack({"run", talker, "-p", "a", "-n", "1"}, "", {"KNAPSACK_ISA=sse9"}), 2);
  expect_error(knapsack({"run", "no/such/model", "-p", "a"}), 3);
  expect_error(knapsack({"run", talker, "-p", "a", "--draft", "no/such/model"}), 3);
  expect_error(knapsack({"run", talker, "-f", "no/such/file"}), 3);
}

// What stands on the command line is usage; what is read is bad input.
TEST(Input, WhoseMistakeItIs) {
  TempDir folder;
  const std::string bad = "bad \xff utf8", file = folder.file("bad.txt"), ids = folder.file("ids.txt"),
                    vars = folder.file("v.json");
  testing::write_file(file, bad);
  testing::write_file(ids, "1 2 99999");
  testing::write_file(vars, "{}");
  for (const auto& words : std::vector<std::vector<std::string>>{{"run", talker, "-p", bad},
                                                                 {"run", talker, "-p", "a", "--chat", "--system", bad},
                                                                 {"run", talker, "-p", "a", "--stop", bad},
                                                                 {"run", mute, "--ids", "1,99999"},
                                                                 {"chat", talker, "-p", bad},
                                                                 {"chat", talker, "-p", "a", "--system", bad},
                                                                 {"tokenize", talker, bad},
                                                                 {"detokenize", talker, "1", bad},
                                                                 {"detokenize", talker, "1", "99999"},
                                                                 {"logits", mute, "--ids", "1,x", "-o", "-"}})
    expect_error(knapsack(words), 2);
  for (const auto& words : std::vector<std::vector<std::string>>{{"run", talker, "-f", file},
                                                                 {"run", talker, "-f", "-"},
                                                                 {"chat", talker},
                                                                 {"chat", talker, "--load", file, "-p", "a"},
                                                                 {"tokenize", talker, "-f", file},
                                                                 {"tokenize", talker, "--stdin"},
                                                                 {"detokenize", talker, "--stdin"},
                                                                 {"template", talker, "--vars", file},
                                                                 {"template", talker, "--vars", "-"},
                                                                 {"template", file, "--vars", vars},
                                                                 {"perplexity", talker, file},
                                                                 {"perplexity", talker, "-"},
                                                                 {"logits", mute, "--ids-file", file, "-o", "-"},
                                                                 {"logits", mute, "--ids-file", ids, "-o", "-"}})
    expect_error(knapsack(words, bad), 3);
  expect_error(knapsack({"detokenize", talker, "--stdin"}, "1 x"), 3);
  expect_error(knapsack({"detokenize", talker, "--stdin"}, "1 99999"), 3);
  const auto told = knapsack({"tokenize", talker, "--stdin"}, bad);
  EXPECT_NE(told.err.find("standard input: expected text in UTF-8, found something else at byte 4"), std::string::npos)
      << told.err;
}

TEST(Input, APipeIsReadAndADeviceIsNot) {
  const auto shell = [](const std::string& script) {
    return run({"bash", "-c", script}, "", {"KNAPSACK=" + binary(), "MODEL=" + talker});
  };
  const std::string ids = knapsack({"tokenize", talker, "hello"}).out;
  EXPECT_EQ(shell("\"$KNAPSACK\" tokenize \"$MODEL\" -f <(printf hello)").out, ids);
  EXPECT_EQ(shell("printf hello | \"$KNAPSACK\" tokenize \"$MODEL\" -f /dev/stdin").out, ids);
  EXPECT_EQ(shell("\"$KNAPSACK\" template <(printf '{{ a }}') --vars <(printf '{\"a\": 5}')").out, "5");
  EXPECT_EQ(shell("printf '{{ a }}' | \"$KNAPSACK\" template - --vars <(printf '{\"a\": 5}')").out, "5");
  expect_error(knapsack({"template", "-", "--vars", "-"}), 2);
  const TempDir empty;
  expect_error(shell("\"$KNAPSACK\" template " + empty.path().string() + " --vars <(printf '{}')"), 3);
  expect_error(knapsack({"tokenize", talker, "-f", "/dev/zero"}), 3);
  expect_error(shell("\"$KNAPSACK\" inspect <(printf GGUF)"), 3);
}

TEST(Outputs, ALinkToAPipeIsWrittenTo) {
  const auto through = run({"bash", "-c", "\"$KNAPSACK\" logits \"$MODEL\" --ids 1 -q -o /dev/stdout | cat"}, "",
                           {"KNAPSACK=" + binary(), "MODEL=" + talker});
  EXPECT_EQ(through.err, "");
  EXPECT_EQ(through.out, knapsack({"logits", talker, "--ids", "1", "-q", "-o", "-"}).out);
}

TEST(Input, AnEmptyNameIsUsage) {
  expect_error(knapsack({"inspect", ""}), 2);
  expect_error(knapsack({"tokenize", talker, "-f", ""}), 2);
  expect_error(knapsack({"convert", talker, "-o", ""}), 2);
  expect_error(knapsack({"convert", talker, "-o", "-"}), 2);
}

TEST(Run, AMemoryItCannotHaveIsAResourceError) {
  expect_error(knapsack({"run", talker, "-p", "a", "--ctx", "2147483647"}), 5);
}

TEST(Run, TextThatCannotBeWrittenStopsIt) {
  const auto full = run({"bash", "-c", "\"$1\" run \"$2\" -p hello -n 50 > /dev/full", "bash", binary(), talker});
  EXPECT_EQ(full.exit_code, 5);
  EXPECT_TRUE(one_error_line(full.err)) << full.err;
  const auto closed = run(
      {"bash", "-c", "set -o pipefail; \"$1\" run \"$2\" -p hello -n 200 -q | head -c 1", "bash", binary(), talker});
  EXPECT_EQ(closed.exit_code, 0);
  EXPECT_EQ(closed.err, "");
}

TEST(Run, ModelsWithChineseNamesWork) {
  TempDir folder;
  const std::string model = folder.file("模型 ü");
  std::filesystem::copy(talker, model);
  const auto result = knapsack({"run", model, "-p", "hello", "-n", "3"}, "", {"LC_ALL=C"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto missing = knapsack({"run", folder.file("没有"), "-p", "hello"}, "", {"LC_ALL=C"});
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_NE(missing.err.find("没有"), std::string::npos) << missing.err;
}

TEST(Chat, TurnsComeFromAPipe) {
  const auto result = knapsack({"chat", talker, "-n", "6", "--greedy"}, "hello\n/stats\nagain\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("1 answer; context "), std::string::npos) << result.err;
  const auto json = object_of(knapsack({"chat", talker, "-n", "6", "--greedy", "--json"}, "hello\nagain"));
  ASSERT_EQ(json.at("turns").as_array().size(), 2U);
  const auto& turn = json.at("turns").as_array()[1].as_object();
  EXPECT_EQ(turn.at("prompt").as_string(), "again");
  EXPECT_EQ(result.out, std::string(json.at("turns").as_array()[0].as_object().at("text").as_string()) + "\n" +
                            std::string(turn.at("text").as_string()) + "\n");
}

TEST(Chat, ATextFromAPipeThatIsNeverClosedIsNotDropped) {
  expect_error(knapsack({"chat", talker, "-n", "2", "-q"}, "\"\"\"one\ntwo\n"), 3);
}

TEST(Chat, SavesLoadsAndForgets) {
  TempDir folder;
  const std::string file = folder.file("talk.json");
  const auto saved =
      knapsack({"chat", talker, "-n", "4", "--system", "Be brief."},
               "hello\n/save " + file + "\n/reset\n/load " + file + "\n/save " + folder.file("again.json") + "\n");
  EXPECT_EQ(saved.exit_code, 0) << saved.err;
  EXPECT_EQ(testing::read_file(file), testing::read_file(folder.file("again.json")));
  const auto object = parse_json_object(testing::read_file(file), "file");
  ASSERT_TRUE(object);
  EXPECT_EQ(object->at("messages").as_array().size(), 3U);
  EXPECT_EQ(knapsack({"chat", talker, "-n", "4", "--load", file, "-p", "more"}).exit_code, 0);
  for (
      const char* broken :
      {"", "{}", "[]", R"({"format": "x", "version": 1})",
       R"({"format": "knapsack conversation", "version": 1, "model": "", "model_hash": "", "messages": [{"role": "robot", "content": ""}]})",
       R"({"format": "knapsack conversation", "version": 1, "model": "", "model_hash": "", "messages": [1]})"}) {
    testing::write_file(file, broken);
    expect_error(knapsack({"chat", talker, "--load", file, "-p", "more"}), 3);
  }
  expect_error(knapsack({"chat", talker}, "/save /no/such/folder/x\n"), 2);
  expect_error(knapsack({"chat", talker}, "/sav x\n"), 2);
}

TEST(Chat, AFullContextIsSaidAndNoCrash) {
  const auto filled = knapsack({"chat", talker, "--ctx", "40", "--greedy", "--ignore-eos", "-p", "hi"});
  EXPECT_EQ(filled.exit_code, 0) << filled.err;
  EXPECT_NE(filled.err.find("/reset"), std::string::npos) << filled.err;
  const auto beyond = knapsack({"chat", talker, "--ctx", "8", "-p", "a text that is far too long for this"});
  EXPECT_EQ(beyond.exit_code, 2);
}

TEST(Chat, WithoutATemplateItSaysWhatToDo) {
  const auto result = knapsack({"chat", mute, "-p", "hi"});
  expect_error(result, 4);
  EXPECT_NE(result.err.find("knapsack run"), std::string::npos) << result.err;
}

TEST(Tokenize, RoundTripWithoutWeightsOrConfig) {
  TempDir folder;
  std::filesystem::copy(talker + "/tokenizer.json", folder.file("tokenizer.json"));
  for (const std::string& model : {talker, folder.path().string(), folder.file("tokenizer.json")}) {
    const auto ids = knapsack({"tokenize", model, "hello 世界"});
    EXPECT_EQ(ids.exit_code, 0) << ids.err;
    EXPECT_EQ(knapsack({"detokenize", model, "--stdin"}, ids.out).out, "hello 世界");
    const auto json = object_of(knapsack({"tokenize", model, "--stdin", "--json"}, "hello 世界"));
    EXPECT_EQ(json.at("ids").as_array().size(), json.at("pieces").as_array().size());
  }
  EXPECT_EQ(knapsack({"tokenize", talker, ""}).out, "\n");
  EXPECT_EQ(object_of(knapsack({"detokenize", talker, "--json", "260", "78"})).at("text").as_string(), "hel");
  expect_error(knapsack({"tokenize", talker}), 2);
  expect_error(knapsack({"tokenize", mute, "a"}), 3);
  expect_error(knapsack({"tokenize", folder.file("none"), "a"}), 3);
  expect_error(knapsack({"detokenize", talker, "512"}), 2);
  expect_error(knapsack({"detokenize", talker, "99999999999999999999"}), 2);
}

TEST(Tokenize, SpecialTokensAreRecognisedAndNoneAdded) {
  const auto json = object_of(knapsack({"tokenize", talker, "<|im_start|>", "--json"}));
  ASSERT_EQ(json.at("ids").as_array().size(), 1U);
  const std::string id = std::to_string(json.at("ids").as_array()[0].as_int64());
  EXPECT_EQ(knapsack({"detokenize", talker, id}).out, "<|im_start|>");
  EXPECT_EQ(knapsack({"detokenize", talker, "--skip-special", id}).out, "");
}

TEST(Template, StdoutIsTheTextAndNothingElse) {
  TempDir folder;
  testing::write_file(folder.file("t.jinja"),
                      "{{ bos_token }}|{{ x }}|{{ strftime_now('%d %b %Y') }}|{{ tools is none }}");
  testing::write_file(folder.file("v.json"), R"({"x": "世", "bos_token": "<s>"})");
  const auto text =
      knapsack({"template", folder.file("t.jinja"), "--vars", folder.file("v.json"), "--clock", "2026-07-01T12:30:00"});
  EXPECT_EQ(text.out, "<s>|世|01 Jul 2026|True");
  EXPECT_EQ(text.err, "");
  const auto model =
      knapsack({"template", talker, "--vars", "-"}, R"({"messages": [{"role": "user", "content": "Hi"}]})");
  EXPECT_EQ(model.out, "<|im_start|>user\nHi<|im_end|>\n");
  expect_error(knapsack({"template", mute, "--vars", folder.file("v.json")}), 4);
  testing::write_file(folder.file("bad.jinja"), "{% if %}");
  expect_error(knapsack({"template", folder.file("bad.jinja"), "--vars", folder.file("v.json")}), 3);
  testing::write_file(folder.file("raise.jinja"), "{{ raise_exception('no') }}");
  expect_error(knapsack({"template", folder.file("raise.jinja"), "--vars", folder.file("v.json")}), 3);
  expect_error(knapsack({"template", folder.file("t.jinja"), "--vars", "-"}, "[]"), 3);
  expect_error(knapsack({"template", folder.file("t.jinja")}), 2);
  expect_error(knapsack({"template", folder.file("t.jinja"), "--vars", folder.file("v.json"), "--clock", "noon"}), 2);
}

TEST(Logits, WritesWhatNumpyReads) {
  TempDir folder;
  const std::string path = folder.file("l.npy");
  const auto json = object_of(knapsack({"logits", mute, "--ids", "1,2,3", "-o", path, "--json"}));
  EXPECT_EQ(json.at("tokens").as_int64(), 3);
  const auto vocab = json.at("vocab").as_int64();
  const std::string bytes = testing::read_file(path);
  EXPECT_EQ(bytes.size() % 64, static_cast<std::size_t>(3 * vocab * 4) % 64);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_NE(bytes.find("'descr': '<f4', 'fortran_order': False, 'shape': (3, " + std::to_string(vocab) + ")"),
            std::string::npos);
  EXPECT_EQ(knapsack({"logits", mute, "--ids-file", "-", "-o", "-"}, "1 2\n3\n").out, bytes);
  expect_error(knapsack({"logits", mute, "--ids", "1,99999", "-o", path}), 2);
  expect_error(knapsack({"logits", mute, "--ids", "", "-o", path}), 2);
  expect_error(knapsack({"logits", mute, "--ids", "1,2,3", "--ctx", "2", "-o", path}), 2);
  expect_error(knapsack({"logits", mute, "--ids", "1", "-o", "/dev/full"}), 5);
  expect_error(knapsack({"logits", mute, "--ids", "1"}), 2);
  EXPECT_EQ(testing::read_file(path), bytes) << "a failure leaves the old file";
}

TEST(Convert, TheResultHasTheSameLogits) {
  TempDir folder;
  const std::string out = folder.file("m.gguf");
  const auto json = object_of(knapsack({"convert", talker, "-o", out, "--type", "f32", "--json"}));
  EXPECT_EQ(json.at("bytes").as_int64(), static_cast<std::int64_t>(std::filesystem::file_size(out)));
  // RoPE's factors are a tensor there, read with the configuration: nothing to be warned of.
  const std::string factors = folder.file("rope.gguf");
  const std::string llama3 = testing::data_path("golden/llama-llama3rope").string();
  EXPECT_EQ(knapsack({"convert", llama3, "-o", factors}).exit_code, 0);
  const auto named = knapsack({"inspect", factors, "--tensors"});
  EXPECT_NE(named.out.find("rope_freqs.weight"), std::string::npos);
  EXPECT_EQ(named.out.find("oddities"), std::string::npos) << named.out;
  std::filesystem::remove(factors);
  const auto logits = [](const std::string& model) {
    const std::string bytes = knapsack({"logits", model, "--ids", "1,2,3", "-o", "-"}).out;
    std::vector<float> values((bytes.size() - 128) / 4);
    std::memcpy(values.data(), bytes.data() + 128, values.size() * 4);
    return values;
  };
  const auto before = logits(talker), after = logits(out);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) ASSERT_NEAR(before[i], after[i], 2e-4);
  expect_error(knapsack({"convert", talker, "-o", out}), 2);
  EXPECT_EQ(knapsack({"convert", talker, "-o", out, "--force"}).exit_code, 0);
  expect_error(knapsack({"convert", out, "-o", out, "--force"}), 2);
  expect_error(knapsack({"convert", talker, "-o", folder.path().string()}), 2);
  expect_error(knapsack({"convert", talker, "-o", folder.file("x"), "--type", "q4_0"}), 2);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "nothing else is left";
}

TEST(Outputs, TheModelIsNeverWrittenOver) {
  TempDir folder;
  const std::string model = folder.file("model"), gguf = folder.file("m-00001-of-00002.gguf");
  std::filesystem::copy(talker, model);
  ASSERT_EQ(knapsack({"convert", talker, "-o", gguf}).exit_code, 0);
  std::filesystem::create_symlink(gguf, folder.file("link.gguf"));
  testing::write_file(folder.file("m-00002-of-00002.gguf"), "part");
  const std::vector<std::pair<std::string, std::string>> cases{{gguf, gguf},
                                                               {gguf, folder.file("link.gguf")},
                                                               {folder.file("link.gguf"), gguf},
                                                               {gguf, folder.file("m-00002-of-00002.gguf")},
                                                               {model, model + "/model.safetensors"},
                                                               {model, model + "/tokenizer.json"}};
  for (const auto& [source, output] : cases) {
    const std::string before = testing::read_file(output);
    expect_error(knapsack({"convert", source, "-o", output, "--force"}), 2);
    expect_error(knapsack({"logits", source, "--ids", "1", "-o", output}), 2);
    EXPECT_EQ(knapsack({"chat", source, "-q"}, "/save " + output + "\n").exit_code, 2);
    EXPECT_EQ(testing::read_file(output), before);
  }
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(knapsack({"logits", model, "--ids", "1", "-o", model + "/logits.npy"}).exit_code, 0);
    EXPECT_EQ(knapsack({"convert", model, "-o", model + "/m.gguf", "--force"}).exit_code, 0);
  }
}

TEST(Convert, AnEndTokenBeyondTheVocabularyIsLeftOut) {
  TempDir folder;
  const std::string model = folder.file("model");
  std::filesystem::copy(talker, model);
  for (const char* name : {"config.json", "generation_config.json", "tokenizer_config.json"}) {
    auto object = *parse_json_object(testing::read_file(model + "/" + name), name);
    object.erase("eos_token");
    if (std::string_view(name) != "tokenizer_config.json") object["eos_token_id"] = 5000;
    testing::write_file(model + "/" + name, json::serialize(object));
  }
  ASSERT_EQ(knapsack({"convert", model, "-o", folder.file("m.gguf")}).exit_code, 0);
  const auto reopened = knapsack({"inspect", folder.file("m.gguf")});
  EXPECT_EQ(reopened.exit_code, 0) << reopened.err;
}

TEST(Convert, WhatGgufHasNoPlaceForIsToldWithTheModelsName) {
  TempDir folder;
  const auto result = knapsack({"convert", mute, "-o", folder.file("m.gguf")});
  expect_error(result, 4);
  EXPECT_NE(result.err.find(mute + ": "), std::string::npos) << result.err;
}

// What the models compute: tests/export/onnx_test.py.
TEST(Export, WritesTwoModelsOverOneFileOfWeights) {
  TempDir folder;
  const std::string out = folder.file("onnx");
  const std::vector<std::string> words{"export", talker, "-o", out, "--ctx", "64", "--chunk", "16", "--json"};
  const auto json = object_of(knapsack(words));
  const auto& models = json.at("models").as_array();
  ASSERT_EQ(models.size(), 2U);
  EXPECT_EQ(models[0].as_object().at("tokens").as_int64(), 16);
  EXPECT_EQ(models[1].as_object().at("tokens").as_int64(), 1);
  EXPECT_EQ(json.at("data").as_object().at("bytes").as_int64(),
            static_cast<std::int64_t>(std::filesystem::file_size(out + "/weights.data")));
  for (const char* name : {"prefill.onnx", "decode.onnx", "tokenizer.json"})
    EXPECT_TRUE(std::filesystem::exists(out + "/" + name)) << name;
  const auto again = knapsack(words);
  EXPECT_EQ(again.exit_code, 2) << again.err;
  EXPECT_NE(again.out.find("--force"), std::string::npos) << again.out;
  expect_error(knapsack({"export", talker, "-o", out, "--force", "--ctx", "64", "--chunk", "7"}), 2);
  expect_error(knapsack({"export", talker, "-o", out, "--force", "--ctx", "10000000"}), 2);
  expect_error(knapsack({"export", talker, "-o", out + "/decode.onnx"}), 2);
  expect_error(knapsack({"export", talker, "-o", talker}), 2);  // its tokenizer.json
}

// Two at once would leave the models of one beside the weights of the other.
TEST(Export, AFolderIsOneExportsAtATime) {
  TempDir folder;
  const std::string script =
      "exec 9< \"$FOLDER\"; flock -x 9; \"$KNAPSACK\" export \"$MODEL\" -o \"$FOLDER\" --force -q";
  const auto result =
      run({"bash", "-c", script}, "", {"KNAPSACK=" + binary(), "MODEL=" + talker, "FOLDER=" + folder.path().string()});
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_NE(result.err.find("another process is writing into this folder"), std::string::npos) << result.err;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// A disk that fills up, and what was there before: no folder is left, and no half of two exports.
TEST(Export, AFailureLeavesWhatWasThere) {
  TempDir folder;
  const std::vector<std::string> env{"KNAPSACK=" + binary(), "MODEL=" + talker, "FOLDER=" + folder.path().string()};
  const std::string limited = "ulimit -f 60; exec \"$KNAPSACK\" export \"$MODEL\" --force -q -o \"$FOLDER\"/";
  EXPECT_EQ(run({"bash", "-c", limited + "a/b"}, "", env).exit_code, 5);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  ASSERT_EQ(knapsack({"export", talker, "-o", folder.file("c"), "--ctx", "64", "-q"}).exit_code, 0);
  std::map<std::string, std::string> before;
  for (const auto& file : std::filesystem::directory_iterator(folder.file("c")))
    before[file.path().filename()] = testing::read_file(file.path());
  ASSERT_EQ(before.size(), 4U);
  EXPECT_EQ(run({"bash", "-c", limited + "c"}, "", env).exit_code, 5);
  for (const auto& [name, bytes] : before) EXPECT_TRUE(testing::read_file(folder.file("c/" + name)) == bytes) << name;
}

TEST(Perplexity, BothMethodsReport) {
  const std::string text = testing::data_path("data/perplexity.txt").string();
  for (const char* method : {"sliding", "llama"}) {
    const auto json = object_of(knapsack({"perplexity", talker, text, "--method", method, "--window", "32", "--stride",
                                          "16", "--max-tokens", "100", "--json"}));
    for (const char* key :
         {"perplexity", "nll", "bits_per_byte", "tokens", "tokens_per_s", "window", "stride", "method"})
      EXPECT_TRUE(json.contains(key)) << key;
    EXPECT_EQ(json.at("method").as_string(), method);
  }
  expect_error(knapsack({"perplexity", talker, "-"}, ""), 3);
  expect_error(knapsack({"perplexity", talker, text, "--window", "32", "--stride", "64"}), 2);
  expect_error(knapsack({"perplexity", talker, text, "--window", "3"}), 2);
  EXPECT_EQ(object_of(knapsack({"perplexity", talker, text, "--window", "32", "--json", "-q"})).at("stride").as_int64(),
            16);
  expect_error(knapsack({"perplexity", talker, "no/such/file"}), 3);
  const auto of_two = knapsack({"perplexity", talker, text, "--max-tokens", "2", "-q"});  // one is scored
  EXPECT_EQ(of_two.out.find("+/-"), std::string::npos) << of_two.out;
  EXPECT_TRUE(object_of(knapsack({"perplexity", talker, text, "--max-tokens", "2", "--json", "-q"}))
                  .at("standard_error")
                  .is_null());
}

TEST(Inspect, TellsAllInLittleMemory) {
  for (const std::string& model : {talker, mute}) {
    const auto text = knapsack({"inspect", model, "--tensors"});
    EXPECT_EQ(text.exit_code, 0) << text.err;
    EXPECT_NE(text.out.find("model.embed_tokens.weight"), std::string::npos);
    EXPECT_EQ(text.err, "");
    const auto json = object_of(knapsack({"inspect", model, "--json"}));
    for (const char* key : {"architecture", "parameters", "types", "tensors", "bits_per_weight", "kv_bytes_per_token",
                            "tokenizer", "chat_template", "oddities", "model_hash", "format"})
      EXPECT_TRUE(json.contains(key)) << key;
  }
  const auto checked = object_of(knapsack({"inspect", mute, "--check", "--json"}));
  EXPECT_EQ(checked.at("sha256").as_string().size(), 64U);
  EXPECT_TRUE(checked.at("faults").as_array().empty());
}

// The same operators from a checkpoint, from its config alone, and from a folder without weights.
TEST(Inspect, OperatorsOfADevice) {
  const std::string folder = testing::data_path("golden/qwen2-tied-gqa").string();
  const auto counts = [](const std::string& model) {
    const auto result = knapsack({"inspect", model, "--device", "rk3588", "--ctx", "64", "--prompt", "16", "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const json::object object = object_of(result);
    for (const char* key : {"model", "device", "toolchain", "ctx", "prompt", "prefill", "decode", "unknown"})
      EXPECT_TRUE(object.contains(key)) << key;
    return object.at("decode").at("operators");
  };
  const json::value whole = counts(folder);
  EXPECT_FALSE(whole.as_array().empty());
  EXPECT_EQ(counts(folder + "/config.json"), whole);
  EXPECT_FALSE(counts("qwen2.5-0.5b").as_array().empty());
  const auto unknown = knapsack({"inspect", folder, "--device", "rk3589"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("rk3588"), std::string::npos) << unknown.err;
}

TEST(Inspect, ToolchainsOfAVersion) {
  const std::string folder = testing::data_path("golden/qwen2-tied-gqa").string();
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"inspect", folder, "--device", "snapdragon-8-gen-3"};
    words.insert(words.end(), more.begin(), more.end());
    return knapsack(words);
  };
  const auto old = with({"--toolchain", "qairt@2.41"});
  EXPECT_EQ(old.exit_code, 0) << old.err;
  EXPECT_NE(old.out.find("2.39-2.49, as of 2.41 (qairt-2.39-2.49)"), std::string::npos) << old.out;
  EXPECT_NE(old.out.find("as one RotaryEmbedding from 2.45 on; this is 2.41"), std::string::npos);
  EXPECT_EQ(object_of(with({"--toolchain", "qairt", "--json"})).at("toolchain").at("at"), "2.49");
  const auto outside = with({"--toolchain", "qairt@2.50"});
  EXPECT_EQ(outside.exit_code, 2);
  EXPECT_NE(outside.err.find("there is one of 2.39-2.49"), std::string::npos) << outside.err;
  EXPECT_EQ(with({"--toolchain", "qiart"}).exit_code, 2);
}

TEST(Inspect, OperatorsOfOneLayer) {
  const std::string folder = testing::data_path("golden/deepseek-v2-lite").string();
  const auto nodes = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"inspect", folder, "--device", "rk3588", "--ctx", "64", "--prompt", "16", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return object_of(knapsack(words)).at("decode").at("nodes").as_array();
  };
  const json::array all = nodes({});
  const json::array one = nodes({"--layer", "0"});
  EXPECT_LT(one.size() * 2, all.size());
  for (const json::value& node : one) {
    const json::value* layer = node.as_object().if_contains("layer");
    EXPECT_TRUE(layer == nullptr || layer->as_int64() == 0);
  }
  const auto refused = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"inspect", folder};
    words.insert(words.end(), more.begin(), more.end());
    return knapsack(words).exit_code;
  };
  EXPECT_EQ(refused({"--layer", "0"}), 2);
  EXPECT_EQ(refused({"--device", "rk3588", "--layer", "0"}), 2);
  EXPECT_EQ(refused({"--device", "rk3588", "--layer", "3", "--json"}), 2);
  EXPECT_EQ(refused({"--link-latency-us", "10"}), 2);
}

TEST(Inspect, WhatCrossingsTake) {
  const std::string folder = testing::data_path("golden/deepseek-v2-lite").string();
  const auto time = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"inspect", folder, "--device", "rk3588", "--ctx", "64", "--prompt", "16", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const json::object fragments = object_of(knapsack(words)).at("decode").at("fragments").as_object();
    return std::pair{fragments.at("crossings_us"), fragments.at("crossings_at_least_us")};
  };
  // RK3588 shares its memory and says no latency.
  EXPECT_TRUE(time({}).first.is_null());
  EXPECT_GT(time({}).second.to_number<double>(), 0);
  EXPECT_GT(time({"--link-latency-us", "10"}).first.to_number<double>(), 10);
  const auto board = knapsack({"inspect", folder, "--device", "raspberry-pi-5", "--ctx", "64", "--prompt", "16"});
  EXPECT_NE(board.out.find("no NPU        everything runs on the CPU"), std::string::npos) << board.out;
}

TEST(Inspect, SaysWhatMemoryAContextTakes) {
  const auto memory = [](const std::vector<std::string>& more) {
    std::vector<std::string> words{"inspect", talker, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return object_of(knapsack(words)).at("memory").as_object();
  };
  const auto usual = memory({}), small = memory({"--ctx", "16"});
  const auto per_token = object_of(knapsack({"inspect", talker, "--json"})).at("kv_bytes_per_token").as_int64();
  EXPECT_EQ(usual.at("ctx").as_int64(), 256) << "what it was trained for";
  EXPECT_EQ(small.at("kv").as_int64(), 16 * per_token);
  EXPECT_EQ(usual.at("weights"), small.at("weights"));
  EXPECT_GT(small.at("activations").as_int64(), 0);
  EXPECT_EQ(small.at("total").as_int64(), small.at("weights").as_int64() + small.at("kv").as_int64() +
                                              small.at("activations").as_int64() + small.at("tokenizer").as_int64());
  EXPECT_GT(small.at("tokenizer").as_int64(), 0);
  EXPECT_NE(knapsack({"inspect", talker, "-c", "16"}).out.find(" at a context of 16: weights "), std::string::npos);
}

TEST(Inspect, NotANumberIsAWarningAndUnderCheckAnError) {
  TempDir folder;
  const std::string model = folder.file("m");
  std::filesystem::copy(mute, model);
  std::string bytes = testing::read_file(model + "/model.safetensors");
  const unsigned char nan[4] = {0, 0, 0xc0, 0x7f};
  std::memcpy(bytes.data() + bytes.size() - 64, nan, 4);  // in the last tensor, a norm or a matrix
  testing::write_file(model + "/model.safetensors", bytes);
  EXPECT_EQ(knapsack({"inspect", model}).exit_code, 0);
  const auto checked = knapsack({"inspect", model, "--check"});
  EXPECT_EQ(checked.exit_code, 3);
  EXPECT_TRUE(one_error_line(checked.err)) << checked.err;
  const auto json = object_of(knapsack({"inspect", model, "--check", "--json"}));
  EXPECT_EQ(json.at("error").as_object().at("code").as_int64(), 3);
}

}  // namespace
}  // namespace knapsack
