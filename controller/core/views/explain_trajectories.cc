#include "controller/core/views/explain_trajectories.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace baton::controller {
namespace {

// Explains the task of a queue that has been still for longest.
void ExplainOldest(const TrajectoriesView& view, const RoleQueue& queue, const std::string& kind,
                   absl::Duration limit, const std::string& action, WaitList& waits) {
  const auto& running = queue.tasks.running();
  if (running.empty()) return;
  // The task that has been still for longest reaches its limit first.
  const auto it =
      std::min_element(running.begin(), running.end(), [&](const auto& a, const auto& b) {
        return queue.tasks.watch().StillSince(a.second) < queue.tasks.watch().StillSince(b.second);
      });
  const TrajectoryInfo& trajectory = *view.scheduler.table().Find(TrajectoryOf(it->first));
  std::string lacks;
  if (kind == "score") {
    const std::string& made = view.dataflow.score(static_cast<int>(NodeOf(it->first))).out();
    lacks = absl::StrCat(", which has no ", made == "reward" ? "score" : made, " yet");
  } else {
    lacks = absl::StrCat(", which has ", trajectory.tokens, " tokens");
  }
  waits.Add(kind, view.scheduler.admission().WorkName(view.out),
            absl::StrCat(view.scheduler.table().OpenGroups(), "; group ", trajectory.prompt_index,
                         " waits for response ", trajectory.sample, " (",
                         TrajectoryName(trajectory.id), ") on worker ", it->second.worker, lacks),
            queue.tasks.watch().StillSince(it->second), limit, action);
}

}  // namespace

void ExplainTrajectories(const TrajectoriesView& view, WaitList& waits) {
  const RoleQueues& queues = view.scheduler.queues();
  ExplainOldest(view, queues.rollouts(), "generate", view.options.generate_stall,
                "it is tried again", waits);
  for (const auto& [role, queue] : queues.scorers()) {
    if (view.roster.AnyTrouble(role)) continue;  // it says more than this deadline
    ExplainOldest(view, queue, "score", view.options.score_deadline,
                  "it is tried again; after the last try the response has no reward", waits);
  }
}

}  // namespace baton::controller
