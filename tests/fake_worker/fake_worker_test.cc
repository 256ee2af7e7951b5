#include "tests/fake_worker/fake_worker.h"

#include <cstring>
#include <filesystem>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/rpc/error.h"
#include "sdk/worker/fake_controller.h"
#include "tests/fake_worker/fake_generator.h"
#include "tests/fake_worker/fake_reward.h"
#include "tests/fake_worker/fake_weights.h"

namespace baton::fake {
namespace {

using ::testing::HasSubstr;

v1::Trajectory MakeTrajectory(const std::string& response) {
  v1::Trajectory trajectory;
  trajectory.set_prompt_text("p");
  trajectory.set_response_text(response);
  return trajectory;
}

TEST(FakeWeights, DependOnEveryByteAndTheOrder) {
  const auto a = MakeTrajectory("a"), b = MakeTrajectory("b");
  const uint64_t start = InitialWeights(v1::JobSpec());
  EXPECT_EQ(TrainedWeights(start, {a, b}), TrainedWeights(start, {a, b}));
  EXPECT_NE(TrainedWeights(start, {a, b}), TrainedWeights(start, {b, a}));
  EXPECT_NE(TrainedWeights(start, {a, b}), TrainedWeights(start, {a}));
  auto changed = b;
  v1::Column* column = changed.add_columns();
  column->set_name("advantages");
  column->set_data("1234");
  EXPECT_NE(TrainedWeights(start, {a, b}), TrainedWeights(start, {a, changed}));
  auto renamed = a;
  renamed.set_trajectory_id("other");
  EXPECT_EQ(TrainedWeights(start, {a, b}), TrainedWeights(start, {renamed, b}));
}

TEST(FakeGenerator, IsAFunctionOfWeightsAndKey) {
  v1::Generate request;
  request.set_prompt_id(3);
  request.set_max_new_tokens(100);
  const FakeResponse first = MakeResponse(1, request);
  EXPECT_EQ(first.tokens, MakeResponse(1, request).tokens);
  EXPECT_EQ(first.finish_reason, "stop");
  EXPECT_NE(first.tokens, MakeResponse(2, request).tokens);
  request.set_sample_index(1);
  EXPECT_NE(first.tokens, MakeResponse(1, request).tokens);
  request.set_max_new_tokens(2);
  EXPECT_EQ(MakeResponse(1, request).tokens.size(), 2u);
  EXPECT_EQ(MakeResponse(1, request).finish_reason, "length");
}

TEST(FakeGenerator, AcceptsADraftUpToTheFirstDifference) {
  v1::Generate request;
  FakeResponse response;
  response.tokens = {5, 6, 7, 8};
  EXPECT_EQ(AcceptedDraft(request, response, 1), 0u);
  for (const int32_t token : {6, 7, 9, 8}) request.add_draft_tokens(token);
  EXPECT_EQ(AcceptedDraft(request, response, 1), 2u);
  EXPECT_EQ(AcceptedDraft(request, response, 0), 0u);
  EXPECT_EQ(AcceptedDraft(request, response, 4), 0u);
  request.set_draft_tokens(2, 8);
  EXPECT_EQ(AcceptedDraft(request, response, 1), 3u);  // Goes on where the response has ended.
}

TEST(FakeReward, IsSpreadOverItsRange) {
  std::set<double> rewards;
  for (int i = 0; i < 100; ++i) rewards.insert(RewardOf(std::to_string(i)));
  EXPECT_GT(rewards.size(), 80u);
  EXPECT_GE(*rewards.begin(), 0.0);
  EXPECT_LE(*rewards.rbegin(), 1.0);
}

TEST(Faults, AreCountedPerMethod) {
  FaultPlan plan({ParseFault(Fault::Kind::kFail, "update:2").value()});
  EXPECT_EQ(plan.Count("update"), Fault::Kind::kNone);
  EXPECT_EQ(plan.Count("publish"), Fault::Kind::kNone);
  EXPECT_EQ(plan.Count("update"), Fault::Kind::kFail);
  EXPECT_EQ(plan.Count("update"), Fault::Kind::kNone);
  EXPECT_FALSE(ParseFault(Fault::Kind::kFail, "update").ok());
  EXPECT_FALSE(ParseFault(Fault::Kind::kFail, "update:0").ok());
}

class FakeWorkerTest : public ::testing::Test {
 protected:
  std::unique_ptr<FakeWorker> StartWorker(absl::Duration token_delay = absl::ZeroDuration(),
                                          std::vector<Fault> faults = {}) {
    FakeWorkerOptions options;
    options.worker.controller = controller_.address();
    options.token_delay = token_delay;
    options.faults = std::move(faults);
    auto worker = FakeWorker::Create(options).value();
    worker->Start();
    EXPECT_TRUE(controller_.WaitForHello(++processes_).has_value());
    return worker;
  }
  v1::Task MakeTask(const std::string& role, const std::string& method) {
    v1::Task task;
    task.set_task_token(std::to_string(++tokens_));
    task.set_job("projects/default/jobs/j");
    task.set_role(role);
    task.set_method(method);
    return task;
  }
  v1::TaskResult Run(const v1::Task& task) {
    return controller_.RunTask(task).value_or(v1::TaskResult());
  }
  void Assign(const std::string& checkpoint = "", int64_t step = 0, uint64_t version = 0) {
    for (const char* role : {"actor", "rollout", "reward"}) {
      v1::Task task = MakeTask(role, "assign_role");
      task.mutable_assign_role()->mutable_spec()->mutable_data()->set_seed(1);
      task.mutable_assign_role()->set_checkpoint(checkpoint);
      task.mutable_assign_role()->set_step(step);
      task.mutable_assign_role()->set_policy_version(version);
      const v1::TaskResult result = Run(task);
      EXPECT_EQ(result.status().code(), 0) << result.status().message();
      EXPECT_FALSE(result.task_token().empty());
    }
  }
  v1::TaskResult Update(int64_t step) {
    controller_.SetBatch("b", {MakeTrajectory("x"), MakeTrajectory("y")});
    v1::Task task = MakeTask("actor", "update");
    task.mutable_update()->set_step(step);
    task.mutable_update()->set_from_step(step - 1);
    task.mutable_update()->set_batch_id("b");
    task.mutable_update()->set_batch_size(2);
    task.mutable_update()->set_policy_version(static_cast<uint64_t>(step));
    return Run(task);
  }
  v1::TaskResult PublishAndLoad(uint64_t version) {
    v1::Task publish = MakeTask("actor", "publish");
    publish.mutable_publish()->set_policy_version(version);
    const v1::TaskResult result = Run(publish);
    EXPECT_EQ(result.status().code(), 0) << result.status().message();
    v1::Task load = MakeTask("rollout", "load_weights");
    load.mutable_load_weights()->set_policy_version(version);
    return Run(load);
  }
  v1::Task MakeGenerate(uint64_t version) {
    v1::Task task = MakeTask("rollout", "generate");
    v1::Generate* generate = task.mutable_generate();
    generate->set_prompt("1+1:");
    generate->set_max_new_tokens(32);
    generate->set_policy_version(version);
    return task;
  }
  std::string Save(int64_t step) {
    const std::string folder = folder_.path("step-" + std::to_string(step));
    std::filesystem::create_directory(folder);
    v1::Task task = MakeTask("actor", "save_checkpoint");
    task.mutable_save_checkpoint()->set_step(step);
    task.mutable_save_checkpoint()->set_directory(folder);
    const v1::TaskResult result = Run(task);
    EXPECT_EQ(result.status().code(), 0) << result.status().message();
    EXPECT_EQ(result.files_size(), 3);  // actor/weights.json, optimizer.json, trainer.json
    EXPECT_EQ(result.files(0).path(), "actor/weights.json");
    EXPECT_EQ(result.files(0).size_bytes(),
              static_cast<int64_t>(std::filesystem::file_size(folder + "/actor/weights.json")));
    EXPECT_EQ(result.files(0).xxh3().size(), 16u);
    return folder;
  }

