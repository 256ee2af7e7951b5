#include "controller/cluster/rearrange.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_split.h"
#include "controller/cluster/cluster_core.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The roles that each worker plays.
using Plays = std::map<std::string, std::set<std::string>>;

std::vector<std::string> Chain(const std::string& missing, const std::vector<PlacedWorker>& workers,
                               const std::set<std::string>& anchored, const Plays& plays) {
  std::vector<std::string> ids;
  const auto plays_all = [&](const std::string& id, const std::string& roles) {
    const std::vector<std::string> all = absl::StrSplit(roles, '+');
    return std::all_of(all.begin(), all.end(),
                       [&](const std::string& role) { return plays.at(id).count(role) > 0; });
  };
  for (const PlacedWorker& worker : FindChain(missing, workers, anchored, plays_all)) {
    ids.push_back(worker.id);
  }
  return ids;
}

TEST(FindChainTest, AFreeWorkerNeedsNobodyToMove) {
  EXPECT_THAT(Chain("a", {{"one", "b"}, {"two", ""}}, {}, {{"one", {"a", "b"}}, {"two", {"a"}}}),
              ElementsAre("two"));
}

TEST(FindChainTest, FillsASlotByMovingOneWorker) {
  EXPECT_THAT(Chain("a", {{"one", "b"}, {"two", ""}}, {}, {{"one", {"a", "b"}}, {"two", {"b"}}}),
              ElementsAre("one", "two"));
}

TEST(FindChainTest, SeveralMoveWhereOneIsNotEnough) {
  const std::vector<PlacedWorker> workers = {{"one", "b"}, {"two", "c"}, {"three", ""}};
  const Plays plays = {{"one", {"a", "b"}}, {"two", {"b", "c"}}, {"three", {"c"}}};
  EXPECT_THAT(Chain("a", workers, {}, plays), ElementsAre("one", "two", "three"));
}

TEST(FindChainTest, MovesNoWorkerIfNoChainFillsTheSlot) {
  EXPECT_THAT(Chain("a", {{"one", "b"}, {"two", ""}}, {}, {{"one", {"a", "b"}}, {"two", {"c"}}}),
              IsEmpty());
  EXPECT_THAT(
      Chain("a", {{"one", "b"}, {"two", "c"}}, {}, {{"one", {"a", "b"}}, {"two", {"a", "b", "c"}}}),
      IsEmpty())
      << "nobody is free";
}

TEST(FindChainTest, PrefersChainsThatLeaveGroupsIntact) {
  const std::vector<PlacedWorker> workers = {{"actor", "b"}, {"reward", "c"}, {"x", ""}, {"y", ""}};
  const Plays plays = {{"actor", {"a", "b"}}, {"reward", {"a", "c"}}, {"x", {"b"}}, {"y", {"c"}}};
  EXPECT_THAT(Chain("a", workers, {"b"}, plays), ElementsAre("reward", "y"));
  EXPECT_THAT(Chain("a", workers, {"c"}, plays), ElementsAre("actor", "x"));
  EXPECT_THAT(Chain("a", {workers[0], workers[2]}, {"b"}, plays), ElementsAre("actor", "x"));
}

v1::Hello HelloThatPlays(const std::string& id, const std::set<std::string>& roles) {
  v1::Hello hello;
  hello.set_worker_id(id);
  hello.set_instance_id("one");
  hello.set_protocol_min(1);
  hello.set_protocol_max(1);
  for (const std::string& role : roles) {
    v1::MethodCredits* method = hello.add_methods();
    method->set_role(role);
    method->set_method("do");
    method->set_credits(4);
  }
  return hello;
}

// "lost W" and "W plays R", in order.
std::vector<std::string> Told(const ClusterEffects& effects) {
  std::vector<std::string> told;
  for (const ClusterEffect& effect : effects) {
    if (const auto* lost = std::get_if<ClusterLost>(&effect)) {
      told.push_back((lost->moves ? "moves " : "lost ") + lost->worker);
    } else if (const auto* grant = std::get_if<ClusterGrant>(&effect)) {
      told.push_back(grant->worker + " plays " + grant->roles);
    }
  }
  return told;
}

