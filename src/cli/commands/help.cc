#include "cli/help.h"

#include <unistd.h>

#include "base/nearest.h"
#include "cli/commands/command.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

class HelpCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    arguments.positional("COMMAND", name_, "the command to explain; without it, all are listed").complete =
        Complete::command;
    arguments.flag("--markdown", markdown_, "everything, as docs/cli.md");
    arguments.flag("--man", man_, "everything, as a man page (roff)");
    arguments.example("knapsack help run", "what `knapsack run --help` prints");
    arguments.example("knapsack help --man | man -l -", "read the man page without installing it");
  }

  Result<int> run(Context& context) override {
    const int width = is_terminal(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO) : 100;
    std::string text = overview_help(width);
    if (markdown_) text = markdown_help();
    if (man_) text = man_page();
    if (name_.has_value()) {
      std::vector<std::string> names;
      const CommandEntry* found = nullptr;
      for (const auto& entry : all_commands()) {
        names.emplace_back(entry.name);
        if (entry.name == *name_) found = &entry;
      }
      if (found == nullptr) {
        const std::string near = nearest(*name_, names);
        return usage_error("there is no command \"{}\"; {}see `knapsack help`", *name_,
                           near.empty() ? "" : "did you mean " + near + "? ");
      }
      text = command_help(*found, width);
    }
    if (context.json) {
      TRY_VOID(print_json(context, {{"help", text}}));
      return 0;
    }
    TRY_VOID(context.out.write(text));
    return 0;
  }

 private:
  std::optional<std::string> name_;
  bool markdown_ = false;
  bool man_ = false;
};

}  // namespace

std::unique_ptr<Command> make_help_command() { return std::make_unique<HelpCommand>(); }

}  // namespace knapsack
