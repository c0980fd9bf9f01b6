// What commands do with a model alike: declare it, open it with a sign of life, say what is odd about it.
// Not for what a model is: import/, bundle/ and runtime/ know that.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bundle/bundle.h"
#include "cli/commands/command.h"
#include "cli/generation_flags.h"
#include "import/import.h"
#include "pipeline/pipeline.h"
#include "runtime/session.h"
#include "text/tokenizer.h"

namespace knapsack {

// The positional MODEL: of a command that reads all of it, and of one that needs only its tokenizer.
void model_argument(Arguments& arguments, std::string& target);
void tokenizer_argument(Arguments& arguments, std::string& target);

// What a model is made of, for commands that need no weight: a checkpoint, a config.json alone, a folder with one and
// no weights, or the name of a public model (models/*.json).
struct NamedModel {
  Imported imported;
  std::string name;
};
Result<NamedModel> read_shapes(const std::string& model);

// --exact of every command that runs a model.
void exact_flag(Arguments& arguments, bool& exact);
// --kv of the commands that run a model, and what its word means.
void kv_flag(Arguments& arguments, std::string& kv);
DType kv_dtype(std::string_view kv);

// Opens a model that is about to run, and says on stderr what is odd about it. What it merely lacks (a template, a
// tokenizer) is told by the command that needs it.
Result<std::shared_ptr<const Bundle>> open_model(const Context& context, const std::string& path,
                                                 const OpenOptions& options);
// With the threads that the context asks for.
Result<std::unique_ptr<Session>> start_session(const Context& context, std::shared_ptr<const Bundle> bundle,
                                               SessionOptions options);
// With the draft model that the flags name, if any.
Result<std::unique_ptr<Session>> start_session(const Context& context, std::shared_ptr<const Bundle> bundle,
                                               const GenerationFlags& flags);
// Waits for the tokenizer that a session loads beside its other work.
Result<std::shared_ptr<const Tokenizer>> tokenizer_of(const Context& context, Session& session);

// A prompt as ids; a usage error where it cannot fit into the session's context, before a text of many megabytes is
// tokenized. special: as in Tokenizer::encode.
Result<std::vector<std::int32_t>> prompt_ids(const Session& session, const Tokenizer& tokenizer, std::string_view text,
                                             bool special);

// A tokenizer without its model. path: a GGUF, a folder, or a tokenizer.json.
Result<std::shared_ptr<const Tokenizer>> open_tokenizer(const Context& context, const std::string& path);

// Whether the file's first bytes are GGUF's; false also where it cannot be read.
bool begins_as_gguf(const std::string& path);

}  // namespace knapsack
