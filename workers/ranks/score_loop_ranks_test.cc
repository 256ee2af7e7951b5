// Ranks that score together, as threads of this process over real sockets.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/process/test_process.h"
#include "workers/parallel/rank_groups.h"
#include "workers/ranks/score_loop.h"

namespace baton::ranks {
namespace {

using engine::Communicator;
using parallel::GroupAddress;
using parallel::RankGroups;
using parallel::StoreServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Answer = absl::StatusOr<std::vector<float>>;

/// A group that counts what went over it.
class Counting : public Communicator {
 public:
  explicit Counting(std::unique_ptr<Communicator> group) : group_(std::move(group)) {}
  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  std::unique_ptr<engine::PendingCollective> StartAllReduce(torch::Tensor tensor,
                                                            engine::Reduction reduction) override {
    return group_->StartAllReduce(std::move(tensor), reduction);
  }
  void AllGather(torch::Tensor mine, torch::Tensor all) override {
    group_->AllGather(std::move(mine), std::move(all));
  }
  void Broadcast(torch::Tensor tensor, int root) override {
    group_->Broadcast(std::move(tensor), root);
    ++broadcasts_;
  }
  engine::CollectiveBytes bytes() const override { return group_->bytes(); }
  const std::atomic<int>& broadcasts() const { return broadcasts_; }

 private:
  const std::unique_ptr<Communicator> group_;
  std::atomic<int> broadcasts_{0};
};

constexpr int32_t kFailsOnRank0 = 66, kNeverEnds = 77;

/// One rank. Its model answers, of each sequence, its length and the sum of its first token over
/// the ranks; it fails on token 13, loses a rank on token 99, and with kNeverEnds rank 1 computes
/// for ever.
struct Rank {
  std::unique_ptr<RankGroups> groups;
  Counting* control = nullptr;  ///< The loop's, or else this rank's own.
  std::unique_ptr<Counting> owned;
  std::unique_ptr<ScoreLoop> loop;
  absl::Mutex mu;
  std::vector<std::string> log;  ///< Lists what it computed and ran.

  void Log(const std::string& what) {
    absl::MutexLock lock(&mu);
    log.push_back(what);
  }
  absl::StatusOr<std::vector<std::vector<float>>> Score(
      absl::Span<const engine::TrainSequence> batch) {
    std::string line = "score";
    bool bad = false;
    std::vector<std::vector<float>> out;
    const torch::Tensor sums = torch::zeros({static_cast<int64_t>(batch.size())});
    for (size_t i = 0; i < batch.size(); ++i) {
      const engine::TrainSequence& s = batch[i];
      absl::StrAppend(&line, " ", s.tokens[0], "x", s.tokens.size(), "/", s.prompt_length);
      bad = bad || s.tokens[0] == 13;
      if (s.tokens[0] == 99) {
        Log(line);
        return absl::UnavailableError("a rank is gone, says the model");
      }
      sums[static_cast<int64_t>(i)] = s.tokens[0];
    }
    Log(line);
    if (bad) return absl::InvalidArgumentError("thirteen");
    if (batch[0].tokens[0] == kFailsOnRank0 && groups->address().rank == 0) {
      return absl::InternalError("no memory");
    }
    while (batch[0].tokens[0] == kNeverEnds && groups->address().rank == 1) pause();
    try {
      groups->tensor_group()->AllReduce(sums);
    } catch (const engine::CollectiveError& error) {
      return error.status();
    }
    for (size_t i = 0; i < batch.size(); ++i) {
      out.push_back({static_cast<float>(batch[i].tokens.size()),
                     sums[static_cast<int64_t>(i)].item<float>()});
    }
    return out;
  }
  void Join(const GroupAddress& address) {
    groups = RankGroups::Join(address).value();
    std::vector<int> all(static_cast<size_t>(address.tp));
    std::iota(all.begin(), all.end(), 0);
    owned = std::make_unique<Counting>(groups->NewGroup("scores 0", all).value());
    control = owned.get();
  }
  void Start(int64_t budget = 12) {
    loop->Start(budget,
                [this](absl::Span<const engine::TrainSequence> batch) { return Score(batch); });
  }
  absl::Status RunAlone(uint64_t order, const std::function<absl::Status()>& work = nullptr) {
    return loop->RunAlone(
        [this, order, work] {
          Log(absl::StrCat("alone ", order));
          return work ? work() : absl::OkStatus();
        },
        order);
  }
};

engine::TrainSequence Sequence(int length, int32_t token) {
  engine::TrainSequence s;
  s.tokens.assign(static_cast<size_t>(length), token);
  s.prompt_length = 1 + length / 3;
  return s;
}

class ScoreLoopRanksTest : public ::testing::Test {
 protected:
  ScoreLoopRanksTest() : store_(StoreServer::Start("127.0.0.1").value()) {}
  ~ScoreLoopRanksTest() override { EndAll(); }

