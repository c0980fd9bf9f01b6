#include "cli/completions.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/commands/command.h"

namespace knapsack {
namespace {

std::string command_names() {
  std::vector<std::string_view> names;
  for (const auto& entry : all_commands()) names.push_back(entry.name);
  return fmt::format("{}", fmt::join(names, " "));
}

const Argument* first_positional(const Arguments& arguments) {
  for (const auto& argument : arguments.all())
    if (argument.positional()) return &argument;
  return nullptr;
}

// Inside '...' of a POSIX shell.
std::string single_quoted(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out;
}

// Inside the [...] of a zsh _arguments spec, itself in single quotes.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return single_quoted(out);
}

std::string zsh_action(const Argument& argument) {
  if (!argument.choices.empty()) return fmt::format("({})", fmt::join(argument.choices, " "));
  switch (argument.complete) {
    case Complete::file:
    case Complete::model:
      return "_files";
    case Complete::folder:
      return "_files -/";
    case Complete::command:
      return fmt::format("({})", command_names());
    case Complete::nothing:
      return " ";
  }
  return " ";
}

}  // namespace

std::string bash_completions() {
  std::string out = R"(# bash completion for knapsack: source this file.
_knapsack() {
  local cur prev command i
  COMPREPLY=()
  cur=${COMP_WORDS[COMP_CWORD]}
  prev=${COMP_WORDS[COMP_CWORD-1]}
  # "--name=value" arrives as three words.
  if [[ $cur == "=" ]]; then cur=; elif [[ $prev == "=" ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
  command=
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --threads) ((i++)) ;;
      -*) ;;
      *) command=${COMP_WORDS[i]}; break ;;
    esac
  done
  local options= values= files=
  case $command in
)";
  out += fmt::format("    '') options='{} --help --version --json' ;;\n", command_names());
  for (const auto& entry : all_commands()) {
    const Prepared prepared(entry);
    out += fmt::format("    {})\n      case $prev in\n", entry.name);
    std::vector<std::string> options;
    for (const auto& argument : prepared.arguments.all()) {
      if (argument.positional()) continue;
      options.insert(options.end(), argument.names.begin(), argument.names.end());
      if (argument.flag()) continue;
      const std::string pattern = fmt::format("{}", fmt::join(argument.names, "|"));
      if (!argument.choices.empty()) {
        out += fmt::format("        {}) values='{}' ;;\n", pattern, fmt::join(argument.choices, " "));
      } else if (argument.complete == Complete::nothing) {
        out += fmt::format("        {}) return ;;\n", pattern);
      } else {
        out += fmt::format("        {}) files=1 ;;\n", pattern);
      }
    }
    out += fmt::format("      esac\n      options='{}'\n", fmt::join(options, " "));
    if (const Argument* first = first_positional(prepared.arguments); first != nullptr) {
      if (!first->choices.empty()) {
        out += fmt::format("      [[ -z $values && $cur != -* ]] && values='{}'\n", fmt::join(first->choices, " "));
      } else if (first->complete == Complete::command) {
        out += fmt::format("      [[ -z $values && $cur != -* ]] && values='{}'\n", command_names());
      }
    }
    out += "      ;;\n";
  }
  out += R"(  esac
  if [[ -n $values ]]; then
    COMPREPLY=($(compgen -W "$values" -- "$cur"))
  elif [[ -z $files && ( -z $command || $cur == -* ) ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
  else
    compopt -o filenames 2>/dev/null
    local IFS=$'\n'
    COMPREPLY=($(compgen -f -- "$cur"))
  fi
}
complete -F _knapsack knapsack
)";
  return out;
}

std::string zsh_completions() {
  std::string out =
      "#compdef knapsack\n# zsh completion for knapsack.\n_knapsack() {\n  local -a commands\n  commands=(\n";
  for (const auto& entry : all_commands()) out += fmt::format("    '{}:{}'\n", entry.name, zsh_text(entry.summary));
  out += R"(  )
  if (( CURRENT == 2 )); then
    _describe -t commands command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
)";
  for (const auto& entry : all_commands()) {
    const Prepared prepared(entry);
    out += fmt::format("    {})\n      _arguments -s", entry.name);
    for (const auto& argument : prepared.arguments.all()) {
      out += " \\\n        ";
      if (argument.positional()) {
        out +=
            fmt::format("'{}:{}:{}'", argument.repeatable ? "*" : "", zsh_text(argument.value), zsh_action(argument));
        continue;
      }
      const std::string value =
          argument.flag() ? "" : fmt::format(":{}:{}", zsh_text(argument.value), zsh_action(argument));
      const std::string exclusion = argument.repeatable ? "*" : fmt::format("({})", fmt::join(argument.names, " "));
      bool first = true;
      for (const auto& name : argument.names) {
        if (!first) out += " \\\n        ";
        first = false;
        // "--name=" lets zsh take both "--name value" and "--name=value".
        const std::string spelled = name + (!argument.flag() && name.starts_with("--") ? "=" : "");
        out += fmt::format("'{}{}[{}]{}'", exclusion, spelled, zsh_text(argument.help), value);
      }
    }
    out += "\n      ;;\n";
  }
  out += "  esac\n}\nif [[ $funcstack[1] == _knapsack ]]; then _knapsack \"$@\"; else compdef _knapsack knapsack; fi\n";
  return out;
}

std::string fish_completions() {
  std::string out = "# fish completion for knapsack.\n";
  const std::string names = command_names();
  out += fmt::format("set -l commands {}\n", names);
  for (const auto& entry : all_commands())
    out += fmt::format("complete -c knapsack -f -n \"not __fish_seen_subcommand_from $commands\" -a {} -d '{}'\n",
                       entry.name, single_quoted(entry.summary));
  for (const auto& entry : all_commands()) {
    const Prepared prepared(entry);
    const std::string condition = fmt::format("complete -c knapsack -n \"__fish_seen_subcommand_from {}\"", entry.name);
    for (const auto& argument : prepared.arguments.all()) {
      std::string line = condition;
      for (const auto& name : argument.names)
        line += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2)) : fmt::format(" -s {}", name.substr(1));
      if (!argument.positional()) line += fmt::format(" -d '{}'", single_quoted(argument.help));
      if (!argument.choices.empty()) {
        line += fmt::format(" -x -a '{}'", fmt::join(argument.choices, " "));
      } else if (argument.complete == Complete::command) {
        line += fmt::format(" -x -a '{}'", names);
      } else if (argument.positional()) {
        continue;
      } else if (!argument.flag()) {
        line += argument.complete == Complete::nothing ? " -x" : " -r -F";
      }
      out += line + "\n";
    }
  }
  return out;
}

}  // namespace knapsack
