// A job's wait for room: a command found a disk or shared memory full.
//
// Owns what found no room, since when, and when the job tries again. Someone must free space, so
// there is no limit to the tries; the job tells its user at the first one, and `why` shows the
// wait.
//
//   no wait --a command finds no room--> waits --the retry is due--> due --no room again--> waits
//      ^                                   |                          |
//      +------- a command is done, or the job gives the command up ---+
#ifndef BATON_CONTROLLER_CORE_WORKERS_ROOM_WAIT_H_
#define BATON_CONTROLLER_CORE_WORKERS_ROOM_WAIT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "controller/core/job/effect_sink.h"
#include "controller/spec/wait_list.h"

namespace baton::controller {

class RoomWait {
 public:
  /// The command of `event` found no room: it is issued again once `retry` has passed.
  void Begin(const TaskDone& event, absl::Duration retry, EffectSink& out);
  /// There is room, or nothing needs it any more.
  void End() { wait_.reset(); }
  bool Waits(absl::Time now) const { return wait_.has_value() && now < wait_->retry; }
  /// A retry is due.
  bool RetryDue(absl::Time now) const { return wait_.has_value() && !Waits(now); }
  void Explain(int64_t step, WaitList& waits) const;

 private:
  struct Wait {
    TaskKind kind = TaskKind::kPublish;
    std::string message;
    absl::Time since;
    absl::Time retry;
  };
  std::optional<Wait> wait_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_WORKERS_ROOM_WAIT_H_
