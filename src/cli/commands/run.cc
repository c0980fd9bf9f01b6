#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/peak_memory.h"
#include "cli/build_info.h"
#include "cli/chat_prompt.h"
#include "cli/commands/command.h"
#include "cli/generated.h"
#include "cli/generation_flags.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/model.h"
#include "cli/streaming.h"
#include "report/table.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

constexpr std::size_t most_prompt_bytes = std::size_t{64} << 20;

class RunCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    arguments.about(
        "The text is used as it is, with the special tokens that the model's tokenizer itself adds; --chat puts it "
        "through the chat template as one user turn. Exactly one of -p, -f and --ids is needed.\n"
        "Without a sampling option the most likely token is taken each time, so the text is the same on every run. A "
        "sampling option does what it says and no more: those not given are off.");
    model_argument(arguments, model_);
    arguments.text("-p,--prompt", "TEXT", prompt_, "the prompt");
    arguments.text("-f,--file", "FILE", file_, "the prompt from a file, as it is; - is standard input").complete =
        Complete::file;
    arguments.text("--ids", "IDS", ids_, "the prompt as token ids, separated by commas; needs no tokenizer");
    arguments.flag("--chat", chat_, "put the prompt through the model's chat template as one user turn");
    arguments.text("--system", "TEXT", system_, "with --chat: the system message");
    flags_.describe(arguments);
    arguments.example("knapsack run model.gguf -p \"The capital of France is\" -n 20", "go on from a text");
    arguments.example("knapsack run model.gguf --chat -p \"Write a haiku\" --temp 0.8 --seed 7", "one answer, sampled");
    arguments.example("cat notes.txt | knapsack run model.gguf -f - -n 100 --json", "from a pipe, for a script");
  }

  Result<int> run(Context& context) override {
    if (prompt_.has_value() + file_.has_value() + ids_.has_value() != 1)
      return usage_error("expected exactly one of -p TEXT, -f FILE and --ids IDS; see `knapsack run --help`");
    if (system_ && !chat_) return usage_error("--system is for a conversation; add --chat, or use `knapsack chat`");
    if (chat_ && ids_) return usage_error("--chat writes text through the template; it cannot be given --ids");
    TRY_VOID(flags_.check_alone());
    std::string text = prompt_.value_or("");
    std::vector<std::int32_t> ids;
    if (ids_) {
      TRY(ids, to_ids(*ids_));
    }
    if (file_) {
      TRY(text, read_text(*file_, most_prompt_bytes));
    }

    const Stopwatch since_start;
    TRY(const auto bundle, open_model(context, model_, {.ctx = flags_.ctx()}));
    if (chat_) {
      std::vector<Message> messages;
      if (system_) messages.push_back({"system", *system_});
      messages.push_back({"user", text});
      TRY(text, chat_prompt(*bundle, messages));
    }
    TRY(auto session, start_session(context, bundle, flags_));
    std::shared_ptr<const Tokenizer> tokenizer;
    if (!ids_ || bundle->tokenizer_json) {
      TRY(tokenizer, tokenizer_of(context, *session));
    }
    if (!ids_) {
      TRY(ids, prompt_ids(*session, *tokenizer, text, !chat_));
    }
    TRY(const GenerateOptions options, flags_.resolve(nullptr, tokenizer.get()));
    flags_.warn_of_idle(options.sampler);
    const double load_ms = since_start.ms();
    info("{}: loaded in {:.0f} ms, {} of KV cache for {} tokens", bundle->name, load_ms,
         format_bytes(static_cast<double>(session->kv_bytes())), session->ctx());

    Interruptible interruptible;
    Streaming streaming(context.out, interruptible, text, context.json);
    TRY(const Completion completion, session->generate(ids, options, std::ref(streaming), interruptible.token()));
    TRY_VOID(streaming.finish(is_terminal(STDOUT_FILENO)));
    if (context.json) {
      json::object object = completion_json(completion, tokenizer.get());
      object["load_ms"] = load_ms;
      object["peak_rss_mib"] = peak_memory_mib();
      object["seed"] = options.sampler.seed;
      flags_.describe_session(object);
      object["model_hash"] = bundle->model_hash;
      object["version"] = KNAPSACK_VERSION;
      TRY_VOID(print_json(context, object));
    }
    if (!completion.logprobs.empty() && !context.json) say(logprob_table(completion, tokenizer.get()));
    if (!context.quiet) say(figures(completion, options));
    return interruptible.raised() ? static_cast<int>(Code::interrupted) : 0;
  }

 private:
  static std::string logprob_table(const Completion& completion, const Tokenizer* tokenizer) {
    Table table({{"id", Table::Align::right}, {"token"}, {"logprob", Table::Align::right}, {"alternatives"}});
    const auto token = [&](std::int32_t id) {
      return tokenizer == nullptr ? std::to_string(id) : shown_token(*tokenizer, id);
    };
    for (const auto& entry : completion.logprobs) {
      std::string others;
      for (const auto& [id, logprob] : entry.top) others += fmt::format("{} {:.3f}  ", token(id), logprob);
      table.row({std::to_string(entry.id), token(entry.id), fmt::format("{:.4f}", entry.logprob), others});
    }
    return table.text();
  }

  std::string model_;
  std::optional<std::string> prompt_, file_, ids_, system_;
  bool chat_ = false;
  GenerationFlags flags_;
};

}  // namespace

std::unique_ptr<Command> make_run_command() { return std::make_unique<RunCommand>(); }

}  // namespace knapsack
