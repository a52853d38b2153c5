// The command `ecmv`.
#include "experiments/command/command.h"

int main(int argc, char** argv) { return ecmv::experiments::run_command_line(argc, argv); }
