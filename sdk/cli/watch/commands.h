// The commands that follow a job while it runs.
#ifndef BATON_SDK_CLI_WATCH_COMMANDS_H_
#define BATON_SDK_CLI_WATCH_COMMANDS_H_

#include <cstdint>
#include <string>

#include "CLI/CLI.hpp"
#include "sdk/cli/shared/options.h"
#include "sdk/client/client.h"

namespace baton::cli {

// Each adds its commands; `*code` is what main returns.
void AddWatchCommands(CLI::App& app, GlobalOptions* options, int* code);

/// For WatchToEnd: the job's state and its last ten steps, then what happens.
inline constexpr int64_t kLastSteps = -1;

/// Shows a job until it ends; the exit code says how it ended. `after_revision`: the events after
/// it, 0: all that are kept; or kLastSteps. Ctrl-C ends the process, and says that the job goes on.
int WatchToEnd(const GlobalOptions& options, Client& client, const std::string& name,
               int64_t after_revision);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_WATCH_COMMANDS_H_
