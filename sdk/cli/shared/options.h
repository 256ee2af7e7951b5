// Parts that every command shares: the controller's address, printing, failing.
#ifndef BATON_SDK_CLI_SHARED_OPTIONS_H_
#define BATON_SDK_CLI_SHARED_OPTIONS_H_

#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "sdk/client/client.h"

namespace baton::cli {

/// Exit codes, for scripts (docs/cli.md).
enum ExitCode {
  kOk = 0,
  kFailed = 1,       ///< The operation, or the job that was watched, failed.
  kUsage = 2,        ///< Wrong arguments, or a spec with problems.
  kNotFound = 3,     ///< No such job, worker, checkpoint or file.
  kUnreachable = 4,  ///< The controller does not answer at its address.
};

struct GlobalOptions {
  std::string controller;  ///< Empty: $BATON_CONTROLLER, the running `up`, 127.0.0.1:7077.
  std::string token_file;
  std::string project;  ///< Empty: the token's own.
  TlsFiles tls;
  bool insecure = false;        ///< The token may leave this machine in clear text.
  std::string output = "text";  ///< "text" or "json".
  std::string state_dir;        ///< State folder of `up`.

  bool json() const { return output == "json"; }
  std::string Address() const;
  std::string StateDir() const;
};

/// A client for the chosen controller; exits with kUsage when the token file cannot be read.
std::unique_ptr<Client> MakeClient(const GlobalOptions& options);

/// The error as the user should read it. Where no answer came, it says what there is at the
/// controller's address.
std::string ErrorText(const GlobalOptions& options, const absl::Status& status);

/// Prints the error as the user should read it; the exit code for it.
int Fail(const GlobalOptions& options, const absl::Status& status);

/// One message as JSON: indented, or on one line.
std::string ToJson(const google::protobuf::Message& message, bool indented = true);

/// "projects/default/jobs/x" -> "x"; other projects keep their full name.
std::string ShortJobName(const std::string& name);

/// Adds `-o`, which every command takes.
void AddOutput(CLI::App* command, GlobalOptions* options);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_SHARED_OPTIONS_H_
