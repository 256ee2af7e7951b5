// Writing a checkpoint.
//
// Owns whether a checkpoint is being completed on disk, and since when. Milestones says when one is
// due, and which checkpoints are kept.
//
//   --Begin: a command to each group--> the ranks write their parts --all are done--> the
//   controller completes it: its own part, then the name --OnCommitted--> it is listed
//
// Until it is listed the job's way back leads to the one before it. A way back while it is being
// completed forgets it: by then it is of an incarnation that is gone.
#ifndef BATON_CONTROLLER_CORE_LOOP_CHECKPOINT_SAVE_H_
#define BATON_CONTROLLER_CORE_LOOP_CHECKPOINT_SAVE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "controller/core/job/events.h"
#include "controller/spec/wait_list.h"

namespace baton::controller {

struct JobParts;

class CheckpointSave {
 public:
  /// The ranks have written their parts, and the controller completes it.
  bool committing() const { return committing_; }

  /// A checkpoint has a part of every role that trains.
  void Begin(JobParts& job);
  /// All ranks of a group have written theirs.
  void OnGroupDone(JobParts& job);
  void OnCommitted(const CheckpointCommitted& event, JobParts& job);
  /// The job goes back: what is being completed is of no use.
  void Forget() { committing_ = false; }

  /// DEADLINE_EXCEEDED once completing takes longer than `limit`; then it is given up.
  absl::Status CheckDeadline(int64_t step, absl::Time now, absl::Duration limit);
  /// Nothing could move for so long; it counts towards no deadline.
  void Delay(absl::Duration duration, absl::Time now);
  void Explain(int64_t step, absl::Duration limit, WaitList& waits) const;

 private:
  bool committing_ = false;
  absl::Time since_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_CHECKPOINT_SAVE_H_
