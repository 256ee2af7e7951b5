// Jobs that share workers, pauses in every phase, and callers that must be kept out.
#include "baton/v1/experience_service.grpc.pb.h"
#include "baton/v1/worker_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/contracts/worker_features.h"
#include "sdk/common/data_set/data_set.h"
#include "tests/end_to_end/in_process/undisturbed.h"

namespace baton::testing {
namespace {

using ::testing::HasSubstr;
using v1::Job;

TEST(SharingTest, TheQueueServesTheHigherPriorityFirst) {
  TestCluster cluster;
  cluster.AddStandardWorkers();
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(100000), "first").ok());
  ASSERT_TRUE(cluster.WaitForStep("first", 1)) << cluster.Why("first");
  v1::JobSpec low = cluster.RlSpec(2);
  low.set_priority(-1);
  v1::JobSpec high = cluster.RlSpec(2);
  high.set_priority(5);
  ASSERT_TRUE(cluster.Create(low, "low").ok());
  ASSERT_TRUE(cluster.Create(high, "high").ok());
  EXPECT_EQ(cluster.Get("high").state(), Job::STATE_QUEUED);
  EXPECT_THAT(cluster.Why("high"),
              HasSubstr("1 actor worker, 1 reward worker, 2 rollout workers to attach or to "
                        "become free"));
  ASSERT_TRUE(cluster.Call("first", &v1::JobService::Stub::CancelJob).ok());
  ASSERT_TRUE(cluster.WaitForState("high", Job::STATE_SUCCEEDED)) << cluster.Why("high");
  ASSERT_TRUE(cluster.WaitForState("low", Job::STATE_SUCCEEDED)) << cluster.Why("low");
  EXPECT_LE(cluster.Get("high").end_time().seconds(), cluster.Get("low").start_time().seconds());
}

TEST(SharingTest, AJobWaitsUntilTheDataOfOthersLeaveRoom) {
  TestCluster cluster(absl::Seconds(1), [](controller::ControllerOptions& options) {
    options.max_data_memory_bytes = 100 * sizeof(Example);  // a job has 60
  });
  cluster.AddStandardWorkers();
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(100000), "first").ok());
  ASSERT_TRUE(cluster.WaitForStep("first", 1)) << cluster.Why("first");
  cluster.AddWorker("actor-1", "actor");
  cluster.AddWorker("rollout-2", "rollout");
  cluster.AddWorker("rollout-3", "rollout");
  cluster.AddWorker("reward-1", "reward");
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(kSteps), "second").ok());  // of files written anew
  ASSERT_TRUE(WaitFor([&] { return cluster.Why("second").find("room for ") != std::string::npos; }))
      << cluster.Why("second");
  EXPECT_THAT(cluster.Why("second"), HasSubstr("--max-data-memory-bytes"));
  // A paused job holds no data.
  ASSERT_TRUE(cluster.Call("first", &v1::JobService::Stub::PauseJob).ok());
  ASSERT_TRUE(cluster.WaitForState("second", Job::STATE_SUCCEEDED)) << cluster.Why("second");
  EXPECT_EQ(WeightsHash(cluster.FinalWeights("second")), UndisturbedHash());
  const int64_t step = cluster.Get("first").step();
  ASSERT_TRUE(cluster.Call("first", &v1::JobService::Stub::ResumeJob).ok());
  ASSERT_TRUE(cluster.WaitForStep("first", step + 2)) << cluster.Why("first");
}

/// Pauses when the job says that it is in this phase, and resumes.
class PauseTest : public ::testing::TestWithParam<const char*> {};

TEST_P(PauseTest, PausingDoesNotChangeTheWeights) {
  TestCluster cluster;
  const auto slow_tasks = [](fake::FakeWorkerOptions& options) {
    options.task_delay = absl::Milliseconds(15);
    options.token_delay = absl::Microseconds(700);
  };
  cluster.AddWorker("actor-0", "actor", slow_tasks);
  cluster.AddWorker("rollout-0", "rollout", slow_tasks);
  cluster.AddWorker("rollout-1", "rollout", slow_tasks);
  cluster.AddWorker("reward-0", "reward");
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(kSteps), "rl").ok());
  const std::string phase = GetParam();
  ASSERT_TRUE(WaitFor([&] {
    const Job job = cluster.Get("rl");
    return phase == "queued" || job.phase() == phase || job.state() == Job::STATE_SUCCEEDED;
  }));
  ASSERT_TRUE(cluster.Call("rl", &v1::JobService::Stub::PauseJob).ok()) << phase << " never seen";
  ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_PAUSED)) << cluster.Why("rl");
  EXPECT_THAT(cluster.Why("rl"), HasSubstr("its user to resume it"));
  EXPECT_EQ(cluster.Get("rl").workers_size(), 0);
  ASSERT_TRUE(cluster.Call("rl", &v1::JobService::Stub::ResumeJob).ok());
  ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster.Why("rl");
  EXPECT_EQ(WeightsHash(cluster.FinalWeights("rl")), UndisturbedHash());
}

INSTANTIATE_TEST_SUITE_P(Phases, PauseTest,
                         ::testing::Values("queued", "setting up", "publishing weights",
                                           "generating", "training", "evaluating",
                                           "saving a checkpoint"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == ' ' ? '_' : c;
                           return name;
                         });