// A versatile worker that came back got a rollout's worker slot. A group then lacks a role that no
// other worker plays, while a rollout is free: without a move the job waits for ever.
class RearrangeTest : public ::testing::Test {
 protected:
  RearrangeTest() {
    cluster_.OnHello(1, HelloThatPlays("actor-0", {"actor"}), now_);
    cluster_.OnHello(2, HelloThatPlays("all-0", {"actor", "reference", "rollout"}), now_);
    cluster_.OnNeed("j", 0, 1, true, {{"actor", 1}, {"rollout", 1}}, now_);
    cluster_.OnHello(3, HelloThatPlays("rollout-0", {"rollout"}), now_);
    EXPECT_EQ(cluster_.workers().JobOf("all-0"), "j");
    EXPECT_EQ(cluster_.workers().JobOf("rollout-0"), "");
  }
  ClusterEffects Need(const std::set<std::string>& blocking) {
    return cluster_.OnNeed("j", 0, 1, true, {{"reference", 1}}, now_, {blocking, {"actor"}});
  }
  ClusterEffects After(absl::Duration time) {
    now_ += time;
    for (uint64_t session : {1, 2, 3}) cluster_.OnHeartbeats(session, now_);
    return cluster_.OnTick(now_);
  }
  static ClusterOptions Options() {
    ClusterOptions options;
    options.lease = absl::Minutes(10);
    return options;
  }

  absl::Time now_ = absl::UnixEpoch();
  ClusterCore cluster_{1, Options()};
};

// Does what a job does with a worker that let a deadline pass: gives it back and asks anew.
class SilentSpecialistTest : public RearrangeTest {
 protected:
  SilentSpecialistTest() {
    cluster_.OnHello(4, HelloThatPlays("reference-0", {"reference"}), now_);
    EXPECT_THAT(Told(Need({"reference"})), ElementsAre("reference-0 plays reference"));
  }
  std::vector<std::string> GoSilent() {
    EXPECT_THAT(Told(cluster_.OnReturn("j", "reference-0", now_, ReturnReason::kSilent)),
                IsEmpty());
    return Told(Need({"reference"}));
  }
  v1::Worker State(const std::string& id) {
    for (const v1::Worker& worker : cluster_.workers().List(now_)) {
      if (worker.worker_id() == id) return worker;
    }
    return {};
  }
};

TEST_F(SilentSpecialistTest, AFreeVersatileWorkerTakesOverAtOnce) {
  cluster_.OnHello(5, HelloThatPlays("all-1", {"actor", "reference", "rollout"}), now_);
  EXPECT_THAT(GoSilent(), ElementsAre("all-1 plays reference"));
  EXPECT_EQ(State("reference-0").state(), v1::Worker::STATE_READY) << "one deadline is forgiven";
}

// The specialist is the only free worker of its role, so it is asked again, until it is drained.
// Then the versatile worker leaves its worker slot for the specialist's.
TEST_F(SilentSpecialistTest, ASeatedVersatileWorkerMovesOnceTheSpecialistIsDrained) {
  EXPECT_THAT(GoSilent(), ElementsAre("reference-0 plays reference"));
  EXPECT_THAT(GoSilent(), ElementsAre("reference-0 plays reference"));
  EXPECT_THAT(GoSilent(), IsEmpty());
  EXPECT_EQ(State("reference-0").state(), v1::Worker::STATE_DRAINING);
  EXPECT_EQ(State("reference-0").drain_reason(), "it missed 3 deadlines");
  v1::ExplainJobResponse why;
  why.add_waits()->set_kind("workers");
  cluster_.Explain("j", now_, &why);
  EXPECT_THAT(why.waits(0).cause(),
              ::testing::HasSubstr("worker all-0 moves from rollout to reference, and worker "
                                   "rollout-0 is free"));
  EXPECT_EQ(why.waits(0).deadline_in().seconds(), 20);
  EXPECT_THAT(Told(After(absl::Seconds(19))), IsEmpty());
  EXPECT_THAT(Told(After(absl::Seconds(1))),
              ElementsAre("moves all-0", "all-0 plays reference", "rollout-0 plays rollout"));
  EXPECT_EQ(cluster_.workers().JobOf("reference-0"), "");
}

