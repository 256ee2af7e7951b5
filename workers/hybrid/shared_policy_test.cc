#include "workers/hybrid/shared_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "tests/support/engine/tensor_parallel.h"

namespace baton::hybrid {
namespace {

using ::testing::ElementsAre;

const absl::Status kWhy = absl::UnavailableError("why");

std::unique_ptr<engine::CausalLM> Model() {
  return engine::testing::MakeSharedModel(engine::testing::SharedConfig(true));
}

std::unique_ptr<engine::Generator> MakeGenerator(engine::CausalLM* model) {
  engine::GeneratorOptions options;
  options.kv_cache_bytes = 1 << 16;
  return engine::Generator::Create(model, nullptr, options).value();
}

/// Has a thread as a real one has: what is asked of it is done later.
class User : public GeneratorUser {
 public:
  User() : thread_([this] { Work(); }) {}
  ~User() override {
    {
      absl::MutexLock lock(&mu_);
      stopping_ = true;
    }
    thread_.join();
  }

  void Attach(engine::Generator* generator, uint64_t version) override {
    Push([this, generator, version] {
      calls_.push_back(absl::StrCat("attach ", version));
      using_ = generator;
      ++attachments_;
    });
  }
  void Detach(const absl::Status& why, std::function<void()> done) override {
    Push([this, why, done = std::move(done)] {
      calls_.push_back(absl::StrCat("detach ", why.message()));
      using_ = nullptr;
      done();
    });
  }

  /// The calls to this user, once it has done all of them.
  std::vector<std::string> calls() {
    absl::Notification done;
    std::vector<std::string> calls;
    Push([&] {
      calls = calls_;
      done.Notify();
    });
    done.WaitForNotification();
    return calls;
  }
  engine::Generator* generator() const { return using_; }
  int attachments() const { return attachments_; }

 private:
  void Push(std::function<void()> work) {
    absl::MutexLock lock(&mu_);
    work_.push_back(std::move(work));
  }
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mu_) { return stopping_ || !work_.empty(); }
  void Work() {
    while (true) {
      std::function<void()> work;
      {
        absl::MutexLock lock(&mu_);
        mu_.Await(absl::Condition(this, &User::HasWork));
        if (work_.empty()) return;
        work = std::move(work_.front());
        work_.pop_front();
      }
      work();
    }
  }

  absl::Mutex mu_;
  std::deque<std::function<void()>> work_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::string> calls_;  // Used by `thread_` alone.
  std::atomic<engine::Generator*> using_{nullptr};
  std::atomic<int> attachments_{0};
  std::thread thread_;
};

class SharedPolicyTest : public ::testing::Test {
 protected:
  const std::unique_ptr<engine::CausalLM> model_ = Model();
  const std::unique_ptr<engine::Generator> generator_ = MakeGenerator(model_.get());
  SharedPolicy shared_;
  User user_;
};

TEST_F(SharedPolicyTest, AttachesTheRolloutOnceThePolicyIsLent) {
  shared_.Enter("job", &user_);
  EXPECT_THAT(user_.calls(), ElementsAre());
  shared_.Lend("job", generator_.get(), 1);
  EXPECT_THAT(user_.calls(), ElementsAre("attach 1"));
  EXPECT_EQ(user_.generator(), generator_.get());
  shared_.Lend("job", generator_.get(), 2);
  EXPECT_THAT(user_.calls(), ElementsAre("attach 1", "attach 2"));
  shared_.TakeBack(kWhy);
  EXPECT_EQ(user_.generator(), nullptr);
  EXPECT_THAT(user_.calls(), ElementsAre("attach 1", "attach 2", "detach why"));
  shared_.Leave(kWhy);
  EXPECT_EQ(user_.calls().size(), 3u) << "it had nothing to give back";
}

TEST_F(SharedPolicyTest, ALentPolicyWaitsForTheRollout) {
  shared_.Lend("job", generator_.get(), 1);
  shared_.Enter("job", &user_);
  EXPECT_THAT(user_.calls(), ElementsAre("attach 1"));
  shared_.Leave(kWhy);
  EXPECT_EQ(user_.generator(), nullptr);
  User next;
  shared_.Enter("job", &next);
  EXPECT_THAT(next.calls(), ElementsAre("attach 1")) << "it is lent still";
  shared_.TakeBack(kWhy);
  EXPECT_THAT(next.calls(), ElementsAre("attach 1", "detach why"));
  EXPECT_THAT(user_.calls(), ElementsAre("attach 1", "detach why"));
  shared_.Leave(kWhy);
}

TEST_F(SharedPolicyTest, DoesNotLendThePolicyToAnotherJob) {
  shared_.Enter("one", &user_);
  shared_.Lend("two", generator_.get(), 1);
  EXPECT_THAT(user_.calls(), ElementsAre());
  shared_.Leave(kWhy);
  shared_.Enter("two", &user_);
  EXPECT_THAT(user_.calls(), ElementsAre("attach 1"));
  shared_.TakeBack(kWhy);
  shared_.Leave(kWhy);
}

TEST_F(SharedPolicyTest, AttachesNothingWithoutBothRoles) {
  shared_.TakeBack(kWhy);
  shared_.Leave(kWhy);
  shared_.Lend("job", generator_.get(), 1);
  shared_.TakeBack(kWhy);
  shared_.TakeBack(kWhy);
  shared_.Enter("job", &user_);
  shared_.Leave(kWhy);
  shared_.Leave(kWhy);
  EXPECT_THAT(user_.calls(), ElementsAre());
}

// Both roles come and go as they like; a generator that was taken back or left is not used.
TEST_F(SharedPolicyTest, NeverUsesAPolicyThatWasTakenBack) {
  std::atomic<bool> stop{false};
  std::thread actor([&] {
    std::mt19937 rng(1);
    for (uint64_t turn = 0; !stop; ++turn) {
      shared_.Lend(rng() % 8 == 0 ? "other" : "job", generator_.get(), turn);
      if (rng() % 2 == 0) continue;
      shared_.TakeBack(kWhy);
      ASSERT_EQ(user_.generator(), nullptr);
    }
    shared_.TakeBack(kWhy);
  });
  while (user_.attachments() < 2000) {
    shared_.Enter("job", &user_);
    if (user_.attachments() % 3 == 0) user_.calls();  // Stays for a while.
    shared_.Leave(kWhy);
    ASSERT_EQ(user_.generator(), nullptr);
  }
  stop = true;
  actor.join();
}

}  // namespace
}  // namespace baton::hybrid
