// One command of the program. commands.inc lists them; a file each beside it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "cli/arguments.h"
#include "cli/output.h"

namespace knapsack {

struct Context {
  Output out;
  bool help = false;
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  int threads = 0;                    // 0: as many as there are cores
  std::optional<std::string> cpus{};  // where to run: a list, or a class
};

class Command {
 public:
  virtual ~Command() = default;
  // Declares arguments, examples and what the command is about.
  virtual void describe(Arguments& arguments) = 0;
  // The exit code (0, a gate's 1, 130 after Ctrl-C), or an error, which the caller prints.
  virtual Result<int> run(Context& context) = 0;
};

struct CommandEntry {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Command> (*make)();
};
std::span<const CommandEntry> all_commands();

// A command with its arguments bound to it and to the options that all commands share.
struct Prepared {
  explicit Prepared(const CommandEntry& entry);
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  Context context;
  std::unique_ptr<Command> command;
  Arguments arguments;
};

Result<void> print_json(Context& context, const json::object& object);
// A command's whole result: the text, or with --json the object. Gives back the exit code 0.
Result<int> print_result(Context& context, std::string_view text, const json::object& object);

}  // namespace knapsack
