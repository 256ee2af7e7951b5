#include "controller/core/views/check_row.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/core/job/job_state.h"
#include "controller/core/job/roster.h"
#include "controller/core/job/task.h"
#include "controller/core/prompts/prompt_ledger.h"
#include "controller/spec/dataflow/roles.h"
#include "controller/spec/job_spec/check_saved.h"
#include "sdk/common/base/status_macros.h"

namespace baton::controller {
namespace {

using Job = v1::Job;

constexpr uint64_t kMaxCount = uint64_t{1} << 60;  // of what only counts up by one
constexpr int64_t kMostSteps = 10'000'000;
constexpr uint64_t kMaxSerial = uint64_t{1} << 40;  // of trajectories; 10^7 steps of 65536 prompts

constexpr uint64_t kMostOpenPrompts = uint64_t{1} << 16;  // of a job; twice what a spec may ask for
constexpr uint64_t kMostPerPrompt = 2048;

template <typename T>
absl::Status InRange(absl::string_view field, T value, T low, T high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(field, ": ", value, " is not in [", low, ", ", high, "]"));
}

// Checks that the settings that the core counts by are present. CheckSaved checks the bounds of
// present settings, but takes defaults for absent ones.
absl::Status CheckSettings(const v1::JobSpec& spec) {
  const bool rl = spec.kind() == v1::JOB_KIND_RL;
  if (spec.kind() == v1::JOB_KIND_UNSPECIFIED || !v1::JobKind_IsValid(spec.kind())) {
    return absl::DataLossError(absl::StrCat("kind: there is no kind ", spec.kind()));
  }
  BATON_RETURN_IF_ERROR(
      InRange("data.train_batch_size", spec.data().train_batch_size(), 1, 1 << 16));
  BATON_RETURN_IF_ERROR(InRange("priority", spec.priority(), -1000, 1000));
  if (!rl) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(InRange("rollout.n", spec.rollout().n(), 1, 1024));
  return InRange("rollout.val.n", spec.rollout().val().n(), 1, 1024);
}

// `stopping_as` is the state of a job once its workers are released: a final state, or QUEUED if a
// pausing job is to go on at once. Rows of jobs that never stopped have none.
absl::Status CheckStates(const store::v1::JobRow& row) {
  const Job::State state = row.job().state();
  if (!Job::State_IsValid(state) || state == Job::STATE_UNSPECIFIED) {
    return absl::DataLossError(absl::StrCat("state: there is no state ", state));
  }
  const int as = row.stopping_as();
  const bool end = Job::State_IsValid(as) && IsTerminal(static_cast<Job::State>(as));
  const bool resumes = as == Job::STATE_UNSPECIFIED || as == Job::STATE_QUEUED;
  if (end || (resumes && state != Job::STATE_STOPPING)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("stopping_as: no job becomes ", as));
}

// Counters that only grow, and the order between them: a checkpoint or an evaluation beyond the
// step done would make `Advance` skip steps.
absl::Status CheckSteps(const store::v1::JobRow& row) {
  const Job& job = row.job();
  const int64_t least = job.effective_spec().trainer().val_only() ? 0 : 1;
  BATON_RETURN_IF_ERROR(InRange<int64_t>("total_steps", job.total_steps(), least, kMostSteps));
  BATON_RETURN_IF_ERROR(InRange<int64_t>("step", job.step(), 0, job.total_steps()));
  BATON_RETURN_IF_ERROR(InRange<int64_t>("saved_step", row.saved_step(), -1, job.step()));
  BATON_RETURN_IF_ERROR(InRange<int64_t>("evaluated_step", row.evaluated_step(), -1, job.step()));
  BATON_RETURN_IF_ERROR(InRange<int64_t>("revision", job.revision(), 0, kMaxCount));
  BATON_RETURN_IF_ERROR(InRange<uint64_t>("policy_version", job.policy_version(), 0, kMaxCount));
  BATON_RETURN_IF_ERROR(InRange<uint64_t>("incarnation", row.incarnation(), 0, kMaxCount));
  BATON_RETURN_IF_ERROR(InRange<uint64_t>("next_serial", row.next_serial(), 0, kMaxSerial));
  uint64_t serial = 0;
  for (const store::v1::StepSerials& kept : row.kept_steps()) {
    BATON_RETURN_IF_ERROR(InRange<int64_t>("kept_steps.step", kept.step(), 0, kMostSteps + 1));
    BATON_RETURN_IF_ERROR(InRange<uint64_t>("kept_steps.first_serial", kept.first_serial(), serial,
                                            row.next_serial()));
    serial = kept.first_serial();
    uint32_t file = 1;
    for (const store::v1::FileRange& files : kept.files()) {
      BATON_RETURN_IF_ERROR(
          InRange<uint32_t>("kept_steps.files", files.first(), file, files.last()));
      file = files.last();
    }
  }
  return absl::OkStatus();
}

// Versions in order, each made from an older one: Staleness follows parents to their root, and
// would never end in a cycle.
absl::Status CheckVersions(const store::v1::JobRow& row) {
  const uint64_t newest = row.job().policy_version();
  BATON_RETURN_IF_ERROR(InRange<uint64_t>("saved_version", row.saved_version(), 0, newest));
  BATON_RETURN_IF_ERROR(InRange<uint64_t>("published_version", row.published_version(), 0, newest));
  uint64_t least = 1;
  for (const store::v1::VersionRow& version : row.versions()) {
    BATON_RETURN_IF_ERROR(InRange<uint64_t>("versions.version", version.version(), least, newest));
    BATON_RETURN_IF_ERROR(
        InRange<uint64_t>("versions.parent", version.parent(), 0, version.version() - 1));
    BATON_RETURN_IF_ERROR(
        InRange<uint64_t>("versions.actor_updates", version.actor_updates(), 0, kMaxCount));
    least = version.version() + 1;
  }
  return absl::OkStatus();
}

// Ranges in order that do not touch, because PromptIndexSet looks up and joins them.
absl::Status CheckPromptIndices(
    absl::string_view field,
    const google::protobuf::RepeatedPtrField<store::v1::PromptIndexRange>& ranges) {
  uint64_t least = 0;
  for (const store::v1::PromptIndexRange& range : ranges) {
    BATON_RETURN_IF_ERROR(
        InRange<uint64_t>(absl::StrCat(field, ".first"), range.first(), least, kMaxSerial));
    BATON_RETURN_IF_ERROR(
        InRange<uint64_t>(absl::StrCat(field, ".last"), range.last(), range.first(), kMaxSerial));
    least = range.last() + 2;
  }
  return absl::OkStatus();
}

// A group that has given up responses that it never had would wait for ever, or be complete without
// any response.
absl::Status CheckGivenUp(const store::v1::OpenPrompts& open) {
  if (open.given_up_size() > 0) {
    BATON_RETURN_IF_ERROR(InRange<uint64_t>("open_prompts.count", open.count(), 1, 1));
  }
  uint64_t least = 0;
  for (const uint32_t sample : open.given_up()) {
    BATON_RETURN_IF_ERROR(
        InRange<uint64_t>("open_prompts.given_up", sample, least, open.per_prompt() - 1));
    least = uint64_t{sample} + 1;
  }
  const auto most = static_cast<int>(open.per_prompt()) - 1;  // one response is left
  return InRange<int>("open_prompts.given_up", open.given_up_size(), 0, most);
}

// A group that is open and spent would be learned from twice, and a trajectory uid that is not
// given yet would be given to a second trajectory.
absl::Status CheckOpenPrompts(const store::v1::JobRow& row) {
  BATON_RETURN_IF_ERROR(CheckPromptIndices("spent", row.spent()));
  BATON_RETURN_IF_ERROR(CheckPromptIndices("saved_spent", row.saved_spent()));
  BATON_RETURN_IF_ERROR(InRange<uint64_t>("lost_groups", row.lost_groups(), 0, kMaxCount));
  BATON_RETURN_IF_ERROR(InRange<uint64_t>("filtered_groups", row.filtered_groups(), 0, kMaxCount));
  PromptIndexSet spent;
  spent.Restore(row.spent());
  uint64_t least = 0;
  uint64_t room = kMostOpenPrompts;  // each of them has a place in memory
  for (const store::v1::OpenPrompts& open : row.open_prompts()) {
    BATON_RETURN_IF_ERROR(
        InRange<uint64_t>("open_prompts.prompt_index", open.prompt_index(), least, kMaxSerial));
    BATON_RETURN_IF_ERROR(InRange<uint64_t>("open_prompts.count", open.count(), 1, room));
    room -= open.count();
    BATON_RETURN_IF_ERROR(
        InRange<uint64_t>("open_prompts.per_prompt", open.per_prompt(), 1, kMostPerPrompt));
    BATON_RETURN_IF_ERROR(
        InRange<uint64_t>("open_prompts.first_uid", open.first_uid(), 1, kMaxCount));
    // All of these uids were given.
    BATON_RETURN_IF_ERROR(InRange<uint64_t>("open_prompts.first_uid",
                                            open.first_uid() + open.count() * open.per_prompt(), 1,
                                            row.next_trajectory_uid()));
    BATON_RETURN_IF_ERROR(CheckGivenUp(open));
    const uint64_t end = open.prompt_index() + open.count();
    for (uint64_t prompt_index = open.prompt_index(); prompt_index < end; ++prompt_index) {
      if (!spent.Contains(prompt_index)) continue;
      return absl::DataLossError(
          absl::StrCat("open_prompts.prompt_index: ", prompt_index, " is spent already"));
    }
    least = end;
  }
  const store::v1::EvaluationRow& evaluation = row.evaluation();
  BATON_RETURN_IF_ERROR(
      InRange<uint64_t>("evaluation.version", evaluation.version(), 0, row.job().policy_version()));
  BATON_RETURN_IF_ERROR(
      InRange<int64_t>("evaluation.step", evaluation.step(), 0, row.job().step()));
  BATON_RETURN_IF_ERROR(InRange<uint64_t>(
      "evaluation.trajectory_count", evaluation.trajectory_count(), 0, row.next_trajectory_uid()));
  BATON_RETURN_IF_ERROR(
      InRange<uint64_t>("evaluation.first_uid", evaluation.first_uid(), 0,
                        row.next_trajectory_uid() - evaluation.trajectory_count()));
  return InRange<uint64_t>("oldest_serial", row.oldest_serial(), 0,
                           std::max<uint64_t>(row.next_serial(), 1));
}

absl::Status CheckLearning(const store::v1::LearningRow& row) {
  BATON_RETURN_IF_ERROR(InRange<int64_t>("learning.idle_run", row.idle_run(), 0, kMaxCount));
  BATON_RETURN_IF_ERROR(InRange<int64_t>("learning.best_step", row.best_step(), 0, kMaxCount));
  BATON_RETURN_IF_ERROR(
      InRange<int64_t>("learning.stop_best_step", row.stop_best_step(), 0, kMaxCount));
  BATON_RETURN_IF_ERROR(InRange("learning.stop_misses", row.stop_misses(), 0, 1 << 30));
  for (const auto& [name, symptom] : row.symptoms()) {
    BATON_RETURN_IF_ERROR(InRange<int64_t>("learning.steps", symptom.steps(), 0, kMaxCount));
    BATON_RETURN_IF_ERROR(InRange<int64_t>("learning.run", symptom.run(), 0, kMaxCount));
    BATON_RETURN_IF_ERROR(InRange<int64_t>("learning.gone", symptom.gone(), 0, kMaxCount));
    BATON_RETURN_IF_ERROR(InRange("learning.warnings", symptom.warnings(), 0, 1 << 30));
  }
  return absl::OkStatus();
}

// The slots are those of the spec, and each worker has one worker slot, because the Roster indexes
// by both.
absl::Status CheckSlots(const store::v1::JobRow& row) {
  const absl::StatusOr<Roster> roster =
      Roster::Create(row.job().effective_spec(), row.job().dataflow());
  if (!roster.ok()) return absl::DataLossError(roster.status().message());
  const std::vector<const RoleSlot*> matched = roster->Match(row);
  const bool too_many = std::count(matched.begin(), matched.end(), nullptr) > 0;
  if (too_many || matched.size() != roster->slots().size()) {
    return absl::DataLossError(absl::StrCat("slots: ", row.slots_size(),
                                            " roles, not those that spec.resources asks for"));
  }
  std::map<std::string, size_t> worker_slots;  // by worker
  std::map<size_t, std::string> workers;       // by worker slot
  for (int i = 0; i < row.slots_size(); ++i) {
    const store::v1::SlotRow& kept = row.slots(i);
    const RoleSlot& slot = *matched[static_cast<size_t>(i)];
    if (kept.worker_id().empty()) continue;
    BATON_RETURN_IF_ERROR(
        InRange("slots.credits", kept.credits(), 1, std::numeric_limits<int>::max()));
    if (!IsActive(row.job().state()) && !IsTerminal(row.job().state())) {
      return absl::DataLossError(absl::StrCat("slots: worker '", kept.worker_id(),
                                              "' in a job that ", "has none while it is ",
                                              StateName(row.job().state())));
    }
    const auto worker_slot = worker_slots.emplace(kept.worker_id(), slot.worker_slot).first;
    const auto worker = workers.emplace(slot.worker_slot, kept.worker_id()).first;
    if (worker_slot->second != slot.worker_slot || worker->second != kept.worker_id()) {
      return absl::DataLossError(absl::StrCat("slots: worker '", kept.worker_id(),
                                              "' plays roles that do not share their workers"));
    }
  }
  return absl::OkStatus();
}

// Each role whose ranks meet has its group. A group that trains may have only a group command,
// other groups none.
absl::Status CheckGroupRows(const store::v1::JobRow& row) {
  std::multiset<std::string> groups, expected, trained;
  for (const GroupRole& role : GroupRolesOf(row.job().effective_spec(), row.job().dataflow())) {
    expected.insert(role.role);
    if (role.trains) trained.insert(role.role);
  }
  for (const store::v1::GroupRow& group : row.groups()) {
    groups.insert(group.role());
    BATON_RETURN_IF_ERROR(
        InRange<uint64_t>("groups.group_epoch", group.group_epoch(), 0, kMaxCount));
    BATON_RETURN_IF_ERROR(InRange<uint64_t>("groups.sequence", group.sequence(), 0, kMaxCount));
    BATON_RETURN_IF_ERROR(InRange<uint64_t>("groups.version", group.version(), 0, kMaxCount));
    if (!group.has_command()) continue;
    if (trained.count(group.role()) == 0 ||
        !IsGroupCommand(static_cast<TaskKind>(group.command().kind()))) {
      return absl::DataLossError(absl::StrCat("groups.command.kind: ", group.command().kind(),
                                              " is no command of the group of role ",
                                              group.role()));
    }
  }
  if (groups == expected && trained.count(roles::kActor) == 1) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("groups: ", row.groups_size(), " groups, not those of the job's roles"));
}

}  // namespace

