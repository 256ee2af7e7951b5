// A job trains again on what it recorded, and ends with the same bytes; and what was changed in
// between is noticed.
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/replay_service.grpc.pb.h"
#include "controller/runtime/rows/tables.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/in_process/undisturbed.h"

namespace baton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using v1::Job;
using v1::Replay;

constexpr char kJob[] = "projects/default/jobs/rl";

class ReplayJobTest : public ::testing::Test {
 protected:
  absl::StatusOr<Replay> Create(const v1::CreateReplayRequest& request) {
    grpc::ClientContext context;
    Replay replay;
    const absl::Status status = FromGrpc(Stub()->CreateReplay(&context, request, &replay));
    if (!status.ok()) return status;
    return replay;
  }
  absl::StatusOr<Replay> Create(const std::string& job = "rl") {
    v1::CreateReplayRequest request;
    request.set_name(job);
    return Create(request);
  }
  absl::StatusOr<Replay> Get(const std::string& job) {
    v1::GetReplayRequest request;
    request.set_name(job);
    grpc::ClientContext context;
    Replay replay;
    const absl::Status status = FromGrpc(Stub()->GetReplay(&context, request, &replay));
    if (!status.ok()) return status;
    return replay;
  }
  std::unique_ptr<v1::ReplayService::Stub> Stub() {
    return v1::ReplayService::NewStub(
        grpc::CreateChannel(cluster_.address(), grpc::InsecureChannelCredentials()));
  }

  // Waits for its end.
  Replay Ended(const absl::StatusOr<Replay>& created) {
    EXPECT_TRUE(created.ok()) << created.status();
    if (!created.ok()) return Replay();
    EXPECT_TRUE(WaitFor([&] {
      const Job::State state = cluster_.Get(created->job()).state();
      return state == Job::STATE_SUCCEEDED || state == Job::STATE_FAILED;
    })) << cluster_.Why(created->job());
    const auto replay = Get(created->job());
    EXPECT_TRUE(replay.ok()) << replay.status();
    return replay.ok() ? *replay : Replay();
  }

  v1::JobSpec KeepingSpec() {
    v1::JobSpec spec = cluster_.RlSpec(kSteps);
    spec.mutable_trainer()->set_keep_experience("all");
    spec.mutable_trainer()->set_max_checkpoints(0);
    spec.mutable_trainer()->set_keep_optimizer("all");
    spec.mutable_rollout()->set_deterministic(true);
    return spec;
  }

