// baton: the command.
#include <csignal>

#include "sdk/cli/command_line.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  return baton::cli::RunCommandLine(argc, argv);
}
