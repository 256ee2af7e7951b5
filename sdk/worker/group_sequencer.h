// The order of group commands on one worker: commands run by sequence, and none is skipped.
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

/// Pure bookkeeping, for one thread at a time. Commands are tasks with an order {pool, group epoch,
/// sequence}. A pool belongs to one job.
///
/// Within a group epoch, the first command that arrives sets the start. A command runs when all
/// earlier ones are done; a command that arrives early is held. The last command may come again as
/// a new attempt (another token) and runs again; earlier commands are refused. A newer group epoch
/// replaces the older one, and held commands of the older one are refused.
class GroupSequencer {
 public:
  struct Decision {
    std::shared_ptr<TaskContext> run;  ///< Start this one now; may be null.
    /// Commands that will never run; finish each with its error.
    std::vector<std::pair<std::shared_ptr<TaskContext>, absl::Status>> refused;
  };

  /// A command arrived.
  Decision Offer(const std::shared_ptr<TaskContext>& command);
  /// A running command has ended (with success or not). `command` is the task of the context that
  /// ran. If that context was forgotten, nothing happens, even if its token came again.
  Decision Done(const v1::Task& command);
  /// A held command was cancelled: it is refused now. A running command ends by itself.
  Decision Withdraw(const TaskContext& command);
  /// The group is dissolved: forgets its sequence too.
  Decision Forget(absl::string_view job, absl::string_view pool);
  Decision ForgetAll();

  /// The sequence of the newest finished command; 0: none.
  uint64_t last_sequence(absl::string_view job, absl::string_view pool) const;

 private:
  using Key = std::pair<std::string, std::string>;  ///< Job, pool.
  struct Group {
    uint64_t group_epoch = 0;
    uint64_t next = 0;  ///< The sequence that may run next.
    uint64_t done = 0;
    const v1::Task* running = nullptr;  ///< The task of the running context; null: none.
    std::map<uint64_t, std::shared_ptr<TaskContext>> held;
  };
  static Key KeyOf(const v1::Task& task) { return {task.job(), task.order().pool()}; }
  static void Refuse(Group& group, const absl::Status& why, Decision& decision);
  static Decision StartNext(Group& group);

  std::map<Key, Group> groups_;
};

}  // namespace baton

#endif  // BATON_SDK_WORKER_GROUP_SEQUENCER_H_
