#include "sdk/cli/watch/interrupt_notice.h"

#include <unistd.h>

#include <cstddef>

namespace baton::cli {
namespace {

std::string notice_text;  // written before the handler is set, and never while it is

// Calls only what a signal handler may.
void OnInterrupt(int) {
  const char* text = notice_text.data();
  for (size_t left = notice_text.size(); left > 0;) {
    const ssize_t written = ::write(STDERR_FILENO, text, left);
    if (written <= 0) break;
    text += written;
    left -= static_cast<size_t>(written);
  }
  ::_exit(kInterrupted);
}

}  // namespace

InterruptNotice::InterruptNotice(const std::string& notice) {
  notice_text = notice;
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  ::sigaction(SIGINT, &action, &before_);
}

InterruptNotice::~InterruptNotice() { ::sigaction(SIGINT, &before_, nullptr); }

}  // namespace baton::cli