absl::Status CheckRow(const store::v1::JobRow& row) {
  const std::string& name = row.job().name();
  if (!absl::StartsWith(name, "projects/") || !absl::StrContains(name, "/jobs/")) {
    return absl::DataLossError(absl::StrCat("name: '", name, "' names no job"));
  }
  BATON_RETURN_IF_ERROR(CheckSettings(row.job().effective_spec()));
  // Before anything is made of the spec.
  if (const std::string problem = ProblemOfSaved(row.job()); !problem.empty()) {
    return absl::DataLossError(problem);
  }
  BATON_RETURN_IF_ERROR(CheckStates(row));
  BATON_RETURN_IF_ERROR(CheckSteps(row));
  BATON_RETURN_IF_ERROR(CheckVersions(row));
  BATON_RETURN_IF_ERROR(
      InRange<uint64_t>("next_trajectory_uid", row.next_trajectory_uid(), 0, kMaxCount));
  BATON_RETURN_IF_ERROR(CheckOpenPrompts(row));
  BATON_RETURN_IF_ERROR(CheckLearning(row.learning()));
  BATON_RETURN_IF_ERROR(CheckLearning(row.saved_learning()));
  BATON_RETURN_IF_ERROR(
      InRange("worked_seconds", row.worked_seconds(), 0.0, static_cast<double>(kMaxCount)));
  BATON_RETURN_IF_ERROR(CheckSlots(row));
  return CheckGroupRows(row);
}

}  // namespace baton::controller
