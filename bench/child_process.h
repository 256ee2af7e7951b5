// A program of the build, started by a bench.
#ifndef BATON_BENCH_CHILD_PROCESS_H_
#define BATON_BENCH_CHILD_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace baton::bench {

/// Its output is in a file. Killed and awaited with the object. One thread.
class ChildProcess {
 public:
  /// `arguments[0]` is a name beside this program. `log` gets standard output and error.
  ChildProcess(std::vector<std::string> arguments, std::string log);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  /// True: it ended by itself with 0 within `limit`.
  bool Wait(absl::Duration limit);
  /// Everything it has written so far.
  std::string Log() const;
  /// The text behind `key` up to white space, once it is in the log; empty: it never came.
  std::string WaitForLog(const std::string& key, absl::Duration limit) const;

 private:
  const std::string log_;
  pid_t pid_ = -1;
  bool ended_ = false;
};

}  // namespace baton::bench

#endif  // BATON_BENCH_CHILD_PROCESS_H_
