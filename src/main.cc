// The program: everything is in cli/.
#include "cli/cli.h"

int main(int argc, char** argv) { return knapsack::cli_main(argc, argv); }
