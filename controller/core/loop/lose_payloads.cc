#include "controller/core/loop/lose_payloads.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "controller/core/loop/job_parts.h"
#include "controller/core/loop/step_loop.h"
#include "controller/core/loop/way_back.h"
#include "sdk/base/mutant.h"

namespace baton::controller {

namespace {

// The batch that needs the payloads has left the work (mode async).
bool LosesTakenBatch(const PayloadLost& event, const JobParts& job) {
  const auto& taken = job.buffer.taken();
  return std::any_of(event.trajectories.begin(), event.trajectories.end(), [&](const auto& lost) {
    const auto found = taken.find(lost.first);
    return found != taken.end() && found->second.serial == lost.second;
  });
}

// A rank may have made the step already: no rank then holds the weights that the batch was for.
void LoseUpdate(const PayloadLost& event, JobParts& job) {
  // A disk that loses each batch would send the job back for ever.
  if (job.work.LoseBatch(job.out.step() + 1) > job.options.max_attempts &&
      !Mutant("lost-batches-without-end")) {
    return job.life.Fail(
        absl::DataLossError(absl::StrCat("the batch of step ", job.out.step() + 1,
                                         " was lost again and again; check the disk of the data "
                                         "root; the last time: ",
                                         event.reason)),
        job);
  }
  RecoverTrainer("", "the batch of the trainer's update is lost", job);
}

// Of a job of mode sync the batch is the work.
bool LosesBatch(const PayloadLost& event, const JobParts& job) {
  return job.is_async ? LosesTakenBatch(event, job) || job.async.batch.LosesRestored(event, job)
                      : true;
}

}  // namespace

void LosePayloads(const PayloadLost& event, JobParts& job) {
  const bool loses_batch = LosesBatch(event, job);
  const bool updates = job.commands.Any(TaskKind::kUpdate);
  if (job.is_async && loses_batch) {
    // What is lost is generated again as part of the work.
    if (updates) {
      LoseUpdate(event, job);
    } else {
      job.async.batch.GiveBack("its batch lacks a response", job);
    }
  }
  const absl::StatusOr<bool> again = job.work.OnPayloadLost(event, job);
  if (!again.ok()) return job.life.Fail(again.status(), job);
  if (!*again) return;
  if (!job.is_async && updates) return LoseUpdate(event, job);
  if (loses_batch && job.doing.Is(Activity::kBatch)) {
    job.buffer.batch().TakeHeld();  // another batch will be built
    job.Switch(Activity::kGenerate);
  }
  job.out.Do(PutJob{});
  Advance(job);
}

}  // namespace baton::controller