TEST(SharingTest, AWorkerOfAnotherProtocolIsRefusedAndTheJobGoesOn) {
  TestCluster cluster;
  cluster.AddStandardWorkers();
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(kSteps), "rl").ok());
  auto stub = v1::WorkerService::NewStub(
      grpc::CreateChannel(cluster.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  auto stream = stub->Attach(&context);
  v1::WorkerMessage message;
  v1::Hello* hello = message.mutable_hello();
  hello->set_worker_id("from-the-future");
  hello->set_instance_id("1");
  hello->set_protocol_min(7);
  hello->set_protocol_max(9);
  ASSERT_TRUE(stream->Write(message));
  v1::ControllerMessage answer;
  EXPECT_FALSE(stream->Read(&answer));
  const absl::Status status = FromGrpc(stream->Finish());
  EXPECT_EQ(ErrorReason(status), "PROTOCOL_VERSION");
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("worker from-the-future speaks protocol versions 7-9, this controller 1-1; "
                        "install the same release on both"));
  ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster.Why("rl");
  EXPECT_EQ(WeightsHash(cluster.FinalWeights("rl")), UndisturbedHash());
}

/// An actor that keeps what it was given to fetch its batch with, and then hangs.
struct Caught {
  std::string job, batch_id, capability;
};

Caught CatchUpdate(v1::WorkerService::Stub& stub, grpc::ClientContext& context,
                   const std::string& id) {
  auto stream = stub.Attach(&context);
  v1::WorkerMessage message;
  v1::Hello* hello = message.mutable_hello();
  hello->set_worker_id(id);
  hello->set_instance_id(id);
  hello->set_protocol_min(1);
  hello->set_protocol_max(1);
  for (const char* method :
       {"assign_role", "release_role", "update", "publish", "save_checkpoint"}) {
    v1::MethodCredits* credits = hello->add_methods();
    credits->set_role("actor");
    credits->set_method(method);
    credits->set_credits(1);
  }
  hello->add_features(kChatTemplatesFeature);
  hello->add_features(kUndecayedNormsFeature);
  stream->Write(message);
  Caught caught;
  for (v1::ControllerMessage in; stream->Read(&in);) {
    if (!in.has_task()) continue;
    if (in.task().has_update()) {
      caught = {in.task().job(), in.task().update().batch_id(), in.task().update().capability()};
      break;
    }
    v1::WorkerMessage out;
    out.mutable_result()->set_task_token(in.task().task_token());
    stream->Write(out);
  }
  return caught;
}

absl::StatusCode Fetch(v1::ExperienceService::Stub& stub, const Caught& of,
                       const std::string& capability) {
  v1::FetchBatchRequest request;
  request.set_job(of.job);
  request.set_batch_id(of.batch_id);
  request.set_capability(capability);
  grpc::ClientContext context;
  auto reader = stub.FetchBatch(&context, request);
  v1::FetchBatchResponse response;
  while (reader->Read(&response)) {
  }
  return FromGrpc(reader->Finish()).code();
}

TEST(SharingTest, ACapabilityOpensItsOwnJobsBatchOnly) {
  TestCluster cluster;
  auto channel = grpc::CreateChannel(cluster.address(), grpc::InsecureChannelCredentials());
  auto workers = v1::WorkerService::NewStub(channel);
  auto experience = v1::ExperienceService::NewStub(channel);
  const std::string prompts = cluster.Prompts("sft.jsonl", 20);
  const auto sft = [&] {
    v1::JobSpec spec;
    spec.set_kind(v1::JOB_KIND_SFT);
    spec.mutable_model()->mutable_init()->set_characters("0123456789+=");
    spec.mutable_data()->add_train_files(prompts);
    spec.mutable_data()->set_train_batch_size(4);
    spec.mutable_trainer()->set_total_training_steps(2);
    return spec;
  };
  grpc::ClientContext one, two;
  ASSERT_TRUE(cluster.Create(sft(), "a").ok());
  const Caught a = CatchUpdate(*workers, one, "actor-a");
  ASSERT_TRUE(cluster.Create(sft(), "b").ok());
  const Caught b = CatchUpdate(*workers, two, "actor-b");
  ASSERT_NE(a.job, b.job);
  EXPECT_EQ(a.batch_id, b.batch_id);  // only the capability tells them apart
  EXPECT_EQ(Fetch(*experience, a, a.capability), absl::StatusCode::kOk);
  EXPECT_EQ(Fetch(*experience, b, b.capability), absl::StatusCode::kOk);
  EXPECT_EQ(Fetch(*experience, a, b.capability), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Fetch(*experience, b, a.capability), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Fetch(*experience, a, ""), absl::StatusCode::kPermissionDenied);
  one.TryCancel();
  two.TryCancel();
}

TEST(SharingTest, AnUnknownTypeAndAnEmptyLineOfSftNameTheirPlaceAndTheRemedy) {
  TestCluster cluster;
  v1::JobSpec spec = cluster.RlSpec(1);
  spec.mutable_model()->set_dtype("float8");
  const auto job = cluster.Create(spec, "bad");
  ASSERT_FALSE(job.ok());
  EXPECT_THAT(std::string(job.status().message()),
              HasSubstr("spec.model.dtype: 'float8' is not one of: float32, bfloat16"));
}

}  // namespace
}  // namespace baton::testing
