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
  job.versions.relays().See(event.relays);
  ServePublished(job);
  // A host that was left out may have the version now.
  job.Then(FollowUp::kAdvance);
}

void ServePublished(JobParts& job) {
  if (!job.versions.Serve(job.roster(), job.out.now())) return;
  const std::set<std::string> late =
      job.versions.relays().Missing(job.versions.served(), job.roster());
  if (!late.empty()) {
    job.out.Warn(absl::StrCat(
        "policy version ", job.versions.served(), " goes to rollouts without those beside ",
        absl::StrJoin(late, ", "), ": it has not arrived there for ",
        absl::FormatDuration(
            absl::Floor(job.out.now() - job.versions.relays().begun(), absl::Seconds(1)))));
  }
  job.Then(FollowUp::kAdvance);
}

}  // namespace baton::controller
