#include "controller/cluster/reservations.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/cluster/cluster_core.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kBig[] = "projects/big/jobs/big";

// Four workers of one role. Jobs of one worker come and go; job `big` needs all four.
class ReservationsTest : public ::testing::Test {
 protected:
  ReservationsTest() {
    for (int i = 1; i <= 4; ++i) Attach(i);
    for (int i = 1; i <= 4; ++i) Need(Small(i));
    Need(kBig, 0, 4);
  }

  void Attach(int number) {
    v1::Hello hello;
    hello.set_worker_id(absl::StrCat("w", number));
    hello.set_instance_id("i");
    hello.set_protocol_min(1);
    hello.set_protocol_max(1);
    hello.add_methods()->set_role("rollout");
    Note(core_.OnHello(static_cast<uint64_t>(number), hello, now_));
  }
  static std::string Small(int number) { return absl::StrCat("projects/small/jobs/s", number); }
  void Need(const std::string& job, int priority = 0, int count = 1, bool active = false) {
    Note(core_.OnNeed(job, priority, ++order_, active, {{"rollout", count}}, now_));
  }
  /// The job that has the worker ends.
  void Free(int number) {
    const std::string id = absl::StrCat("w", number);
    Note(core_.OnReturn(core_.workers().JobOf(id), id, now_));
  }
  void Wait(absl::Duration time) {
    for (const absl::Time end = now_ + time; now_ < end;) {
      now_ += absl::Seconds(5);
      for (uint64_t session = 1; session <= 5; ++session) core_.OnHeartbeats(session, now_);
      Note(core_.OnTick(now_));
    }
  }
  void Note(const ClusterEffects& effects) {
    for (const ClusterEffect& effect : effects) {
      if (const auto* grant = std::get_if<ClusterGrant>(&effect)) granted_.push_back(grant->job);
    }
  }
  std::vector<std::string> TakeGranted() { return std::exchange(granted_, {}); }
  std::string Cause(const std::string& job) const {
    v1::ExplainJobResponse answer;
    answer.add_waits()->set_kind("workers");
    core_.Explain(job, now_, &answer);
    return answer.waits(answer.waits_size() - 1).cause();
  }

  ClusterCore core_{1, {}};
  absl::Time now_ = absl::UnixEpoch();
  int64_t order_ = 0;
  std::vector<std::string> granted_;
};

TEST_F(ReservationsTest, ReservesWorkersForALargeJobThatWaitedLong) {
  EXPECT_THAT(TakeGranted(), ElementsAre(Small(1), Small(2), Small(3), Small(4)));
  // One worker after the other becomes free, and a new small job takes it.
  for (int round = 0; round < 8; ++round) {
    Need(Small(10 + round));
    Free(1 + round % 4);
    EXPECT_THAT(TakeGranted(), ElementsAre(Small(10 + round)));
  }
  Wait(absl::Minutes(5));
  for (int i = 1; i <= 3; ++i) {
    Need(Small(20 + i));
    Free(i);
    EXPECT_THAT(TakeGranted(), IsEmpty()) << "it is kept for the job that waits";
  }
  EXPECT_THAT(Cause(kBig), HasSubstr("3 free workers are reserved for it"));
  EXPECT_THAT(Cause(Small(21)), HasSubstr("3 free workers are reserved for a job of another "
                                          "project, which has waited longer"));
  Free(4);
  EXPECT_THAT(TakeGranted(), ElementsAre(kBig, kBig, kBig, kBig));
  // The others go on when it has ended.
  for (int i = 1; i <= 3; ++i) Free(i);
  EXPECT_THAT(TakeGranted(), ElementsAre(Small(21), Small(22), Small(23)));
}

TEST_F(ReservationsTest, ReservesNoMoreWorkersThanTheJobLacks) {
  Need("projects/big/jobs/two", 0, 2);
  core_.OnLeave(kBig);
  Wait(absl::Minutes(5));
  TakeGranted();
  Attach(5);
  Need(Small(5));
  EXPECT_THAT(TakeGranted(), IsEmpty());
  Free(1);
  EXPECT_THAT(TakeGranted(), ElementsAre("projects/big/jobs/two", "projects/big/jobs/two"));
  Free(2);
  EXPECT_THAT(TakeGranted(), ElementsAre(Small(5)));
}

TEST_F(ReservationsTest, AHigherPriorityAndARunningJobComeFirst) {
  Wait(absl::Minutes(5));
  TakeGranted();
  Free(1);
  EXPECT_THAT(TakeGranted(), IsEmpty());
  Need("projects/small/jobs/urgent", 1);
  EXPECT_THAT(TakeGranted(), ElementsAre("projects/small/jobs/urgent"));
  Free(2);
  Need(Small(3), 0, 1, /*active=*/true);
  EXPECT_THAT(TakeGranted(), ElementsAre(Small(3)));
}

TEST_F(ReservationsTest, ReservesNothingForAJobThatCannotStart) {
  Need("projects/big/jobs/huge", 0, 5);  // of four workers
  core_.OnLeave(kBig);
  v1::Project capped;
  capped.set_project("capped");
  capped.set_max_workers(1);
  core_.SetProject(capped);
  Need("projects/capped/jobs/wide", 0, 2);
  Wait(absl::Minutes(10));
  TakeGranted();
  Need(Small(5));
  Free(1);
  EXPECT_THAT(TakeGranted(), ElementsAre(Small(5)));
  EXPECT_THAT(Cause("projects/big/jobs/huge"), Not(HasSubstr("reserved")));
}

TEST_F(ReservationsTest, ANewNeedDoesNotResetAJobsWaitingTime) {
  Wait(absl::Minutes(4));
  core_.OnNeed(kBig, 0, 5, false, {{"rollout", 3}}, now_);
  Wait(absl::Minutes(1));
  TakeGranted();
  Need(Small(5));
  Free(1);
  EXPECT_THAT(TakeGranted(), IsEmpty());
}

}  // namespace
}  // namespace baton::controller
