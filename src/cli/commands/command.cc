#include "cli/commands/command.h"

#include <array>

#include "cli/json_text.h"

namespace knapsack {

#define KNAP_COMMAND(name, summary) std::unique_ptr<Command> make_##name##_command();
#include "cli/commands/commands.inc"
#undef KNAP_COMMAND

std::span<const CommandEntry> all_commands() {
#define KNAP_COMMAND(name, summary) CommandEntry{#name, summary, make_##name##_command},
  static constexpr std::array entries{
#include "cli/commands/commands.inc"
  };
#undef KNAP_COMMAND
  return entries;
}

Prepared::Prepared(const CommandEntry& entry) : command(entry.make()) {
  command->describe(arguments);
  constexpr int most_threads = 1024;
  const bool own_threads = arguments.declared("--threads");
  arguments.group("Common");
  arguments.flag("--json", context.json, "print one JSON object on standard output, an error too; logs stay on stderr");
  if (!own_threads)
    arguments
        .integer("-t,--threads", context.threads, 1, most_threads,
                 "worker threads (default: the cores this process may use)")
        .fallback.clear();
  arguments.text("--cpus", "LIST", context.cpus,
                 "run on these processors only, as 0-3,6; or on the big or the little ones of a machine with both");
  arguments.flag("-q,--quiet", context.quiet, "errors only: no warnings, progress or figures on stderr");
  arguments.flag("-v,--verbose", context.verbose, "say on stderr what is being done");
  arguments.flag("-h,--help", context.help, "show this help");
}

Result<void> print_json(Context& context, const json::object& object) {
  TRY_VOID(context.out.write(json_text(object) + "\n"));
  return context.out.flush();
}

Result<int> print_result(Context& context, std::string_view text, const json::object& object) {
  if (context.json) {
    TRY_VOID(print_json(context, object));
  } else {
    TRY_VOID(context.out.write(text));
  }
  return 0;
}

}  // namespace knapsack
