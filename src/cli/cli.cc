#include "cli/cli.h"

#include <unistd.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "base/cpus.h"
#include "base/log.h"
#include "base/nearest.h"
#include "cli/commands/command.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/json_text.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

const CommandEntry* find_command(std::string_view name) {
  for (const auto& entry : all_commands())
    if (entry.name == name) return &entry;
  return nullptr;
}

bool asks_for_json(const std::vector<std::string>& words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  return std::find(words.begin(), end, "--json") != end;
}

Error unknown_command(const std::string& word) {
  std::vector<std::string> names;
  for (const auto& entry : all_commands()) names.emplace_back(entry.name);
  const std::string near = nearest(word, names);
  return usage_error("there is no command \"{}\"; {}see `knapsack help`", word,
                     near.empty() ? "" : "did you mean " + near + "? ");
}

Result<int> run_command(const CommandEntry& entry, const std::vector<std::string>& words) {
  Prepared prepared(entry);
  Context& context = prepared.context;
  TRY_VOID(parse(prepared.arguments, words, fmt::format("knapsack {}", entry.name), context.help));
  const int width = is_terminal(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO) : 100;
  Result<int> code = 0;
  if (context.help) {
    const std::string text = command_help(entry, width);
    code = print_result(context, text, {{"help", text}});
  } else {
    set_log_level(context.quiet ? LogLevel::quiet : context.verbose ? LogLevel::info : LogLevel::warning);
    if (context.cpus) {
      TRY(const auto cpus, choose_cpus(*context.cpus, allowed_cpus()));
      TRY_VOID(run_on(cpus));
    }
    code = prepared.command->run(context);
  }
  if (code) {
    if (auto flushed = context.out.flush(); !flushed) code = flushed.error();
  }
  if (!code && context.out.reader_gone()) return 0;
  return code;
}

// Options before the command's name belong to the command: `knapsack --json inspect MODEL`.
Result<int> dispatch(const std::vector<std::string>& words) {
  std::vector<std::string> rest;
  std::size_t at = 0;
  for (; at < words.size() && words[at].starts_with('-') && words[at].size() > 1; ++at) {
    const std::string& word = words[at];
    if (word == "--version" || word == "-h" || word == "--help") {
      std::vector<std::string> more;
      if (asks_for_json(words)) more.emplace_back("--json");
      const bool help = word != "--version";
      if (help && at + 1 < words.size() && find_command(words[at + 1]) != nullptr) more.push_back(words[at + 1]);
      return run_command(*find_command(help ? "help" : "version"), more);
    }
    rest.push_back(word);
    if ((word == "-t" || word == "--threads" || word == "--cpus") && at + 1 < words.size()) rest.push_back(words[++at]);
  }
  if (at == words.size()) return usage_error("a command is missing; see `knapsack help`");
  const CommandEntry* entry = find_command(words[at]);
  if (entry == nullptr) return unknown_command(words[at]);
  rest.insert(rest.end(), words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end());
  return run_command(*entry, rest);
}

}  // namespace

int cli_main(int argc, char** argv) {
  expect_no_memory();
  prepare_standard_streams();
  Error failure;
  bool json = false;
  try {
    const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
    json = asks_for_json(words);
    start_signal_thread(json);
    auto code = dispatch(words);
    if (code) return *code;
    failure = std::move(code).error();
  } catch (const std::bad_alloc&) {
    failure = {Code::resource, "out of memory; try a smaller --ctx, or a smaller model"};
  } catch (const std::length_error& e) {
    failure = out_of_resource("out of memory: {}", e.what());
  } catch (const std::system_error& e) {
    failure = out_of_resource("the system refused: {}", e.what());
  }
  print_error(failure);
  if (json) {
    Output out;
    // Where standard output cannot take it, the line on stderr and the exit code still tell.
    if (auto written = out.write(json_error(failure) + "\n")) static_cast<void>(out.flush().has_value());
  }
  return static_cast<int>(failure.code);
}

}  // namespace knapsack
