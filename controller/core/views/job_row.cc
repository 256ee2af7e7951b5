#include "controller/core/views/job_row.h"

#include <utility>

#include "controller/spec/dataflow/learning.h"

namespace baton::controller {

v1::Job DurableOf(const JobParts& job) {
  v1::Job durable = job.life.job();
  durable.set_step(job.out.step());
  durable.set_revision(job.out.revision());
  durable.set_policy_version(job.versions.newest());
  durable.clear_warnings();  // those of an earlier row
  for (std::string& line : LearningSummary(job.spec(), job.out.step(), job.milestones.learning())) {
    durable.add_warnings(std::move(line));
  }
  durable.set_stop_reason(job.milestones.learning().stop_reason());
  return durable;
}

// Each part sets its own share. No two parts set the same field, so the order does not matter.
store::v1::JobRow RowOf(const JobParts& job) {
  store::v1::JobRow row;
  *row.mutable_job() = DurableOf(job);
  job.life.Save(&row);
  job.out.Save(&row);
  job.milestones.Save(&row);
  job.versions.Save(&row);
  job.buffer.Save(&row);
  job.trajectory_uids.Save(&row);
  job.prompt_groups.Save(job.responses().PerPrompt(), job.batch.PromptIndices(), &row);
  job.evaluation.Save(&row);
  job.groups.Save(&row);
  job.commands.Save(&row);
  job.reports.Save(&row);
  job.slots.Save(&row);
  row.set_train_size(job.data.train_size());
  return row;
}

}  // namespace baton::controller
