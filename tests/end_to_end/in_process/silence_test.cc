// Workers that are drained, that live but do not answer, or that crash again and again: the
// deadline acts, `why` names it, and the weights at the end are those of an undisturbed run.
#include <algorithm>
#include <atomic>
#include <memory>

#include "baton/v1/cluster_service.grpc.pb.h"
#include "controller/store/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/in_process/undisturbed.h"

namespace baton::testing {
namespace {

using fake::Fault;
using ::testing::HasSubstr;
using v1::Job;

constexpr absl::Duration kStall = absl::Milliseconds(250);

void ShortDeadlines(controller::ControllerOptions& options) {
  options.core.generate_stall = kStall;
  options.core.score_deadline = kStall;
  options.core.command_deadline = kStall;
  options.core.setup_deadline = absl::Milliseconds(500);
  options.core.release_deadline = kStall;
}

void SlowTokens(fake::FakeWorkerOptions& options) { options.token_delay = absl::Microseconds(300); }

/// The worker's tasks [first, last] of the method go wrong.
std::function<void(fake::FakeWorkerOptions&)> With(Fault::Kind kind, const std::string& method,
                                                   int first, int last) {
  return [=](fake::FakeWorkerOptions& options) {
    for (int nth = first; nth <= last; ++nth) options.faults.push_back({kind, method, nth});
  };
}

class SilenceTest : public ::testing::Test {
 protected:
  void Create() { ASSERT_TRUE(cluster_.Create(cluster_.RlSpec(kSteps), "rl").ok()); }
  void ExpectTheSameEnd() {
    ASSERT_TRUE(cluster_.WaitForState("rl", Job::STATE_SUCCEEDED, absl::Seconds(15)))
        << cluster_.Why("rl") << cluster_.Get("rl").DebugString();
    EXPECT_EQ(WeightsHash(cluster_.FinalWeights("rl")), UndisturbedHash());
  }
  bool WaitForWhy(const std::string& text) {
    return WaitFor([&] { return cluster_.Why("rl").find(text) != std::string::npos; },
                   absl::Seconds(5));
  }
  std::string Warnings() {
    std::string all;
    for (const v1::JobEvent& event : cluster_.Events("rl")) {
      if (event.type() == "warning") absl::StrAppend(&all, event.message(), "\n");
    }
    return all;
  }
  absl::Status Drain(const std::string& id) {
    auto stub = v1::ClusterService::NewStub(
        grpc::CreateChannel(cluster_.address(), grpc::InsecureChannelCredentials()));
    v1::DrainWorkerRequest request;
    request.set_worker_id(id);
    grpc::ClientContext context;
    v1::Worker worker;
    return FromGrpc(stub->DrainWorker(&context, request, &worker));
  }

  /// Runs the job with a worker that crashes at its `nth` task of the method. As with a supervisor
  /// it comes back under the same name, with the same fault. Returns how often.
  int CrashesOf(const std::string& role, const std::string& method, int nth) {
    cluster_.AddStandardWorkers();
    cluster_.KillWorker(role + "-0");
    std::atomic<int> crashes{0};
    std::atomic<bool> down{true};
    const auto start = [&] {
      down = false;
      cluster_.AddWorker(role + "-9", role, [&](fake::FakeWorkerOptions& options) {
        options.faults = {{Fault::Kind::kCrash, method, nth}};
        options.on_crash = [&] {
          ++crashes;
          down = true;
        };
      });
    };
    start();
    Create();
    const auto ended = [&] {
      if (down) {
        cluster_.KillWorker(role + "-9");
        start();
      }
      return cluster_.Get("rl").state() == Job::STATE_SUCCEEDED;
    };
    EXPECT_TRUE(WaitFor(ended, absl::Seconds(20))) << cluster_.Why("rl");
    ExpectTheSameEnd();
    cluster_.KillWorker(role + "-9");  // it refers to what ends here
    return crashes;
  }

