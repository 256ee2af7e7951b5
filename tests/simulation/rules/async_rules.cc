#include "tests/simulation/rules/async_rules.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "controller/spec/settings/schedule.h"
#include "tests/simulation/rules/recorded_run.h"

namespace baton::simulation {

using controller::Schedule;
using controller::ScheduleOf;
using controller::TrajectoryName;

namespace {

uint64_t GroupsInBatch(const v1::JobSpec& spec) {
  return static_cast<uint64_t>(spec.data().train_batch_size());
}

// A response of the job may be without a reward, and so without a place in its batch.
bool MayLackRewards(const v1::JobSpec& spec, const JobHistory& history) {
  if (spec.reward().has_error_reward()) return false;
  return history.scored_by_error || MayFailRewards(spec);
}

std::set<uint64_t> PromptIndicesOf(const store::v1::BatchRow& batch) {
  std::set<uint64_t> prompt_indices;
  for (const store::v1::BatchEntry& entry : batch.entries()) {
    prompt_indices.insert(entry.trajectory().prompt_index());
  }
  return prompt_indices;
}

}  // namespace

std::string AsyncBatchIsWhole(const v1::JobSpec& spec, const JobHistory& history,
                              const controller::BuildBatch& batch) {
  controller::PromptMix prompts = PromptsOf(spec);
  const auto n = static_cast<uint32_t>(spec.rollout().n());
  std::map<uint64_t, size_t> groups;
  uint64_t last = 0;
  for (const controller::TrajectoryInfo& t : batch.trajectories) {
    const std::string name = TrajectoryName(t.id);
    if (t.state != controller::TrajectoryState::kReady) return absl::StrCat(name, " is not READY");
    if (++groups[t.prompt_index] > 0 && t.id <= last && last != 0) {
      return "the batch is not in order";
    }
    last = t.id;
    if (t.prompt_id != prompts.At(t.prompt_index)) return absl::StrCat(name, " has another prompt");
    if (t.id == controller::TrajectoryId(v1::PURPOSE_TRAIN, t.prompt_index, t.sample, n)) continue;
    return absl::StrCat(name, " is not sample ", t.sample, " of prompt index ", t.prompt_index);
  }
  size_t least = n;
  if (spec.schedule().has_group_timeout_seconds()) {
    least = static_cast<size_t>(spec.schedule().min_group_size());
  }
  if (MayLackRewards(spec, history)) least = LeastInGroup(spec);
  for (const auto& [prompt_index, count] : groups) {
    if (count < least) {
      return absl::StrCat("of prompt index ", prompt_index, " only ", count, " are left");
    }
  }
  if (groups.size() == GroupsInBatch(spec)) return "";
  return absl::StrCat("the batch of step ", batch.step, " has ", groups.size(), " groups");
}

std::string AsyncErrorsAreWithinTheRate(const controller::JobCore& core,
                                        const controller::BuildBatch& batch) {
  const v1::JobSpec& spec = core.effective_spec();
  const auto errors = std::count_if(batch.trajectories.begin(), batch.trajectories.end(),
                                    [](const auto& t) { return !t.error.empty(); });
  const uint64_t steps = ScheduleOf(spec).max_staleness + 1;
  const auto n = static_cast<uint64_t>(spec.rollout().n());
  const auto total = static_cast<double>((steps * GroupsInBatch(spec) * n + kValSize) * steps *
                                         std::max<uint64_t>(1, core.incarnation()));
  const double rate = spec.reward().max_error_rate();
  if (static_cast<double>(errors) <= rate * total + 1e-6) return "";
  return absl::StrCat("a batch is made although ", errors,
                      " of its rewards failed, and the job allows a share of ", rate);
}

std::string AsyncStalenessIsBounded(const v1::JobSpec& spec, const JobHistory& history,
                                    const ActorState& actor, const std::vector<Payload>& batch) {
  const uint64_t most = ScheduleOf(spec).max_staleness;
  for (const Payload& p : batch) {
    const std::string name = absl::StrCat(TrajectoryName(p.id), " of version ", p.version);
    const auto published = history.published.find(p.version);
    if (published == history.published.end() || published->second != p.weights) {
      return absl::StrCat(name, " was sampled by weights that are not that version's");
    }
    const std::optional<uint64_t> behind = UpdatesBetween(history, p.weights, actor.weights);
    if (!behind.has_value()) return absl::StrCat(name, " was sampled by weights of another job");
    if (*behind <= most) continue;
    return absl::StrCat(name, " is ", *behind, " updates away from version ", actor.version,
                        ", which it trains; the bound is ", most);
  }
  return "";
}

std::string OpenGroupsAreBounded(const v1::JobSpec& spec, const store::v1::JobRow& row) {
  const Schedule schedule = ScheduleOf(spec);
  // With sampler in_order, groups that are made again after a rollback come before the open ones,
  // and add to them.
  if (schedule.in_order && row.incarnation() > 1) return "";
  const uint64_t most = (schedule.max_staleness + 1) * GroupsInBatch(spec);
  uint64_t open = 0;
  for (const store::v1::OpenPrompts& prompts : row.open_prompts()) open += prompts.count();
  if (open <= most) return "";
  return absl::StrCat(open, " groups are open, and the bound allows ", most);
}

std::string RescoredByTheTrainedWeights(const v1::JobSpec& spec, const JobHistory& history,
                                        const ActorState& actor,
                                        const std::vector<Payload>& batch) {
  if (!IsAsync(spec) || !spec.algorithm().recompute_log_prob()) return "";
  for (const Payload& p : batch) {
    const auto scored = history.rescored.find(p.id);
    if (scored != history.rescored.end() && scored->second == actor.weights) continue;
    return absl::StrCat(TrajectoryName(p.id), " was not scored by the weights of version ",
                        actor.version, ", which train it");
  }
  return "";
}

std::string BatchesAreInOrder(const JobHistory& history, const store::v1::BatchRow& batch) {
  if (!IsAsync(history.spec) || !ScheduleOf(history.spec).in_order) return "";
  const std::set<uint64_t> prompt_indices = PromptIndicesOf(batch);
  const auto before = history.batches.find(batch.step() - 1);
  if (prompt_indices.empty() || before == history.batches.end()) return "";
  const std::set<uint64_t> earlier = PromptIndicesOf(before->second);
  if (earlier.empty() || *earlier.rbegin() < *prompt_indices.begin()) return "";
  return absl::StrCat("step ", batch.step(), " takes prompt index ", *prompt_indices.begin(),
                      " after prompt index ", *earlier.rbegin());
}

std::string SpentIsWhatWasConsumed(const store::v1::JobRow& row, const JobHistory& history,
                                   int64_t step) {
  std::set<uint64_t> spent, consumed;
  for (const store::v1::PromptIndexRange& range : row.spent()) {
    for (uint64_t prompt_index = range.first(); prompt_index <= range.last(); ++prompt_index) {
      spent.insert(prompt_index);
    }
  }
  for (const auto& [of, batch] : history.batches) {
    if (of <= step) consumed.merge(PromptIndicesOf(batch));
  }
  if (row.job().effective_spec().kind() != v1::JOB_KIND_RL) return "";  // its batches have no rows
  for (const uint64_t prompt_index : consumed) {
    if (spent.count(prompt_index) == 0) {
      return absl::StrCat("prompt index ", prompt_index, " is consumed and not spent");
    }
  }
  if (MayLackRewards(row.job().effective_spec(), history)) return "";
  for (const uint64_t prompt_index : spent) {
    if (consumed.count(prompt_index) == 0) {
      return absl::StrCat("prompt index ", prompt_index, " is spent for nothing");
    }
  }
  return "";
}

std::string IdleRolloutsRunAhead(const controller::JobCore& core,
                                 const std::map<std::string, std::string>& sent,
                                 const controller::StartAhead& start, int credits) {
  using controller::TaskKind;
  std::map<TaskKind, int> outstanding;
  for (const auto& [subject, what] : sent) {
    const size_t size = what.size() - std::min(what.size(), start.worker.size());
    if (what.substr(size) != start.worker) continue;
    const auto token = controller::DecodeToken(what.substr(0, size));
    if (token.has_value() && core.Wants(start.worker, token->ref)) ++outstanding[token->ref.kind];
  }
  if (outstanding[TaskKind::kGenerate] > 0) {
    return absl::StrCat("worker ", start.worker, " runs ahead beside ",
                        outstanding[TaskKind::kGenerate], " responses");
  }
  if (outstanding[TaskKind::kRunAhead] > credits) {
    return absl::StrCat("worker ", start.worker, " runs ", outstanding[TaskKind::kRunAhead],
                        " ahead and has ", credits, " credits");
  }
  const v1::JobSpec& spec = core.effective_spec();
  const uint64_t prompt = PromptsOf(spec).At(start.response.prompt_index);
  if (prompt != start.response.prompt_id) {
    return absl::StrCat("prompt index ", start.response.prompt_index, " is of prompt ", prompt,
                        ", not of ", start.response.prompt_id);
  }
  if (start.response.sample < static_cast<uint32_t>(spec.rollout().n())) return "";
  return absl::StrCat("no prompt has a sample ", start.response.sample);
}

}  // namespace baton::simulation
