// Jobs that begin with the responses of another job (spec.rollout.speculation.seed_from): which
// jobs may be named, and which responses are found.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/runtime/job_files/disk_files.h"
#include "controller/runtime/rows/tables.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/digest.h"
#include "sdk/common/messages/columns.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/whole_controller.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ControllerSeedTest : public WholeControllerTest {
 protected:
  v1::JobSpec SeededSpec(const std::string& seed) {
    v1::JobSpec spec = Spec();
    spec.mutable_rollout()->mutable_speculation()->set_seed_from(seed);
    return spec;
  }
  // The reason for which a submission is refused; "": it is accepted.
  std::string Refusal(const v1::JobSpec& spec, const std::string& project = "default") {
    v1::ValidateJobRequest request;
    *request.mutable_spec() = spec;
    request.set_project(project);
    const auto answer =
        Wait<v1::ValidateJobResponse>([&](auto done) { controller_->ValidateJob(request, done); });
    EXPECT_TRUE(answer.ok()) << answer.status();
    if (!answer.ok() || answer->violations().empty()) return "";
    EXPECT_EQ(answer->violations(0).field(), "spec.rollout.speculation.seed_from");
    EXPECT_EQ(answer->violations_size(), 1);
    return answer->violations(0).description();
  }
  // The job made a response to prompt 0.
  void Say(const std::string& job, int32_t token) {
    DiskFiles files(folder_.path(), nullptr, nullptr);
    auto log = files.FilesOf(job)->OpenLog();
    ASSERT_TRUE(log.ok()) << log.status();
    v1::Trajectory payload;
    payload.set_trajectory_id("train-0");
    for (const char* name : {"prompt_tokens", "tokens"}) {
      *payload.add_columns() = MakeColumn(name, true, absl::MakeConstSpan(&token, 1));
    }
    const auto at = (*log)->Append(payload.SerializeAsString());
    ASSERT_TRUE(at.ok()) << at.status();
    store::v1::TrajectoryRow row;
    row.set_id(TrajectoryId(v1::PURPOSE_TRAIN, 0, 0, 1));
    row.set_purpose(v1::PURPOSE_TRAIN);
    row.set_policy_version(7);
    row.set_tokens(1);
    row.set_file(at->file);
    row.set_offset(at->offset);
    row.set_size(at->size);
    store_->Commit({{kTrajectoryTable, NumberKey(job, 1), row.SerializeAsString()}},
                   [](const absl::Status&) {});
  }
  std::string CapabilityOf(const v1::Job& job) {
    return Mac(**store_->Get(kMetaTable, "secret"), {"FetchHistory", job.name(), job.uid()});
  }
  // First tokens and versions of the responses found for prompt 0.
  std::vector<std::pair<int32_t, uint64_t>> Told(const v1::Job& job) {
    v1::FetchHistoryRequest request;
    request.set_job(job.name());
    request.set_capability(CapabilityOf(job));
    request.add_prompts();
    const auto part = Wait<std::shared_ptr<HistoryPart>>(
        [&](auto done) { controller_->FetchHistory(request, done); });
    EXPECT_TRUE(part.ok()) << part.status();
    std::vector<std::pair<int32_t, uint64_t>> told;
    while (part.ok() && !(*part)->done()) {
      absl::Notification read;
      (*part)->Post([&] {
        v1::FetchHistoryResponse piece;
        (*part)->Next(&piece);
        for (const v1::EarlierResponse& one : piece.responses()) {
          told.emplace_back(one.tokens(0), one.policy_version());
        }
        read.Notify();
      });
      read.WaitForNotification();
    }
    return told;
  }
  void EndAndDelete(const std::string& name) {
    v1::CancelJobRequest cancel;
    cancel.set_name(name);
    ASSERT_TRUE(Wait<v1::Job>([&](auto done) { controller_->CancelJob(cancel, done); }).ok());
    v1::DeleteJobRequest request;
    request.set_name(name);
    const absl::Status deleted = Wait<v1::DeleteJobResponse>([&](auto done) {
                                   controller_->DeleteJob(request, done);
                                 }).status();
    ASSERT_TRUE(deleted.ok()) << deleted;
  }
};

