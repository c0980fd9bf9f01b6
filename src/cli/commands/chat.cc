#include <fmt/format.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/peak_memory.h"
#include "cli/build_info.h"
#include "cli/commands/command.h"
#include "cli/conversation.h"
#include "cli/generated.h"
#include "cli/generation_flags.h"
#include "cli/model.h"
#include "cli/output_file.h"
#include "cli/streaming.h"
#include "cli/turns.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

constexpr const char* chat_help =
    "/reset        forget the conversation, keep the system message\n"
    "/system TEXT  set the system message (without TEXT: remove it) and start afresh\n"
    "/save FILE    write the conversation as JSON\n"
    "/load FILE    go on from a saved conversation\n"
    "/stats        context used, memory, speed so far\n"
    "/help         this list\n"
    "/exit         leave (also Ctrl-D, or Ctrl-C at the prompt)\n"
    "A line ending in \\ goes on in the next; \"\"\" opens and closes a text of\n"
    "several lines; //x says \"/x\".\n"
    "Ctrl-C while the model speaks stops that answer.\n";

class ChatCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    arguments.about(
        "On a terminal: line editing, history, and the commands that /help lists. From a pipe every line is a turn. "
        "The model's own chat template is used, and the sampling its generation_config asks for unless options say "
        "otherwise. After each answer a line on stderr tells time to first token and tokens per second.\n"
        "History is kept in $XDG_STATE_HOME/knapsack/chat_history; KNAPSACK_HISTORY names another file, or none when "
        "empty.\n"
        "With --json the turns come from -p or a pipe, and one object with all of them is printed at the end.");
    model_argument(arguments, model_);
    arguments.text("-p,--prompt", "TEXT", prompt_, "say only this, print the answer, leave");
    arguments.text("--system", "TEXT", system_, "the system message");
    arguments.text("--load", "FILE", load_, "go on from a saved conversation").complete = Complete::file;
    flags_.describe(arguments);
    arguments.example("knapsack chat model.gguf", "a conversation in the terminal");
    arguments.example("knapsack chat model.gguf --system \"Answer in French.\" -p \"Who are you?\"", "a single turn");
    arguments.example("echo hello | knapsack chat model.gguf", "turns from a pipe");
  }

  Result<int> run(Context& context) override {
    TRY_VOID(flags_.check_alone());
    if (context.json && !prompt_ && is_terminal(STDIN_FILENO))
      return usage_error("--json wants the turns from -p or a pipe, not from a terminal");
    if (load_) {
      TRY(conversation_, load_conversation(*load_));
    }
    const Stopwatch since_start;
    TRY(const auto bundle, open_model(context, model_, {.ctx = flags_.ctx()}));
    if (bundle->chat_template.empty()) return chat_prompt(*bundle, {}).error();
    TRY(session_, start_session(context, bundle, flags_));
    note_model(*bundle);
    if (system_) conversation_.set_system(*system_);
    load_ms_ = since_start.ms();
    TRY(const GenerateOptions asked, flags_.resolve(&bundle->defaults, nullptr));
    flags_.warn_of_idle(asked.sampler);

    int code = 0;
    if (prompt_) {
      TRY(code, answer(context, *prompt_));
    } else {
      TRY(Turns turns, Turns::open());
      TRY(code, talk(context, turns));
    }
    if (context.json) {
      json::object object{{"turns", std::move(turns_json_)}};
      flags_.describe_session(object);
      object["load_ms"] = load_ms_;
      object["peak_rss_mib"] = peak_memory_mib();
      object["model_hash"] = bundle->model_hash;
      object["version"] = KNAPSACK_VERSION;
      TRY_VOID(print_json(context, object));
    }
    return code;
  }

 private:
  Result<int> talk(Context& context, Turns& turns) {
    if (turns.interactive() && !context.quiet)
      say(fmt::format("{}, context {} tokens.\n/help lists commands, Ctrl-D leaves.\n", session_->bundle().name,
                      session_->ctx()));
    int code = 0;
    while (code == 0 || turns.interactive()) {
      auto said = turns.next();
      if (!said && turns.interactive() && said.error().code == Code::bad_input) {
        print_error(said.error());
        continue;
      }
      TRY(auto text, std::move(said));
      if (!text) break;
      if (text->find_first_not_of(" \t\n") == std::string::npos) continue;
      Result<int> done = 0;
      if (text->starts_with("//"))
        text->erase(0, 1);
      else if (text->starts_with('/')) {
        if (*text == "/exit" || *text == "/quit") break;
        if (auto obeyed = obey(*text); !obeyed) done = obeyed.error();
        if (done) continue;
      }
      if (done) done = answer(context, *text);
      if (done) {
        code = *done;
        continue;
      }
      // A person can put it right and go on; a pipe cannot.
      if (!turns.interactive() || context.out.reader_gone() || done.error().code == Code::resource) return done.error();
      print_error(done.error());
      if (done.error().code == Code::usage && !text->starts_with('/'))
        say("/reset starts afresh, with the system message; --ctx gives a larger context\n");
    }
    return turns.interactive() ? 0 : code;
  }

  // One turn: the conversation only grows when there is an answer, or a part of one.
  Result<int> answer(Context& context, const std::string& text) {
    std::vector<Message> messages = conversation_.messages;
    messages.push_back({"user", text});
    TRY(const std::string prompt, chat_prompt(session_->bundle(), messages));
    TRY(const auto tokenizer, tokenizer_of(context, *session_));
    TRY(const auto ids, prompt_ids(*session_, *tokenizer, prompt, false));
    TRY(GenerateOptions options, flags_.resolve(&session_->bundle().defaults, tokenizer.get()));
    Interruptible interruptible;
    Streaming streaming(context.out, interruptible, prompt, context.json);
    TRY(Completion completion, session_->generate(ids, options, std::ref(streaming), interruptible.token()));
    TRY_VOID(streaming.finish(true));
    if (!context.quiet) say(figures(completion, options));
    if (completion.finish == Finish::context && !context.quiet)
      say(fmt::format("the context of {} tokens is full; /reset starts afresh, --ctx gives a larger one\n",
                      session_->ctx()));
    if (context.json) {
      json::object object = completion_json(completion, tokenizer.get());
      object["prompt"] = text;
      object["seed"] = options.sampler.seed;
      turns_json_.push_back(std::move(object));
    }
    used_ = completion.prompt_tokens + static_cast<std::int64_t>(completion.ids.size());
    decoded_ += completion.decode_tokens;
    decode_ms_ += completion.decode_ms;
    prefilled_ += completion.prefilled_tokens;
    prefill_ms_ += completion.prefill_ms;
    ++answers_;
    conversation_.messages = std::move(messages);
    conversation_.messages.push_back({"assistant", std::move(completion.text)});
    return interruptible.raised() ? static_cast<int>(Code::interrupted) : 0;
  }

  Result<void> obey(const std::string& line) {
    const std::size_t space = std::min(line.find_first_of(" \t\n"), line.size());
    const std::string command = line.substr(0, space);
    const std::size_t begin = std::min(line.find_first_not_of(" \t\n", space), line.size());
    const std::string rest = line.substr(begin, line.find_last_not_of(" \t\n") + 1 - begin);
    if (command == "/help") {
      say(chat_help);
    } else if (command == "/reset") {
      conversation_.set_system(forget());
      say("forgotten\n");
    } else if (command == "/system") {
      forget();
      conversation_.set_system(rest);
      say(rest.empty() ? "no system message\n" : "system message set; the conversation starts afresh\n");
    } else if (command == "/save" || command == "/load") {
      if (rest.empty()) return usage_error("{} needs a file name", command);
      if (command == "/save") {
        TRY_VOID(not_the_model(rest, model_));
        TRY_VOID(save_conversation(conversation_, rest));
        say(fmt::format("{}: {} messages saved\n", rest, conversation_.messages.size()));
      } else {
        TRY(conversation_, load_conversation(rest));
        note_model(session_->bundle());
        session_->reset();
        used_ = 0;
        say(fmt::format("{}: {} messages loaded\n", rest, conversation_.messages.size()));
      }
    } else if (command == "/stats") {
      const auto rate = [](std::int64_t count, double ms) {
        return ms > 0 ? static_cast<double>(count) / ms * 1000 : 0;
      };
      say(
          fmt::format("{} answer{}; context {} of {} tokens\nKV cache {}; peak memory {:.0f} MiB; loaded in {:.0f} ms\n"
                      "prefill {} tokens at {:.1f} tokens/s, decode {} tokens at {:.1f} tokens/s\n",
                      answers_, answers_ == 1 ? "" : "s", used_, session_->ctx(),
                      format_bytes(static_cast<double>(session_->kv_bytes())), peak_memory_mib(), load_ms_, prefilled_,
                      rate(prefilled_, prefill_ms_), decoded_, rate(decoded_, decode_ms_)));
    } else {
      const std::vector<std::string> known{"/help", "/reset", "/system", "/save", "/load", "/stats", "/exit"};
      const std::string near = nearest(command, known);
      return usage_error("{}: no such command{}; /help lists them, //... says it to the model", command,
                         near.empty() ? "" : ", did you mean " + near + "?");
    }
    return {};
  }

  // Empties the conversation and the cache; gives back the system message there was.
  std::string forget() {
    std::string system = conversation_.system();
    conversation_.messages.clear();
    session_->reset();
    used_ = 0;
    return system;
  }

  void note_model(const Bundle& bundle) {
    if (!conversation_.model_hash.empty() && conversation_.model_hash != bundle.model_hash)
      warn("the conversation was held with another model ({})", conversation_.model);
    conversation_.model = bundle.name;
    conversation_.model_hash = bundle.model_hash;
  }

  std::string model_;
  std::optional<std::string> prompt_, system_, load_;
  GenerationFlags flags_;
  std::unique_ptr<Session> session_;
  Conversation conversation_;
  json::array turns_json_;
  double load_ms_ = 0, decode_ms_ = 0, prefill_ms_ = 0;
  std::int64_t used_ = 0, decoded_ = 0, prefilled_ = 0, answers_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_chat_command() { return std::make_unique<ChatCommand>(); }

}  // namespace knapsack
