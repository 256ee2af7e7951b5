#include "controller/runtime/submit/checker_pool.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/checker.h"

namespace baton::controller {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(60);

class CheckerPoolTest : public ::testing::Test {
 protected:
  // A check of model "slow" lasts until the file `go` is there. Each one leaves its process's
  // number, and a file with the name of its model.
  CheckerPoolTest() {
    options_.program = WriteChecker(folder_.path(),
                                    "echo $$ >> pids\nname=$(tr -dc a-z0-9 < asked-$$)\n"
                                    "touch \"began-$name\"\n"
                                    "case $name in slow*)"
                                    " while [ ! -e go ]; do sleep 0.01; done;; esac");
  }
  ~CheckerPoolTest() override { pool_.reset(); }
  void Start() { pool_ = std::make_unique<CheckerPool>(options_); }

  struct Outcome {
    std::atomic<bool> there{false};
    absl::Status status;
  };
  std::shared_ptr<Outcome> Post(const std::string& project, const std::string& model,
                                CallerGone gone = nullptr) {
    CheckerProcess::Request request;
    request.spec.mutable_model()->set_path(model);
    const auto begin = [this](CheckerProcess::Request*) { ++begun_; };
    auto outcome = std::make_shared<Outcome>();
    pool_->Post(project, request, begin, std::move(gone),
                [outcome](const absl::StatusOr<v1::ValidateJobResponse>& answer) {
                  outcome->status = answer.status();
                  outcome->there = true;
                });
    return outcome;
  }
  static bool Until(const std::function<bool()>& holds) {
    const absl::Time end = absl::Now() + kPatience;
    while (!holds() && absl::Now() < end) absl::SleepFor(absl::Milliseconds(5));
    return holds();
  }
  static bool Await(const std::shared_ptr<Outcome>& outcome) {
    return Until([&] { return outcome->there.load(); });
  }
  bool Exists(const std::string& name) const { return std::filesystem::exists(folder_.path(name)); }

  TestFolder folder_;
  CheckerPool::Options options_;
  std::atomic<int> begun_{0};  // requests that a process has taken
  std::unique_ptr<CheckerPool> pool_;
};

TEST_F(CheckerPoolTest, AProcessIsStartedWhenItIsNeededAndUsedAgain) {
  Start();
  EXPECT_EQ(pool_->running(), 0);
  for (int i = 0; i < 10; ++i) {
    const auto done = Post("a", "m");
    ASSERT_TRUE(Await(done));
    EXPECT_TRUE(done->status.ok()) << done->status;
  }
  EXPECT_EQ(pool_->running(), 1);
}

TEST_F(CheckerPoolTest, AProcessWithNothingToDoIsEnded) {
  options_.idle = absl::Milliseconds(20);
  Start();
  ASSERT_TRUE(Await(Post("a", "m")));
  EXPECT_TRUE(Until([&] { return pool_->running() == 0; }));
  ASSERT_TRUE(Await(Post("a", "m")));
}

TEST_F(CheckerPoolTest, AProcessIsReplacedAfterSoManyChecks) {
  options_.checks = 2;
  Start();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Await(Post("a", "m")));
  std::vector<std::string> pids;
  std::ifstream in(folder_.path("pids"));
  for (std::string line; std::getline(in, line);) pids.push_back(line);
  ASSERT_EQ(pids.size(), 4u);
  EXPECT_EQ(pids[0], pids[1]);
  EXPECT_NE(pids[1], pids[2]);
  EXPECT_EQ(pids[2], pids[3]);
}

// Two slow checks of one project, and more that wait behind them.
TEST_F(CheckerPoolTest, SlowChecksOfAProjectDelayNoOtherProject) {
  Start();
  const auto slow = Post("a", "slow1");
  Post("a", "slow2");
  const auto behind = Post("a", "m");
  ASSERT_TRUE(Until([&] { return Exists("began-slow1") && Exists("began-slow2"); }));
  const auto other = Post("b", "m");
  ASSERT_TRUE(Await(other));
  EXPECT_TRUE(other->status.ok()) << other->status;
  EXPECT_FALSE(slow->there);
  EXPECT_FALSE(behind->there);
  EXPECT_EQ(begun_, 3) << "one that waits reserves nothing";
  folder_.Write("go", "");
  EXPECT_TRUE(Await(slow));
  EXPECT_TRUE(Await(behind));
  EXPECT_EQ(begun_, 4);
}