  void RunWithoutFaults(const v1::JobSpec& spec) {
    cluster_.AddStandardWorkers();
    ASSERT_TRUE(cluster_.Create(spec, "rl").ok());
    ASSERT_TRUE(cluster_.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster_.Why("rl");
  }

  void RunWithFaults(const v1::JobSpec& spec) {
    const auto slow = [](fake::FakeWorkerOptions& options) {
      options.token_delay = absl::Microseconds(300);
    };
    cluster_.AddWorker("actor-0", "actor");
    cluster_.AddWorker("rollout-0", "rollout", slow);
    cluster_.AddWorker("rollout-1", "rollout", slow);
    cluster_.AddWorker("reward-0", "reward");
    const auto created = cluster_.Create(spec, "rl");
    ASSERT_TRUE(created.ok()) << created.status();
    ASSERT_TRUE(cluster_.WaitForStep("rl", 3)) << cluster_.Why("rl");
    cluster_.KillWorker("actor-0");
    cluster_.AddWorker("actor-1", "actor");
    ASSERT_TRUE(cluster_.WaitForStep("rl", 4)) << cluster_.Why("rl");
    cluster_.StopController();
    cluster_.StartController();
    ASSERT_TRUE(cluster_.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster_.Why("rl");
    for (const char* worker : {"rollout-0", "rollout-1", "reward-0"}) cluster_.KillWorker(worker);
  }

  // Changes the row of a step's batch while no controller runs.
  void ChangeRow(int64_t step, const std::function<void(store::v1::BatchRow*)>& change) {
    auto store = *store::SqliteStore::Open(cluster_.folder() + "/baton.db");
    const std::string key = controller::NumberKey(kJob, static_cast<uint64_t>(step));
    const auto stored = store->Get(controller::kBatchTable, key);
    ASSERT_TRUE(stored.ok() && stored->has_value());
    store::v1::BatchRow row;
    ASSERT_TRUE(row.ParseFromString(**stored));
    change(&row);
    absl::Notification done;
    store->Commit({{controller::kBatchTable, key, row.SerializeAsString()}},
                  [&](const absl::Status&) { done.Notify(); });
    done.WaitForNotification();
  }

  TestCluster cluster_{absl::Milliseconds(500)};
};

TEST_F(ReplayJobTest, NoneBeginsWithACheckpointThatHasWeightsOnly) {
  v1::JobSpec spec = KeepingSpec();
  spec.mutable_trainer()->clear_keep_optimizer();
  RunWithoutFaults(spec);
  v1::CreateReplayRequest request;
  request.set_name("rl");
  request.set_from_step(2);
  const absl::Status refused = Create(request).status();
  EXPECT_EQ(ErrorReason(refused), "CHECKPOINT_WEIGHTS_ONLY") << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("checkpoints/step-2 has weights only"));
  request.set_from_step(0);
  request.set_to_step(4);
  const Replay part = Ended(Create(request));
  EXPECT_EQ(part.verdict(), Replay::VERDICT_EQUAL) << part.difference();
  EXPECT_THAT(absl::StrJoin(part.notes(), "\n"),
              HasSubstr("The checkpoint of step 4 has weights only"));
}

TEST_F(ReplayJobTest, AJobWithFaultsTrainsAgainToTheSameBytesWithoutRolloutsAndRewards) {
  RunWithFaults(KeepingSpec());
  const auto created = Create();
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(created->from_step(), 0);
  EXPECT_EQ(created->to_step(), kSteps);
  EXPECT_TRUE(created->compares());
  EXPECT_EQ(created->source_uid(), cluster_.Get("rl").uid());
  EXPECT_THAT(created->notes(), IsEmpty());
  const Replay replay = Ended(created);
  EXPECT_EQ(replay.verdict(), Replay::VERDICT_EQUAL) << replay.DebugString();
  EXPECT_THAT(replay.expected_size(), ::testing::Ge(1));
  EXPECT_EQ(WeightsHash(cluster_.FinalWeights(replay.job())), UndisturbedHash());
  // The rewards of the responses are measured again as well.
  const Job source = cluster_.Get("rl"), again = cluster_.Get(replay.job());
  EXPECT_EQ(again.metrics().at("critic/score/mean"), source.metrics().at("critic/score/mean"));
  EXPECT_EQ(again.step(), kSteps);
}

// A program that lost the answer asks again, perhaps when the source is gone.
TEST_F(ReplayJobTest, ARepeatedCallGetsItsReplayAndAnotherCallIsRefused) {
  RunWithoutFaults(KeepingSpec());
  v1::CreateReplayRequest request;
  request.set_name("rl");
  request.set_request_id("one-call");
  request.set_to_step(2);
  const auto first = Create(request);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto again = Create(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->job(), first->job());
  v1::CreateReplayRequest other = request;
  other.set_to_step(3);
  EXPECT_THAT(std::string(Create(other).status().message()),
              HasSubstr("was used for CreateReplay"));
  Ended(first);
  ASSERT_TRUE(cluster_.Call("rl", &v1::JobService::Stub::DeleteJob).ok());
  const auto later = Create(request);
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ(later->job(), first->job());
}

TEST_F(ReplayJobTest, APartBeginsFromACheckpointAndOutlivesItsSource) {
  RunWithFaults(KeepingSpec());
  cluster_.KillWorker("actor-1");
  v1::CreateReplayRequest request;
  request.set_name("rl");
  request.set_from_step(2);
  request.set_to_step(4);
  request.set_job_id("part");
  request.set_request_id("once");
  const auto created = Create(request);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(created->job(), "projects/default/jobs/part");
  const auto again = Create(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->job(), created->job());
  EXPECT_EQ(Get("part")->verdict(), Replay::VERDICT_PENDING);
  request.clear_request_id();
  EXPECT_EQ(ErrorReason(Create(request).status()), "JOB_EXISTS");
  ASSERT_TRUE(cluster_.Call("rl", &v1::JobService::Stub::DeleteJob).ok());
  EXPECT_TRUE(WaitFor(
      [&] { return !std::filesystem::exists(cluster_.folder() + "/jobs/default/rl/experience"); }));
  cluster_.AddWorker("actor-2", "actor");
  ASSERT_TRUE(cluster_.WaitForStep("part", 3)) << cluster_.Why("part");
  cluster_.StopController();
  cluster_.StartController();
  EXPECT_EQ(Ended(created).verdict(), Replay::VERDICT_EQUAL);
}

TEST_F(ReplayJobTest, PpoWithACriticTrainsBothAgain) {
  v1::JobSpec spec = KeepingSpec();
  spec.mutable_algorithm()->set_preset("ppo");
  spec.mutable_reference();
  cluster_.AddWorker("critic-0", "critic");
  cluster_.AddWorker("reference-0", "reference");
  RunWithFaults(spec);
  cluster_.KillWorker("reference-0");
  const Replay replay = Ended(Create());
  EXPECT_EQ(replay.verdict(), Replay::VERDICT_EQUAL) << replay.DebugString();
  EXPECT_EQ(WeightsHash(cluster_.FinalWeights(replay.job(), "critic")),
            WeightsHash(cluster_.FinalWeights("rl", "critic")));
}

TEST_F(ReplayJobTest, AChangedResponseIsNotTrainedOn) {
  RunWithoutFaults(KeepingSpec());
  cluster_.StopController();
  for (const auto& entry :
       std::filesystem::directory_iterator(cluster_.folder() + "/jobs/default/rl/experience")) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    for (uint64_t at = 20; at < entry.file_size(); at += 40) {
      file.seekp(static_cast<std::streamoff>(at));
      file.put('#');
    }
  }
  cluster_.StartController();
  const Replay replay = Ended(Create());
  EXPECT_EQ(replay.verdict(), Replay::VERDICT_FAILED);
  EXPECT_THAT(replay.difference(), HasSubstr("step 1 cannot be replayed"));
}

