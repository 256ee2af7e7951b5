// The commands about specs: their fields, the presets, the rules of a reward.
#ifndef BATON_SDK_CLI_SPEC_COMMANDS_H_
#define BATON_SDK_CLI_SPEC_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "sdk/cli/shared/options.h"

namespace baton::cli {

// Each adds its commands; `*code` is what main returns.
void AddExplainSpecCommand(CLI::App& app, GlobalOptions* options, int* code);
void AddPresetCommands(CLI::App& app, GlobalOptions* options, int* code);
void AddRewardCommands(CLI::App& app, GlobalOptions* options, int* code);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_SPEC_COMMANDS_H_
