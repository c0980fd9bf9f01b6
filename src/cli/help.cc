#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/terminal.h"

namespace knapsack {
namespace {

struct ExitCode {
  int code;
  const char* meaning;
};
constexpr ExitCode exit_codes[] = {
    {0, "done (also when the reader of the output went away: `knapsack ... | head -1`)"},
    {1, "a gate said no"},
    {2, "wrong usage, or a prompt longer than the context"},
    {3, "a broken file, or one that is not there"},
    {4, "a valid file that this version does not support"},
    {5, "out of memory, disk or another resource; standard output could not be written"},
    {130, "stopped by Ctrl-C"},
};

struct Variable {
  const char* name;
  const char* meaning;
};
constexpr Variable variables[] = {
    {"KNAPSACK_ISA", "which kernels to use: `scalar`, `avx2`, ... (default: the fastest the processor has)"},
    {"KNAPSACK_CHOICES", "a table of how kernels go about it (`tune`); empty: what is built in"},
    {"NO_COLOR", "when set, no colours even on a terminal"},
    {"KNAPSACK_PYTHON", "the Python that runs ONNX Runtime for `align` (default: `python3`)"},
    {"KNAPSACK_HISTORY", "where `chat` keeps its history; empty: nowhere"},
};

constexpr const char* models_text =
    "MODEL is a GGUF file, the first part of a split one (...-00001-of-0000N.gguf), or a Hugging Face folder.";
constexpr const char* errors_text =
    "An error is one line on stderr, `knapsack: error: MESSAGE`. With --json, standard output then holds "
    "{\"error\": {\"code\": N, \"message\": \"...\"}}, so it is one JSON object in every case.";

// "-p, --prompt TEXT"
std::string signature(const Argument& argument) {
  if (argument.positional()) return argument.value + (argument.repeatable ? "..." : "");
  std::string text = fmt::format("{}", fmt::join(argument.names, ", "));
  if (!argument.flag()) text += fmt::format(" {}", argument.value);
  return text;
}

std::string description(const Argument& argument) {
  std::string text = argument.help;
  if (!argument.fallback.empty() && !argument.positional()) text += fmt::format(" (default: {})", argument.fallback);
  if (argument.repeatable && !argument.positional()) text += " (may be repeated)";
  return text;
}

std::string usage(const CommandEntry& entry, const Arguments& arguments) {
  std::string line = fmt::format("knapsack {}", entry.name);
  for (const auto& argument : arguments.all()) {
    if (!argument.positional()) continue;
    line += argument.required ? fmt::format(" {}", signature(argument)) : fmt::format(" [{}]", signature(argument));
  }
  for (const auto& argument : arguments.all())
    if (!argument.positional() && argument.required)
      line += fmt::format(" {} {}", argument.names.front(), argument.value);
  return line + " [options]";
}

// Text broken at spaces into lines of at most `width` columns, all after the first indented.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t column = indent;
  const std::size_t limit = std::max(width, indent + 30);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (column > indent && column + 1 + display_width(word) > limit) {
      out += fmt::format("\n{:{}}", "", indent);
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += display_width(word);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string paragraphs(std::string_view text, std::size_t width) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += wrapped(text.substr(0, end), 0, width) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// Groups in the order of their first argument.
std::vector<std::string> groups_of(const Arguments& arguments) {
  std::vector<std::string> groups;
  for (const auto& argument : arguments.all())
    if (!argument.positional() && std::find(groups.begin(), groups.end(), argument.group) == groups.end())
      groups.push_back(argument.group);
  return groups;
}

std::string group_title(const std::string& group) { return group.empty() ? "Options" : group + " options"; }

std::string escaped_cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
      out += "\\&";
      out += c;
    } else if (c != '`') {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string overview_help(int width) {
  const auto columns = static_cast<std::size_t>(width);
  std::string out = "knapsack: runs language models from their files, exactly and on this machine.\n\n";
  out += "Usage: knapsack COMMAND [arguments] [options]\n\nCommands:\n";
  for (const auto& entry : all_commands())
    out += fmt::format("  {:<13}{}\n", entry.name, wrapped(entry.summary, 15, columns));
  out += fmt::format("\n{}\n", wrapped(models_text, 0, columns));
  out +=
      "\nExamples:\n  knapsack chat model.gguf\n  knapsack run model.gguf -p \"The capital of France is\" -n 20\n"
      "  knapsack inspect model.gguf\n";
  out += "\nExit codes:\n";
  for (const auto& code : exit_codes) out += fmt::format("  {:<4}{}\n", code.code, wrapped(code.meaning, 6, columns));
  out += "\nEnvironment:\n";
  for (const auto& variable : variables)
    out += fmt::format("  {:<18}{}\n", variable.name, wrapped(variable.meaning, 20, columns));
  out += "\n`knapsack COMMAND --help` explains a command.\n";
  return out;
}

std::string command_help(const CommandEntry& entry, int width) {
  const Prepared prepared(entry);
  const Arguments& arguments = prepared.arguments;
  const auto columns = static_cast<std::size_t>(std::clamp(width, 60, 110));
  constexpr std::size_t left = 30;  // where descriptions start
  std::string out = fmt::format("knapsack {}: {}\n\nUsage: {}\n", entry.name, entry.summary, usage(entry, arguments));
  if (!arguments.about().empty()) out += fmt::format("\n{}", paragraphs(arguments.about(), columns));
  const auto item = [&](const Argument& argument) {
    std::string head = fmt::format("  {}", signature(argument));
    if (display_width(head) + 2 > left) {
      head += fmt::format("\n{:{}}", "", left);
    } else {
      head += std::string(left - display_width(head), ' ');
    }
    out += head + wrapped(description(argument), left, columns) + "\n";
  };
  bool title = false;
  for (const auto& argument : arguments.all()) {
    if (!argument.positional()) continue;
    if (!title) out += "\nArguments:\n";
    title = true;
    item(argument);
  }
  for (const auto& group : groups_of(arguments)) {
    out += fmt::format("\n{}:\n", group_title(group));
    for (const auto& argument : arguments.all())
      if (!argument.positional() && argument.group == group) item(argument);
  }
  out += "\nExamples:\n";
  for (const auto& example : arguments.examples()) out += fmt::format("  {}\n      {}\n", example.line, example.says);
  return out;
}

std::string markdown_help() {
  std::string out = "# The command line\n\n";
  out +=
      "Written by `knapsack help --markdown`, as the man page is by `--man`; a test fails when either is not "
      "current.\n\n";
  out += fmt::format("{} `--help` after any command explains it.\n\n", models_text);
  out += "| command | what it does |\n|---|---|\n";
  for (const auto& entry : all_commands()) out += fmt::format("| [{0}](#{0}) | {1} |\n", entry.name, entry.summary);
  out += "\n## Exit codes\n\n| code | meaning |\n|---|---|\n";
  for (const auto& code : exit_codes) out += fmt::format("| {} | {} |\n", code.code, escaped_cell(code.meaning));
  out += fmt::format("\n{}\n\n## Environment\n\n| variable | meaning |\n|---|---|\n", errors_text);
  for (const auto& variable : variables) out += fmt::format("| `{}` | {} |\n", variable.name, variable.meaning);
  for (const auto& entry : all_commands()) {
    const Prepared prepared(entry);
    const Arguments& arguments = prepared.arguments;
    out += fmt::format("\n## {}\n\n{}.\n\n    {}\n", entry.name, entry.summary, usage(entry, arguments));
    for (std::string_view text = arguments.about(); !text.empty();) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      out += fmt::format("\n{}\n", text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    bool head = false;
    for (const auto& argument : arguments.all()) {
      if (argument.group == "Common" && entry.name != all_commands().front().name) continue;
      if (!head) out += "\n| argument | meaning |\n|---|---|\n";
      head = true;
      out += fmt::format("| `{}` | {} |\n", escaped_cell(signature(argument)), escaped_cell(description(argument)));
    }
    if (entry.name != all_commands().front().name)
      out += fmt::format("\nAlso the common options `--json -t --cpus -q -v -h` (see [{0}](#{0})).\n",
                         all_commands().front().name);
    out += "\n";
    for (const auto& example : arguments.examples())
      out += fmt::format("    {}\n        {}\n", example.line, example.says);
  }
  return out;
}

std::string man_page() {
  std::string out = ".TH KNAPSACK 1\n.SH NAME\nknapsack \\- runs language models from their files\n";
  out += ".SH SYNOPSIS\n.B knapsack\n.I COMMAND\n[arguments] [options]\n.SH DESCRIPTION\n";
  out += roff(models_text) + "\n.PP\n" + roff(errors_text) + "\n.SH COMMANDS\n";
  for (const auto& entry : all_commands()) {
    const Prepared prepared(entry);
    const Arguments& arguments = prepared.arguments;
    out +=
        fmt::format(".SS {}\n{}.\n.PP\n.B {}\n", roff(entry.name), roff(entry.summary), roff(usage(entry, arguments)));
    for (std::string_view text = arguments.about(); !text.empty();) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      if (end > 0) out += fmt::format(".PP\n{}\n", roff(text.substr(0, end)));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    for (const auto& argument : arguments.all()) {
      if (argument.group == "Common") continue;
      out += fmt::format(".TP\n.B {}\n{}\n", roff(signature(argument)), roff(description(argument)));
    }
    out += ".PP\nExamples:\n";
    for (const auto& example : arguments.examples())
      out += fmt::format(".PP\n.RS\n.B {}\n.br\n{}\n.RE\n", roff(example.line), roff(example.says));
  }
  out += ".SH COMMON OPTIONS\n";
  const Prepared any(all_commands().front());
  for (const auto& argument : any.arguments.all())
    if (argument.group == "Common")
      out += fmt::format(".TP\n.B {}\n{}\n", roff(signature(argument)), roff(description(argument)));
  out += ".SH EXIT STATUS\n";
  for (const auto& code : exit_codes) out += fmt::format(".TP\n.B {}\n{}\n", code.code, roff(code.meaning));
  out += ".SH ENVIRONMENT\n";
  for (const auto& variable : variables) out += fmt::format(".TP\n.B {}\n{}\n", variable.name, roff(variable.meaning));
  return out;
}

}  // namespace knapsack
