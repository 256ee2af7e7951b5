// The order of group commands on one worker: executed by sequence, never skipped.
#ifndef BATON_SDK_WORKER_GROUP_SEQUENCER_H_
#define BATON_SDK_WORKER_GROUP_SEQUENCER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "sdk/worker/task_context.h"

namespace baton {

/// Pure bookkeeping; one thread at a time. Commands are tasks with an order {pool, generation,
/// sequence}; pools of different jobs are different.
///
/// Within a generation the first command that arrives sets the start. A command runs when all
/// before it are done; one that comes early is held. The last command may come again as a new
/// attempt (another token) and runs again; commands before it are refused. A newer generation
/// replaces the older one, whose held commands are refused.
class GroupSequencer {
 public:
  struct Decision {
    std::shared_ptr<TaskContext> run;  ///< Start this one now; may be null.
    /// Never to run; finish each with its error.
    std::vector<std::pair<std::shared_ptr<TaskContext>, absl::Status>> refused;
  };

  /// A command arrived.
  Decision Offer(const std::shared_ptr<TaskContext>& command);
  /// A command that ran has ended (well or not). `command` is the task of the context that ran: one
  /// that was forgotten ends nothing, though its token came again.
  Decision Done(const v1::Task& command);
  /// A command that is held was cancelled: it is refused now. One that runs ends by itself.
  Decision Withdraw(const TaskContext& command);
  /// The group is dissolved, and with it the count.
  Decision Forget(absl::string_view job, absl::string_view pool);
  Decision ForgetAll();

  /// The newest command that is done; 0: none.
  uint64_t last_sequence(absl::string_view job, absl::string_view pool) const;

 private:
  using Key = std::pair<std::string, std::string>;  ///< Job, pool.
  struct Group {
    uint64_t generation = 0;
    uint64_t next = 0;  ///< The sequence that may run next.
    uint64_t done = 0;
    const v1::Task* running = nullptr;  ///< Of the context that runs; null: none.
    std::map<uint64_t, std::shared_ptr<TaskContext>> held;
  };
  static Key KeyOf(const v1::Task& task) { return {task.job(), task.order().pool()}; }
  static void Refuse(Group& group, const absl::Status& why, Decision& decision);
  static Decision StartNext(Group& group);

  std::map<Key, Group> groups_;
};

}  // namespace baton

#endif  // BATON_SDK_WORKER_GROUP_SEQUENCER_H_
