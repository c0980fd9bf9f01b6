// A GGUF file -> Imported: config and weights by the architecture its header names; model_text.h reads the rest.
#include "base/hash.h"
#include "files/gguf.h"
#include "import/assemble.h"
#include "import/checkpoint_gguf.h"
#include "import/model_text.h"

namespace knapsack {
namespace {

Result<void> read_text_side(const std::shared_ptr<const GgufFile>& file, Imported& out) {
  TRY(ModelText text, gguf_model_text(file, out.source));
  if (text.tokens > out.config.vocab)
    return bad_input("{}: tokenizer.ggml.tokens: expected at most {} entries (rows of token_embd.weight), found {}",
                     out.source, out.config.vocab, text.tokens);
  if (text.tokens >= 0 && text.tokens < out.config.vocab)
    out.oddities.push_back(
        fmt::format("the vocabulary has {} tokens, the embeddings {} rows", text.tokens, out.config.vocab));
  take_text(std::move(text), out);
  return {};
}

}  // namespace

Result<Opened> open_gguf(const std::string& path) {
  TRY(auto file, GgufFile::open(path));
  Opened opened;
  Imported& out = opened.out;
  out.source = path;
  out.format = fmt::format("GGUF v{}", file->version());
  if (file->parts().size() > 1) out.format += fmt::format(", {} parts", file->parts().size());
  TRY(const auto name, file->string("general.architecture"));
  TRY(opened.row, architecture_of_gguf(name, path));
  out.config.architecture = opened.row->id;
  const GgufKeys keys(*file, path, std::string(name));
  TRY_VOID(opened.row->arch->from_gguf(keys, out.config, out.oddities));
  Sha256 hash;
  for (std::size_t part = 0; part < file->parts().size(); ++part) hash.update(file->header(static_cast<int>(part)));
  out.model_hash = hash.hex();
  opened.checkpoint = gguf_checkpoint(file, path, opened.row->id);
  TRY_VOID(read_text_side(file, out));
  opened.gguf = std::move(file);
  return opened;
}

}  // namespace knapsack
