// The commands about a cluster: `up` and `down`, workers, tokens and projects, backups.
#ifndef BATON_SDK_CLI_CLUSTER_COMMANDS_H_
#define BATON_SDK_CLI_CLUSTER_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "sdk/cli/shared/options.h"

namespace baton::cli {

// Each adds its commands; `*code` is what main returns.
void AddAccessCommands(CLI::App& app, GlobalOptions* options, int* code);
void AddClusterCommands(CLI::App& app, GlobalOptions* options, int* code);
void AddBackupCommands(CLI::App& app, GlobalOptions* options, int* code);
void AddUpCommands(CLI::App& app, GlobalOptions* options, int* code);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_CLUSTER_COMMANDS_H_
