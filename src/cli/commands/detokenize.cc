#include "cli/commands/command.h"
#include "cli/model_text.h"

namespace knapsack {
namespace {

class DetokenizeCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    arguments.about("Standard output is the text and nothing else, without a line end of its own.");
    arguments.positional("MODEL", model_, "a GGUF file, a folder with tokenizer.json, or a tokenizer.json").complete =
        Complete::model;
    arguments.positional("IDS", ids_, "token ids, separated by spaces or commas");
    arguments.flag("--stdin", stdin_, "the ids from standard input");
    arguments.flag("--skip-special", skip_special_, "leave special tokens out");
    arguments.example("knapsack detokenize model.gguf 9906 1917", "the text of two tokens");
    arguments.example("knapsack tokenize model.gguf \"Hi\" | knapsack detokenize model.gguf --stdin", "there and back");
  }

  Result<int> run(Context& context) override {
    constexpr std::size_t most_bytes = std::size_t{256} << 20;
    if (ids_.empty() != stdin_) return usage_error("expected either IDS or --stdin; see `knapsack detokenize --help`");
    std::string text = fmt::format("{}", fmt::join(ids_, " "));
    if (stdin_) {
      TRY(text, read_stdin(most_bytes));
    }
    TRY(const auto ids, to_ids(text));
    TRY(const auto tokenizer, open_tokenizer(model_));
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (tokenizer->piece(ids[i]).empty())
        return usage_error("token id {} is {}; the vocabulary of {} has no such id, its ids go from 0 to {}", i + 1,
                           ids[i], model_, tokenizer->largest_id());
    const std::string decoded = tokenizer->decode(ids, skip_special_);
    if (context.json) {
      TRY_VOID(print_json(context, {{"text", decoded}}));
      return 0;
    }
    TRY_VOID(context.out.write(decoded));
    return 0;
  }

 private:
  std::string model_;
  std::vector<std::string> ids_;
  bool stdin_ = false, skip_special_ = false;
};

}  // namespace

std::unique_ptr<Command> make_detokenize_command() { return std::make_unique<DetokenizeCommand>(); }

}  // namespace knapsack
