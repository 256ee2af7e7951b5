#include "controller/core/trajectories/trajectory_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/spec/dataflow/role_names.h"
#include "controller/spec/settings/schedule.h"

namespace baton::controller {
namespace {

bool HasResponse(const TrajectoryInfo& trajectory) {
  return trajectory.state == TrajectoryState::kScoring ||
         trajectory.state == TrajectoryState::kReady;
}

}  // namespace

TrajectoryInfo* TrajectoryTable::Find(uint64_t id) {
  return const_cast<TrajectoryInfo*>(static_cast<const TrajectoryTable*>(this)->Find(id));
}

const TrajectoryInfo* TrajectoryTable::Find(uint64_t id) const {
  const auto found = trajectories_.find(id);
  return found == trajectories_.end() ? nullptr : &found->second;
}

TrajectoryInfo& TrajectoryTable::Add(TrajectoryInfo trajectory) {
  const uint64_t id = trajectory.id;
  return trajectories_[id] = std::move(trajectory);
}

TrajectoryInfo TrajectoryTable::Take(std::map<uint64_t, TrajectoryInfo>::iterator at) {
  if (at->second.state == TrajectoryState::kReady) --ready_;
  return std::move(trajectories_.extract(at).mapped());
}

void TrajectoryTable::Remove(uint64_t id) {
  const auto found = trajectories_.find(id);
  if (found != trajectories_.end()) Take(found);
}

std::map<uint64_t, TrajectoryInfo> TrajectoryTable::TakeGroup(uint64_t prompt_index) {
  std::map<uint64_t, TrajectoryInfo> taken;
  for (const TrajectoryInfo* member : GroupMembers(prompt_index)) {
    const uint64_t id = member->id;
    taken.emplace(id, Take(trajectories_.find(id)));
  }
  taken_ += taken.size();
  return taken;
}

std::map<uint64_t, TrajectoryInfo> TrajectoryTable::TakeEvaluation() {
  std::map<uint64_t, TrajectoryInfo> taken;
  for (auto it = trajectories_.lower_bound(TrajectoryId(v1::PURPOSE_EVAL, 0, 0, 1));
       it != trajectories_.end() && PurposeOf(it->first) == v1::PURPOSE_EVAL;) {
    const auto next = std::next(it);
    const uint64_t id = it->first;
    taken.emplace(id, Take(it));
    it = next;
  }
  taken_ += taken.size();
  return taken;
}

std::vector<TrajectoryInfo*> TrajectoryTable::GroupMembers(uint64_t prompt_index) {
  const uint32_t n = plan_.Samples(v1::PURPOSE_TRAIN);
  std::vector<TrajectoryInfo*> members;
  const auto add = [&](v1::Purpose purpose, uint32_t sample) {
    if (TrajectoryInfo* found = Find(TrajectoryId(purpose, prompt_index, sample, n))) {
      members.push_back(found);
    }
  };
  for (uint32_t sample = 0; sample < n; ++sample) add(v1::PURPOSE_TRAIN, sample);
  if (plan_.has_baseline()) add(v1::PURPOSE_BASELINE, 0);
  return members;
}

bool TrajectoryTable::GroupReady(uint64_t prompt_index, size_t given_up) const {
  const uint32_t n = plan_.Samples(v1::PURPOSE_TRAIN);
  size_t ready = 0;
  const auto count = [&](v1::Purpose purpose, uint32_t sample) {
    const TrajectoryInfo* const found = Find(TrajectoryId(purpose, prompt_index, sample, n));
    if (found != nullptr && found->state == TrajectoryState::kReady) ++ready;
  };
  for (uint32_t sample = 0; sample < n; ++sample) count(v1::PURPOSE_TRAIN, sample);
  if (plan_.has_baseline()) count(v1::PURPOSE_BASELINE, 0);
  return ready + given_up == plan_.PerPrompt();
}

void TrajectoryTable::Clear() {
  trajectories_.clear();
  ready_ = 0;
}

std::vector<TrajectoryInfo*> TrajectoryTable::PromptGroupOf(const TrajectoryInfo& trajectory) {
  const uint32_t n = plan_.Samples(trajectory.purpose);
  const uint32_t size = trajectory.purpose == v1::PURPOSE_BASELINE ? 1 : n;
  std::vector<TrajectoryInfo*> group;
  for (uint32_t sample = 0; sample < size; ++sample) {
    const auto found =
        trajectories_.find(TrajectoryId(trajectory.purpose, trajectory.prompt_index, sample, n));
    if (found != trajectories_.end()) group.push_back(&found->second);
  }
  return group;
}

std::vector<std::pair<TrajectoryInfo*, uint32_t>> TrajectoryTable::NextScores(
    TrajectoryInfo& trajectory) {
  std::vector<std::pair<TrajectoryInfo*, uint32_t>> next;
  for (uint32_t node = 0; node < trajectory.tries.size(); ++node) {
    std::vector<TrajectoryInfo*> those = {&trajectory};
    if (plan_.graph().over_group(node)) those = PromptGroupOf(trajectory);
    // A node over the group compares responses, so it waits until all of them have its inputs.
    const bool possible = std::all_of(those.begin(), those.end(), [&](const auto* t) {
      return HasResponse(*t) && (plan_.graph().needs(node) & ~t->scored) == 0;
    });
    // A mate may still lack exactly the score that this response made possible. `asked`: since an
    // earlier call.
    for (TrajectoryInfo* t : those) {
      const bool wanted = (plan_.Wanted(*t) & ~t->scored) >> node & 1;
      if (possible && wanted && !t->tries[node].asked) next.emplace_back(t, node);
    }
  }
  return next;
}

bool TrajectoryTable::Select(TrajectoryInfo& trajectory) {
  trajectory.selected = true;
  if ((plan_.Wanted(trajectory) & ~trajectory.scored) == 0) return false;
  trajectory.state = TrajectoryState::kScoring;
  --ready_;
  return true;
}

void TrajectoryTable::Deselect(TrajectoryInfo& trajectory) {
  trajectory.selected = false;
  for (uint32_t node = 0; node < trajectory.tries.size(); ++node) {
    if ((plan_.graph().at_selection() >> node & 1) != 0) trajectory.columns.erase(node);
  }
  trajectory.scored &= ~plan_.graph().at_selection();
  const bool waited = trajectory.state == TrajectoryState::kScoring;
  if (!waited || (plan_.Wanted(trajectory) & ~trajectory.scored) != 0) return;
  trajectory.state = TrajectoryState::kReady;
  ++ready_;
}

void TrajectoryTable::Scored(TrajectoryInfo& trajectory, uint32_t node) {
  // The attempts keep counting, in case the score is made again.
  trajectory.tries[node] = NodeTry{trajectory.tries[node].attempt};
  trajectory.scored |= uint64_t{1} << node;
  if ((plan_.Wanted(trajectory) & ~trajectory.scored) != 0) return;
  // The reward is computed once, when all of its terms are there.
  trajectory.state = TrajectoryState::kReady;
  if (trajectory.failed == 0) trajectory.scores["reward"] = plan_.graph().Reward(trajectory.scores);
}

void TrajectoryTable::Reset(TrajectoryInfo& trajectory, uint64_t version, const EffectSink& out) {
  if (trajectory.state == TrajectoryState::kReady) --ready_;
  // Keeps the fields that name the trajectory and count its losses. The serial goes, because its
  // row is dropped.
  TrajectoryInfo anew;
  anew.id = trajectory.id;
  anew.purpose = trajectory.purpose;
  anew.prompt_index = trajectory.prompt_index;
  anew.sample = trajectory.sample;
  anew.prompt_id = trajectory.prompt_id;
  anew.trajectory_uid = trajectory.trajectory_uid;
  anew.pin = trajectory.pin;
  anew.policy_version = version;
  anew.incarnation = out.incarnation();
  anew.attempt = out.NextAttempt(trajectory.attempt);
  anew.losses = trajectory.losses;
  for (const NodeTry& tried : trajectory.tries) {
    // A score's attempt is used up, because its result belongs to the lost payload. A worker may
    // send that result again, and an earlier controller may have counted it.
    anew.tries.push_back({out.NextAttempt(tried.attempt)});
  }
  trajectory = std::move(anew);
}

TaskRef TrajectoryTable::RefOf(const std::string& role, uint64_t work) const {
  const TrajectoryInfo& trajectory = trajectories_.at(TrajectoryOf(work));
  return role == roles::kRollout ? GenerateRef(trajectory) : ScoreRef(trajectory, NodeOf(work));
}

std::string TrajectoryTable::OpenGroups() const {
  std::map<uint64_t, bool> open;  // by prompt index
  for (const auto& [id, trajectory] : trajectories_) {
    open[trajectory.prompt_index] |= trajectory.state != TrajectoryState::kReady;
  }
  const auto count =
      std::count_if(open.begin(), open.end(), [](const auto& group) { return group.second; });
  return absl::StrCat(count, " of ", open.size(), " groups");
}

ResponsePlan::ResponsePlan(std::shared_ptr<const v1::Job> submitted)
    : submitted_(std::move(submitted)),
      graph_(submitted_->dataflow(),
             IsAsync(submitted_->effective_spec(), submitted_->dataflow())) {
  const auto& generate = submitted_->dataflow().generate();
  has_baseline_ = std::any_of(generate.begin(), generate.end(), [](const v1::GenerateNode& node) {
    return node.purpose() == "baseline";
  });
}

uint32_t ResponsePlan::Samples(v1::Purpose purpose) const {
  const v1::JobSpec& spec = submitted_->effective_spec();
  if (spec.kind() != v1::JOB_KIND_RL) return 1;
  return static_cast<uint32_t>(purpose == v1::PURPOSE_EVAL ? spec.rollout().val().n()
                                                           : spec.rollout().n());
}

}  // namespace baton::controller
