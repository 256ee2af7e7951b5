// The whole command: from arguments to exit code.
#ifndef BATON_SDK_CLI_COMMAND_LINE_H_
#define BATON_SDK_CLI_COMMAND_LINE_H_

namespace baton::cli {

/// Runs what the arguments say, as main would get them; prints to stdout and stderr. Answers the
/// exit code (options.h).
int RunCommandLine(int argc, const char* const* argv);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_COMMAND_LINE_H_
