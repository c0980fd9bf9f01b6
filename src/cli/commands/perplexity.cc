#include "evaluate/perplexity.h"

#include <fmt/format.h>

#include "cli/commands/command.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/model.h"
#include "report/progress.h"

namespace knapsack {
namespace {

class PerplexityCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    arguments.about(
        "Two ways to cut the text give different numbers, so name the method with the number. sliding: windows that "
        "begin --stride tokens apart, every token scored once. llama: disjoint chunks, the second half of each scored, "
        "as llama.cpp does.");
    model_argument(arguments, model_);
    arguments.positional("FILE", file_, "the text, UTF-8; - is standard input").complete = Complete::file;
    arguments.choice("--method", method_, {"sliding", "llama"}, "how the text is cut");
    arguments.integer("--ctx-chunk,--window", options_.window, 4, 1 << 24, "tokens a window");
    arguments.integer("--stride", options_.stride, 1, 1 << 24, "sliding: tokens from one window's start to the next")
        .fallback = "half the window";
    arguments.integer("--max-tokens", max_tokens_, 2, std::int64_t{1} << 31, "use only the text's first tokens");
    kv_flag(arguments, kv_);
    exact_flag(arguments, exact_);
    arguments.example("knapsack perplexity model.gguf text.txt", "PPL, bits per byte and speed");
    arguments.example("knapsack perplexity model.gguf text.txt --method llama --json",
                      "comparable with llama-perplexity");
  }

  Result<int> run(Context& context) override {
    constexpr std::size_t most_bytes = std::size_t{256} << 20;
    options_.method = method_ == "llama" ? PerplexityMethod::llama : PerplexityMethod::sliding;
    if (options_.stride == 0) options_.stride = options_.window / 2;
    if (options_.stride > options_.window)
      return usage_error("--stride {} is more than --window {}: tokens between the windows would be left out",
                         options_.stride, options_.window);
    TRY(std::string text, read_text(file_, most_bytes));
    constexpr std::int64_t chunk = 128;
    TRY(const auto bundle,
        open_model(context, model_, {.ctx = options_.window, .chunk = chunk, .max_selected = chunk}));
    TRY(auto session, start_session(context, bundle, {.ctx = options_.window, .kv = kv_dtype(kv_), .exact = exact_}));
    TRY(const auto tokenizer, tokenizer_of(context, *session));
    if (max_tokens_) {
      TRY(text, first_tokens(*tokenizer, text));
    }
    Progress progress("perplexity", "permille", context.quiet);
    options_.progress = [&](double done, double) { progress.update(static_cast<std::uint64_t>(done * 1000), 1000); };
    Interruptible interruptible;
    TRY(const PerplexityReport report, perplexity(*session, text, options_, interruptible.token()));
    progress.finish();
    return print_result(
        context,
        fmt::format("perplexity {:.4f}{}  ({}{}{}, window {}{})\nbits per byte {:.4f}\n{} of {} tokens scored, "
                    "{:.1f} tokens/s\n",
                    report.perplexity, report.standard_error ? fmt::format(" +/- {:.4f}", *report.standard_error) : "",
                    method_, kv_ == "f16" ? "" : ", KV " + kv_, exact_ ? ", exact" : "", options_.window,
                    options_.method == PerplexityMethod::sliding ? fmt::format(", stride {}", options_.stride) : "",
                    report.bits_per_byte, report.scored, report.tokens, report.tokens_per_s),
        json_of(report, *bundle));
  }

 private:
  // The text of the first --max-tokens tokens.
  [[nodiscard]] Result<std::string> first_tokens(const Tokenizer& tokenizer, const std::string& text) const {
    TRY(auto ids, tokenizer.encode(text, false));
    if (static_cast<std::int64_t>(ids.size()) <= *max_tokens_) return text;
    ids.resize(static_cast<std::size_t>(*max_tokens_));
    return tokenizer.decode(ids, false);
  }

  json::object json_of(const PerplexityReport& report, const Bundle& bundle) const {
    json::object object{{"perplexity", report.perplexity}, {"standard_error", json::value_from(report.standard_error)}};
    object["nll"] = report.mean_nll;
    object["bits_per_byte"] = report.bits_per_byte;
    object["tokens"] = report.tokens;
    object["scored_tokens"] = report.scored;
    object["tokens_per_s"] = report.tokens_per_s;
    object["seconds"] = report.seconds;
    object["method"] = method_;
    object["window"] = options_.window;
    object["stride"] =
        options_.method == PerplexityMethod::sliding ? json::value(options_.stride) : json::value(nullptr);
    object["windows"] = report.windows;
    object["kv"] = kv_;
    object["exact"] = exact_;
    object["model_hash"] = bundle.model_hash;
    return object;
  }

  std::string model_, file_;
  std::string method_ = "sliding", kv_ = "f16";
  bool exact_ = false;
  std::optional<std::int64_t> max_tokens_;
  PerplexityOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_perplexity_command() { return std::make_unique<PerplexityCommand>(); }

}  // namespace knapsack
