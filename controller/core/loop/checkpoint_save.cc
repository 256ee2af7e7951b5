#include "controller/core/loop/checkpoint_save.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/loop/command_flow.h"
#include "controller/core/loop/job_parts.h"
#include "controller/core/loop/job_row.h"
#include "controller/core/loop/step_loop.h"
#include "sdk/base/mutant.h"

namespace baton::controller {

void CheckpointSave::Begin(JobParts& job) {
  for (const Group& group : job.groups.all()) {
    if (group.trains) IssueCommand(TaskKind::kSaveCheckpoint, group, Activity::kSave, job);
  }
}

void CheckpointSave::OnGroupDone(JobParts& job) {
  if (job.commands.Any()) return job.out.Do(PutJob{});  // another group still writes
  committing_ = true;
  since_ = job.out.now();
  if (Mutant("complete-before-rename")) {
    v1::Checkpoint not_yet;
    not_yet.set_step(job.out.step());
    job.milestones.Saved(not_yet, {}, job.out);
  }
  // The files of all ranks stand. The row goes among them: a job that lost its store goes on from
  // the folder alone.
  job.async.groups.draws().Cut();
  store::v1::JobRow row = RowOf(job);
  row.mutable_job()->MergeFrom(*job.submitted);
  job.out.Do(CommitCheckpoint{job.out.step(), job.out.incarnation(), std::move(row)});
  job.out.Do(PutJob{});
}

void CheckpointSave::OnCommitted(const CheckpointCommitted& event, JobParts& job) {
  // A checkpoint of an incarnation that is gone is of no use: the job went back before it.
  if (event.incarnation != job.out.incarnation() || !committing_) return;
  committing_ = false;
  // The runtime tried again while that could help.
  if (!event.status.ok()) return job.life.Fail(event.status, job);
  job.versions.Saved();
  // Draws may have been given up since the row was cut, which has the cursor of then.
  const uint64_t cursor = job.is_async ? job.async.groups.draws().Saved() : job.Cursor();
  job.milestones.Saved(event.checkpoint, {cursor, job.buffer.algorithm(), {}}, job.out);
  v1::JobEvent saved;
  saved.set_type("checkpoint");
  saved.set_message(event.checkpoint.path());
  (*saved.mutable_metrics())["timing_s/save_checkpoint"] =
      absl::ToDoubleSeconds(job.out.now() - job.doing.since());
  job.out.Emit(std::move(saved));
  job.Switch(Activity::kNone);
  job.out.Do(PutJob{});
  Advance(job);
}

absl::Status CheckpointSave::CheckDeadline(int64_t step, absl::Time now, absl::Duration limit) {
  if (!committing_ || now - since_ <= limit) return absl::OkStatus();
  committing_ = false;
  return absl::DeadlineExceededError(
      absl::StrCat("the checkpoint of step ", step, " was not completed within ",
                   absl::FormatDuration(limit), "; check the disk of the data root"));
}

void CheckpointSave::Delay(absl::Duration duration, absl::Time now) {
  DelayTime(duration, now, since_);
}

void CheckpointSave::Explain(int64_t step, absl::Duration limit, WaitList& waits) const {
  if (!committing_) return;
  waits.Add("checkpoint", absl::StrCat("step ", step + 1), "the checkpoint to be completed on disk",
            since_, limit, "the job fails");
}

}  // namespace baton::controller
