#include <filesystem>

#include "cli/chat_prompt.h"
#include "cli/commands/command.h"
#include "cli/input.h"
#include "cli/model.h"
#include "import/model_text.h"
#include "text/chat_template.h"

namespace knapsack {
namespace {

class TemplateCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    arguments.about(
        "Standard output is the rendered text and nothing else, without a line end of its own. With a MODEL, "
        "its special tokens (bos_token ...) are variables too, unless the file sets them.");
    arguments
        .positional("TEMPLATE", source_,
                    "a Jinja file (.jinja; - is standard input), or a model whose own template to use")
        .complete = Complete::model;
    Argument& vars = arguments.text("--vars", "FILE", vars_,
                                    "JSON object with messages, tools, add_generation_prompt and any other variable; "
                                    "- is standard input");
    vars.required = true;
    vars.complete = Complete::file;
    arguments.text("--clock", "ISO-TIME", clock_, "what strftime_now() sees, as 2026-07-01T12:30:00 (default: now)");
    arguments.example("knapsack template chat_template.jinja --vars vars.json", "render a template file");
    arguments.example(
        "echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"add_generation_prompt\": true}' | "
        "knapsack template model.gguf --vars -",
        "a model's own template, variables from a pipe");
  }

  Result<int> run(Context& context) override {
    constexpr std::size_t most_bytes = std::size_t{64} << 20;
    if (clock_) {
      // The renderer knows what a time looks like; an empty template asks it that and nothing else.
      if (auto known = render_chat_template("", "{}", clock_, "--clock"); !known)
        return usage_error("{}", known.error().message);
    }
    if (source_ == "-" && vars_ == "-")
      return usage_error("TEMPLATE and --vars both want standard input; name a file for one of them");
    TRY(const std::string vars_text, read_text(vars_, most_bytes));
    TRY(json::object variables, parse_json_object(vars_text, input_name(vars_)));
    std::string source;
    if (is_model(source_)) {
      TRY(const ModelText text, read_model_text(source_));
      if (text.chat_template.empty()) return unsupported("{}: the model has no chat template", source_);
      TRY(const json::object special, special_tokens(text.tokenizer_config_json, "tokenizer_config of " + source_));
      complete_variables(variables, special);
      source = text.chat_template;
    } else {
      TRY(source, read_text(source_, most_bytes));
      complete_variables(variables, {});
    }
    TRY(const std::string text, render_chat_template(source, json::serialize(variables), clock_, source_));
    return print_result(context, text, {{"text", text}});
  }

 private:
  // A folder, or a file that begins as GGUF does; anything else is taken for a template.
  static bool is_model(const std::string& path) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored) || path.ends_with(".gguf")) return true;
    return begins_as_gguf(path);
  }

  std::string source_, vars_;
  std::optional<std::string> clock_;
};

}  // namespace

std::unique_ptr<Command> make_template_command() { return std::make_unique<TemplateCommand>(); }

}  // namespace knapsack
