#include "controller/core/trajectories/admission.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace baton::controller {

uint64_t Admission::Judged(const TrajectoryTable& table) const {
  return std::max<uint64_t>(responses_, table.all().size() + table.taken());
}

std::string Admission::WorkName(const EffectSink& out) const {
  return evaluates_ ? absl::StrCat("the evaluation of step ", out.step())
                    : absl::StrCat("step ", out.step() + 1);
}

std::vector<TrajectoryInfo> Admission::MakeGroup(v1::Purpose purpose, uint64_t prompt_index,
                                                 uint64_t prompt, uint64_t trajectory_uid,
                                                 const TrajectoryTable& table,
                                                 const WorkContext& context) const {
  std::vector<TrajectoryInfo> made;
  if (!is_rl()) {
    TrajectoryInfo example;
    example.id = TrajectoryId(v1::PURPOSE_TRAIN, prompt_index, 0, 1);
    example.prompt_index = prompt_index;
    example.prompt_id = prompt;
    example.state = TrajectoryState::kReady;
    made.push_back(std::move(example));
    return made;
  }
  const uint32_t n = table.plan().Samples(purpose);
  if (table.plan().has_baseline() && purpose == v1::PURPOSE_TRAIN) {
    made.push_back(
        Make(v1::PURPOSE_BASELINE, prompt_index, 0, prompt, trajectory_uid++, table, context));
  }
  for (uint32_t sample = 0; sample < n; ++sample) {
    made.push_back(Make(purpose, prompt_index, sample, prompt, trajectory_uid++, table, context));
  }
  return made;
}

TrajectoryInfo Admission::Make(v1::Purpose purpose, uint64_t prompt_index, uint32_t sample,
                               uint64_t prompt, uint64_t trajectory_uid,
                               const TrajectoryTable& table, const WorkContext& context) const {
  const ScoreGraph& graph = table.plan().graph();
  TrajectoryInfo trajectory;
  trajectory.id = TrajectoryId(purpose, prompt_index, sample, table.plan().Samples(purpose));
  trajectory.purpose = purpose;
  trajectory.prompt_index = prompt_index;
  trajectory.sample = sample;
  trajectory.prompt_id = prompt;
  trajectory.policy_version = context.versions.newest();
  trajectory.incarnation = context.out.incarnation();
  auto kept = context.buffer.found().Recall(trajectory, table.plan().Wanted(trajectory));
  const bool fresh = kept.has_value();
  if (fresh) {
    trajectory = *std::move(kept);
    // A score for a lost response may still be under way.
    trajectory.restored = trajectory.losses == 0;
  }
  const bool drafts = submitted_->effective_spec().rollout().speculation().mode() != "off";
  if (!fresh && drafts) {
    trajectory.earlier = context.buffer.earlier().Of(trajectory);
  }
  trajectory.trajectory_uid = trajectory_uid;
  trajectory.attempt = context.out.attempt_base();
  trajectory.tries.assign(static_cast<size_t>(graph.size()), NodeTry{context.out.attempt_base()});
  return trajectory;
}

}  // namespace baton::controller
