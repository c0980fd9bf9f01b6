#include <fmt/format.h>

#include "cli/build_info.h"
#include "cli/commands/command.h"

namespace knapsack {
namespace {

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("gcc {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

class VersionCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    arguments.example("knapsack version", "the version, the commit it was built from, the compiler");
    arguments.example("knapsack version --json", "the same for a script");
  }

  Result<int> run(Context& context) override {
    const std::string commit = KNAPSACK_COMMIT;
    if (context.json) {
      json::object object{{"version", KNAPSACK_VERSION}, {"compiler", compiler()}};
      object["commit"] = commit.empty() ? json::value(nullptr) : json::value(commit);
      TRY_VOID(print_json(context, object));
      return 0;
    }
    TRY_VOID(context.out.write(fmt::format("knapsack {}{}\ncompiler {}\n", KNAPSACK_VERSION,
                                           commit.empty() ? "" : " (" + commit + ")", compiler())));
    return 0;
  }
};

}  // namespace

std::unique_ptr<Command> make_version_command() { return std::make_unique<VersionCommand>(); }

}  // namespace knapsack
