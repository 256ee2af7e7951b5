// Options and error messages that the programs of Baton share.
#ifndef BATON_SDK_COMMON_PROCESS_PROGRAM_H_
#define BATON_SDK_COMMON_PROCESS_PROGRAM_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "sdk/common/base/log.h"

namespace CLI {
class App;
}  // namespace CLI

namespace baton {

/// Declares --log-file and --log-level. They go into `log`, which must outlive the parsing.
void DeclareLogOptions(CLI::App& app, LogOptions* log);

/// Prints "PROGRAM: message" to standard error. Returns the exit code of a program that failed: 1.
int Fail(absl::string_view program, const absl::Status& status);

}  // namespace baton

#endif  // BATON_SDK_COMMON_PROCESS_PROGRAM_H_
