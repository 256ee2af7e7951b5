#include "controller/core/loop/checkpoint_flow.h"

#include <utility>

#include "controller/core/loop/issue_command.h"
#include "controller/core/loop/life_changes.h"
#include "controller/core/views/job_row.h"

namespace baton::controller {

void BeginSave(JobParts& job) {
  for (const Group& group : job.groups.all()) {
    if (group.trains) IssueCommand(TaskKind::kSaveCheckpoint, group, Activity::kSave, job);
  }
}

void OnGroupSaved(JobParts& job) {
  if (job.commands.Any()) return job.out.Do(PutJob{});  // another group still writes
  job.save.Begin(job.out.now());
  // The files of all ranks are written. The job's row is stored with them, so that a job that lost
  // its store can go on from the folder alone.
  job.prompt_groups.prompts.Cut();
  store::v1::JobRow row = RowOf(job);
  row.mutable_job()->MergeFrom(*job.submitted);
  job.out.Do(CommitCheckpoint{job.out.step(), job.out.incarnation(), std::move(row)});
  job.out.Do(PutJob{});
}

void OnCommitted(const CheckpointCommitted& event, JobParts& job) {
  // A checkpoint of an earlier incarnation is of no use: the job went back before it.
  if (event.incarnation != job.out.incarnation() || !job.save.committing()) return;
  job.save.End();
  // The runtime has already retried as long as that could help.
  if (!event.status.ok()) return Fail(event.status, job);
  job.versions.Saved();
  // Prompt groups may have been given up since the row was cut.
  job.prompt_groups.prompts.Saved();
  job.milestones.Saved(event.checkpoint, {job.buffer.algorithm(), {}}, job.out);
  v1::JobEvent saved;
  saved.set_type("checkpoint");
  saved.set_message(event.checkpoint.path());
  (*saved.mutable_metrics())["timing_s/save_checkpoint"] =
      absl::ToDoubleSeconds(job.out.now() - job.doing.since());
  job.out.Emit(std::move(saved));
  job.Switch(Activity::kNone);
  job.out.Do(PutJob{});
  job.Then(FollowUp::kAdvance);
}

}  // namespace baton::controller
