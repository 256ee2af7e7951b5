// The message at Ctrl-C while a command only watches.
#ifndef BATON_SDK_CLI_WATCH_INTERRUPT_NOTICE_H_
#define BATON_SDK_CLI_WATCH_INTERRUPT_NOTICE_H_

#include <signal.h>

#include <string>

namespace baton::cli {

/// The exit code of a program that Ctrl-C ended, as shells count it.
inline constexpr int kInterrupted = 128 + SIGINT;

/// While one lives, SIGINT writes its notice on standard error and ends the process with
/// kInterrupted. One at a time.
class InterruptNotice {
 public:
  explicit InterruptNotice(const std::string& notice);
  ~InterruptNotice();  ///< SIGINT does what it did before.

 private:
  struct sigaction before_;
};

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_WATCH_INTERRUPT_NOTICE_H_
