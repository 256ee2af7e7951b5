#include "sdk/worker/run_until_signal.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/log.h"

namespace baton {
namespace {

int write_end = -1;

/// Async-signal-safe: one byte into the pipe; a second signal takes the default action.
void OnSignal(int signal_number) {
  signal(signal_number, SIG_DFL);
  const char byte = 's';
  if (write(write_end, &byte, 1) < 0) _exit(1);
}

/// As above, for a signal that may come again. Keeps `errno` for the interrupted code.
void OnHangup(int) {
  const int before = errno;
  const char byte = 'h';
  if (write(write_end, &byte, 1) < 0) _exit(1);
  errno = before;
}

}  // namespace

absl::Status RunUntilSignal(Worker& worker) {
  int ends[2];
  if (pipe(ends) != 0) return absl::InternalError(absl::StrCat("pipe: ", strerror(errno)));
  write_end = ends[1];
  signal(SIGINT, OnSignal);
  signal(SIGTERM, OnSignal);
  const bool reopens = ReopensOnHangup();
  if (reopens) signal(SIGHUP, OnHangup);
  signal(SIGXFSZ, SIG_IGN);  // A file that may not grow is an error like a full disk.
  std::thread stopper([&worker, read_end = ends[0]] {
    char byte = 'h';
    while (byte == 'h') {
      const ssize_t got = read(read_end, &byte, 1);
      if (got < 0 && errno == EINTR) continue;
      if (got != 1 || byte != 'h') break;
      ReopenLog();
      Log(LogLevel::kInfo, "log file reopened");
    }
    if (byte == 's') worker.Stop();
  });
  const absl::Status status = worker.Run();
  const char done = 'd';
  if (write(ends[1], &done, 1) < 0) worker.Stop();
  stopper.join();
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  if (reopens) signal(SIGHUP, SIG_DFL);
  close(ends[0]);
  close(ends[1]);
  return status;
}

}  // namespace baton
