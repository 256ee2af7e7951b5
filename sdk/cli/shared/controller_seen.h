// Messages of a command about a controller that does not answer.
#ifndef BATON_SDK_CLI_SHARED_CONTROLLER_SEEN_H_
#define BATON_SDK_CLI_SHARED_CONTROLLER_SEEN_H_

#include <string>
#include <utility>

#include "absl/time/time.h"
#include "sdk/client/client.h"
#include "sdk/common/rpc/server_probe.h"
#include "sdk/common/rpc/tls_files.h"

namespace baton::cli {

/// LookAtServer with these TLS files.
ServerSeen LookAtController(const std::string& address, const TlsFiles& tls);

/// "answers", "not_ready", "no_controller", "silent", "nothing_listens", "away": for programs.
std::string SeenWord(const ServerSeen& seen);

/// A sentence or two: what was found at `address`, and what to do about it.
std::string SeenText(const std::string& address, const ServerSeen& seen);

/// The messages about an outage of a command that follows a job: at its begin, at times while it
/// lasts, and at its end. One outage after the other; not thread-safe.
class OutageNotice {
 public:
  explicit OutageNotice(std::string address) : address_(std::move(address)) {}

  /// Empty: nothing new to say.
  std::string TextOf(const Outage& outage);

 private:
  const std::string address_;
  absl::Duration next_;  // how long an outage has lasted when it is spoken of next
};

/// Prints a text of OutageNotice on standard error; nothing for none.
void SayOutage(const std::string& text);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_SHARED_CONTROLLER_SEEN_H_
