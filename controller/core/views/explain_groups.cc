#include "controller/core/views/explain_groups.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/core/weights/refresh.h"
#include "controller/spec/dataflow/role_names.h"

namespace baton::controller {
namespace {

void ExplainBatch(const JobParts& job, WaitList& waits) {
  if (!job.doing.Is(Activity::kGenerate)) return;
  const PromptGroups& groups = job.prompt_groups;
  const std::string what =
      !job.batch.selected.empty()
          ? "scores of its responses that are made when the batch is selected"
          : absl::StrCat(job.GroupsPerBatch(), " complete groups; the buffer has ",
                         groups.complete.size(), ", and ",
                         groups.prompts.open().size() - groups.complete.size(), " are under way");
  waits.Add("batch", absl::StrCat("step ", job.out.step() + 1), what, job.doing.since(),
            absl::InfiniteDuration(), "the trainer goes on with them");
}

// Rollouts whose host does not have the weights.
void ExplainTravel(const JobParts& job, WaitList& waits) {
  const PolicyVersions& versions = job.versions;
  const RelayVersions& relays = versions.relays();
  const Roster& roster = job.roster();
  if (!job.life.runs() || roster.hybrid()) return;
  const std::string publisher = roster.FirstOf(roles::kActor);
  const std::string remedy =
      relays.Knows(publisher)
          ? ""
          : absl::StrCat("; no relay of the host of worker ", publisher,
                         ", which publishes them, is attached: start baton-relay there with "
                         "--controller");
  if (!relays.travelling().empty()) {
    const uint64_t version = versions.published_version();
    std::vector<std::string> missing;
    for (const std::string& relay : relays.Missing(version, roster)) {
      missing.push_back(relays.TextOf(relay));
    }
    waits.Add("weights", "rollouts",
              absl::StrCat("policy version ", version, " to arrive at ",
                           absl::StrJoin(missing, ", "), remedy),
              relays.begun(), relays.patience_ends() - relays.begun(),
              "rollouts of hosts that have it go on without the others");
  }
  for (const RoleSlot& slot : roster.slots()) {
    if (!versions.Lacks(slot, roster)) continue;
    const auto noted = versions.lacking().find(static_cast<uint64_t>(roster.IndexOf(slot)));
    waits.Add("weights", absl::StrCat("worker ", slot.worker),
              absl::StrCat("policy version ", versions.served(), " to arrive at ",
                           relays.RelayText(slot.worker), remedy),
              noted == versions.lacking().end() ? waits.now() : noted->second,
              job.options.setup_deadline, "the role goes to another worker");
  }
}

void ExplainEvaluation(const JobParts& job, WaitList& waits) {
  if (!job.doing.Is(Activity::kEvaluate)) return;
  waits.Add("evaluation", absl::StrCat("step ", job.out.step()), job.evaluation.name(),
            job.doing.since(), absl::InfiniteDuration(), "the trainer goes on after it");
}

// Groups that would have gone on without their stragglers if they had enough responses.
void ExplainLate(const JobParts& job, WaitList& waits) {
  if (job.schedule.group_timeout == absl::InfiniteDuration()) return;
  uint64_t late = 0;
  absl::Time since = absl::InfiniteFuture();
  const PromptGroups& groups = job.prompt_groups;
  for (const auto& [prompt_index, trajectory_uid] : groups.prompts.open()) {
    const absl::Time due = groups.late.BegunAt(prompt_index) + job.schedule.group_timeout;
    if (due > job.out.now() || groups.complete.Has(prompt_index) || job.IsWhole(prompt_index)) {
      continue;
    }
    ++late;
    since = std::min(since, due);
  }
  if (late == 0) return;
  waits.Add("late_group", absl::StrCat(late, late == 1 ? " group" : " groups"),
            absl::StrCat("responses: schedule.group_timeout_seconds have passed, and fewer than "
                         "schedule.min_group_size ",
                         job.schedule.min_group_size, " are there, or their scores are not"),
            since, absl::InfiniteDuration(), "a later batch takes what is complete then");
}

// Why the pace (admission_pace.h) holds rollouts back.
std::string CauseOfPace(const JobParts& job) {
  if (job.prompt_groups.pace.judged()) {
    return "what begins earlier is older, and as far as was measured steps become no shorter by it";
  }
  return "no steps are judged yet, so the next batch begins with newer weights";
}

void ExplainBound(const JobParts& job, WaitList& waits) {
  const PromptGroups& groups = job.prompt_groups;
  if (groups.bounded_since == absl::InfinitePast()) return;
  const std::string ahead =
      absl::StrCat("the trainer: ", groups.prompts.open().size(), " groups are ahead of it");
  const std::string cause =
      groups.paced
          ? absl::StrCat(ahead, "; ", CauseOfPace(job))
          : absl::StrCat(ahead,
                         ", and one more might be consumed later than schedule.max_staleness ",
                         job.schedule.max_staleness, " allows");
  waits.Add(groups.paced ? "pace" : "staleness", "rollouts", cause, groups.bounded_since,
            absl::InfiniteDuration(), "they begin groups after its next update");
}

void ExplainRecalled(const JobParts& job, WaitList& waits) {
  std::map<std::string, std::pair<int, absl::Time>> recalled;  // by worker: how many, since when
  for (const auto& [id, running] : job.rollouts().running()) {
    if (running.recalled == absl::InfinitePast()) continue;
    auto& [count, since] = recalled.try_emplace(running.worker, 0, running.recalled).first->second;
    ++count;
    since = std::min(since, running.recalled);
  }
  for (const auto& [worker, those] : recalled) {
    waits.Add("refresh", worker,
              absl::StrCat(those.first,
                           " responses that were stopped, for newer weights make them "
                           "again"),
              those.second, absl::InfiniteDuration(), "they are given to other rollouts");
  }
}

}  // namespace

void ExplainGroups(const JobParts& job, WaitList& waits) {
  ExplainTravel(job, waits);
  ExplainBatch(job, waits);
  ExplainEvaluation(job, waits);
  ExplainLate(job, waits);
  ExplainBound(job, waits);
  ExplainRecalled(job, waits);
}

}  // namespace baton::controller
