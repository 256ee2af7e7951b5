#include "controller/core/loop/group_flow.h"

#include "gtest/gtest.h"
#include "tests/support/controller/parts.h"

namespace baton::controller {
namespace {

// A job whose batch has two groups, after ten batches of zero-advantage groups.
JobParts Filtered() {
  store::v1::JobRow row;
  *row.mutable_job() = *SubmittedJob(
      "kind: JOB_KIND_RL data { train_batch_size: 2 } "
      "algorithm { dynamic_sampling: true max_num_gen_batches: 10 }");
  row.mutable_job()->set_state(v1::Job::STATE_RUNNING);
  row.set_filtered_groups(20);
  return {std::move(row), /*epoch=*/1, JobCoreOptions()};
}

TEST(GroupFlowTest, TooManyFilteredGroupsFailTheStep) {
  JobParts job = Filtered();
  EXPECT_EQ(CheckFilteredGroups(job).code(), absl::StatusCode::kFailedPrecondition);
  job.prompt_groups.filtered = 19;
  EXPECT_TRUE(CheckFilteredGroups(job).ok());
  job.prompt_groups.complete.Add(7);
  EXPECT_FALSE(CheckFilteredGroups(job).ok()) << "one is too few";
}

// While the trainer works on a batch, rollouts filter groups for the next one.
TEST(GroupFlowTest, ToleratesFilteredGroupsWhileABatchIsTrained) {
  JobParts job = Filtered();
  job.batch.taken = {1, 2};
  EXPECT_TRUE(CheckFilteredGroups(job).ok());
  job.batch.taken.clear();
  job.batch.selected = {1, 2};
  EXPECT_TRUE(CheckFilteredGroups(job).ok());
}

}  // namespace
}  // namespace baton::controller
