// A supervisor that starts processes, starts them again when they die, and stops them all.
#ifndef BATON_SDK_CLI_CLUSTER_SUPERVISOR_H_
#define BATON_SDK_CLI_CLUSTER_SUPERVISOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "sdk/cli/shared/state_file.h"
#include "sdk/common/process/process_group.h"

namespace baton::cli {

struct ChildSpec {
  std::string name;
  std::vector<std::string> command;      ///< Program and arguments.
  std::vector<std::string> environment;  ///< "NAME=value", added to this process's.
  std::string log;                       ///< Output is appended here.
  std::vector<std::string> clean_up;     ///< Run once it has ended for good; empty: nothing.
};

/// One thread uses it. Each child leads a process group of its own, so that what it started ends
/// with it, and dies when the supervisor does.
class Supervisor {
 public:
  explicit Supervisor(std::vector<ChildSpec> children);
  /// Stops what still runs.
  ~Supervisor();

  /// Starts all. An error names the program that cannot be run; nothing is left running then.
  absl::Status Start();
  /// Reaps the dead, and starts them again: at once the first time, then after 0.5 s, 1 s, …, 10 s
  /// while they keep dying young. True when something changed.
  bool Poll(absl::Time now);
  /// SIGTERM to all groups, SIGKILL to what is left after `grace`, then what cleans up after them.
  /// Returns when none is left.
  void Stop(absl::Duration grace);

  std::vector<ProcessState> States() const;
  /// The last lines of a child's log, for an error.
  std::string TailOf(const std::string& name, int lines) const;
  int restarts() const;

 private:
  struct Child {
    ChildSpec spec;
    std::unique_ptr<ProcessGroup> process;  // null: it does not run
    int restarts = 0;
    int young_deaths = 0;
    absl::Time started;
    absl::Time next_start;
  };
  absl::Status Launch(Child& child, absl::Time now);
  void AwaitEnd(absl::Duration grace);

  std::vector<Child> children_;
  bool stopped_ = false;
};

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_CLUSTER_SUPERVISOR_H_
