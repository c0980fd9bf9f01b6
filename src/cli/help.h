// Help in its forms: for the terminal, docs/cli.md, the man page. All from what the commands declare.
#pragma once

#include <string>

#include "cli/commands/command.h"

namespace knapsack {

std::string overview_help(int width);
std::string command_help(const CommandEntry& entry, int width);
std::string markdown_help();  // the whole of docs/cli.md
std::string man_page();       // knapsack.1, roff

}  // namespace knapsack
