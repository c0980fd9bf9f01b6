#include "cli/completions.h"

#include "cli/commands/command.h"

namespace knapsack {
namespace {

class CompletionsCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    Argument& shell = arguments.positional("SHELL", shell_, "bash, zsh or fish");
    shell.choices = {"bash", "zsh", "fish"};
    arguments.example("source <(knapsack completions bash)",
                      "complete in this bash; put the line in ~/.bashrc to keep it");
    arguments.example("knapsack completions zsh > ~/.zfunc/_knapsack", "for zsh, with ~/.zfunc in fpath");
    arguments.example("knapsack completions fish > ~/.config/fish/completions/knapsack.fish", "for fish");
  }

  Result<int> run(Context& context) override {
    const std::string script = shell_ == "bash"  ? bash_completions()
                               : shell_ == "zsh" ? zsh_completions()
                                                 : fish_completions();
    if (context.json) {
      TRY_VOID(print_json(context, {{"shell", shell_}, {"script", script}}));
      return 0;
    }
    TRY_VOID(context.out.write(script));
    return 0;
  }

 private:
  std::string shell_;
};

}  // namespace

std::unique_ptr<Command> make_completions_command() { return std::make_unique<CompletionsCommand>(); }

}  // namespace knapsack
