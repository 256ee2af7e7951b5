// baton: the command.
#include <csignal>
#include <cstdio>

#include "sdk/cli/options.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app(
      "Baton trains language models by reinforcement learning from feedback.\n"
      "Start a cluster with `baton up`, submit a job with `baton submit job.yaml --watch`.");
  app.set_version_flag("--version", "baton 0.1.0");
  app.require_subcommand(1);
  app.fallthrough();
  baton::cli::GlobalOptions options;
  app.add_option("--controller", options.controller,
                 "host:port of the controller; default: $BATON_CONTROLLER, the cluster that is "
                 "up, 127.0.0.1:7077");
  app.add_option("--token-file", options.token_file, "File with the token to show");
  app.add_option("--state-dir", options.state_dir,
                 "Folder of `up`; default: $BATON_STATE_DIR, ~/.baton");
  int code = baton::cli::kOk;
  baton::cli::AddUpCommands(app, &options, &code);
  baton::cli::AddSubmitCommand(app, &options, &code);
  baton::cli::AddWatchCommands(app, &options, &code);
  baton::cli::AddJobCommands(app, &options, &code);
  baton::cli::AddModelCommands(app, &options, &code);
  baton::cli::AddClusterCommands(app, &options, &code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int exit = app.exit(error);
    return exit == 0 ? baton::cli::kOk : baton::cli::kUsage;
  }
  return code;
}
