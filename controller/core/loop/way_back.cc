#include "controller/core/loop/way_back.h"

#include "absl/strings/str_cat.h"
#include "controller/core/loop/job_parts.h"
#include "controller/core/workers/take_role.h"
#include "controller/spec/roles.h"

namespace baton::controller {

int64_t RollBack(JobParts& job) {
  const std::string reason = "the trainer restarts from its checkpoint";
  // Tasks and commands name the old step, so they are stopped before the step changes.
  if (job.is_async) {
    job.async.RollBack(reason, job);
  } else {
    job.work.Clear(reason, job);
  }
  job.commands.Stop(reason, job.groups, job.roster(), job.out);
  const int64_t lost_steps = job.out.step() - job.milestones.way_back();
  job.out.RollBack(job.milestones.way_back());
  job.commands.DropAll(job.out);
  job.update.Forget();
  job.save.Forget();
  job.commands.room().End();
  const SavedState& saved = job.milestones.RollBack();
  job.scheduler.admission().draws().RollBack(saved.cursor);
  const bool keeps_all = KeepsAllExperience(job.spec());
  if (job.is_async) {
    // Rollouts go on meanwhile, with the weights that they have.
    job.async.groups.draws().RollBack();
    job.buffer.RollBackKeeping(job.scheduler.table().all(), saved.algorithm, keeps_all, job.out);
  } else {
    job.buffer.RollBack(saved.algorithm, keeps_all, job.out);
    job.versions.Unpublish();
  }
  return lost_steps;
}

void RecoverTrainer(const std::string& role, const std::string& reason, JobParts& job) {
  const int64_t lost_steps = RollBack(job);
  const std::string what = role.empty()
                               ? reason
                               : absl::StrCat("the ", role == roles::kActor ? "trainer" : role,
                                              " is lost (", reason, ")");
  job.out.Warn(absl::StrCat(
      what, "; it restarts from step ", job.out.step(),
      lost_steps > 0 ? absl::StrCat(", ", lost_steps, " steps are redone") : std::string()));
  job.life.Trigger(JobTrigger::kTrainerLost, job);
  // A job that pauses stands at its checkpoint now, which is all that the pause waited for.
  if (job.life.state() == v1::Job::STATE_PAUSING) return job.life.ReleaseAll(job);
  job.Switch(Activity::kSetUp);
  // What trains with it goes back to the same checkpoint.
  for (const Group& group : job.groups.all()) {
    if (group.trains && job.roster().AnyIn(group.role, SlotState::kReady)) {
      FormAnew(group, job.Roles());
    }
  }
}

}  // namespace baton::controller
