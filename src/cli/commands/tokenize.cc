#include <fmt/format.h>

#include "cli/commands/command.h"
#include "cli/generated.h"
#include "cli/input.h"
#include "cli/model.h"
#include "report/table.h"

namespace knapsack {
namespace {

class TokenizeCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    arguments.about(
        "Special tokens that stand in the text are recognised as Hugging Face does; none are added without "
        "--special. Neither the model's weights nor its configuration are needed.");
    tokenizer_argument(arguments, model_);
    arguments.positional("TEXT", text_, "the text");
    arguments.flag("--stdin", stdin_, "the text from standard input, as it is");
    arguments.text("-f,--file", "FILE", file_, "the text from a file, as it is").complete = Complete::file;
    arguments.flag("--special", special_,
                   "add the special tokens that the tokenizer adds to a text of its own (BOS ...)");
    arguments.flag("--table", table_, "a line for each token, with its spelling in the vocabulary and its text");
    arguments.example("knapsack tokenize model.gguf \"Hello world\"", "ids on one line");
    arguments.example("knapsack tokenize folder \"Hello world\" --json", "{\"ids\": [...], \"pieces\": [...]}");
    arguments.example("knapsack tokenize tokenizer.json --table -- \"--not an option\"",
                      "text that begins with a dash");
  }

  Result<int> run(Context& context) override {
    constexpr std::size_t most_bytes = std::size_t{256} << 20;
    if (text_.has_value() + stdin_ + file_.has_value() != 1)
      return usage_error("expected exactly one of TEXT, --stdin and -f FILE; see `knapsack tokenize --help`");
    std::string text = text_.value_or("");
    if (stdin_ || file_) {
      TRY(text, read_text(file_.value_or("-"), most_bytes));
    }
    TRY(const auto tokenizer, open_tokenizer(context, model_));
    TRY(const auto ids, tokenizer->encode(text, special_));
    if (context.json) {
      json::array pieces;
      for (const auto id : ids) pieces.emplace_back(tokenizer->piece(id));
      TRY_VOID(print_json(context, {{"ids", json::value_from(ids)}, {"pieces", std::move(pieces)}}));
    } else if (table_) {
      Table table({{"id", Table::Align::right}, {"piece"}, {"text"}});
      for (const auto id : ids) table.row({std::to_string(id), tokenizer->piece(id), shown_token(*tokenizer, id)});
      TRY_VOID(context.out.write(table.text()));
    } else {
      TRY_VOID(context.out.write(fmt::format("{}\n", fmt::join(ids, " "))));
    }
    return 0;
  }

 private:
  std::string model_;
  std::optional<std::string> text_, file_;
  bool stdin_ = false, special_ = false, table_ = false;
};

}  // namespace

std::unique_ptr<Command> make_tokenize_command() { return std::make_unique<TokenizeCommand>(); }

}  // namespace knapsack
