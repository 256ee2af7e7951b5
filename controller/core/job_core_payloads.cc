// JobCore: payloads that are lost are generated again, with the same draws.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/job_core.h"

namespace baton::controller {

void JobCore::On(const PayloadLost& event) {
  const bool waits =
      phase_ == Phase::kGenerate || phase_ == Phase::kEvaluate || phase_ == Phase::kBatch;
  if (!begun_ || !is_rl() || !waits) return;
  std::vector<TrajectoryInfo*> lost;
  for (const auto& [id, serial] : event.trajectories) {
    TrajectoryInfo* const found = scheduler_.table().Find(id);
    // Of another serial: it was generated again meanwhile.
    if (found == nullptr || found->serial != serial || found->location.size == 0) {
      continue;
    }
    if (++found->losses > options_.max_attempts) {
      return Fail(absl::DataLossError(
          absl::StrCat("the payload of ", TrajectoryName(id), " was lost ", found->losses,
                       " times; check the disk of the data root; the last time: ", event.reason)));
    }
    lost.push_back(found);
  }
  if (lost.empty()) return;
  out_.Warn(absl::StrCat(
      "the payload of ", TrajectoryName(lost[0]->id),
      lost.size() > 1 ? absl::StrCat(" and of ", lost.size() - 1, " others") : std::string(),
      " cannot be read (", event.reason, "); generated again with the same draw"));
  for (TrajectoryInfo* trajectory : lost) {
    scheduler_.GenerateAnew(*trajectory, Work());
  }
  if (groups_.Commanded(TaskKind::kUpdate)) {
    // A rank may have made the step already: no rank then holds the weights that sampled it.
    return RecoverTrainer("", "the batch of the trainer's update is lost");
  }
  if (phase_ == Phase::kBatch) SetPhase(Phase::kGenerate);
  out_.Do(PutJob{});
  Advance();
}

}  // namespace baton::controller
