#include "controller/core/loop/publishing.h"

#include "controller/core/loop/batch_work.h"
#include "controller/core/loop/command_flow.h"
#include "controller/core/loop/job_parts.h"
#include "controller/core/loop/step_loop.h"
#include "sdk/base/mutant.h"

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
  // A version that the relay lost is published again while responses are made with it.
  if (job.doing.Is(Activity::kPublish)) job.Switch(Activity::kNone);
  job.out.Do(PutJob{});
  // The batch may have come while the actor published: its update has waited for this.
  if (kind == TaskKind::kPublish && job.buffer.batch().TakeHeld()) {
    return Mutant("held-batch-too-small") ? job.update.Begin(job) : UseBatch(job);
  }
  Advance(job);
}

}  // namespace baton::controller