TEST_F(ControllerSeedTest, OnlyAJobOfTheProjectOverTheSameDataIsASeed) {
  ASSERT_TRUE(Create(Spec(), "old").ok());
  EXPECT_EQ(Refusal(SeededSpec("job:old")), "");
  EXPECT_THAT(Refusal(SeededSpec("job:older")), HasSubstr("no job 'projects/default/jobs/older'"));
  EXPECT_THAT(Refusal(SeededSpec("job:older")), HasSubstr("remove seed_from"));
  // A job of another project gets the same answer as one that does not exist.
  EXPECT_THAT(Refusal(SeededSpec("job:old"), "other"),
              HasSubstr("no job 'projects/other/jobs/old'"));
  EXPECT_THAT(Refusal(SeededSpec("job:projects/default/jobs/old"), "other"),
              HasSubstr("is not the name of a job"));
  folder_.Write("more.jsonl", "{\"prompt\": \"2+2=\", \"answer\": \"4\"}\n");
  // The answer also does not show the data of another project's job.
  v1::JobSpec elsewhere = SeededSpec("job:projects/default/jobs/old");
  elsewhere.mutable_data()->add_val_files(folder_.path("more.jsonl"));
  EXPECT_THAT(Refusal(elsewhere, "other"), Not(HasSubstr("had other prompts")));
  EXPECT_THAT(Refusal(SeededSpec("job:projects/default/jobs/older"), "other"),
              Not(HasSubstr("there is no job")));
  v1::JobSpec spec = SeededSpec("job:old");
  spec.mutable_data()->add_val_files(folder_.path("more.jsonl"));
  EXPECT_THAT(Refusal(spec), HasSubstr("had other prompts: its data.val_files"));
  EXPECT_THAT(Refusal(spec), HasSubstr("name a job over the same data"));
  const auto refused = Create(SeededSpec("job:older"), "new");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ControllerSeedTest, TheSeedIsReadWhileItIsThere) {
  ASSERT_TRUE(Create(Spec(), "old").ok());
  const auto job = Create(SeededSpec("job:old"), "new");
  ASSERT_TRUE(job.ok()) << job.status();
  const std::string seed = "projects/default/jobs/old";
  Say(seed, 11);
  EXPECT_THAT(Told(*job), ElementsAre(std::make_pair(11, uint64_t{0})));
  Start();  // a new controller
  EXPECT_THAT(Told(*job), ElementsAre(std::make_pair(11, uint64_t{0})));
  EndAndDelete("old");
  EXPECT_THAT(Told(*job), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(folder_.path("jobs/default/old"))) << "nothing made it anew";
  EXPECT_TRUE(Get("new").ok());
  // Another job gets the name, and makes other responses.
  ASSERT_TRUE(Create(Spec(), "old").ok());
  Say(seed, 12);
  EXPECT_THAT(Told(*job), ElementsAre(std::make_pair(12, uint64_t{0})));
}

TEST_F(ControllerSeedTest, AnotherJobsCapabilityOpensNothing) {
  const auto one = Create(Spec(), "one"), two = Create(Spec(), "two");
  ASSERT_TRUE(one.ok() && two.ok());
  v1::FetchHistoryRequest request;
  request.set_job(two->name());
  request.set_capability(CapabilityOf(*one));
  request.add_prompts();
  const auto answer = Wait<std::shared_ptr<HistoryPart>>(
      [&](auto done) { controller_->FetchHistory(request, done); });
  EXPECT_EQ(ErrorReason(answer.status()), "CAPABILITY");
  request.set_job("three");
  const auto none = Wait<std::shared_ptr<HistoryPart>>(
      [&](auto done) { controller_->FetchHistory(request, done); });
  EXPECT_EQ(ErrorReason(none.status()), "JOB_NOT_FOUND");
}

}  // namespace
}  // namespace baton::controller