TEST_F(ReplayJobTest, AChangedScoreIsNoticed) {
  RunWithoutFaults(KeepingSpec());
  cluster_.StopController();
  ChangeRow(3, [](store::v1::BatchRow* row) {
    auto& scores = *row->mutable_entries(1)->mutable_trajectory()->mutable_scores();
    scores["reward"] = 1 - scores["reward"];
  });
  cluster_.StartController();
  const Replay replay = Ended(Create());
  EXPECT_EQ(replay.verdict(), Replay::VERDICT_FAILED);
  EXPECT_THAT(replay.difference(),
              HasSubstr("the batch of step 3 is not the one that was recorded"));
  EXPECT_THAT(replay.difference(), HasSubstr("has column advantages of hash "));
}

TEST_F(ReplayJobTest, OtherWeightsAreNamed) {
  RunWithoutFaults(KeepingSpec());
  const std::string manifest = cluster_.folder() + "/jobs/default/rl/checkpoints/step-6/files.json";
  std::ifstream in(manifest);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const size_t at = text.find("\"xxh3\": \"") + 9;
  text.replace(at, text.find('"', at) - at, "00000000deadbeef");
  std::ofstream(manifest) << text;
  const Replay replay = Ended(Create());
  EXPECT_EQ(replay.verdict(), Replay::VERDICT_DIFFERENT) << replay.DebugString();
  EXPECT_THAT(replay.difference(), HasSubstr("actor/weights.json: the job's file is damaged"));
  EXPECT_THAT(replay.difference(), HasSubstr("and 00000000deadbeef was noted"));
}

// The verdict is of the bytes that are there when it is asked for.
TEST_F(ReplayJobTest, FilesThatAreDamagedOrGoneAreNotEqual) {
  RunWithoutFaults(KeepingSpec());
  const Replay replay = Ended(Create());
  EXPECT_EQ(replay.verdict(), Replay::VERDICT_EQUAL) << replay.DebugString();
  ASSERT_EQ(replay.compared_size(), replay.expected_size());
  EXPECT_EQ(replay.compared(0).xxh3(), replay.expected(0).xxh3());
  const std::string folder =
      cluster_.folder() + "/jobs/default/" + replay.job().substr(replay.job().rfind('/') + 1);
  for (const std::string& side : {folder + "/compared/", folder + "/checkpoints/step-6/"}) {
    const std::string path = side + replay.expected(0).path();
    std::string bytes;
    {
      std::ifstream in(path, std::ios::binary);
      bytes.assign(std::istreambuf_iterator<char>(in), {});
    }
    ASSERT_FALSE(bytes.empty()) << path;
    std::string damaged = bytes;
    damaged.back() ^= 1;
    std::ofstream(path, std::ios::binary) << damaged;
    EXPECT_EQ(Get(replay.job())->verdict(), Replay::VERDICT_DIFFERENT);
    EXPECT_THAT(Get(replay.job())->difference(), HasSubstr("is damaged"));
    std::filesystem::remove(path);
    EXPECT_EQ(Get(replay.job())->verdict(), Replay::VERDICT_DIFFERENT);
    EXPECT_THAT(Get(replay.job())->difference(), HasSubstr("is gone"));
    std::ofstream(path, std::ios::binary) << bytes;
    EXPECT_EQ(Get(replay.job())->verdict(), Replay::VERDICT_EQUAL);
  }
  // An empty list is no equality.
  std::filesystem::remove_all(folder + "/compared");
  EXPECT_EQ(Get(replay.job())->verdict(), Replay::VERDICT_NOT_COMPARED);
  EXPECT_THAT(Get(replay.job())->difference(), HasSubstr("has no copy of the job's checkpoint"));
}