  TestCluster cluster_{absl::Seconds(2), ShortDeadlines};
};

TEST_F(SilenceTest, ADrainedRolloutGivesItsWorkToTheOther) {
  cluster_.AddWorker("actor-0", "actor");
  cluster_.AddWorker("rollout-0", "rollout", SlowTokens);
  cluster_.AddWorker("rollout-1", "rollout", SlowTokens);
  cluster_.AddWorker("reward-0", "reward");
  Create();
  ASSERT_TRUE(cluster_.WaitForStep("rl", 2)) << cluster_.Why("rl");
  ASSERT_TRUE(Drain("rollout-0").ok());
  const int before = cluster_.worker("rollout-0").tasks("generate");
  ExpectTheSameEnd();
  EXPECT_EQ(cluster_.worker("rollout-0").tasks("generate"), before);
  EXPECT_THAT(Warnings(), HasSubstr("lost rollout worker rollout-0: it is drained"));
}

TEST_F(SilenceTest, ADrainedActorIsReplacedFromTheCheckpoint) {
  cluster_.AddWorker("actor-0", "actor");
  cluster_.AddWorker("rollout-0", "rollout", SlowTokens);
  cluster_.AddWorker("rollout-1", "rollout", SlowTokens);
  cluster_.AddWorker("reward-0", "reward");
  Create();
  ASSERT_TRUE(cluster_.WaitForStep("rl", 3)) << cluster_.Why("rl");
  ASSERT_TRUE(Drain("actor-0").ok());
  EXPECT_TRUE(WaitForWhy("1 actor worker to attach or to become free")) << cluster_.Why("rl");
  cluster_.AddWorker("actor-1", "actor");
  ExpectTheSameEnd();
}

TEST_F(SilenceTest, ADrainedWorkerIsNotNeededToEnd) {
  cluster_.AddStandardWorkers();
  Create();
  ASSERT_TRUE(cluster_.WaitForStep("rl", 1)) << cluster_.Why("rl");
  ASSERT_TRUE(Drain("reward-0").ok());
  cluster_.AddWorker("reward-1", "reward");
  ExpectTheSameEnd();
  EXPECT_EQ(Drain("nobody").code(), absl::StatusCode::kNotFound);
}

TEST_F(SilenceTest, OneResponseHangsAndMoves) {
  cluster_.AddStandardWorkers();
  cluster_.KillWorker("rollout-0");
  cluster_.AddWorker("rollout-2", "rollout", With(Fault::Kind::kHang, "generate", 11, 11));
  Create();
  EXPECT_TRUE(WaitForWhy("on worker rollout-2, which has")) << cluster_.Why("rl");
  ExpectTheSameEnd();
  EXPECT_THAT(Warnings(),
              HasSubstr("made no progress on worker rollout-2 for 250ms; it is tried again"));
}

TEST_F(SilenceTest, ARolloutThatNeverAnswersDoesNotStopTheOthers) {
  cluster_.AddWorker("actor-0", "actor");
  cluster_.AddWorker("rollout-0", "rollout", With(Fault::Kind::kHang, "generate", 1, 1000));
  cluster_.AddWorker("rollout-1", "rollout");
  cluster_.AddWorker("reward-0", "reward");
  v1::JobSpec spec = cluster_.RlSpec(1);
  ASSERT_TRUE(cluster_.Create(spec, "rl").ok());
  ASSERT_TRUE(cluster_.WaitForState("rl", Job::STATE_SUCCEEDED, absl::Seconds(10)))
      << cluster_.Why("rl");
  EXPECT_THAT(Warnings(), HasSubstr("on worker rollout-0 for 250ms; it is tried again"));
}

TEST_F(SilenceTest, AScoreThatHangsIsAskedForAgain) {
  cluster_.AddWorker("actor-0", "actor");
  cluster_.AddWorker("rollout-0", "rollout");
  cluster_.AddWorker("rollout-1", "rollout");
  cluster_.AddWorker("reward-0", "reward", With(Fault::Kind::kHang, "compute_reward", 20, 20));
  Create();
  EXPECT_TRUE(WaitForWhy("on worker reward-0, which has no score yet")) << cluster_.Why("rl");
  ExpectTheSameEnd();
}

TEST_F(SilenceTest, AnUpdateThatHangsIsRedoneByAnotherActor) {
  cluster_.AddStandardWorkers();
  cluster_.KillWorker("actor-0");
  cluster_.AddWorker("actor-1", "actor", With(Fault::Kind::kHang, "update", 4, 4));
  Create();
  EXPECT_TRUE(WaitForWhy("worker actor-1 to finish update")) << cluster_.Why("rl");
  cluster_.AddWorker("actor-2", "actor");
  ExpectTheSameEnd();
  EXPECT_THAT(Warnings(), HasSubstr("lost actor worker actor-1: no answer to update within 250ms"));
}

TEST_F(SilenceTest, AnUpdateThatHangsIsRedoneByTheSameActorWhenItIsTheOnlyOne) {
  cluster_.AddStandardWorkers();
  cluster_.KillWorker("actor-0");
  cluster_.AddWorker("actor-1", "actor", With(Fault::Kind::kHang, "update", 4, 4));
  Create();
  ExpectTheSameEnd();
}

TEST_F(SilenceTest, ARoleThatIsNeverTakenOnGoesToAnother) {
  cluster_.AddStandardWorkers();
  cluster_.KillWorker("rollout-0");
  cluster_.AddWorker("rollout-00", "rollout", With(Fault::Kind::kHang, "assign_role", 1, 1));
  Create();
  EXPECT_TRUE(WaitForWhy("worker rollout-00 to take on the role")) << cluster_.Why("rl");
  ExpectTheSameEnd();
}

TEST_F(SilenceTest, WeightsThatAreNeverLoadedAreLoadedAgain) {
  cluster_.AddStandardWorkers();
  cluster_.KillWorker("rollout-0");
  cluster_.AddWorker("rollout-00", "rollout", With(Fault::Kind::kHang, "load_weights", 3, 3));
  Create();
  EXPECT_TRUE(WaitForWhy("worker rollout-00 to load policy version")) << cluster_.Why("rl");
  ExpectTheSameEnd();
}

TEST_F(SilenceTest, AHungPublishAndAHungCheckpoint) {
  cluster_.AddStandardWorkers();
  cluster_.KillWorker("actor-0");
  cluster_.AddWorker("actor-1", "actor", [](fake::FakeWorkerOptions& options) {
    options.faults = {{Fault::Kind::kHang, "publish", 3},
                      {Fault::Kind::kHang, "save_checkpoint", 2}};
  });
  Create();
  ExpectTheSameEnd();
  const std::string warnings = Warnings();
  EXPECT_THAT(warnings, HasSubstr("no answer to publish within 250ms"));
  EXPECT_THAT(warnings, HasSubstr("no answer to save_checkpoint within 250ms"));
}

TEST_F(SilenceTest, ARolloutThatCrashesAgainAndAgainIsReplacedEachTime) {
  EXPECT_GE(CrashesOf("rollout", "generate", 20), 2);
}

TEST_F(SilenceTest, AnActorThatCrashesAgainAndAgainIsReplacedEachTime) {
  EXPECT_GE(CrashesOf("actor", "update", 4), 1);
}

TEST(FullStoreTest, DeadlinesStandStillWhileNothingCanBeWritten) {
  store::MemoryStore* store = nullptr;
  TestCluster cluster(absl::Seconds(2), [&](controller::ControllerOptions& options) {
    ShortDeadlines(options);
    auto memory = std::make_unique<store::MemoryStore>();
    store = memory.get();
    options.store = std::move(memory);
  });
  cluster.AddWorker("actor-0", "actor");
  cluster.AddWorker("rollout-0", "rollout", SlowTokens);
  cluster.AddWorker("rollout-1", "rollout", SlowTokens);
  cluster.AddWorker("reward-0", "reward");
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(kSteps), "rl").ok());
  ASSERT_TRUE(cluster.WaitForStep("rl", 2)) << cluster.Why("rl");
  store->FailWith(absl::ResourceExhaustedError("database or disk is full"));
  const absl::Time full = absl::Now();
  EXPECT_TRUE(WaitFor(
      [&] { return cluster.Why("rl").find("database or disk is full") != std::string::npos; }));
  ASSERT_TRUE(WaitFor([&] { return absl::Now() > full + 4 * kStall; }));  // deadlines would pass
  store->FailWith(absl::OkStatus());
  ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster.Why("rl");
  EXPECT_EQ(WeightsHash(cluster.FinalWeights("rl")), UndisturbedHash());
  for (const v1::JobEvent& event : cluster.Events("rl")) {
    EXPECT_NE(event.type(), "warning") << event.message();
  }
}

}  // namespace
}  // namespace baton::testing
