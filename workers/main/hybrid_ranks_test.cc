// Two ranks train one policy; each generates with all of it, or with its copy.
#include <filesystem>
#include <set>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/workers/hybrid_worker.h"
#include "tests/support/workers/test_relay.h"
#include "workers/ranks/ranks.h"

namespace baton {
namespace {

using testing::ExpectSameResponses;
using testing::HybridWorker;
using testing::Place;

std::string Reason(const v1::TaskResult& result) { return ErrorReason(FromProto(result.status())); }

class HybridRanksTest : public ::testing::Test {
 protected:
  HybridRanksTest() : store_(ranks::GroupStore::Start("127.0.0.1").value()), alone_(relay_.get()) {}

  void Start(int tp, int dp, int generation_tp = 1) {
    workers_.clear();
    for (int rank = 0; rank < tp * dp; ++rank) {
      workers_.push_back(std::make_unique<HybridWorker>(
          relay_.get(), Place{rank, tp, dp, store_->address(), generation_tp}));
    }
  }
  /// On every rank at once, as the group's commands are.
  std::vector<v1::TaskResult> Each(
      const std::function<v1::TaskResult(HybridWorker& worker)>& call) {
    std::vector<v1::TaskResult> results(workers_.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < workers_.size(); ++i) {
      threads.emplace_back([&, i] { results[i] = call(*workers_[i]); });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }
  void Do(const std::function<v1::TaskResult(HybridWorker& worker)>& call) {
    for (const v1::TaskResult& result : Each(call)) {
      ASSERT_EQ(result.status().code(), 0) << result.status().message();
    }
  }
  void Begin() {
    Do([](HybridWorker& worker) { return worker.Assign("rollout"); });
    Do([](HybridWorker& worker) { return worker.Assign("actor"); });
    Do([](HybridWorker& worker) { return worker.ToGeneration(0); });
  }

  TestFolder folder_;
  policy::TestRelay relay_;
  std::unique_ptr<ranks::GroupStore> store_;
  HybridWorker alone_;
  std::vector<std::unique_ptr<HybridWorker>> workers_;
};

TEST_F(HybridRanksTest, EachRankGeneratesAsOneProcess) {
  for (const auto& [tp, dp] : {std::pair{2, 1}, {1, 2}}) {
    SCOPED_TRACE(tp);
    ASSERT_EQ(alone_.Assign("actor").status().code(), 0);
    ASSERT_EQ(alone_.Assign("rollout").status().code(), 0);
    ASSERT_EQ(alone_.ToGeneration(0).status().code(), 0);
    Start(tp, dp);
    Begin();
    for (int64_t step = 0; step <= 2; ++step) {
      const auto version = static_cast<uint64_t>(step);
      if (step > 0) {
        Do([&](HybridWorker& worker) { return worker.Update(step); });
        ASSERT_EQ(alone_.Update(step).status().code(), 0);
        Do([&](HybridWorker& worker) { return worker.ToGeneration(version); });
        ASSERT_EQ(alone_.ToGeneration(version).status().code(), 0);
      }
      const auto expected = alone_.Generate(version);
      std::vector<std::vector<v1::TaskResult>> responses(2);
      Each([&](HybridWorker& worker) {
        responses[&worker == workers_[1].get()] = worker.Generate(version);
        return v1::TaskResult();
      });
      ExpectSameResponses(responses[0], expected, /*bits=*/false);
      ExpectSameResponses(responses[1], responses[0], /*bits=*/dp == 2);
      const std::vector<float> score = alone_.LogProbs();
      for (int rank = 0; rank < 2; rank += tp) {  // the first of each copy of the model
        const std::vector<float> given = workers_[rank]->LogProbs();
        ASSERT_EQ(given.size(), 2u);
        for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(given[i], score[i], 1e-4);
      }
    }
    Do([&](HybridWorker& worker) { return worker.Save(2, folder_.path("saved")); });
    Do([&](HybridWorker& worker) { return worker.Publish(2); });
    Each([](HybridWorker& worker) {
      worker.Generate(2);
      return v1::TaskResult();
    });
    // Formed anew while it generates, from what was saved.
    const auto reassign = [&](HybridWorker& worker) {
      v1::Task task = worker.MakeAssign("actor");
      task.mutable_assign_role()->set_checkpoint(folder_.path("saved"));
      task.mutable_assign_role()->set_step(2);
      task.mutable_assign_role()->set_policy_version(3);
      return worker.Run(task);
    };
    const auto before = workers_[1]->Generate(2);
    Do(reassign);
    Do([](HybridWorker& worker) { return worker.ToGeneration(3); });
    ExpectSameResponses(workers_[1]->Generate(3), before, /*bits=*/true);
    workers_.clear();
    std::filesystem::remove_all(folder_.path("saved"));
  }
}

TEST_F(HybridRanksTest, ReportsALostNeighbour) {
  Start(2, 1);
  Begin();
  Do([](HybridWorker& worker) { return worker.Update(1); });
  ASSERT_EQ(workers_[1]->Release("actor").status().code(), 0);
  const v1::TaskResult result = workers_[0]->ToGeneration(1);
  EXPECT_TRUE(absl::IsUnavailable(FromProto(result.status())) ||
              absl::IsDeadlineExceeded(FromProto(result.status())))
      << result.status().message();
  EXPECT_EQ(Reason(workers_[0]->Run(workers_[0]->MakeGenerate(1))), "WRONG_VERSION");
  Do([](HybridWorker& worker) { return worker.Assign("actor"); });
  Do([](HybridWorker& worker) { return worker.ToGeneration(0); });
  workers_[0]->Generate(0);
}

// tp 2 dp 2 that generates with 2: ranks 0 and 2 lead a replica each.
TEST_F(HybridRanksTest, ReplicasOfTwoRanksGenerateAsOneProcess) {
  ASSERT_EQ(alone_.Assign("actor").status().code(), 0);
  ASSERT_EQ(alone_.Assign("rollout").status().code(), 0);
  Start(2, 2, 2);
  Begin();
  ASSERT_EQ(alone_.ToGeneration(0).status().code(), 0);
  for (int64_t step = 0; step <= 2; ++step) {
    const auto version = static_cast<uint64_t>(step);
    if (step > 0) {
      Do([&](HybridWorker& worker) { return worker.Update(step); });
      ASSERT_EQ(alone_.Update(step).status().code(), 0);
      Do([&](HybridWorker& worker) { return worker.ToGeneration(version); });
      Do([&](HybridWorker& worker) { return worker.ToGeneration(version); });
      ASSERT_EQ(alone_.ToGeneration(version).status().code(), 0);
    }
    const auto expected = alone_.Generate(version);
    for (const int leader : {0, 2}) {
      ExpectSameResponses(workers_[leader]->Generate(version), expected, /*bits=*/false);
    }
    // The generator attached anew forgets its prompts on both ranks.
    ASSERT_EQ(workers_[0]->Assign("rollout").status().code(), 0);
    ExpectSameResponses(workers_[0]->Generate(version), expected, /*bits=*/false);
    EXPECT_EQ(Reason(workers_[1]->Run(workers_[1]->MakeGenerate(version))), "WRONG_VERSION");
  }
  Do([&](HybridWorker& worker) { return worker.Save(2, folder_.path("saved")); });
  Do([](HybridWorker& worker) { return worker.Assign("actor"); });
  Do([](HybridWorker& worker) { return worker.ToGeneration(0); });
  workers_[2]->Generate(0);
}

TEST_F(HybridRanksTest, AllRanksOfAReplicaStopTogether) {
  Start(2, 1, 2);
  for (const auto& worker : workers_) worker->spec().mutable_rollout()->set_max_num_seqs(1);
  Begin();
  const auto ended = [&](const std::vector<v1::Task>& tasks) {
    std::set<int> codes;
    for (const v1::Task& task : tasks) {
      const auto result = workers_[0]->controller().WaitForResult(task.task_token());
      codes.insert(result.has_value() ? result->status().code() : -1);
    }
    return codes;
  };
  const auto code = [](absl::StatusCode code) { return static_cast<int>(code); };
  std::vector<v1::Task> tasks = workers_[0]->StartMany(0);
  Do([](HybridWorker& worker) { return worker.Update(1); });
  EXPECT_THAT(ended(tasks), ::testing::ElementsAre(0, code(absl::StatusCode::kCancelled)));
  Do([](HybridWorker& worker) { return worker.ToGeneration(1); });
  workers_[0]->Generate(1);
  Do([](HybridWorker& worker) { return worker.Assign("actor"); });
  Do([](HybridWorker& worker) { return worker.ToGeneration(0); });
  tasks = workers_[0]->StartMany(0);
  Do([](HybridWorker& worker) { return worker.Assign("actor"); });
  EXPECT_THAT(ended(tasks), ::testing::ElementsAre(0, code(absl::StatusCode::kUnavailable)));
  Do([](HybridWorker& worker) { return worker.ToGeneration(0); });
  workers_[0]->Generate(0);
}

TEST_F(HybridRanksTest, ReportsALostRankOfAReplica) {
  Start(2, 1, 2);
  Begin();
  const auto before = workers_[0]->Generate(0);
  ASSERT_EQ(workers_[1]->Release("actor").status().code(), 0);
  const v1::TaskResult result = workers_[0]->Run(workers_[0]->MakeGenerate(0));
  EXPECT_TRUE(absl::IsUnavailable(FromProto(result.status())) ||
              absl::IsDeadlineExceeded(FromProto(result.status())))
      << result.status().message();
  const v1::TaskResult update = workers_[0]->Update(1);
  EXPECT_TRUE(absl::IsUnavailable(FromProto(update.status())) ||
              absl::IsDeadlineExceeded(FromProto(update.status())))
      << update.status().message();
  Do([](HybridWorker& worker) { return worker.Assign("actor"); });
  Do([](HybridWorker& worker) { return worker.ToGeneration(0); });
  ExpectSameResponses(workers_[0]->Generate(0), before, /*bits=*/true);
  // The leader goes: its follower is told.
  ASSERT_EQ(workers_[0]->Release("actor").status().code(), 0);
  ASSERT_EQ(workers_[1]->Release("actor").status().code(), 0);
}

}  // namespace
}  // namespace baton