TEST_F(ReplayJobTest, RefusesImpossibleReplaysBeforeTheyStart) {
  RunWithoutFaults(KeepingSpec());
  v1::CreateReplayRequest request;
  request.set_name("rl");
  request.set_from_step(3);
  EXPECT_EQ(ErrorReason(Create(request).status()), "REPLAY_NOT_KEPT");
  request.set_from_step(6);
  EXPECT_EQ(ErrorReason(Create(request).status()), "REPLAY_RANGE");
  request.clear_from_step();
  request.set_to_step(5);
  request.set_validate_only(true);
  const auto plan = Create(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->job(), "");
  EXPECT_FALSE(plan->compares());
  EXPECT_THAT(absl::StrJoin(plan->notes(), "\n"), HasSubstr("keeps no checkpoint of step 5"));
  EXPECT_EQ(ErrorReason(Get("rl").status()), "NOT_A_REPLAY");
  EXPECT_EQ(ErrorReason(Create("none").status()), "JOB_NOT_FOUND");
  request.clear_validate_only();
  const auto created = Create(request);
  EXPECT_EQ(Ended(created).verdict(), Replay::VERDICT_NOT_COMPARED);
  EXPECT_EQ(ErrorReason(Create(created->job()).status()), "REPLAY_KIND");
  v1::CreateJobRequest go_on;
  go_on.set_checkpoint(absl::StrCat("job:", created->job()));
  grpc::ClientContext context;
  Job job;
  EXPECT_EQ(ErrorReason(FromGrpc(cluster_.stub().CreateJob(&context, go_on, &job))), "REPLAY_KIND");

  v1::JobSpec sft = cluster_.RlSpec(2);
  sft.set_kind(v1::JOB_KIND_SFT);
  sft.clear_rollout();
  sft.clear_reward();
  sft.clear_resources();
  ASSERT_TRUE(cluster_.Create(sft, "sft").ok());
  ASSERT_TRUE(cluster_.WaitForState("sft", Job::STATE_SUCCEEDED)) << cluster_.Why("sft");
  EXPECT_EQ(ErrorReason(Create("sft").status()), "REPLAY_KIND");
}

// By default a job keeps its newest responses and two checkpoints.
TEST_F(ReplayJobTest, AJobThatKeepsWhatItNeedsIsReplayedFromItsOldestCheckpoint) {
  RunWithoutFaults(cluster_.RlSpec(kSteps));
  const auto created = Create();
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(created->from_step(), 0) << "six steps are fewer than are kept";
  EXPECT_THAT(absl::StrJoin(created->notes(), "\n"), HasSubstr("rollout.deterministic"));
  EXPECT_EQ(Ended(created).verdict(), Replay::VERDICT_EQUAL);
}

// The controller restarts in the middle of an update. Its ranks may have trained on the batch that
// the row names, so a batch with other columns is not trained on.
TEST_F(ReplayJobTest, ARestartInAnUpdateComparesTheBatchWithItsRow) {
  cluster_.AddWorker("actor-0", "actor", [](fake::FakeWorkerOptions& options) {
    options.faults = {{fake::Fault::Kind::kHang, "update", 3}};
  });
  for (const char* role : {"rollout", "reward"}) {
    cluster_.AddWorker(absl::StrCat(role, "-0"), role);
  }
  v1::JobSpec spec = KeepingSpec();
  spec.mutable_resources()->set_rollout_workers(1);
  ASSERT_TRUE(cluster_.Create(spec, "rl").ok());
  ASSERT_TRUE(WaitFor([&] { return cluster_.worker("actor-0").tasks("update") == 3; }));
  cluster_.StopController();
  ChangeRow(3, [](store::v1::BatchRow* row) { row->mutable_entries(2)->set_column_hashes(0, 7); });
  cluster_.StartController();
  ASSERT_TRUE(cluster_.WaitForState("rl", Job::STATE_FAILED)) << cluster_.Why("rl");
  EXPECT_THAT(cluster_.Get("rl").error().message(),
              HasSubstr("the batch of step 3 is not the one that was recorded"));
  EXPECT_THAT(cluster_.Get("rl").error().message(), HasSubstr("recorded is 0000000000000007"));
}

}  // namespace
}  // namespace baton::testing