TEST_F(RearrangeTest, AJobThatCannotGoOnChangesTheWorkerSlotsOfItsWorkers) {
  EXPECT_THAT(Told(Need({"reference"})), IsEmpty());
  EXPECT_THAT(Told(After(absl::Seconds(19))), IsEmpty()) << "a worker may come";
  v1::ExplainJobResponse why;
  why.add_waits()->set_kind("workers");
  cluster_.Explain("j", now_, &why);
  EXPECT_THAT(why.waits(0).cause(),
              ::testing::HasSubstr("worker all-0 moves from rollout to reference, and worker "
                                   "rollout-0 is free"));
  EXPECT_EQ(why.waits(0).deadline_in().seconds(), 1);
  EXPECT_THAT(Told(After(absl::Seconds(1))),
              ElementsAre("moves all-0", "all-0 plays reference", "rollout-0 plays rollout"));
  EXPECT_EQ(cluster_.workers().JobOf("rollout-0"), "j");
  EXPECT_THAT(Told(After(absl::Minutes(5))), IsEmpty()) << "nothing is missing";
}

TEST_F(RearrangeTest, AJobThatCanGoOnWaits) {
  Need({});
  EXPECT_THAT(Told(After(absl::Minutes(5))), IsEmpty());
}

TEST_F(RearrangeTest, RepeatingARequestDoesNotRestartTheWait) {
  Need({"reference"});
  EXPECT_THAT(Told(After(absl::Seconds(15))), IsEmpty());
  Need({"reference"});
  EXPECT_THAT(Told(After(absl::Seconds(5))), ::testing::SizeIs(3));
}

TEST_F(RearrangeTest, DoesNotRearrangeForAProjectAtItsWorkerLimit) {
  v1::Project project;
  project.set_project("p");
  project.set_max_workers(1);
  ClusterCore capped(1, Options());
  capped.SetProject(project);
  capped.OnHello(1, HelloThatPlays("all-0", {"reference", "rollout"}), now_);
  capped.OnNeed("projects/p/jobs/j", 0, 1, true, {{"rollout", 1}}, now_);
  capped.OnHello(2, HelloThatPlays("rollout-0", {"rollout"}), now_);
  capped.OnNeed("projects/p/jobs/j", 0, 1, true, {{"reference", 1}}, now_, {{"reference"}, {}});
  EXPECT_THAT(Told(capped.OnTick(now_ + absl::Minutes(5))), IsEmpty());
}

// Each of two jobs holds workers, and lacks more than are free: neither can go on.
class YieldTest : public ::testing::Test {
 protected:
  void Begin(const std::string& first, const std::string& second, int first_priority = 0) {
    first_ = first;
    second_ = second;
    priority_ = first_priority;
    for (uint64_t i = 1; i <= 4; ++i) {
      cluster_.OnHello(i, HelloThatPlays("w" + std::to_string(i), {"actor", "rollout"}), now_);
    }
    cluster_.OnNeed(first_, priority_, 1, true, {{"actor", 1}}, now_);
    cluster_.OnNeed(second_, 0, 2, true, {{"actor", 2}}, now_);
  }
  void BothLack() {
    Lack(first_, priority_, 1);
    Lack(second_, 0, 2);
  }
  void Lack(const std::string& job, int priority, int64_t order) {
    cluster_.OnNeed(job, priority, order, true, {{"rollout", 2}}, now_, {{"rollout"}, {}});
  }
  std::vector<std::string> YieldsAfter(absl::Duration time) {
    now_ += time;
    std::vector<std::string> yields;
    for (uint64_t i = 1; i <= 4; ++i) cluster_.OnHeartbeats(i, now_);
    for (const ClusterEffect& effect : cluster_.OnTick(now_)) {
      const auto* yield = std::get_if<ClusterYield>(&effect);
      if (yield != nullptr) yields.push_back(yield->job + ": " + yield->reason);
    }
    return yields;
  }
  std::string Why(const std::string& job) {
    v1::ExplainJobResponse why;
    why.add_waits()->set_kind("workers");
    cluster_.Explain(job, now_, &why);
    return why.waits(0).cause();
  }
  static ClusterOptions Options() {
    ClusterOptions options;
    options.lease = absl::Minutes(10);
    return options;
  }

  std::string first_, second_;
  int priority_ = 0;
  absl::Time now_ = absl::UnixEpoch();
  ClusterCore cluster_{1, Options()};
};

