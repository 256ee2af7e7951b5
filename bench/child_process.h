// This program once more, with other arguments.
#ifndef BATON_BENCH_CHILD_PROCESS_H_
#define BATON_BENCH_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton::bench {

/// Killed and reaped with the object; dies with its parent too.
class ChildProcess {
 public:
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const std::vector<std::string>& arguments);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  const pid_t pid_;
};

}  // namespace baton::bench

#endif  // BATON_BENCH_CHILD_PROCESS_H_
