// FetchHistory of a whole JobRuntime, over files and a store as a restarted controller finds them.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/job_runtime.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;

// The tokens of a job's answer about prompt 0, or the reason of its refusal.
struct HistoryAnswer {
  std::string reason;
  std::vector<std::vector<int32_t>> tokens;
};

HistoryAnswer HistoryOf(const std::shared_ptr<JobRuntime>& job, const std::string& capability) {
  v1::FetchHistoryRequest request;
  request.set_capability(capability);
  request.add_prompts()->set_purpose(v1::PURPOSE_TRAIN);
  HistoryAnswer answer;
  absl::Notification told;
  job->FetchHistory(request, [&](absl::StatusOr<std::shared_ptr<HistoryPart>> part) {
    if (!part.ok()) {
      answer.reason = ErrorReason(part.status());
      return told.Notify();
    }
    const auto next = std::make_shared<std::function<void()>>();
    *next = [&answer, &told, next = std::weak_ptr(next), part = *part] {
      v1::FetchHistoryResponse piece;
      part->Next(&piece);
      for (const v1::EarlierResponse& one : piece.responses()) {
        answer.tokens.emplace_back(one.tokens().begin(), one.tokens().end());
      }
      if (part->done()) return told.Notify();
      const auto again = next.lock();
      part->Post([again] { (*again)(); });
    };
    if ((*part)->done()) return told.Notify();
    (*part)->Post([next] { (*next)(); });
  });
  told.WaitForNotification();
  return answer;
}

class JobRuntimeHistoryTest : public ::testing::Test {
 protected:
  JobRuntimeHistoryTest() {
    controller_.context.secret = "kept in the store";
    v1::JobSpec& spec = *row_.mutable_job()->mutable_effective_spec();
    spec.mutable_rollout()->mutable_speculation()->set_mode("auto");
    // More responses than any test puts, so that the step stays in progress.
    spec.mutable_rollout()->set_n(2);
    spec.mutable_data()->set_train_batch_size(8);
    OpenGroups(row_);
  }
  // A row of step 1, and its payload with this response.
  void Put(uint64_t serial, uint64_t prompt_index, const std::vector<int32_t>& tokens,
           bool damaged = false) {
    auto log = controller_.files.FilesOf(row_.job().name())->OpenLog();
    ASSERT_TRUE(log.ok()) << log.status();
    v1::TaskResult columns;
    AddColumn<int32_t>(columns, "prompt_tokens", v1::DATA_TYPE_INT32, {7, 8});
    AddColumn<int32_t>(columns, "tokens", v1::DATA_TYPE_INT32, tokens);
    v1::Trajectory payload;
    const uint64_t id = TrajectoryId(v1::PURPOSE_TRAIN, prompt_index, 0, 2);
    payload.set_trajectory_id(damaged ? "another" : TrajectoryName(id));
    *payload.mutable_columns() = columns.columns();
    const auto at = (*log)->Append(payload.SerializeAsString());
    ASSERT_TRUE(at.ok()) << at.status();
    store::v1::TrajectoryRow row = GeneratedRow(*at);
    row.set_id(id);
    row.set_prompt_index(prompt_index);
    row.set_trajectory_uid(1 + 2 * prompt_index);
    row.set_tokens(static_cast<uint32_t>(tokens.size()));
    controller_.store.Commit(
        {{kTrajectoryTable, NumberKey(row_.job().name(), serial), row.SerializeAsString()}},
        [](const absl::Status&) {});
  }
  // The capability that a rollout of the job gets with its role.
  std::string AssignedCapability(const std::shared_ptr<JobRuntime>& job, const std::string& role) {
    const auto worker = std::make_shared<FakeWorker>();
    controller_.workers.Set(role + "-9", worker);
    job->Post(WorkerGranted{role + "-9", role, {{role, 1}}});
    return worker->AwaitCapability();
  }

  class FakeWorker : public WorkerStream {
   public:
    void Send(v1::ControllerMessage message) override {
      if (!message.task().has_assign_role() || assigned_.HasBeenNotified()) return;
      capability_ = message.task().assign_role().history_capability();
      assigned_.Notify();
    }
    void Close(absl::Status /*status*/) override {}
    std::string AwaitCapability() {
      EXPECT_TRUE(assigned_.WaitForNotificationWithTimeout(absl::Seconds(20)));
      return capability_;
    }

   private:
    absl::Notification assigned_;
    std::string capability_;
  };

  RestartedController controller_{EmptyRoot("job_history"), R"({"prompt": "1+1=", "answer": "2"})"};
  store::v1::JobRow row_ = RunningRow({"actor-0", "reward-0"});
};

// The job's rows are only in the store, and the capability is from the previous controller.
TEST_F(JobRuntimeHistoryTest, ARolloutAsksAcrossARestartOfTheController) {
  Put(1, 0, {1, 2, 3});
  Put(2, 1, {4, 5}, /*damaged=*/true);
  Put(3, 2, {6});
  const auto job = controller_.Start(row_);
  const std::string capability = AssignedCapability(job, "rollout");
  EXPECT_FALSE(capability.empty());
  EXPECT_THAT(HistoryOf(job, capability).tokens, ElementsAre(ElementsAre(6), ElementsAre(1, 2, 3)));
  EXPECT_EQ(HistoryOf(job, "").reason, "CAPABILITY");
  const auto again = controller_.Start(row_);
  EXPECT_THAT(HistoryOf(again, capability).tokens,
              ElementsAre(ElementsAre(6), ElementsAre(1, 2, 3)));
  controller_.context.secret = "of another store";
  EXPECT_EQ(HistoryOf(again, capability).reason, "CAPABILITY");
}

TEST_F(JobRuntimeHistoryTest, GivesNoCapabilityToARolloutWithoutSpeculation) {
  row_.mutable_job()->mutable_effective_spec()->mutable_rollout()->mutable_speculation()->set_mode(
      "off");
  const auto job = controller_.Start(row_);
  EXPECT_EQ(AssignedCapability(job, "rollout"), "");
}

TEST_F(JobRuntimeHistoryTest, AJobThatHasEndedAnswersNothing) {
  Put(1, 0, {1});
  const auto job = controller_.Start(row_);
  const std::string capability = AssignedCapability(job, "rollout");
  EXPECT_THAT(HistoryOf(job, capability).tokens, ElementsAre(ElementsAre(1)));
  row_.mutable_job()->set_state(v1::Job::STATE_SUCCEEDED);
  const auto ended = controller_.Start(row_);
  EXPECT_EQ(HistoryOf(ended, capability).reason, "JOB_ENDED");
}

}  // namespace
}  // namespace baton::controller