TEST_F(YieldTest, TheLaterOfTwoThatCannotGoOnGivesItsWorkersBack) {
  Begin("projects/p/jobs/a", "projects/p/jobs/b");
  BothLack();
  EXPECT_THAT(YieldsAfter(absl::Seconds(59)), IsEmpty()) << "a worker may come";
  EXPECT_THAT(Why("projects/p/jobs/a"),
              ::testing::HasSubstr("job b cannot go on either, and gives its workers back"));
  EXPECT_THAT(Why("projects/p/jobs/b"), ::testing::Not(::testing::HasSubstr("gives")));
  EXPECT_THAT(YieldsAfter(absl::Seconds(1)),
              ElementsAre("projects/p/jobs/b: it lacks workers, and so does job a, which comes "
                          "before it and could go on with those that it holds"));
  EXPECT_THAT(YieldsAfter(absl::Seconds(59)), IsEmpty()) << "it is asked once";
}

TEST_F(YieldTest, PriorityGoesBeforeTheOrderOfSubmission) {
  Begin("projects/p/jobs/a", "projects/p/jobs/b", /*first_priority=*/-1);
  BothLack();
  const auto yields = YieldsAfter(absl::Seconds(60));
  ASSERT_EQ(yields.size(), 1u);
  EXPECT_THAT(yields[0], ::testing::StartsWith("projects/p/jobs/a: "));
}

TEST_F(YieldTest, AJobThatCanGoOnKeepsItsWorkers) {
  Begin("projects/p/jobs/a", "projects/p/jobs/b");
  Lack(first_, 0, 1);
  cluster_.OnNeed(second_, 0, 2, true, {{"rollout", 1}}, now_);  // it only lacks one of several
  EXPECT_THAT(YieldsAfter(absl::Minutes(5)), IsEmpty());
}

TEST_F(YieldTest, YieldsNoWorkersThatWouldNotHelp) {
  Begin("projects/p/jobs/a", "projects/p/jobs/b");
  cluster_.OnNeed(first_, 0, 1, true, {{"critic", 1}}, now_, {{"critic"}, {}});
  Lack(second_, 0, 2);
  EXPECT_THAT(YieldsAfter(absl::Minutes(5)), IsEmpty());
}

// One of the job's worker slots could be filled, and another one never: the job would hold one more
// worker for nothing.
TEST_F(YieldTest, YieldsNothingToAJobThatStillCouldNotGoOn) {
  Begin("projects/p/jobs/a", "projects/q/jobs/b");
  cluster_.OnNeed(first_, 0, 1, true, {{"rollout", 2}, {"critic", 1}}, now_,
                  {{"rollout", "critic"}, {}});
  Lack(second_, 0, 2);
  EXPECT_THAT(YieldsAfter(absl::Minutes(5)), IsEmpty());
  cluster_.OnNeed(first_, 0, 1, true, {{"rollout", 9}}, now_, {{"rollout"}, {}});
  EXPECT_THAT(YieldsAfter(absl::Minutes(5)), IsEmpty());
}

TEST_F(YieldTest, NoMoreJobsThanNeededYield) {
  Begin("projects/p/jobs/a", "projects/p/jobs/b");
  cluster_.OnHello(5, HelloThatPlays("w5", {"actor"}), now_);
  cluster_.OnNeed("projects/p/jobs/c", 0, 3, true, {{"actor", 1}}, now_);
  BothLack();
  cluster_.OnNeed("projects/p/jobs/c", 0, 3, true, {{"rollout", 1}}, now_, {{"rollout"}, {}});
  now_ += absl::Minutes(1);
  cluster_.OnHeartbeats(5, now_);
  const auto yields = YieldsAfter(absl::ZeroDuration());
  EXPECT_THAT(yields, ElementsAre(::testing::StartsWith("projects/p/jobs/b: ")));
}

TEST_F(YieldTest, OtherProjectsAreNotNamed) {
  Begin("projects/p/jobs/a", "projects/q/jobs/b");
  BothLack();
  EXPECT_THAT(Why("projects/p/jobs/a"), ::testing::HasSubstr("a job of another project cannot"));
  EXPECT_THAT(YieldsAfter(absl::Seconds(60)),
              ElementsAre(::testing::HasSubstr("so does a job of another project,")));
}

TEST_F(YieldTest, YieldsNothingToAProjectAtItsWorkerLimit) {
  v1::Project project;
  project.set_project("p");
  project.set_max_workers(1);
  cluster_.SetProject(project);
  Begin("projects/p/jobs/a", "projects/q/jobs/b");
  BothLack();
  EXPECT_THAT(YieldsAfter(absl::Minutes(5)), IsEmpty());
}

}  // namespace
}  // namespace baton::controller
