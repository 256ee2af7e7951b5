// Jobs that wait for workers, in the order in which each project's are served.
//
// Pure. Jobs of one project that lack the same worker slots of the same kind stand in one line;
// those that have started have lines of their own. If the first job of a line cannot be served,
// those behind it cannot either. So matching looks at lines, and a thousand jobs of one kind cost
// as much as one.
#ifndef BATON_CONTROLLER_CLUSTER_NEED_QUEUE_H_
#define BATON_CONTROLLER_CLUSTER_NEED_QUEUE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/time/time.h"
#include "controller/cluster/worker_exchange.h"
#include "controller/spec/dataflow/role_needs.h"

namespace baton::controller {

/// "p" of "projects/p/jobs/j"; empty for any other name.
std::string ProjectId(const std::string& job);
/// "job j"; "a job of another project" where users of `project` may not know its name.
std::string NameForThoseOf(const std::string& project, const std::string& job);

/// The roles of a worker slot, which are named together, joined by "+".
std::vector<std::string> RolesOfWorkerSlot(const std::string& roles);

/// "1 actor worker, 2 rollout workers", of roles of a worker slot -> count.
std::string WantedText(const std::map<std::string, int>& missing);
/// Continues WantedText.
inline constexpr char kToAttach[] = " to attach or to become free";

/// The workers that a job lacks.
struct WorkerNeed {
  int priority = 0;
  int64_t order = 0;                   ///< Of submission.
  bool active = false;                 ///< The job has started: it takes what it can get.
  std::map<std::string, int> missing;  ///< Roles of a worker slot -> count.
  RoleNeeds needs;                     ///< Offers that a worker needs in each role.
  WorkerSlotHints hints;
  absl::Time since;       ///< The job has lacked a slot that it needs, or workers moved for it.
  absl::Time queued;      ///< When its wait to start began.
  bool reserves = false;  ///< True once it has waited so long that free workers are kept for it.
};

/// Not thread-safe.
class NeedQueue {
 public:
  /// A line, by what all of its jobs lack.
  struct Line {
    bool active = false;
    std::map<std::string, int> missing;
    RoleNeeds needs;
    bool operator<(const Line& other) const {
      return std::tie(active, missing, needs) < std::tie(other.active, other.missing, other.needs);
    }
    /// Worker slots of all roles together.
    int worker_slots() const;
  };
  /// -priority, order, name: the first is served first.
  using Jobs = std::set<std::tuple<int, int64_t, std::string>>;
  using Lines = std::map<Line, Jobs>;

  /// Replaces what the job lacked before.
  void Put(const std::string& job, WorkerNeed need);
  void Erase(const std::string& job);
  /// Null: the job waits for nothing.
  const WorkerNeed* Find(const std::string& job) const;
  bool empty() const { return needs_.empty(); }
  /// By job.
  const std::map<std::string, WorkerNeed>& needs() const { return needs_; }
  /// By project; no line is empty.
  const std::map<std::string, Lines>& projects() const { return projects_; }

 private:
  std::map<std::string, WorkerNeed> needs_;
  std::map<std::string, Lines> projects_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CLUSTER_NEED_QUEUE_H_
