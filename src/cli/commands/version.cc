#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/build_info.h"
#include "cli/commands/command.h"
#include "import/arch/arch.h"
#include "kernels/kernel.h"
#include "tensor/dtype.h"

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
    arguments.example("knapsack version", "the version, what it was built from, what it can read and run on");
    arguments.example("knapsack version --json", "the same for a script");
  }

  Result<int> run(Context& context) override {
    const std::string commit = KNAPSACK_COMMIT;
    TRY(const Isa used, choose_isa());
    std::vector<std::string> isas, formats, architectures;
    for (const Isa isa : supported_isas()) isas.emplace_back(isa_name(isa));
    for (const auto& format : all_formats()) formats.emplace_back(format.name);
    for (const auto& row : all_architectures()) architectures.emplace_back(row.id);
    if (context.json) {
      json::object object{{"version", KNAPSACK_VERSION}, {"compiler", compiler()}};
      object["commit"] = commit.empty() ? json::value(nullptr) : json::value(commit);
      object["isa"] = json::object{{"used", isa_name(used)}, {"supported", json::value_from(isas)}};
      object["formats"] = json::value_from(formats);
      object["architectures"] = json::value_from(architectures);
      TRY_VOID(print_json(context, object));
      return 0;
    }
    TRY_VOID(context.out.write(
        fmt::format("knapsack {}{}\ncompiler       {}\nISA            {} (this processor runs {})\narchitectures  "
                    "{}\nformats        {}\n",
                    KNAPSACK_VERSION, commit.empty() ? "" : " (" + commit + ")", compiler(), isa_name(used),
                    fmt::join(isas, ", "), fmt::join(architectures, " "), fmt::join(formats, " "))));
    return 0;
  }
};

}  // namespace

std::unique_ptr<Command> make_version_command() { return std::make_unique<VersionCommand>(); }

}  // namespace knapsack
