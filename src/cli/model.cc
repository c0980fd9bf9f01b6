#include "cli/model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string_view>

#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/read_file.h"
#include "import/model_text.h"
#include "import/public_models.h"
#include "report/progress.h"

namespace knapsack {
namespace {

std::string loading(const std::string& path) {
  const std::filesystem::path whole(path);
  return "loading " + (whole.has_filename() ? whole.filename() : whole.parent_path().filename()).string();
}

bool has_weights(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".safetensors") return true;
  return false;
}

Result<Imported> import_bare(const std::string& path) {
  TRY(const std::string text, read_text_file(path, std::size_t{16} << 20));
  return import_config(text, path);
}

void warn_of_oddities(const Bundle& bundle) {
  for (const std::string& oddity : bundle.oddities) {
    const bool lack = oddity.starts_with("no chat template") || oddity.starts_with("no tokenizer (") ||
                      oddity.starts_with("no end token");
    const bool told_by_the_session = oddity.starts_with("a context of ");
    if (!lack && !told_by_the_session) warn("{}: {}", bundle.name, oddity);
  }
}

}  // namespace

void model_argument(Arguments& arguments, std::string& target) {
  arguments.positional("MODEL", target, "a GGUF file or a Hugging Face folder").complete = Complete::model;
}

void kv_flag(Arguments& arguments, std::string& kv) {
  arguments.choice("--kv", kv, {"f16", "f32", "q8_0"}, "how the KV cache is stored; q8_0 takes half of f16's memory");
}
DType kv_dtype(std::string_view kv) { return kv == "f32" ? DType::F32 : kv == "q8_0" ? DType::Q8_0 : DType::F16; }

void exact_flag(Arguments& arguments, bool& exact) {
  arguments.flag("--exact", exact,
                 "multiply a GGUF's quantized weights with float activations: slower, and the logits are the "
                 "reference's; otherwise activations are rounded to 8 bits, a scale for each 32, as llama.cpp does");
}

void tokenizer_argument(Arguments& arguments, std::string& target) {
  arguments.positional("MODEL", target, "a GGUF file, a folder with tokenizer.json, or a tokenizer.json").complete =
      Complete::model;
}

Result<NamedModel> read_shapes(const std::string& model) {
  namespace fs = std::filesystem;
  const auto named = [](Imported imported, std::string name) {
    return NamedModel{.imported = std::move(imported), .name = std::move(name)};
  };
  std::error_code error;
  if (!fs::exists(model, error)) {
    TRY(const PublicModel known, find_public_model(model));
    TRY(Imported imported, import_config(json::serialize(known.config), fmt::format("models/{}.json", known.id)));
    return named(std::move(imported), known.name);
  }
  const std::string name = fs::path(model).lexically_normal().filename().string();
  const fs::path config = fs::path(model) / "config.json";
  if (model.ends_with(".json")) {
    TRY(Imported imported, import_bare(model));
    return named(std::move(imported), name);
  }
  if (fs::is_directory(model, error) && fs::exists(config, error) && !has_weights(model)) {
    TRY(Imported imported, import_bare(config.string()));
    return named(std::move(imported), name);
  }
  TRY(Imported imported, import_model(model, {}));
  return named(std::move(imported), name);
}

Result<std::shared_ptr<const Bundle>> open_model(const Context& context, const std::string& path,
                                                 const OpenOptions& options) {
  Busy busy(loading(path), context.quiet);
  TRY(auto bundle, open_bundle(path, options));
  busy.finish();
  warn_of_oddities(*bundle);
  return bundle;
}

Result<std::unique_ptr<Session>> start_session(const Context& context, std::shared_ptr<const Bundle> bundle,
                                               SessionOptions options) {
  options.threads = context.threads;
  if (const int cores = available_cores(); context.threads > cores)
    warn("--threads {}: this process may use {} core{}; more threads than cores wait for each other", context.threads,
         cores, cores == 1 ? "" : "s");
  const Busy busy("preparing " + bundle->name, context.quiet);
  return Session::create(std::move(bundle), options);
}

Result<std::unique_ptr<Session>> start_session(const Context& context, std::shared_ptr<const Bundle> bundle,
                                               const GenerationFlags& flags) {
  std::shared_ptr<const Bundle> draft;
  if (flags.draft()) {
    TRY(draft, open_model(context, *flags.draft(), {.ctx = flags.ctx()}));
  }
  return start_session(context, std::move(bundle), flags.session(std::move(draft)));
}

Result<std::shared_ptr<const Tokenizer>> tokenizer_of(const Context& context, Session& session) {
  const Busy busy("loading the tokenizer of " + session.bundle().name, context.quiet);
  return session.tokenizer();
}

Result<std::vector<std::int32_t>> prompt_ids(const Session& session, const Tokenizer& tokenizer, std::string_view text,
                                             bool special) {
  const std::int64_t least = tokenizer.least_tokens(text);
  if (least > session.ctx())
    return usage_error(
        "the prompt has more than {} tokens, the context holds {}; shorten the prompt or ask for a larger context "
        "(--ctx)",
        least - 1, session.ctx());
  return tokenizer.encode(text, special);
}

Result<std::shared_ptr<const Tokenizer>> open_tokenizer(const Context& context, const std::string& path) {
  const Busy busy(loading(path), context.quiet);
  TRY(const ModelText text, read_model_text(path));
  if (!text.tokenizer_json) {
    std::string why;
    for (const auto& oddity : text.oddities)
      if (oddity.starts_with("no tokenizer")) why = oddity;
    return bad_input("{}: expected a tokenizer (tokenizer.json, or a GGUF's vocabulary), found none: {}", path, why);
  }
  TRY(const std::string source, text.tokenizer_json());
  return Tokenizer::from_json(source, path);
}

bool begins_as_gguf(const std::string& path) {
  const auto file = open_regular(path);  // not a pipe: what was looked at would be gone
  std::array<char, 4> magic{};
  return file && ::read(file->descriptor.get(), magic.data(), magic.size()) == ssize_t{magic.size()} &&
         std::string_view(magic.data(), magic.size()) == "GGUF";
}

}  // namespace knapsack
