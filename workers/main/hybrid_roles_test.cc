// Actor and rollout of one job in one process: the rollout samples from the weights that the actor
// trains. Beside them an ordinary rollout that gets the same versions through the relay.
#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/workers/hybrid_worker.h"
#include "tests/support/workers/test_relay.h"

namespace baton {
namespace {

using testing::ExpectSameResponses;
using ::testing::HasSubstr;
using testing::HybridWorker;
using testing::TokensOf;

constexpr int kUnavailable = static_cast<int>(absl::StatusCode::kUnavailable);
constexpr int kCancelled = static_cast<int>(absl::StatusCode::kCancelled);
constexpr int kFailedPrecondition = static_cast<int>(absl::StatusCode::kFailedPrecondition);

std::string ReadAll(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string Reason(const v1::TaskResult& result) { return ErrorReason(FromProto(result.status())); }

class HybridRolesTest : public ::testing::Test {
 protected:
  HybridRolesTest() : shared_(relay_.get()), apart_(relay_.get()) {}

  void AssignBoth() {
    ASSERT_EQ(shared_.Assign("actor").status().code(), 0);
    ASSERT_EQ(shared_.Assign("rollout").status().code(), 0);
  }
  void Begin() {
    AssignBoth();
    const v1::TaskResult result = shared_.ToGeneration(0);
    ASSERT_EQ(result.status().code(), 0) << result.status().message();
    ASSERT_EQ(apart_.Assign("rollout", 0).status().code(), 0);
  }
  /// The responses of a rollout with weights from the relay to the same prompts.
  std::vector<v1::TaskResult> Apart(uint64_t version) {
    EXPECT_EQ(shared_.Publish(version).status().code(), 0);
    EXPECT_EQ(apart_.Load(version).status().code(), 0);
    return apart_.Generate(version);
  }
  /// The number of tasks that ended with `code`; each is answered, with that or with a response.
  int Ended(const std::vector<v1::Task>& tasks, int code) {
    int ended = 0;
    for (const v1::Task& task : tasks) {
      const auto result = shared_.controller().WaitForResult(task.task_token());
      EXPECT_TRUE(result.has_value()) << task.task_token();
      if (!result.has_value()) break;
      if (result->status().code() == 0) continue;
      EXPECT_EQ(result->status().code(), code) << result->status().message();
      ++ended;
    }
    return ended;
  }

  TestFolder folder_;
  policy::TestRelay relay_;
  HybridWorker shared_, apart_;
};

TEST_F(HybridRolesTest, AssignmentsComeInAnyOrder) {
  std::vector<v1::TaskResult> first;
  for (const int order : {0, 1, 2}) {
    const v1::Task actor = shared_.MakeAssign("actor"), rollout = shared_.MakeAssign("rollout");
    if (order == 2) {  // Both assignments at once.
      shared_.controller().SendTask(rollout);
      shared_.controller().SendTask(actor);
    } else {
      EXPECT_EQ(shared_.Run(order == 0 ? actor : rollout).status().code(), 0);
      EXPECT_EQ(shared_.Run(order == 0 ? rollout : actor).status().code(), 0);
    }
    for (const v1::Task& task : {actor, rollout}) {
      const auto result = shared_.controller().WaitForResult(task.task_token());
      ASSERT_TRUE(result.has_value());
      ASSERT_EQ(result->status().code(), 0) << result->status().message();
    }
    EXPECT_EQ(Reason(shared_.Run(shared_.MakeGenerate(0))), "WRONG_VERSION");
    const v1::TaskResult to = shared_.ToGeneration(0);
    ASSERT_EQ(to.status().code(), 0) << to.status().message();
    EXPECT_GT(to.metrics().at("timing_s/to_generation"), 0);
    const auto responses = shared_.Generate(0);
    if (order == 0) first = responses;
    ExpectSameResponses(responses, first, /*bits=*/true);
    shared_.Release("rollout");
    shared_.Release("actor");
  }
}

// Both rollouts sample in float32, the version through the relay as well: not a bit differs.
TEST_F(HybridRolesTest, SamplesAsARolloutWithWeightsOfItsOwn) {
  for (const bool deterministic : {false, true}) {
    for (HybridWorker* worker : {&shared_, &apart_}) {
      worker->spec().mutable_rollout()->set_deterministic(deterministic);
    }
    Begin();
    std::vector<std::vector<v1::TaskResult>> versions;
    for (uint64_t version = 0; version <= 2; ++version) {
      SCOPED_TRACE(version);
      if (version > 0) {
        const auto updated = shared_.Update(static_cast<int64_t>(version));
        ASSERT_EQ(updated.status().code(), 0) << updated.status().message();
        EXPECT_EQ(Reason(shared_.Run(shared_.MakeGenerate(version))), "WRONG_VERSION");
        EXPECT_EQ(Reason(shared_.Run(shared_.MakeGenerate(version - 1))), "WRONG_VERSION");
        ASSERT_EQ(shared_.ToGeneration(version).status().code(), 0);
      }
      EXPECT_EQ(Reason(shared_.Run(shared_.MakeGenerate(version + 1))), "WRONG_VERSION");
      versions.push_back(shared_.Generate(version));
      ExpectSameResponses(versions.back(), Apart(version), /*bits=*/true);
    }
    EXPECT_NE(versions[0][0].columns(2).data(), versions[2][0].columns(2).data())
        << "nothing was learned";
  }
}

TEST_F(HybridRolesTest, GenerationDoesNotChangeTheActorsOtherWork) {
  const auto path = [&](const std::string& name) { return folder_.path(name); };
  ASSERT_EQ(apart_.Assign("actor", 0).status().code(), 0);
  Begin();
  for (int64_t step = 1; step <= 2; ++step) {
    shared_.Generate(static_cast<uint64_t>(step - 1));
    EXPECT_EQ(shared_.LogProbs(), apart_.LogProbs());
    const v1::TaskResult updated = shared_.Update(step);
    ASSERT_EQ(updated.status().code(), 0) << updated.status().message();
    EXPECT_EQ(updated.metrics().at("train/loss"), apart_.Update(step).metrics().at("train/loss"));
    EXPECT_EQ(shared_.LogProbs(), apart_.LogProbs());
    ASSERT_EQ(shared_.ToGeneration(static_cast<uint64_t>(step)).status().code(), 0);
  }
  const v1::TaskResult saved = shared_.Save(2, path("shared"));
  ASSERT_EQ(saved.status().code(), 0) << saved.status().message();
  ASSERT_EQ(apart_.Save(2, path("apart")).status().code(), 0);
  for (const char* file : {"/actor/model.safetensors", "/optimizer.safetensors"}) {
    EXPECT_GT(ReadAll(path("shared") + file).size(), 1000u);
    EXPECT_EQ(ReadAll(path("shared") + file), ReadAll(path("apart") + file)) << file;
  }
  EXPECT_EQ(shared_.Publish(2).status().code(), 0);
  shared_.Generate(2);  // Still.
}

TEST_F(HybridRolesTest, AScoreMayBeComputedWhileItGenerates) {
  Begin();
  shared_.spec().mutable_rollout()->set_max_num_seqs(1);
  AssignBoth();
  const std::vector<float> before = shared_.LogProbs();
  ASSERT_EQ(shared_.ToGeneration(0).status().code(), 0);
  const std::vector<v1::Task> tasks = shared_.StartMany(0);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(shared_.LogProbs(), before);
  EXPECT_EQ(Ended(tasks, 0), 0);
}

TEST_F(HybridRolesTest, CommandsMayBeRepeated) {
  AssignBoth();
  ASSERT_EQ(shared_.Update(1).status().code(), 0);  // Without any to_generation.
  ASSERT_EQ(shared_.ToGeneration(1).status().code(), 0);
  const auto once = shared_.Generate(1);
  ASSERT_EQ(shared_.ToGeneration(1).status().code(), 0);
  ExpectSameResponses(shared_.Generate(1), once, /*bits=*/true);
  // An update that was made answers as before and takes nothing back.
  ASSERT_EQ(shared_.Update(1).status().code(), 0);
  ExpectSameResponses(shared_.Generate(1), once, /*bits=*/true);
  // An update that cannot be made takes nothing back, either.
  EXPECT_EQ(Reason(shared_.Update(4)), "WRONG_STEP");
  ExpectSameResponses(shared_.Generate(1), once, /*bits=*/true);
  EXPECT_EQ(Reason(shared_.ToGeneration(2)), "WRONG_VERSION");
  ASSERT_EQ(shared_.Update(2).status().code(), 0);
  ASSERT_EQ(shared_.Update(3).status().code(), 0);
  ASSERT_EQ(shared_.ToGeneration(3).status().code(), 0);
  shared_.Generate(3);
}

TEST_F(HybridRolesTest, AnUpdateEndsWhatIsBeingWoundUp) {
  shared_.spec().mutable_rollout()->set_max_num_seqs(1);
  Begin();
  const std::vector<v1::Task> tasks = shared_.StartMany(0);
  for (size_t i = 0; i < tasks.size(); i += 2) {
    v1::ControllerMessage cancel;
    cancel.mutable_cancel()->set_task_token(tasks[i].task_token());
    shared_.controller().Send(cancel);
  }
  const v1::TaskResult updated = shared_.Update(1);
  ASSERT_EQ(updated.status().code(), 0) << updated.status().message();
  EXPECT_GT(Ended(tasks, kCancelled), 0);
  ASSERT_EQ(shared_.ToGeneration(1).status().code(), 0);
  ExpectSameResponses(shared_.Generate(1), Apart(1), /*bits=*/true);
}

TEST_F(HybridRolesTest, ReassigningTheActorEndsRunningTasks) {
  shared_.spec().mutable_rollout()->set_max_num_seqs(1);
  Begin();
  const auto before = shared_.Generate(0);
  const std::vector<v1::Task> tasks = shared_.StartMany(0);
  const v1::TaskResult assigned = shared_.Assign("actor");
  ASSERT_EQ(assigned.status().code(), 0) << assigned.status().message();
  EXPECT_GT(Ended(tasks, kUnavailable), 0);
  EXPECT_EQ(Reason(shared_.Run(shared_.MakeGenerate(0))), "WRONG_VERSION");
  ASSERT_EQ(shared_.ToGeneration(0).status().code(), 0);
  ExpectSameResponses(shared_.Generate(0), before, /*bits=*/true);
}

TEST_F(HybridRolesTest, RolesAreReleasedInAnyOrder) {
  shared_.spec().mutable_rollout()->set_max_num_seqs(1);
  Begin();
  const auto responses = shared_.Generate(0);
  // The rollout alone: what it had is there for the next.
  std::vector<v1::Task> tasks = shared_.StartMany(0);
  ASSERT_EQ(shared_.Release("rollout").status().code(), 0);
  EXPECT_GT(Ended(tasks, kCancelled), 0);
  EXPECT_EQ(Reason(shared_.Run(shared_.MakeGenerate(0))), "ROLE_NOT_HELD");
  ASSERT_EQ(shared_.Assign("rollout").status().code(), 0);
  ExpectSameResponses(shared_.Generate(0), responses, /*bits=*/true);
  // The actor alone.
  tasks = shared_.StartMany(0);
  ASSERT_EQ(shared_.Release("actor").status().code(), 0);
  EXPECT_GT(Ended(tasks, kUnavailable), 0);
  EXPECT_EQ(Reason(shared_.Run(shared_.MakeGenerate(0))), "WRONG_VERSION");
  ASSERT_EQ(shared_.Assign("actor").status().code(), 0);
  ASSERT_EQ(shared_.ToGeneration(0).status().code(), 0);
  ExpectSameResponses(shared_.Generate(0), responses, /*bits=*/true);
  // An update when there is no rollout.
  ASSERT_EQ(shared_.Release("rollout").status().code(), 0);
  ASSERT_EQ(shared_.Update(1).status().code(), 0);
  ASSERT_EQ(shared_.ToGeneration(1).status().code(), 0);
  ASSERT_EQ(shared_.Assign("rollout").status().code(), 0);
  shared_.Generate(1);
}

TEST_F(HybridRolesTest, RefusesWhatItCannotDo) {
  AssignBoth();
  const v1::TaskResult load = shared_.Load(0);
  EXPECT_EQ(load.status().code(), kFailedPrecondition);
  EXPECT_THAT(load.status().message(), HasSubstr("to_generation"));
  EXPECT_EQ(Reason(shared_.ToGeneration(7)), "WRONG_VERSION");
  const v1::TaskResult many = shared_.Assign("actor", 2);
  EXPECT_EQ(many.status().code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(many.status().message(), HasSubstr("2 does not divide tensor (1)"));
  ASSERT_EQ(shared_.Assign("actor", 0).status().code(), 0);
  const v1::TaskResult apart = shared_.ToGeneration(0);
  EXPECT_EQ(apart.status().code(), kFailedPrecondition);
  EXPECT_THAT(apart.status().message(), HasSubstr("generation_tp"));
  shared_.spec().set_kind(v1::JOB_KIND_REWARD_MODEL);
  EXPECT_THAT(shared_.Assign("actor").status().message(), HasSubstr("generation_tp"));
}

// A cache that cannot be had leaves the actor training.
TEST_F(HybridRolesTest, TrainsOnWhenThereIsNoRoomToGenerate) {
  shared_.spec().mutable_rollout()->set_kv_cache_bytes(int64_t{1} << 60);
  AssignBoth();
  const v1::TaskResult result = shared_.ToGeneration(0);
  EXPECT_EQ(result.status().code(), static_cast<int>(absl::StatusCode::kResourceExhausted))
      << result.status().message();
  EXPECT_EQ(Reason(shared_.Run(shared_.MakeGenerate(0))), "WRONG_VERSION");
  EXPECT_EQ(shared_.Update(1).status().code(), 0);
}

}  // namespace
}  // namespace baton
