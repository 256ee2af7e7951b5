// Every role that scores, on ranks that hold its model together, against one process: each rank a
// worker with a controller of its own, as threads of this process over real sockets.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/workers/role.h"
#include "tests/support/workers/test_relay.h"
#include "workers/ranks/ranks.h"
#include "workers/scoring/reference_role.h"
#include "workers/scoring/reward_model_role.h"
#include "workers/trainer/actor_role.h"
#include "workers/trainer/critic_role.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using Numbers = std::vector<std::vector<float>>;

constexpr char kHost[] = "127.0.0.1";

bool IsLoss(const v1::TaskResult& result) {
  const absl::Status status = FromProto(result.status());
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

/// A role of some kind, registered with a worker.
class Role {
 public:
  virtual ~Role() = default;
};

template <typename T>
class RoleOf : public Role {
 public:
  template <typename... Args>
  explicit RoleOf(Worker& worker, Args&&... args) : role_(std::forward<Args>(args)...) {
    EXPECT_TRUE(role_.Register(worker).ok());
  }

 private:
  T role_;
};

/// An actor, with what it has beside it in a worker.
struct Actor {
  absl::Status Register(Worker& worker) { return role.Register(worker); }

  policy::TestRelay relay;
  hybrid::SharedPolicy shared;
  trainer::ActorRole role{{"cpu", kHost}, relay.get(), &shared};
};

std::unique_ptr<Role> MakeRole(const std::string& name, Worker& worker) {
  const ranks::ModelRoleOptions options = {"cpu", kHost};
  if (name == "reference") return std::make_unique<RoleOf<scoring::ReferenceRole>>(worker, options);
  if (name == "actor") return std::make_unique<RoleOf<Actor>>(worker);
  if (name == "reward_model" || name == "cost") {
    return std::make_unique<RoleOf<scoring::RewardModelRole>>(worker, name, options);
  }
  return std::make_unique<RoleOf<trainer::CriticRole>>(worker, name, options);
}

/// One worker that plays one role, as one of tp x dp ranks.
struct RankWorker {
  RankWorker(const std::string& name, int rank_, int tp_, int dp_, const std::string& store_)
      : rank(rank_), tp(tp_), dp(dp_), store(store_), worker(controller), driver(controller, name) {
    role = MakeRole(name, *worker.operator->());
    worker.Start();
    EXPECT_TRUE(controller.WaitForHello(1).has_value());
    controller.SetBatch("values", ranks::WithReturns(ranks::TinyTrajectories(12)));
    std::vector<v1::Trajectory> texts;
    for (const auto& [prompt, response] :
         {std::pair{"1+2=", "3"}, {"2+2=", "4"}, {"4+5=", "9"}, {"7+0=", "7"}}) {
      texts.emplace_back().set_prompt_text(prompt);
      texts.back().set_response_text(response);
    }
    controller.SetBatch("sft", texts);
  }
  bool leads() const { return rank % tp == 0; }

  v1::TaskResult Assign(const v1::JobSpec& spec, const std::string& checkpoint = "",
                        int64_t step = 0) {
    v1::Task task = driver.Make("assign_role");
    v1::AssignRole* assign = task.mutable_assign_role();
    *assign->mutable_spec() = spec;
    assign->set_checkpoint(checkpoint);
    assign->set_step(step);
    assign->set_policy_version(static_cast<uint64_t>(step));
    if (tp * dp > 1) {
      assign->set_rank(rank);
      assign->set_world_size(tp * dp);
      assign->mutable_rendezvous()->set_store(store);
      assign->mutable_rendezvous()->set_name("role");
      assign->mutable_rendezvous()->set_tp(tp);
      assign->mutable_rendezvous()->set_dp(dp);
      task.mutable_order()->set_pool("role");
      task.mutable_order()->set_group_epoch(++group_epoch);
      task.mutable_order()->set_sequence(sequence = 1);
    }
    return driver.Run(task);
  }
  v1::Task Command(const std::string& method) {
    v1::Task task = driver.Make(method);
    if (tp * dp > 1) {
      task.mutable_order()->set_pool("role");
      task.mutable_order()->set_group_epoch(group_epoch);
      task.mutable_order()->set_sequence(++sequence);
    }
    return task;
  }
  v1::Task MakeUpdate(int64_t step, const std::string& batch, const std::string& loss) {
    v1::Task task = Command("update");
    task.mutable_update()->set_step(step);
    task.mutable_update()->set_from_step(step - 1);
    task.mutable_update()->set_batch_id(batch);
    task.mutable_update()->set_loss(loss);
    task.mutable_update()->set_policy_version(static_cast<uint64_t>(step));
    return task;
  }
  v1::TaskResult Save(int64_t step, const std::string& directory) {
    v1::Task task = Command("save_checkpoint");
    task.mutable_save_checkpoint()->set_step(step);
    task.mutable_save_checkpoint()->set_directory(directory);
    return driver.Run(task);
  }
  /// The column of every trajectory, or its one number; all are asked at once.
  Numbers Score(const std::string& method, const std::vector<v1::Trajectory>& trajectories) {
    Numbers scores;
    for (const auto& result : driver.ScoreAll(method, trajectories)) {
      scores.emplace_back();
      for (const auto& number : result.metrics()) {
        scores.back().push_back(static_cast<float>(number.second));
      }
      if (result.columns_size() > 0) scores.back() = ranks::Floats(result.columns(0));
    }
    return scores;
  }

  const int rank, tp, dp;
  const std::string store;
  FakeController controller;
  std::unique_ptr<Role> role;  ///< Outlives the worker's Run.
  RunningWorker worker;
  ranks::RoleDriver driver;
  uint64_t group_epoch = 0, sequence = 0;
};

class ScoringRanksTest : public ::testing::Test {
 protected:
  ScoringRanksTest() { spec_.mutable_critic()->mutable_train()->set_lr(1e-2); }

  void Start(const std::string& role, int tp, int dp) {
    workers_.clear();
    store_ = ranks::GroupStore::Start(kHost).value();  // group epochs begin anew
    for (int rank = 0; rank < tp * dp; ++rank) {
      workers_.push_back(std::make_unique<RankWorker>(role, rank, tp, dp, store_->address()));
    }
    alone_ = std::make_unique<RankWorker>(role, 0, 1, 1, "");
  }
  std::vector<v1::TaskResult> OnAll(const std::function<v1::TaskResult(RankWorker&)>& call) {
    std::vector<v1::TaskResult> results(workers_.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < workers_.size(); ++i) {
      threads.emplace_back([&, i] { results[i] = call(*workers_[i]); });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }
  /// On all ranks, and on the one that is alone.
  void Do(const std::function<v1::TaskResult(RankWorker&)>& call) {
    std::vector<v1::TaskResult> results = OnAll(call);
    results.push_back(call(*alone_));
    for (const v1::TaskResult& result : results) {
      ASSERT_EQ(result.status().code(), 0) << result.status().message();
    }
  }
  /// All leaders of copies, asked at once, give the numbers of the process that is alone.
  Numbers ExpectSameScores(const std::string& method) {
    const auto trajectories = ranks::TinyTrajectories(24);
    const Numbers expected = alone_->Score(method, trajectories);
    OnAll([&](RankWorker& worker) {
      if (!worker.leads()) return v1::TaskResult();
      const Numbers scores = worker.Score(method, trajectories);
      EXPECT_EQ(scores.size(), expected.size());
      for (size_t i = 0; i < std::min(scores.size(), expected.size()); ++i) {
        EXPECT_THAT(scores[i], ::testing::Pointwise(::testing::FloatNear(1e-5f), expected[i]));
      }
      return v1::TaskResult();
    });
    return expected;
  }
  /// A model scores different texts differently.
  static void ExpectDifferent(const Numbers& scores) {
    EXPECT_GT(std::set<std::vector<float>>(scores.begin(), scores.end()).size(), 15u);
  }

  TestFolder folder_;
  v1::JobSpec spec_ = policy::TinySpec();
  std::unique_ptr<ranks::GroupStore> store_;
  std::unique_ptr<RankWorker> alone_;
  std::vector<std::unique_ptr<RankWorker>> workers_;
};

struct Layout {
  int tp, dp;
};
constexpr Layout kLayouts[] = {{2, 1}, {2, 2}};

TEST_F(ScoringRanksTest, AReferenceSaysWhatOneProcessSays) {
  for (const auto& [tp, dp] : kLayouts) {
    Start("reference", tp, dp);
    Do([&](RankWorker& worker) { return worker.Assign(spec_); });
    ExpectDifferent(ExpectSameScores("compute_log_prob"));
    const v1::TaskResult wrong = workers_[1]->driver.Run(
        workers_[1]->driver.MakeScore("compute_log_prob", ranks::TinyTrajectories(1)[0]));
    EXPECT_TRUE(absl::IsFailedPrecondition(FromProto(wrong.status())));
    Do([&](RankWorker& worker) { return worker.Assign(spec_); });
    ExpectSameScores("compute_log_prob");
  }
}

TEST_F(ScoringRanksTest, RewardModelsSayWhatOneProcessSays) {
  ranks::WriteRewardModel(spec_.model(), folder_.path("m"));
  spec_.mutable_reward_model()->mutable_model()->set_path(folder_.path("m"));
  spec_.mutable_cost_model()->mutable_model()->set_path(folder_.path("m"));
  for (const auto& [tp, dp] : kLayouts) {
    for (const char* role : {"reward_model", "cost"}) {
      Start(role, tp, dp);
      Do([&](RankWorker& worker) { return worker.Assign(spec_); });
      ExpectDifferent(ExpectSameScores("compute_reward"));
    }
  }
}

TEST_F(ScoringRanksTest, ACriticValuesAndLearnsAsOneProcess) {
  for (const auto& [tp, dp] : kLayouts) {
    Start("critic", tp, dp);
    Do([&](RankWorker& worker) { return worker.Assign(spec_); });
    const Numbers zeros = ExpectSameScores("compute_values");
    for (int64_t step = 1; step <= 3; ++step) {
      Do([&](RankWorker& worker) {
        return worker.driver.Run(worker.MakeUpdate(step, "values", "value"));
      });
      ExpectSameScores("compute_values");
    }
    const std::string saved = folder_.path("saved"), own = folder_.path("own");
    std::filesystem::create_directories(saved);
    std::filesystem::create_directories(own);
    Do([&](RankWorker& worker) { return worker.Save(3, &worker == alone_.get() ? own : saved); });
    const Numbers learned = ExpectSameScores("compute_values");
    EXPECT_NE(learned, zeros);
    ExpectDifferent(learned);
    // One process and several ranks go on alike from the files that the ranks saved.
    Do([&](RankWorker& worker) { return worker.Assign(spec_, saved, 3); });
    ExpectSameScores("compute_values");
    Do([&](RankWorker& worker) {
      return worker.driver.Run(worker.MakeUpdate(4, "values", "value"));
    });
    ExpectSameScores("compute_values");
    workers_.clear();
    std::filesystem::remove_all(saved);
    std::filesystem::remove_all(own);
  }
}

// The rows that this rank asked for in its last update; nothing: it asked for everything.
std::vector<int> LastRows(const RankWorker& worker) {
  const auto fetches = worker.controller.fetches();
  if (fetches.empty()) return {-1};
  return {fetches.back().rows().begin(), fetches.back().rows().end()};
}

TEST_F(ScoringRanksTest, DataRanksFetchTheirShares) {
  Start("critic", 2, 2);
  Do([&](RankWorker& worker) { return worker.Assign(spec_); });
  Do([&](RankWorker& worker) {
    return worker.driver.Run(worker.MakeUpdate(1, "values", "value"));
  });
  ExpectSameScores("compute_values");
  std::vector<int> all;
  for (const auto& worker : workers_) {
    const auto fetches = worker->controller.fetches();
    ASSERT_EQ(fetches.size(), 2u);
    EXPECT_EQ(fetches[0].view(), v1::FetchBatchRequest::VIEW_HEADERS);
    EXPECT_EQ(fetches[0].rows_size(), 0);
    EXPECT_EQ(fetches[1].view(), v1::FetchBatchRequest::VIEW_UNSPECIFIED);
    EXPECT_EQ(LastRows(*worker),
              LastRows(*workers_[worker->leads() ? worker->rank : worker->rank - 1]))
        << "the ranks of a copy learn the same";
    const std::vector<int> rows = LastRows(*worker);
    if (worker->leads()) all.insert(all.end(), rows.begin(), rows.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_THAT(all, ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  ASSERT_EQ(alone_->controller.fetches().size(), 1u);
  EXPECT_EQ(alone_->controller.fetches()[0].view(), v1::FetchBatchRequest::VIEW_UNSPECIFIED);
}

// Two ranks, one trajectory: one of them has nothing to do.
TEST_F(ScoringRanksTest, AShareMayBeEmpty) {
  Start("critic", 1, 2);
  Do([&](RankWorker& worker) {
    worker.controller.SetBatch("one", ranks::WithReturns(ranks::TinyTrajectories(1)));
    return worker.Assign(spec_);
  });
  Do([&](RankWorker& worker) { return worker.driver.Run(worker.MakeUpdate(1, "one", "value")); });
  ExpectSameScores("compute_values");
  const size_t asked =
      workers_[0]->controller.fetches().size() + workers_[1]->controller.fetches().size();
  EXPECT_EQ(asked, 3u) << "headers twice, and one share";
}

TEST_F(ScoringRanksTest, ATrajectoryThatDoesNotFitItsHeaderIsRefused) {
  Start("critic", 1, 2);
  Do([&](RankWorker& worker) {
    std::vector<v1::Trajectory> batch = ranks::WithReturns(ranks::TinyTrajectories(4));
    for (v1::Trajectory& one :
         batch) {  // the header of one tells a token more than its columns have
      one.mutable_segments(1)->set_end(one.segments(1).end() + 1);
    }
    worker.controller.SetBatch("long", batch);
    return worker.Assign(spec_);
  });
  for (const v1::TaskResult& result : OnAll([](RankWorker& worker) {
         return worker.driver.Run(worker.MakeUpdate(1, "long", "value"));
       })) {
    EXPECT_EQ(FromProto(result.status()).code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(result.status().message(), HasSubstr("does not fit the header"));
  }
}

// Headers that differ from rank to rank: no rank learns from its share.
TEST_F(ScoringRanksTest, RanksThatWereToldDifferentHeadersRefuseTheBatch) {
  Start("critic", 1, 2);
  Do([&](RankWorker& worker) {
    const int count = &worker == workers_[1].get() ? 5 : 4;
    worker.controller.SetBatch("uneven", ranks::WithReturns(ranks::TinyTrajectories(count)));
    return worker.Assign(spec_);
  });
  for (const v1::TaskResult& result : OnAll([](RankWorker& worker) {
         return worker.driver.Run(worker.MakeUpdate(1, "uneven", "value"));
       })) {
    EXPECT_EQ(FromProto(result.status()).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(result.status().message(), HasSubstr("different batches"));
  }
}

TEST_F(ScoringRanksTest, AnActorScoresAndLearnsAsOneProcess) {
  for (const auto& [tp, dp] : kLayouts) {
    Start("actor", tp, dp);
    Do([&](RankWorker& worker) { return worker.Assign(spec_); });
    const Numbers before = ExpectSameScores("compute_log_prob");
    for (int64_t step = 1; step <= 2; ++step) {
      Do([&](RankWorker& worker) {
        return worker.driver.Run(worker.MakeUpdate(step, "sft", "sft"));
      });
      ExpectSameScores("compute_log_prob");
      Do([&](RankWorker& worker) {
        v1::Task task = worker.Command("publish");
        task.mutable_publish()->set_policy_version(static_cast<uint64_t>(step));
        return worker.driver.Run(task);
      });
    }
    Do([&](RankWorker& worker) {
      v1::Task task = worker.Command("evaluate");
      task.mutable_update()->set_batch_id("sft");
      return worker.driver.Run(task);
    });
    EXPECT_NE(ExpectSameScores("compute_log_prob"), before);
  }
}

// Rank 1 goes while rank 0 has much to score: what is open ends soon, and so does what comes.
TEST_F(ScoringRanksTest, FailsOpenTasksSoonAfterARankIsLost) {
  Start("reference", 2, 1);
  Do([&](RankWorker& worker) { return worker.Assign(spec_); });
  const auto trajectories = ranks::TinyTrajectories(200);
  RankWorker& first = *workers_[0];
  std::vector<v1::Task> tasks;
  for (const auto& trajectory : trajectories) {
    tasks.push_back(first.driver.MakeScore("compute_log_prob", trajectory));
  }
  const absl::Time since = absl::Now();
  for (const v1::Task& task : tasks) first.controller.SendTask(task);
  v1::Task release = workers_[1]->driver.Make("release_role");
  ASSERT_EQ(workers_[1]->driver.Run(release).status().code(), 0);
  for (const v1::Task& task : tasks) {
    const auto result = first.controller.WaitForResult(task.task_token());
    ASSERT_TRUE(result.has_value());
    EXPECT_TRUE(result->status().code() == 0 || IsLoss(*result)) << result->status().message();
  }
  EXPECT_TRUE(
      IsLoss(first.driver.Run(first.driver.MakeScore("compute_log_prob", trajectories[0]))));
  EXPECT_LT(absl::Now() - since, absl::Seconds(30)) << "the timeout is 60 s";
  Do([&](RankWorker& worker) { return worker.Assign(spec_); });
  ExpectSameScores("compute_log_prob");
}

// Rank 1 was told to update, rank 0 never is: the one waits until it is released, or cancelled.
TEST_F(ScoringRanksTest, ACommandThatWaitsForTheLeaderEnds) {
  Start("critic", 2, 1);
  Do([&](RankWorker& worker) { return worker.Assign(spec_); });
  const v1::Task cancelled = workers_[1]->MakeUpdate(1, "values", "value");
  workers_[1]->controller.SendTask(cancelled);
  v1::ControllerMessage cancel;
  cancel.mutable_cancel()->set_task_token(cancelled.task_token());
  workers_[1]->controller.Send(cancel);
  const auto gone = workers_[1]->controller.WaitForResult(cancelled.task_token());
  ASSERT_TRUE(gone.has_value());
  EXPECT_TRUE(absl::IsCancelled(FromProto(gone->status())));
  ExpectSameScores("compute_values");

  const v1::Task left = workers_[1]->MakeUpdate(1, "values", "value");
  workers_[1]->controller.SendTask(left);
  ASSERT_EQ(workers_[0]->driver.Run(workers_[0]->driver.Make("release_role")).status().code(), 0);
  const auto result = workers_[1]->controller.WaitForResult(left.task_token());
  ASSERT_TRUE(result.has_value());
  EXPECT_TRUE(IsLoss(*result)) << result->status().message();
  Do([&](RankWorker& worker) { return worker.Assign(spec_); });
  ExpectSameScores("compute_values");
}

// A model that one rank cannot load, or a rank that comes while the others are at work, hangs none.
TEST_F(ScoringRanksTest, AnAssignmentThatFailsOnOneRankIsMadeAnew) {
  Start("reference", 2, 2);
  v1::JobSpec missing = spec_;
  missing.mutable_reference()->mutable_model()->set_path("/no/such/model");
  const auto results =
      OnAll([&](RankWorker& worker) { return worker.Assign(worker.rank == 2 ? missing : spec_); });
  EXPECT_THAT(results[2].status().message(), HasSubstr("/no/such/model"));
  EXPECT_EQ(results[0].status().code(), 0) << results[0].status().message();
  Do([&](RankWorker& worker) { return worker.Assign(spec_); });
  ExpectSameScores("compute_log_prob");
}

}  // namespace
}  // namespace baton
