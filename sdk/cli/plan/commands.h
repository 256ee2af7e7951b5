// `baton plan`.
#ifndef BATON_SDK_CLI_PLAN_COMMANDS_H_
#define BATON_SDK_CLI_PLAN_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "sdk/cli/shared/options.h"

namespace baton::cli {

// Each adds its commands; `*code` is what main returns.
void AddPlanCommand(CLI::App& app, GlobalOptions* options, int* code);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_PLAN_COMMANDS_H_
