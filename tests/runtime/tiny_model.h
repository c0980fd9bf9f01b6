// The small decoder of tests/graph with a vocabulary of 37 pieces, as a bundle a session can run. Its text is noise,
// with halves of characters in it.
#pragma once

#include <gtest/gtest.h>

#include "graph/tiny.h"
#include "pipeline/pipeline.h"
#include "runtime/session.h"

namespace knapsack::testing {

// <s> and </s> are special; letters, a space, a newline, the halves of e-acute and of an emoji, some longer pieces.
inline std::string tiny_tokenizer_json() {
  std::string vocab = R"("<s>":0,"</s>":1)";
  for (int i = 0; i < 26; ++i) vocab += fmt::format(R"(,"{}":{})", static_cast<char>('a' + i), i + 2);
  vocab += R"(,"Ġ":28,"Ã":29,"©":30,"ab":31,"Ċ":32,"ðŁ":33,"ĻĤ":34,"!":35,"END":36)";
  return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)"
         R"({"id":0,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},)"
         R"({"id":1,"content":"</s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],)"
         R"("normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},)"
         R"("post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},)"
         R"("model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,)"
         R"("fuse_unk":false,"byte_fallback":false,"ignore_merges":false,"vocab":{)" +
         vocab + R"(},"merges":["a b"]}})";
}

inline Imported tiny_imported(bool with_tokenizer) {
  Imported imported;
  imported.graph = tiny_graph({});
  imported.config.architecture = "llama";
  imported.config.ctx = 512;
  imported.source = "folder/tiny/";
  if (with_tokenizer) imported.tokenizer_json = [] { return Result<std::string>(tiny_tokenizer_json()); };
  imported.tokenizer_config_json = R"({"bos_token":{"content":"<s>"}})";
  return imported;
}

// What a text is, however it was computed.
inline void expect_same_text(const Completion& found, const Completion& expected) {
  EXPECT_EQ(found.ids, expected.ids);
  EXPECT_EQ(found.text, expected.text);
  ASSERT_EQ(found.logprobs.size(), expected.logprobs.size());
  for (std::size_t i = 0; i < found.logprobs.size(); ++i) {
    EXPECT_EQ(found.logprobs[i].logprob, expected.logprobs[i].logprob);
    EXPECT_EQ(found.logprobs[i].top, expected.logprobs[i].top);
  }
}

}  // namespace knapsack::testing
