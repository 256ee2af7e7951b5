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
    const auto found = trajectories_.find(id);
    // Of another serial: it was generated again meanwhile.
    if (found == trajectories_.end() || found->second.serial != serial || serial == 0) continue;
    if (++found->second.losses > options_.max_attempts) {
      return Fail(absl::DataLossError(
          absl::StrCat("the payload of ", TrajectoryName(id), " was lost ", found->second.losses,
                       " times; check the disk of the data root; the last time: ", event.reason)));
    }
    lost.push_back(&found->second);
  }
  if (lost.empty()) return;
  EmitWarning(absl::StrCat(
      "the payload of ", TrajectoryName(lost[0]->id),
      lost.size() > 1 ? absl::StrCat(" and of ", lost.size() - 1, " others") : std::string(),
      " cannot be read (", event.reason, "); generated again with the same draw"));
  for (TrajectoryInfo* trajectory : lost) GenerateAnew(*trajectory);
  if (Commanded(TaskKind::kUpdate)) {
    // A rank may have made the step already: no rank then holds the weights that sampled it.
    return RecoverTrainer("", "what the trainer's update consumes is lost");
  }
  if (phase_ == Phase::kBatch) SetPhase(Phase::kGenerate);
  Do(PutJob{});
  Advance();
}

// It is as if it had just been drawn: what was made of its response goes with it. Those of its
// group keep what they have, for the response that comes will be the same.
void JobCore::GenerateAnew(TrajectoryInfo& trajectory) {
  for (uint32_t node = 0; node < trajectory.tries.size(); ++node) {
    std::vector<TrajectoryInfo*> those = {&trajectory};
    if (graph_.over_group(node)) those = MatesOf(trajectory);
    RolloutManager& manager = ManagerOf(graph_.role(node));
    for (TrajectoryInfo* t : those) {
      NodeTry& tried = t->tries[node];
      if (!tried.asked) continue;
      const uint64_t work = WorkId(t->id, node);
      const auto running = manager.running().find(work);
      if (running != manager.running().end()) {
        if (t != &trajectory) continue;  // it was told of this one's scores
        Do(StopTask{running->second.worker, RefOfWork(graph_.role(node), work),
                    "its payload is lost"});
      }
      manager.Withdraw(work);
      tried.asked = false;
      tried.attempt = NextAttempt(tried.attempt);
    }
  }
  if (trajectory.state == TrajectoryState::kReady) --ready_;
  Do(DropTrajectories{trajectory.serial, trajectory.serial + 1, 0});
  Do(DropPayloads{{trajectory.id}});
  TrajectoryInfo anew;
  anew.id = trajectory.id;
  anew.purpose = trajectory.purpose;
  anew.draw = trajectory.draw;
  anew.sample = trajectory.sample;
  anew.prompt_id = trajectory.prompt_id;
  anew.policy_version = policy_version_;
  anew.incarnation = incarnation_;
  anew.attempt = NextAttempt(trajectory.attempt);
  anew.losses = trajectory.losses;
  for (const NodeTry& tried : trajectory.tries) anew.tries.push_back({tried.attempt});
  trajectory = std::move(anew);
  EnqueueNext(trajectory);
}

}  // namespace baton::controller
