#include "cli/commands/command.h"
#include "cli/input.h"
#include "cli/model.h"

namespace knapsack {
namespace {

class DetokenizeCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    arguments.about("Standard output is the text and nothing else, without a line end of its own.");
    tokenizer_argument(arguments, model_);
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
      TRY(text, read_text("-", most_bytes));
    }
    const std::string origin = stdin_ ? input_name("-") : "";
    TRY(const auto ids, read_ids(text, origin));
    TRY(const auto tokenizer, open_tokenizer(context, model_));
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (tokenizer->piece(ids[i]).empty())
        return wrong_input(origin, "token id {} is {}; the vocabulary of {} has no such id, its ids go from 0 to {}",
                           i + 1, ids[i], model_, tokenizer->largest_id());
    const std::string decoded = tokenizer->decode(ids, skip_special_);
    return print_result(context, decoded, {{"text", decoded}});
  }

 private:
  std::string model_;
  std::vector<std::string> ids_;
  bool stdin_ = false, skip_special_ = false;
};

}  // namespace

std::unique_ptr<Command> make_detokenize_command() { return std::make_unique<DetokenizeCommand>(); }

}  // namespace knapsack
