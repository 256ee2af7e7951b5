#include "controller/core/loop/publishing.h"

#include "controller/core/loop/issue_command.h"

namespace baton::controller {

bool PublishDue(const JobParts& job) {
  return job.is_rl() && !job.replays() && !job.versions.published();
}

void Publish(JobParts& job) {
  const TaskKind kind = job.roster().hybrid() ? TaskKind::kToGeneration : TaskKind::kPublish;
  job.versions.BeginPublishing(job.out.now());
  IssueCommand(kind, job.groups.actor(), Activity::kPublish, job);
}

void OnPublished(TaskKind kind, JobParts& job) {
  if (kind == TaskKind::kPublish) {
    job.versions.Published();
  } else {
    job.versions.SyncedInPlace(job.out.now());
  }
  job.Switch(Activity::kNone);
  job.out.Do(PutJob{});
  job.Then(FollowUp::kAdvance);
}

}  // namespace baton::controller
