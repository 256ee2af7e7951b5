#include "sdk/worker/run_until_signal.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

int write_end = -1;

/// Async-signal-safe: one byte into the pipe; a second signal takes the default action.
void OnSignal(int signal_number) {
  signal(signal_number, SIG_DFL);
  const char byte = 's';
  if (write(write_end, &byte, 1) < 0) _exit(1);
}

}  // namespace

absl::Status RunUntilSignal(Worker& worker) {
  int ends[2];
  if (pipe(ends) != 0) return absl::InternalError(absl::StrCat("pipe: ", strerror(errno)));
  write_end = ends[1];
  signal(SIGINT, OnSignal);
  signal(SIGTERM, OnSignal);
  signal(SIGXFSZ, SIG_IGN);  // A file that may not grow is an error like a full disk.
  std::thread stopper([&worker, read_end = ends[0]] {
    char byte = 0;
    while (read(read_end, &byte, 1) < 0 && errno == EINTR) {
    }
    if (byte == 's') worker.Stop();
  });
  const absl::Status status = worker.Run();
  const char done = 'd';
  if (write(ends[1], &done, 1) < 0) worker.Stop();
  stopper.join();
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  close(ends[0]);
  close(ends[1]);
  return status;
}

}  // namespace baton
