// The command line: parses, runs one command, maps errors to exit codes (docs/design.md, "Errors").
#pragma once

namespace knapsack {

int cli_main(int argc, char** argv);

}  // namespace knapsack
