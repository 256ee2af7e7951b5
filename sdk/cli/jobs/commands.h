// The commands that submit jobs and act on them.
#ifndef BATON_SDK_CLI_JOBS_COMMANDS_H_
#define BATON_SDK_CLI_JOBS_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "sdk/cli/shared/options.h"

namespace baton::cli {

// Each adds its commands; `*code` is what main returns.
void AddJobCommands(CLI::App& app, GlobalOptions* options, int* code);
/// `prune` below `jobs`.
void AddPruneCommand(CLI::App* jobs, GlobalOptions* options, int* code);
void AddSubmitCommand(CLI::App& app, GlobalOptions* options, int* code);
void AddModelCommands(CLI::App& app, GlobalOptions* options, int* code);
void AddReplayCommand(CLI::App& app, GlobalOptions* options, int* code);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_JOBS_COMMANDS_H_
