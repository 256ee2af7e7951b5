#include "controller/core/loop/publishing.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/core/loop/assign_work.h"
#include "controller/core/loop/issue_command.h"

namespace baton::controller {

bool PublishDue(const JobParts& job) {
  return job.is_rl() && !job.replays() && !job.versions.published();
}

bool AwaitsTravel(const JobParts& job) {
  return job.is_rl() && !job.replays() && !job.plan.many_versions && job.versions.published() &&
         !job.versions.serves_newest();
}

void Publish(JobParts& job) {
  const TaskKind kind = job.roster().hybrid() ? TaskKind::kToGeneration : TaskKind::kPublish;
  job.versions.BeginPublishing(job.out.now());
  IssueCommand(kind, job.groups.actor(), Activity::kPublish, job);
}

void OnPublished(TaskKind kind, JobParts& job) {
  if (kind == TaskKind::kPublish) {
    job.versions.Published(job.roster(), job.out.now());
  } else {
    job.versions.SyncedInPlace(job.out.now());
  }
  job.Switch(Activity::kNone);
  job.out.Do(PutJob{});
  job.Then(FollowUp::kAdvance);
}

void OnRelaysSeen(const RelaysSeen& event, JobParts& job) {
  PolicyVersions& versions = job.versions;
  for (const std::string& text : versions.relays().NewlySlow(event.relays)) {
    job.out.Warn(absl::StrCat("a slow link between hosts: ", text));
  }
  const bool known = versions.relays().known();
  const bool lost = versions.relays().See(event.relays, job.roster(), job.out.now());
  const uint64_t published = versions.published_version();
  versions.NoteLacking(job.roster(), job.out.now());
  const bool needed = versions.served() != published || !versions.lacking().empty();
  if (lost && published != 0 && needed) {
    job.out.Warn(
        absl::StrCat("the relay of the actor's host was started again while policy version ",
                     published, " was on its way: it is published again"));
    versions.Unpublish();
  }
  if (versions.relays().known() != known) job.out.Do(PutJob{});
  ServePublished(job);
  // A host that was left out may have the version now.
  job.Then(FollowUp::kAdvance);
}

void ServePublished(JobParts& job) {
  job.versions.relays().LookAgain(job.out.now());
  const bool serves = job.versions.Serve(job.roster(), job.out.now());
  job.versions.NoteLacking(job.roster(), job.out.now());
  if (!serves) return;
  std::set<std::string> late;
  for (const auto& [slot, since] : job.versions.lacking()) {
    if (since != job.out.now()) continue;  // told before
    late.insert(job.versions.relays().RelayText(job.roster().slots()[slot].worker));
  }
  if (!late.empty() && job.versions.relays().begun() != absl::Time()) {
    const absl::Duration since = job.out.now() - job.versions.relays().begun();
    job.out.Warn(absl::StrCat("policy version ", job.versions.served(),
                              " goes to rollouts without those beside ", absl::StrJoin(late, ", "),
                              ": it has not arrived there for ",
                              absl::FormatDuration(absl::Floor(since, absl::Seconds(1)))));
  }
  job.Then(FollowUp::kAdvance);
}

}  // namespace baton::controller