  const TestFolder folder_;
  FakeController controller_;
  int tokens_ = 0;
  int processes_ = 0;
};

TEST_F(FakeWorkerTest, PlaysAWholeStep) {
  const auto worker = StartWorker();
  Assign();
  EXPECT_EQ(PublishAndLoad(0).status().code(), 0);
  const v1::TaskResult sampled = Run(MakeGenerate(0));
  ASSERT_EQ(sampled.status().code(), 0) << sampled.status().message();
  ASSERT_EQ(sampled.columns_size(), 3);
  EXPECT_EQ(sampled.columns(0).data().size(), 4 * sizeof(int32_t));
  EXPECT_EQ(sampled.columns(1).data().size(), sampled.response_text().size() * sizeof(int32_t));
  EXPECT_EQ(sampled.prompt_text(), "1+1:");

  v1::Task judge = MakeTask("reward", "compute_reward");
  judge.mutable_score()->mutable_trajectory()->set_response_text(sampled.response_text());
  EXPECT_EQ(Run(judge).metrics().at("reward"), RewardOf(sampled.response_text()));

  const v1::TaskResult trained = Update(1);
  EXPECT_EQ(trained.status().code(), 0) << trained.status().message();
  EXPECT_TRUE(trained.metrics().contains("actor/pg_loss"));
  EXPECT_EQ(PublishAndLoad(1).status().code(), 0);
  EXPECT_NE(Run(MakeGenerate(1)).response_text(), sampled.response_text());
  EXPECT_EQ(ErrorReason(FromProto(Run(MakeGenerate(0)).status())), "WRONG_VERSION");
}

TEST_F(FakeWorkerTest, AnUpdateIsNeverAppliedTwice) {
  const auto worker = StartWorker();
  Assign();
  Update(1);
  const std::string once = Save(1);
  const uint64_t weights = LoadWeights(once + "/actor").value();
  EXPECT_EQ(Update(1).status().code(), 0);  // A new attempt of the same step.
  std::filesystem::remove_all(once);
  EXPECT_EQ(LoadWeights(Save(1) + "/actor").value(), weights);
  EXPECT_EQ(ErrorReason(FromProto(Update(3).status())), "WRONG_STEP");
}

TEST_F(FakeWorkerTest, AStepWithoutAnUpdateIsPassedOver) {
  const auto worker = StartWorker();
  Assign();
  Update(1);
  v1::Task update = MakeTask("actor", "update");  // Step 2 dropped all its groups.
  update.mutable_update()->set_step(3);
  update.mutable_update()->set_from_step(2);
  update.mutable_update()->set_batch_id("b");
  update.mutable_update()->set_policy_version(2);
  const v1::TaskResult updated = Run(update);
  EXPECT_EQ(updated.status().code(), 0) << updated.status().message();
}

TEST_F(FakeWorkerTest, ACheckpointContinuesExactly) {
  uint64_t straight = 0;
  std::string checkpoint;
  {
    const auto worker = StartWorker();
    Assign();
    Update(1);
    checkpoint = Save(1);
    Update(2);
    v1::Task task = MakeTask("actor", "publish");
    task.mutable_publish()->set_policy_version(2);
    Run(task);
    straight = FakeRelay(controller_.address()).Load("projects/default/jobs/j", 2).value();
  }
  const auto worker = StartWorker();
  Assign(checkpoint, 1, 1);
  Update(2);
  EXPECT_EQ(PublishAndLoad(2).status().code(), 0);
  EXPECT_EQ(FakeRelay(controller_.address()).Load("projects/default/jobs/j", 2).value(), straight);
}

TEST_F(FakeWorkerTest, AResumedResponseEqualsAWholeOne) {
  const auto worker = StartWorker(absl::Milliseconds(1));
  Assign();
  PublishAndLoad(0);
  const v1::TaskResult whole = Run(MakeGenerate(0));
  ASSERT_GE(whole.response_text().size(), 4u);
  v1::Task resumed = MakeGenerate(0);
  for (const char c : whole.response_text().substr(0, 2)) {
    resumed.mutable_generate()->add_resume_tokens(c);
    resumed.mutable_generate()->add_resume_log_probs(0);
  }
  const v1::TaskResult rest = Run(resumed);
  EXPECT_EQ(rest.response_text(), whole.response_text());
  EXPECT_EQ(rest.columns(2).data(), whole.columns(2).data());
}

TEST_F(FakeWorkerTest, ADraftChangesNothingButIsCounted) {
  for (const bool delayed : {false, true}) {
    const auto worker = StartWorker(delayed ? absl::Milliseconds(1) : absl::ZeroDuration());
    Assign();
    PublishAndLoad(0);
    const v1::TaskResult whole = Run(MakeGenerate(0));
    const std::string text = whole.response_text();
    ASSERT_GE(text.size(), 4u);
    EXPECT_FALSE(whole.metrics().contains("draft_accepted"));
    for (size_t resumed = 0; resumed < 3; ++resumed) {
      for (size_t right = resumed; right <= text.size(); ++right) {
        v1::Task task = MakeGenerate(0);
        for (size_t i = 0; i < resumed; ++i) {
          task.mutable_generate()->add_resume_tokens(text[i]);
          task.mutable_generate()->add_resume_log_probs(0);
        }
        for (size_t i = resumed; i < right; ++i) task.mutable_generate()->add_draft_tokens(text[i]);
        task.mutable_generate()->add_draft_tokens('!');  // Never drawn.
        task.mutable_generate()->add_draft_tokens('a');
        const v1::TaskResult result = Run(task);
        EXPECT_EQ(result.response_text(), text);
        EXPECT_EQ(result.columns(1).data(), whole.columns(1).data());
        EXPECT_EQ(result.columns(2).data(), whole.columns(2).data());
        EXPECT_EQ(result.finish_reason(), whole.finish_reason());
        ASSERT_TRUE(result.metrics().contains("draft_accepted"));
        EXPECT_EQ(result.metrics().at("draft_accepted"), static_cast<double>(right - resumed));
      }
    }
    Run(MakeTask("rollout", "release_role"));
  }
}

// Nothing is generated before the first delay is over; the draft is there before it.
TEST_F(FakeWorkerTest, ADraftIsAcceptedAtOnce) {
  const auto worker = StartWorker(absl::Hours(1));
  Assign();
  PublishAndLoad(0);
  v1::Task task = MakeGenerate(0);
  const v1::Generate& request = task.generate();
  v1::JobSpec spec;
  spec.mutable_data()->set_seed(1);  // As Assign's.
  const FakeResponse response = MakeResponse(InitialWeights(spec), request);
  for (size_t i = 0; i + 2 < response.tokens.size(); ++i) {
    task.mutable_generate()->add_draft_tokens(response.tokens[i]);
  }
  controller_.SendTask(task);
  Run(MakeTask("rollout", "release_role"));
  const auto result = controller_.WaitForResult(task.task_token());
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->finish_reason(), "cancelled");
  EXPECT_EQ(result->response_text().size(), response.tokens.size() - 2);
  EXPECT_EQ(result->metrics().at("draft_accepted"),
            static_cast<double>(response.tokens.size() - 2));
}

TEST_F(FakeWorkerTest, ACancelledResponseComesBackWithWhatThereIs) {
  const auto worker = StartWorker(absl::Seconds(100));
  Assign();
  PublishAndLoad(0);
  const v1::Task task = MakeGenerate(0);
  controller_.SendTask(task);
  v1::ControllerMessage cancel;
  cancel.mutable_cancel()->set_task_token(task.task_token());
  // A release ends what runs, whatever the delay between tokens.
  controller_.Send(cancel);
  Run(MakeTask("rollout", "release_role"));
  const auto result = controller_.WaitForResult(task.task_token());
  ASSERT_TRUE(result.has_value());
}

TEST_F(FakeWorkerTest, InjectsTheConfiguredFaults) {
  const auto worker = StartWorker(absl::ZeroDuration(), {{Fault::Kind::kFail, "generate", 2},
                                                         {Fault::Kind::kHang, "load_weights", 2}});
  Assign();
  PublishAndLoad(0);
  EXPECT_EQ(Run(MakeGenerate(0)).status().code(), 0);
  EXPECT_THAT(Run(MakeGenerate(0)).status().message(), HasSubstr("fault injected"));
  EXPECT_EQ(Run(MakeGenerate(0)).status().code(), 0);
  v1::Task load = MakeTask("rollout", "load_weights");
  controller_.SendTask(load);
  v1::ControllerMessage cancel;
  cancel.mutable_cancel()->set_task_token(load.task_token());
  controller_.Send(cancel);
  const auto result = controller_.WaitForResult(load.task_token());
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status().code(), static_cast<int>(absl::StatusCode::kCancelled));
}

TEST(FakeWorkerOptions, NamesAnUnknownRole) {
  FakeWorkerOptions options;
  options.worker.controller = "127.0.0.1:1";
  options.roles = {"critics"};
  EXPECT_THAT(std::string(FakeWorker::Create(options).status().message()),
              HasSubstr("unknown role \"critics\""));
}

}  // namespace
}  // namespace baton::fake