  /// Ranks with control groups and, unless `loops` is false, loops.
  void Join(int size, absl::Duration timeout = absl::Seconds(60),
            const ScoreLoop::Options& options = {absl::Milliseconds(50), absl::Seconds(60)},
            bool loops = true) {
    EndAll();
    ++group_epoch_;
    ranks_.clear();
    for (int i = 0; i < size; ++i) ranks_.push_back(std::make_unique<Rank>());
    OnAll([&](Rank& rank, int i) {
      rank.Join(Address(group_epoch_, i, size, timeout));
      if (loops) rank.loop = std::make_unique<ScoreLoop>(std::move(rank.owned), options);
    });
  }
  GroupAddress Address(uint64_t group_epoch, int rank, int size, absl::Duration timeout) const {
    GroupAddress address;
    address.store = store_->address();
    address.group_epoch = group_epoch;
    address.rank = rank;
    address.tp = size;
    address.timeout = timeout;
    return address;
  }
  void OnAll(const std::function<void(Rank& rank, int i)>& call) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      threads.emplace_back([&, i] { call(*ranks_[i], static_cast<int>(i)); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  void EndAll() {
    OnAll([](Rank& rank, int) { rank.loop.reset(); });
  }
  Answer Ask(int length, int32_t token) {
    absl::Notification answered;
    Answer answer;
    ranks_[0]->loop->Add({Sequence(length, token), nullptr, [&](Answer given) {
                            answer = std::move(given);
                            answered.Notify();
                          }});
    answered.WaitForNotification();
    return answer;
  }
  /// Until the leader answers with a loss.
  void WaitForBroken() {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (!absl::IsUnavailable(ranks_[0]->RunAlone(7))) ASSERT_LT(absl::Now(), deadline);
  }
  static void WaitForBroadcasts(const Rank& rank, int more) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    const int wanted = rank.control->broadcasts() + more;
    while (rank.control->broadcasts() < wanted) {
      ASSERT_LT(absl::Now(), deadline);
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  std::unique_ptr<StoreServer> store_;
  uint64_t group_epoch_ = 0;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

TEST_F(ScoreLoopRanksTest, AllComputeInOneOrder) {
  constexpr int kRequests = 60, kProducers = 3, kCommands = 20;
  Join(3);
  for (auto& rank : ranks_) rank->Start();
  std::vector<Answer> answers(kRequests * kProducers);
  absl::BlockingCounter left(kRequests * kProducers);
  std::vector<std::thread> threads;
  const auto pause = [](std::mt19937& random) {
    for (auto turns = random() % 100; turns > 0; --turns) std::this_thread::yield();
  };
  for (int p = 0; p < kProducers; ++p) {
    threads.emplace_back([&, p] {
      std::mt19937 random(static_cast<uint32_t>(p));
      for (int i = p * kRequests; i < (p + 1) * kRequests; ++i) {
        const int token = i % 10 == 7 ? 13 : 100 + i;
        ranks_[0]->loop->Add({Sequence(1 + i % 7, token), nullptr, [&, i](Answer answer) {
                                answers[static_cast<size_t>(i)] = std::move(answer);
                                left.DecrementCount();
                              }});
        pause(random);
      }
    });
  }
  OnAll([&](Rank& rank, int r) {
    std::mt19937 random(static_cast<uint32_t>(100 + r));
    for (uint64_t order = 1; order <= kCommands; ++order) {
      pause(random);
      const absl::Status status = rank.RunAlone(order, [&] {
        const torch::Tensor ones = torch::ones({1});
        rank.groups->tensor_group()->AllReduce(ones);
        EXPECT_EQ(ones.item<float>(), 3);
        return order == 5 ? absl::InvalidArgumentError("five") : absl::OkStatus();
      });
      EXPECT_EQ(status.ok(), order != 5) << status;
    }
  });
  for (std::thread& thread : threads) thread.join();
  left.Wait();
  for (int i = 0; i < kRequests * kProducers; ++i) {
    const Answer& answer = answers[static_cast<size_t>(i)];
    if (i % 10 == 7) {
      EXPECT_TRUE(absl::IsInvalidArgument(answer.status())) << i;
    } else {
      ASSERT_TRUE(answer.ok()) << i << answer.status();
      EXPECT_THAT(*answer, ElementsAre(1 + i % 7, 3 * (100 + i)));
    }
  }
  EndAll();
  EXPECT_EQ(std::count_if(ranks_[0]->log.begin(), ranks_[0]->log.end(),
                          [](const std::string& line) { return line[0] == 'a'; }),
            kCommands);
  EXPECT_EQ(ranks_[1]->log, ranks_[0]->log);
  EXPECT_EQ(ranks_[2]->log, ranks_[0]->log);
}

TEST_F(ScoreLoopRanksTest, ABadSequenceFailsAloneOnAll) {
  Join(2);
  for (auto& rank : ranks_) rank->Start(100);
  std::vector<Answer> answers(3);
  absl::BlockingCounter left(3);
  OnAll([&](Rank& rank, int r) {
    const absl::Status status = rank.RunAlone(1, [&] {
      if (r > 0) return absl::OkStatus();
      for (int i = 0; i < 3; ++i) {
        rank.loop->Add({Sequence(2, 12 + i), nullptr, [&, i](Answer answer) {
                          answers[static_cast<size_t>(i)] = std::move(answer);
                          left.DecrementCount();
                        }});
      }
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
  });
  left.Wait();
  EXPECT_THAT(answers[0].value(), ElementsAre(2, 24));
  EXPECT_THAT(std::string(answers[1].status().message()), HasSubstr("thirteen"));
  EXPECT_THAT(answers[2].value(), ElementsAre(2, 28));
  EndAll();
  const std::vector<std::string> expected = {"alone 1", "score 12x2/1 13x2/1 14x2/1",
                                             "score 12x2/1", "score 13x2/1", "score 14x2/1"};
  EXPECT_EQ(ranks_[0]->log, expected);
  EXPECT_EQ(ranks_[1]->log, expected);
}

TEST_F(ScoreLoopRanksTest, OnlyTheFirstRankTakesRequests) {
  Join(2);
  for (auto& rank : ranks_) rank->Start();
  Answer answer;
  ranks_[1]->loop->Add({Sequence(2, 5), nullptr, [&](Answer given) { answer = std::move(given); }});
  EXPECT_TRUE(absl::IsFailedPrecondition(answer.status())) << answer.status();
}

TEST_F(ScoreLoopRanksTest, ALossIsNotTriedAgainAndStays) {
  Join(2);
  for (auto& rank : ranks_) rank->Start(100);
  std::vector<Answer> answers(3);
  absl::BlockingCounter left(3);
  OnAll([&](Rank& rank, int r) {
    EXPECT_TRUE(rank.RunAlone(1,
                              [&] {
                                if (r > 0) return absl::OkStatus();
                                for (int i = 0; i < 3; ++i) {
                                  rank.loop->Add(
                                      {Sequence(2, 98 + i), nullptr, [&, i](Answer answer) {
                                         answers[static_cast<size_t>(i)] = std::move(answer);
                                         left.DecrementCount();
                                       }});
                                }
                                return absl::OkStatus();
                              })
                    .ok());
  });
  left.Wait();
  for (const Answer& answer : answers) {
    EXPECT_THAT(std::string(answer.status().message()), HasSubstr("says the model"));
  }
  EXPECT_TRUE(absl::IsUnavailable(Ask(2, 1).status()));
  OnAll([](Rank& rank, int) { EXPECT_TRUE(absl::IsUnavailable(rank.RunAlone(2))); });
  EndAll();
  for (auto& rank : ranks_) {
    EXPECT_THAT(rank->log, ElementsAre("alone 1", "score 98x2/1 99x2/1"));
  }
}

// The other ranks wait somewhere in the pass, where another one must not meet them.
TEST_F(ScoreLoopRanksTest, AFailureOfOneRankAloneIsNotTriedAgain) {
  Join(2, absl::Seconds(2));
  for (auto& rank : ranks_) rank->Start(100);
  for (int i = 0; i < 2; ++i) {
    const Answer answer = Ask(2, kFailsOnRank0);
    EXPECT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
    EXPECT_THAT(std::string(answer.status().message()), HasSubstr("no memory"));
  }
  EndAll();
  EXPECT_EQ(ranks_[0]->log.size(), 1u);
}

TEST_F(ScoreLoopRanksTest, AFollowerThatEndsBreaksTheLeader) {
  Join(3);
  for (auto& rank : ranks_) rank->Start();
  EXPECT_TRUE(Ask(2, 1).ok());
  const absl::Time since = absl::Now();
  ranks_[1]->loop.reset();
  ranks_[1]->groups.reset();
  Answer answer = Ask(2, 1);
  EXPECT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
  EXPECT_TRUE(absl::IsUnavailable(ranks_[0]->RunAlone(1)));
  // The third hears of it too: from the leader that gives up, or from a closed connection.
  EXPECT_TRUE(absl::IsUnavailable(ranks_[2]->RunAlone(1)));
  EXPECT_LT(absl::Now() - since, absl::Seconds(20)) << "the timeout is 60 s";
}

// Either may end first, with a rank that waits for a command which never comes.
TEST_F(ScoreLoopRanksTest, EndsInAnyOrder) {
  for (const std::vector<int>& order : std::vector<std::vector<int>>{{0, 1}, {1, 0}, {}}) {
    for (const bool started : {true, false}) {
      Join(2);
      if (started) {
        for (auto& rank : ranks_) rank->Start();
        EXPECT_TRUE(Ask(2, 1).ok());
      }
      const absl::Time since = absl::Now();
      absl::Status status;
      std::thread waits([&, loop = ranks_[1]->loop.get()] {
        status = loop->RunAlone([] { return absl::OkStatus(); });
      });
      WaitForBroadcasts(*ranks_[0], 2);
      for (const int i : order) ranks_[static_cast<size_t>(i)]->loop.reset();
      EndAll();
      waits.join();
      EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsCancelled(status)) << status;
      EXPECT_LT(absl::Now() - since, absl::Seconds(20)) << "the timeout is 60 s";
    }
  }
}

// Killed ones: their connections close without a word.
TEST_F(ScoreLoopRanksTest, AWaitingFollowerNoticesAKilledLeader) {
  Join(2, absl::Seconds(60), {}, /*loops=*/false);
  ranks_[1]->loop = std::make_unique<ScoreLoop>(std::move(ranks_[1]->owned));
  ranks_[1]->Start();
  std::thread killer([&] {
    const torch::Tensor still_here = torch::tensor({1, 0}, torch::kInt64);
    for (int i = 0; i < 3; ++i) ranks_[0]->owned->Broadcast(still_here, 0);
    ranks_[0]->owned.reset();
    ranks_[0]->groups.reset();
  });
  const absl::Time since = absl::Now();
  EXPECT_TRUE(absl::IsUnavailable(ranks_[1]->RunAlone(1)));
  EXPECT_LT(absl::Now() - since, absl::Seconds(20)) << "the timeout is 60 s";
  killer.join();
  EXPECT_TRUE(ranks_[1]->log.empty());
}

TEST_F(ScoreLoopRanksTest, AnIdleOrAskingLeaderNoticesAKilledFollower) {
  for (const bool asks : {false, true}) {
    Join(2, absl::Seconds(60), {}, /*loops=*/false);
    ranks_[0]->loop = std::make_unique<ScoreLoop>(
        std::move(ranks_[0]->owned), ScoreLoop::Options{absl::Milliseconds(20), absl::Seconds(60)});
    ranks_[0]->Start();
    std::thread killed([&] {
      const torch::Tensor head = torch::zeros({2}, torch::kInt64);
      for (int i = 0; i < 3; ++i) {
        ranks_[1]->owned->Broadcast(head, 0);
        if (head[0].item<int64_t>() == 0) break;  // the sequence to be scored; it dies over it
      }
      ranks_[1]->owned.reset();
      ranks_[1]->groups.reset();
    });
    const absl::Time since = absl::Now();
    if (!asks) killed.join();
    EXPECT_TRUE(absl::IsUnavailable(Ask(3, 4).status()));
    EXPECT_TRUE(absl::IsUnavailable(ranks_[0]->RunAlone(1)));
    EXPECT_LT(absl::Now() - since, absl::Seconds(20)) << "the timeout is 60 s";
    if (asks) killed.join();
  }
}

/// A rank of two as another process: this program, running nothing but DISABLED_AnotherRank.
TestProcess StartRank(const GroupAddress& address) {
  setenv("BATON_TEST_STORE", address.store.c_str(), 1);
  setenv("BATON_TEST_RANK", std::to_string(address.rank).c_str(), 1);
  return TestProcess({"/proc/self/exe", "--gtest_also_run_disabled_tests",
                      "--gtest_filter=*DISABLED_AnotherRank"});
}

TEST_F(ScoreLoopRanksTest, DISABLED_AnotherRank) {
  const char* store = getenv("BATON_TEST_STORE");
  const char* number = getenv("BATON_TEST_RANK");
  if (store == nullptr || number == nullptr) GTEST_SKIP() << "no rank of anything";
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  GroupAddress address = Address(1, std::stoi(number), 2, absl::Seconds(60));
  address.store = store;
  Rank rank;
  rank.Join(address);
  rank.loop = std::make_unique<ScoreLoop>(std::move(rank.owned));
  rank.Start();
  while (true) pause();
}

TEST_F(ScoreLoopRanksTest, AProcessThatIsKilledIsNoticed) {
  for (const int killed : {0, 1}) {
    const GroupAddress address = Address(1, killed, 2, absl::Seconds(60));
    TestProcess other = StartRank(address);
    ranks_.clear();
    ranks_.push_back(std::make_unique<Rank>());
    Rank& rank = *ranks_[0];
    rank.Join(Address(1, 1 - killed, 2, absl::Seconds(60)));
    rank.loop = std::make_unique<ScoreLoop>(std::move(rank.owned));
    rank.Start();
    std::thread killer;
    if (killed == 0) {
      killer = std::thread([&] {
        WaitForBroadcasts(rank, 2);
        other.Signal(SIGKILL);
        EXPECT_EQ(other.Wait(), 128 + SIGKILL);
      });
      EXPECT_TRUE(absl::IsUnavailable(rank.RunAlone(1)));
    } else {
      EXPECT_THAT(Ask(2, 5).value(), ElementsAre(2, 10));
      killer = std::thread([&] {
        WaitForBroadcasts(rank, 2);  // the micro-batch, which the other never ends
        other.Signal(SIGKILL);
        EXPECT_EQ(other.Wait(), 128 + SIGKILL);
      });
      EXPECT_TRUE(absl::IsUnavailable(Ask(2, kNeverEnds).status()));
    }
    const absl::Time since = absl::Now();
    killer.join();
    EXPECT_TRUE(absl::IsUnavailable(rank.RunAlone(2)));
    EXPECT_LT(absl::Now() - since, absl::Seconds(20)) << "the timeout is 60 s";
    EndAll();
    store_ = StoreServer::Start("127.0.0.1").value();
  }
}

// Nothing to do, a leader that works on alone, another rank that does, one that is not ready: each
// for longer than the group's timeout.
TEST_F(ScoreLoopRanksTest, IdleAndSlowRanksAreNotTakenForLost) {
  Join(2, absl::Seconds(2), {absl::Milliseconds(50), absl::Seconds(60)});
  constexpr int kLong = 45;  // of 50 ms each
  WaitForBroadcasts(*ranks_[0], kLong);
  ranks_[0]->Start();
  WaitForBroadcasts(*ranks_[0], kLong);
  ranks_[1]->Start();
  EXPECT_TRUE(Ask(2, 4).ok());
  for (const int slow : {0, 1}) {
    OnAll([&](Rank& rank, int r) {
      const absl::Status status = rank.RunAlone(static_cast<uint64_t>(slow), [&] {
        if (r == slow) WaitForBroadcasts(rank, kLong);
        return absl::OkStatus();
      });
      EXPECT_TRUE(status.ok()) << status;
    });
    EXPECT_TRUE(Ask(2, 4).ok());
  }
}

TEST_F(ScoreLoopRanksTest, RanksAtDifferentCommandsAreBroken) {
  Join(2);
  for (auto& rank : ranks_) rank->Start();
  std::thread other([&] { EXPECT_TRUE(absl::IsUnavailable(ranks_[1]->RunAlone(2))); });
  EXPECT_TRUE(ranks_[0]->RunAlone(1).ok()) << "it does nothing with the others";
  other.join();
  EXPECT_TRUE(ranks_[1]->log.empty());
  WaitForBroken();
}

TEST_F(ScoreLoopRanksTest, ACommandThatOneRankIsNotGivenBreaksIt) {
  Join(2, absl::Seconds(60), {absl::Milliseconds(20), absl::Milliseconds(100)});
  for (auto& rank : ranks_) rank->Start();
  EXPECT_TRUE(ranks_[0]->RunAlone(1).ok());
  WaitForBroken();
  const absl::Status late = ranks_[1]->RunAlone(1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr("command 1"));
}

TEST_F(ScoreLoopRanksTest, ACommandIsGivenUpUntilTheLeaderBeginsIt) {
  Join(2);
  for (auto& rank : ranks_) rank->Start();
  std::atomic<bool> cancelled{false};
  std::thread waits([&] {
    const absl::Status status = ranks_[1]->loop->RunAlone(
        [] { return absl::InternalError("nobody began it"); }, 1, [&] { return cancelled.load(); });
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
  });
  EXPECT_TRUE(Ask(2, 4).ok());
  cancelled = true;
  waits.join();
  OnAll([&](Rank& rank, int) {
    // Once begun it runs to its end, wanted or not.
    EXPECT_TRUE(rank.loop->RunAlone([] { return absl::OkStatus(); }, 2, [] { return false; }).ok());
  });
  EXPECT_TRUE(Ask(2, 4).ok());
}

TEST_F(ScoreLoopRanksTest, AnExceptionIsAStatus) {
  Join(2);
  for (auto& rank : ranks_) rank->Start();
  OnAll([](Rank& rank, int) {
    const absl::Status status =
        rank.RunAlone(1, []() -> absl::Status { throw std::runtime_error("thrown"); });
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("thrown"));
  });
  EXPECT_TRUE(Ask(2, 4).ok());
}

}  // namespace
}  // namespace baton::ranks
