#include "controller/core/loop/lose_payloads.h"

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "controller/core/loop/batch_flow.h"
#include "controller/core/loop/life_changes.h"
#include "controller/core/loop/rollback.h"

namespace baton::controller {
namespace {

// A rank may have made the update already; then the ranks no longer all hold the weights that the
// batch was for.
void LoseUpdate(const PayloadLost& event, JobParts& job) {
  // A disk that loses every batch would send the job back for ever.
  if (job.work.LoseBatch(job.out.step() + 1) > job.options.max_attempts) {
    return Fail(absl::DataLossError(absl::StrCat(
                    "the batch of step ", job.out.step() + 1,
                    " was lost again and again; check the disk of the data root; the last time: ",
                    event.reason)),
                job);
  }
  RecoverTrainer("", "the batch of the trainer's update is lost", job);
}

// The trajectories whose payloads are lost. One with another serial was generated again meanwhile.
// An error: one was lost too often.
absl::StatusOr<std::vector<TrajectoryInfo*>> LostTrajectories(const PayloadLost& event,
                                                              JobParts& job) {
  std::vector<TrajectoryInfo*> lost;
  for (const auto& [id, serial] : event.trajectories) {
    TrajectoryInfo* const found = job.scheduler.table().Find(id);
    if (found == nullptr || found->serial != serial || found->location.size == 0) continue;
    if (++found->losses > job.options.max_attempts) {
      return absl::DataLossError(
          absl::StrCat("the payload of ", TrajectoryName(id), " was lost ", found->losses,
                       " times; check the disk of the data root; the last time: ", event.reason));
    }
    lost.push_back(found);
  }
  return lost;
}

// The trajectory's group is not complete any more.
void LeaveGroup(const TrajectoryInfo& trajectory, JobParts& job) {
  if (trajectory.purpose == v1::PURPOSE_EVAL) return;
  if (trajectory.selected) ReleaseBatch("its batch lacks a response", job);
  job.prompt_groups.complete.Remove(trajectory.prompt_index);
}

}  // namespace

void LosePayloads(const PayloadLost& event, JobParts& job) {
  if (job.replays() && job.work.begun() && job.life.runs()) {
    return Fail(absl::DataLossError(absl::StrCat("step ", job.out.step() + 1,
                                                 " cannot be replayed: ", event.reason)),
                job);
  }
  const bool loses_batch = LosesBatch(event, job);
  if (loses_batch) {
    // The lost responses are generated again as part of the work.
    if (job.commands.Any(TaskKind::kUpdate)) {
      LoseUpdate(event, job);
    } else {
      GiveBatchBack("its batch lacks a response", job);
    }
  }
  // The ranks of an update read payloads too. In a job of kind sft the data files are the payloads.
  if (!job.work.begun() || !job.is_rl() || !IsActive(job.life.state())) return;
  const absl::StatusOr<std::vector<TrajectoryInfo*>> lost = LostTrajectories(event, job);
  if (!lost.ok()) return Fail(lost.status(), job);
  if (lost->empty()) return;
  job.out.Warn(absl::StrCat(
      "the payload of ", TrajectoryName(lost->front()->id),
      lost->size() > 1 ? absl::StrCat(" and of ", lost->size() - 1, " others") : std::string(),
      " cannot be read (", event.reason, "); generated again with the same sampling key"));
  for (TrajectoryInfo* trajectory : *lost) {
    LeaveGroup(*trajectory, job);
    job.scheduler.GenerateAnew(*trajectory, job.Work());
  }
  // The batch will be built again.
  if (loses_batch && job.doing.Is(Activity::kBatch)) job.Switch(Activity::kGenerate);
  job.out.Do(PutJob{});
  job.Then(FollowUp::kAdvance);
}

}  // namespace baton::controller
