// Trajectory uids: numbers that name the trajectories of a job, so that a task of one is never
// mistaken for a task of another.
//
// Owns the next uid. A prompt group that is opened gets one uid for each of its trajectories, and
// an evaluation one for each of its responses; the job's row says which. So a restarted controller
// gives each trajectory the uid that it had, and tasks that workers still run stay known. The turn
// that takes uids puts the job's row, which is stored before the uids are sent to workers. So no
// uid is given twice, even after a crash.
#ifndef BATON_CONTROLLER_CORE_PROMPTS_TRAJECTORY_UIDS_H_
#define BATON_CONTROLLER_CORE_PROMPTS_TRAJECTORY_UIDS_H_

#include <algorithm>
#include <cstdint>
#include <utility>

#include "baton/store/v1/rows.pb.h"
#include "controller/core/job/effect_sink.h"

namespace baton::controller {

class TrajectoryUids {
 public:
  /// A job that goes on from a checkpoint has given no uid yet; 0 is not a uid.
  void Restore(const store::v1::JobRow& row) {
    next_ = std::max<uint64_t>(row.next_trajectory_uid(), 1);
  }
  /// Sets next_trajectory_uid.
  void Save(store::v1::JobRow* row) const { row->set_next_trajectory_uid(next_); }

  /// Takes `count` uids; returns the first.
  uint64_t Take(uint64_t count, EffectSink& out) {
    out.Do(PutJob{});
    return std::exchange(next_, next_ + count);
  }

 private:
  uint64_t next_ = 1;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_PROMPTS_TRAJECTORY_UIDS_H_