TEST_F(CheckerPoolTest, SlowChecksOfTwoProjectsDelayNoThirdOne) {
  Start();
  for (const char* model : {"slow1", "slow2", "slow3"}) {
    Post("a", model);
    Post("b", absl::StrCat(model, "b"));
  }
  ASSERT_TRUE(Until([&] { return begun_ == 4; }));
  const auto other = Post("c", "m");
  ASSERT_TRUE(Await(other));
  EXPECT_TRUE(other->status.ok()) << other->status;
  EXPECT_EQ(begun_, 5);
  folder_.Write("go", "");
}

// A slow check holds the only process for longer than others may wait, but is not ended.
TEST_F(CheckerPoolTest, RefusesACheckThatWaitsTooLongWithTheCause) {
  options_.processes = 1;
  options_.queue_limit = absl::Milliseconds(100);
  Start();
  auto slow = Post("a", "slow");
  ASSERT_TRUE(Until([&] {
    if (slow->there) slow = Post("a", "slow");  // this machine is slow itself
    return Exists("began-slow");
  }));
  const auto waiting = Post("b", "m");
  ASSERT_TRUE(Await(waiting));
  EXPECT_EQ(ErrorReason(waiting->status), "CHECKS_WAITING") << waiting->status;
  EXPECT_THAT(std::string(waiting->status.message()),
              AllOf(HasSubstr("within 100ms"), HasSubstr("project b")));
  EXPECT_FALSE(slow->there);
  folder_.Write("go", "");
  ASSERT_TRUE(Await(slow));
  EXPECT_TRUE(slow->status.ok()) << slow->status;
}

TEST_F(CheckerPoolTest, ACheckThatIsNotDoneInTimeIsEnded) {
  options_.limit = absl::Milliseconds(50);
  Start();
  const auto slow = Post("a", "slow");
  ASSERT_TRUE(Await(slow));
  EXPECT_TRUE(absl::IsDeadlineExceeded(slow->status)) << slow->status;
  EXPECT_EQ(slow->status.message(), "was not done within 50ms");
}

TEST_F(CheckerPoolTest, ACallerThatIsGoneEndsItsCheck) {
  Start();
  std::atomic<bool> gone{false};
  const auto slow = Post("a", "slow", [&] { return gone.load(); });
  ASSERT_TRUE(Until([&] { return Exists("began-slow"); }));
  gone = true;
  ASSERT_TRUE(Await(slow));
  EXPECT_TRUE(absl::IsCancelled(slow->status)) << slow->status;
  EXPECT_TRUE(Until([&] { return pool_->running() == 0; }));
}

TEST_F(CheckerPoolTest, ACallerThatIsGoneWaitsNoLonger) {
  options_.processes = 1;
  Start();
  const auto slow = Post("a", "slow");
  std::atomic<bool> gone{false};
  const auto waiting = Post("b", "m", [&] { return gone.load(); });
  ASSERT_TRUE(Until([&] { return Exists("began-slow"); }));
  gone = true;
  ASSERT_TRUE(Await(waiting));
  EXPECT_TRUE(absl::IsCancelled(waiting->status)) << waiting->status;
  EXPECT_FALSE(slow->there);
  EXPECT_FALSE(Exists("began-m"));
}

TEST_F(CheckerPoolTest, ReportsABrokenProgramOnlyToItsCaller) {
  options_.program = WriteChecker(folder_.path(), "grep -q bad asked-$$ && kill -9 $$\ntouch good");
  Start();
  const auto bad = Post("a", "bad");
  const auto good = Post("a", "m");
  ASSERT_TRUE(Await(bad));
  EXPECT_THAT(std::string(bad->status.message()), HasSubstr("was killed by signal 9"));
  ASSERT_TRUE(Await(good));
  EXPECT_TRUE(good->status.ok()) << good->status;
}

TEST_F(CheckerPoolTest, StoppingEndsWhatIsUnderWayAndDropsWhatWaits) {
  options_.processes = 1;
  Start();
  const auto slow = Post("a", "slow");
  const auto waiting = Post("a", "m");
  ASSERT_TRUE(Until([&] { return Exists("began-slow"); }));
  pool_->Stop();
  EXPECT_EQ(pool_->running(), 0);
  EXPECT_FALSE(slow->there);
  EXPECT_FALSE(waiting->there);
  Post("a", "m");  // and is dropped
}

}  // namespace
}  // namespace baton::controller
