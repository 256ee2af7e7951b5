// JobCore: a job that trains on the recorded batches of another one (replay.h).
#include "controller/core/job_core.h"

namespace baton::controller {

// Nothing is drawn, generated or scored: the runtime reads the row of the step's batch and builds
// the batch of it.
void JobCore::BeginReplay() {
  scheduler_.BeginReplay(Work());
  begun_ = true;
  SetPhase(Phase::kBatch);
  buffer_.Replay(spec(), out_);
}

// From here on the step is like any other: its metrics are those of these responses.
void JobCore::TakeReplayed(const BatchBuilt& event) {
  for (const TrajectoryInfo& trajectory : event.replayed) {
    scheduler_.table().Add(trajectory);
    scheduler_.table().CountReady();
  }
}

}  // namespace baton::controller
