#include "controller/cluster/cluster_core.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::Hello HelloOf(const std::string& id, const std::string& role,
                  const std::string& instance = "i1") {
  v1::Hello hello;
  hello.set_worker_id(id);
  hello.set_instance_id(instance);
  hello.set_protocol_min(1);
  hello.set_protocol_max(1);
  auto* method = hello.add_methods();
  method->set_role(role);
  method->set_method(role == "rollout" ? "generate"
                     : role == "actor" ? "update"
                                       : "compute_reward");
  method->set_credits(8);
  return hello;
}

template <typename T>
std::vector<T> Of(const ClusterEffects& effects) {
  std::vector<T> out;
  for (const auto& effect : effects) {
    if (const T* t = std::get_if<T>(&effect)) out.push_back(*t);
  }
  return out;
}

class ClusterCoreTest : public ::testing::Test {
 protected:
  ClusterCore core_{3, {}};
  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(ClusterCoreTest, AJobStartsWithEverythingOrNothing) {
  EXPECT_TRUE(Of<ClusterGrant>(core_.OnNeed("j", 0, 1, false, {{"actor", 1}, {"rollout", 2}}, now_))
                  .empty());
  EXPECT_TRUE(Of<ClusterGrant>(core_.OnHello(1, HelloOf("a", "actor"), now_)).empty());
  EXPECT_TRUE(Of<ClusterGrant>(core_.OnHello(2, HelloOf("r1", "rollout"), now_)).empty());
  const auto grants = Of<ClusterGrant>(core_.OnHello(3, HelloOf("r2", "rollout"), now_));
  ASSERT_EQ(grants.size(), 3u);
  EXPECT_EQ(grants[0].credits.at("actor"), 8);
}

TEST_F(ClusterCoreTest, PriorityThenOrderOfSubmission) {
  core_.OnNeed("low", 0, 1, false, {{"actor", 1}}, now_);
  core_.OnNeed("late", 5, 3, false, {{"actor", 1}}, now_);
  core_.OnNeed("early", 5, 2, false, {{"actor", 1}}, now_);
  auto grants = Of<ClusterGrant>(core_.OnHello(1, HelloOf("a", "actor"), now_));
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].job, "early");
  grants = Of<ClusterGrant>(core_.OnReturn("early", "a", now_));
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].job, "late");
}

TEST_F(ClusterCoreTest, ARunningJobIsServedBeforeOneThatWaits) {
  core_.OnNeed("urgent", 9, 1, false, {{"actor", 1}}, now_);
  core_.OnNeed("running", 0, 2, true, {{"actor", 1}}, now_);
  const auto grants = Of<ClusterGrant>(core_.OnHello(1, HelloOf("a", "actor"), now_));
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].job, "running");
}

TEST_F(ClusterCoreTest, ABrokenStreamKeepsTheWorkerUntilItsLeaseEnds) {
  core_.OnNeed("j", 0, 1, false, {{"actor", 1}}, now_);
  core_.OnHello(1, HelloOf("a", "actor"), now_);
  EXPECT_TRUE(core_.OnClosed(1, now_).empty());
  EXPECT_TRUE(Of<ClusterLost>(core_.OnTick(now_ + absl::Seconds(9))).empty());
  v1::Hello back = HelloOf("a", "actor");
  auto* held = back.add_roles_held();
  held->set_job("j");
  held->set_role("actor");
  const auto effects = core_.OnHello(2, back, now_ + absl::Seconds(9));
  EXPECT_EQ(Of<ClusterReconnected>(effects).size(), 1u);
  EXPECT_TRUE(Of<ClusterLost>(effects).empty());
  core_.OnClosed(2, now_ + absl::Seconds(9));
  const auto lost = Of<ClusterLost>(core_.OnTick(now_ + absl::Seconds(30)));
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].worker, "a");
}

TEST_F(ClusterCoreTest, AnotherProcessOfTheSameNameIsALoss) {
  core_.OnNeed("j", 0, 1, false, {{"actor", 1}}, now_);
  core_.OnHello(1, HelloOf("a", "actor", "first"), now_);
  core_.OnClosed(1, now_);
  const auto effects = core_.OnHello(2, HelloOf("a", "actor", "second"), now_);
  ASSERT_EQ(Of<ClusterLost>(effects).size(), 1u);
  EXPECT_EQ(Of<ClusterLost>(effects)[0].reason, "its process was restarted");
  EXPECT_TRUE(Of<ClusterReconnected>(effects).empty());
}

TEST_F(ClusterCoreTest, RefusesAWorkerIdThatALiveWorkerHolds) {
  core_.OnHello(1, HelloOf("a", "actor", "first"), now_);
  const auto refused = Of<ClusterRefuse>(core_.OnHello(2, HelloOf("a", "actor", "second"), now_));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].reason, "WORKER_ID_TAKEN");
  EXPECT_EQ(core_.workers().SessionOf("a"), 1u);
}

TEST_F(ClusterCoreTest, HeartbeatsRenewTheLease) {
  core_.OnHello(1, HelloOf("a", "actor"), now_);
  core_.OnHeartbeats(1, now_ + absl::Seconds(9));
  EXPECT_TRUE(core_.OnTick(now_ + absl::Seconds(18)).empty());
  EXPECT_EQ(Of<ClusterRefuse>(core_.OnTick(now_ + absl::Seconds(19))).size(), 1u);
}

// The queue was busy for longer than a lease, and hears of all heartbeats at once.
TEST_F(ClusterCoreTest, CountsHeartbeatsFromTheirArrivalAndNotTheirHandling) {
  core_.OnHello(1, HelloOf("a", "actor"), now_);
  core_.OnHeartbeats(1, now_ + absl::Seconds(25));
  EXPECT_TRUE(core_.OnTick(now_ + absl::Seconds(34)).empty());
  EXPECT_EQ(Of<ClusterRefuse>(core_.OnTick(now_ + absl::Seconds(35))).size(), 1u);
  core_.OnHeartbeats(1, now_ + absl::Seconds(36));  // it is lost already
  EXPECT_TRUE(core_.workers().List(now_).empty());
}

TEST_F(ClusterCoreTest, RefusesInvalidHellosWithAReason) {
  v1::Hello future = HelloOf("a", "actor");
  future.set_protocol_min(2);
  future.set_protocol_max(3);
  v1::Hello newer = HelloOf("b", "actor");
  newer.set_epoch_seen(4);
  EXPECT_EQ(Of<ClusterRefuse>(core_.OnHello(1, future, now_))[0].reason, "PROTOCOL_VERSION");
  EXPECT_EQ(Of<ClusterRefuse>(core_.OnHello(2, newer, now_))[0].reason, "STALE_CONTROLLER");
  EXPECT_EQ(Of<ClusterRefuse>(core_.OnHello(3, HelloOf("Bad Id", "actor"), now_))[0].reason,
            "WORKER_ID");
}

TEST_F(ClusterCoreTest, AfterARestartHeldWorkersAreExpectedForOneLease) {
  core_.Expect("j", "a", "actor", now_);
  v1::Hello back = HelloOf("a", "actor");
  auto* held = back.add_roles_held();
  held->set_job("j");
  held->set_role("actor");
  EXPECT_EQ(Of<ClusterReconnected>(core_.OnHello(1, back, now_)).size(), 1u);
  core_.Expect("k", "b", "actor", now_);
  EXPECT_EQ(Of<ClusterLost>(core_.OnTick(now_ + absl::Seconds(11))).size(), 2u);
}

// The controller was restarted too, and knows the worker's name alone.
TEST_F(ClusterCoreTest, AProcessThatComesBackWithoutItsRoleIsALossAndSaysWhy) {
  core_.Expect("j", "a", "actor", now_);
  core_.Expect("j", "b", "actor", now_);
  const auto anew = Of<ClusterLost>(core_.OnHello(1, HelloOf("a", "actor"), now_));
  ASSERT_THAT(anew, SizeIs(1));
  EXPECT_EQ(anew[0].reason, "its process was restarted");
  v1::Hello same = HelloOf("b", "actor");
  same.set_epoch_seen(2);
  const auto fenced = Of<ClusterLost>(core_.OnHello(2, same, now_));
  ASSERT_THAT(fenced, SizeIs(1));
  EXPECT_EQ(fenced[0].reason, "it gave up its role while it was cut off");
}

TEST_F(ClusterCoreTest, ADrainedWorkerLosesItsJobAndGetsNoOther) {
  core_.OnHello(1, HelloOf("a", "actor"), now_);
  core_.OnNeed("j", 0, 1, false, {{"actor", 1}}, now_);
  auto effects = core_.OnDrain("a", now_);
  ASSERT_TRUE(effects.ok());
  EXPECT_EQ(Of<ClusterLost>(*effects).size(), 1u);
  EXPECT_TRUE(Of<ClusterGrant>(core_.OnNeed("k", 0, 2, false, {{"actor", 1}}, now_)).empty());
  EXPECT_FALSE(core_.OnDrain("nobody", now_).ok());
}

TEST_F(ClusterCoreTest, ADrainOutlivesStreamLeaseAndProcess) {
  core_.OnHello(1, HelloOf("a", "actor", "first"), now_);
  ASSERT_TRUE(core_.OnDrain("a", now_).ok());
  core_.OnClosed(1, now_);
  core_.OnHello(2, HelloOf("a", "actor", "first"), now_);
  EXPECT_TRUE(Of<ClusterGrant>(core_.OnNeed("j", 0, 1, false, {{"actor", 1}}, now_)).empty());
  core_.OnClosed(2, now_);
  now_ += absl::Seconds(11);
  core_.OnTick(now_);
  ASSERT_EQ(core_.workers().List(now_).size(), 1u);
  EXPECT_EQ(core_.workers().List(now_)[0].state(), v1::Worker::STATE_DRAINING);
  EXPECT_EQ(core_.workers().List(now_)[0].drain_reason(), "a user asked for it");
  core_.OnTick(now_ + absl::Hours(1));
  EXPECT_TRUE(Of<ClusterGrant>(core_.OnHello(3, HelloOf("a", "actor", "second"), now_)).empty());
  auto effects = core_.OnUndrain("a");
  ASSERT_TRUE(effects.ok());
  EXPECT_EQ(Of<ClusterGrant>(*effects).size(), 1u);
  EXPECT_EQ(core_.workers().List(now_)[0].state(), v1::Worker::STATE_READY);
}

TEST_F(ClusterCoreTest, RestoresADrainBeforeTheWorkerReconnects) {
  core_.KeepDrained("a", "a user asked for it");
  core_.OnNeed("j", 0, 1, false, {{"actor", 1}}, now_);
  EXPECT_TRUE(core_.OnTick(now_ + absl::Hours(1)).empty());
  EXPECT_TRUE(Of<ClusterGrant>(core_.OnHello(1, HelloOf("a", "actor"), now_)).empty());
  EXPECT_EQ(Of<ClusterGrant>(*core_.OnUndrain("a")).size(), 1u);
  core_.KeepDrained("b", "a user asked for it");
  EXPECT_TRUE(core_.OnUndrain("b").ok());
  EXPECT_FALSE(core_.workers().Knows("b"));
  EXPECT_EQ(core_.OnUndrain("b").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ClusterCoreTest, RanksAWorkerThatMissedDeadlinesLastAndThenDrainsIt) {
  core_.OnHello(1, HelloOf("a", "actor"), now_);
  auto grants = Of<ClusterGrant>(core_.OnNeed("j", 0, 1, true, {{"actor", 1}}, now_));
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_TRUE(core_.OnReturn("j", "a", now_, ReturnReason::kSilent).empty());
  core_.OnHello(2, HelloOf("b", "actor"), now_);
  grants = Of<ClusterGrant>(core_.OnNeed("j", 0, 1, true, {{"actor", 1}}, now_));
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].worker, "b");
  for (int i = 0; i < 2; ++i) {  // alone, it gets another chance, and another
    grants = Of<ClusterGrant>(core_.OnNeed("k", 0, 2, true, {{"actor", 1}}, now_));
    ASSERT_EQ(grants.size(), 1u);
    EXPECT_EQ(grants[0].worker, "a");
    core_.OnReturn("k", "a", now_, ReturnReason::kSilent);
  }
  EXPECT_TRUE(Of<ClusterGrant>(core_.OnNeed("k", 0, 2, true, {{"actor", 1}}, now_)).empty());
  EXPECT_EQ(core_.workers().List(now_)[0].state(), v1::Worker::STATE_DRAINING);
  // The worker's process is restarted: the new process is another one.
  core_.OnClosed(1, now_);
  grants = Of<ClusterGrant>(core_.OnHello(3, HelloOf("a", "actor", "i2"), now_));
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].worker, "a");
}

TEST_F(ClusterCoreTest, ASlowWorkerIsDrainedUntilItsProcessIsRestarted) {
  core_.OnHello(1, HelloOf("a", "rollout"), now_);
  core_.OnNeed("j", 0, 1, true, {{"rollout", 1}}, now_);
  core_.OnReturn("j", "a", now_, ReturnReason::kSlow);
  EXPECT_TRUE(Of<ClusterGrant>(core_.OnNeed("k", 0, 2, true, {{"rollout", 1}}, now_)).empty());
  EXPECT_EQ(core_.workers().List(now_)[0].state(), v1::Worker::STATE_DRAINING);
  EXPECT_EQ(core_.workers().List(now_)[0].drain_reason(), "it was slower than its peers in j");
  core_.OnClosed(1, now_);
  EXPECT_EQ(Of<ClusterGrant>(core_.OnHello(2, HelloOf("a", "rollout", "i2"), now_)).size(), 1u);
  EXPECT_EQ(core_.workers().List(now_)[0].drain_reason(), "");
}

v1::Project ProjectOf(const std::string& name, int weight, int max_workers) {
  v1::Project project;
  project.set_project(name);
  project.set_weight(weight);
  project.set_max_workers(max_workers);
  return project;
}

TEST_F(ClusterCoreTest, ProjectsShareByTheirWeights) {
  core_.SetProject(ProjectOf("a", 2, 0));
  for (int i = 0; i < 40; ++i) {  // a is first in the queue; each job wants one worker
    const std::string id = "/jobs/j" + std::to_string(i);
    core_.OnNeed("projects/a" + id, 0, i, false, {{"rollout", 1}}, now_);
    core_.OnNeed("projects/b" + id, 0, 100 + i, false, {{"rollout", 1}}, now_);
  }
  int a = 0, b = 0;
  for (int i = 0; i < 30; ++i) {
    const auto effects = core_.OnHello(static_cast<uint64_t>(i + 1),
                                       HelloOf("w" + std::to_string(i), "rollout"), now_);
    for (const ClusterGrant& grant : Of<ClusterGrant>(effects)) {
      (grant.job.rfind("projects/a/", 0) == 0 ? a : b) += 1;
    }
  }
  EXPECT_EQ(a, 20);
  EXPECT_EQ(b, 10);
}

TEST_F(ClusterCoreTest, AProjectNeverHoldsMoreWorkersThanItMay) {
  core_.SetProject(ProjectOf("a", 1, 3));
  core_.OnNeed("projects/a/jobs/j", 0, 1, false, {{"rollout", 2}}, now_);
  core_.OnNeed("projects/a/jobs/k", 0, 2, false, {{"rollout", 2}}, now_);
  core_.OnNeed("projects/a/jobs/l", 0, 3, true, {{"rollout", 2}}, now_);  // it has started
  size_t granted = 0;
  for (int i = 0; i < 8; ++i) {
    granted += Of<ClusterGrant>(core_.OnHello(static_cast<uint64_t>(i + 1),
                                              HelloOf("w" + std::to_string(i), "rollout"), now_))
                   .size();
  }
  EXPECT_EQ(granted, 2u);  // l took what there was; j does not fit into what is left
  v1::ExplainJobResponse why;
  why.add_waits()->set_kind("workers");
  core_.Explain("projects/a/jobs/j", now_, &why);
  EXPECT_NE(why.waits(0).cause().find("project a holds 2 workers"), std::string::npos)
      << why.waits(0).cause();
}

v1::Hello Versatile(const std::string& id, const std::vector<std::string>& roles) {
  v1::Hello hello = HelloOf(id, roles[0]);
  for (size_t i = 1; i < roles.size(); ++i) {
    v1::MethodCredits* method = hello.add_methods();
    method->set_role(roles[i]);
    method->set_method("compute");
    method->set_credits(static_cast<int>(i));
  }
  return hello;
}

// Each role alone would have enough.
TEST_F(ClusterCoreTest, WhyTellsThatVersatileWorkersAreTooFewTogether) {
  for (uint64_t i = 1; i <= 2; ++i) {
    core_.OnHello(i, Versatile("w" + std::to_string(i), {"actor", "critic"}), now_);
  }
  const auto cause = [&](int critics) {
    core_.OnNeed("j", 0, 1, false, {{"actor", 1}, {"critic", critics}}, now_);
    v1::ExplainJobResponse why;
    why.add_waits()->set_kind("workers");
    core_.Explain("j", now_, &why);
    return why.waits(0).cause();
  };
  EXPECT_THAT(cause(2), HasSubstr("2 workers of role critic are attached: 2 are free"));
  EXPECT_THAT(cause(2), ::testing::HasSubstr("; 3 are needed together, and 2 are free"));
}

TEST_F(ClusterCoreTest, WhyNamesNoJobOfAnotherProject) {
  core_.OnNeed("projects/a/jobs/mine", 0, 1, false, {{"rollout", 1}}, now_);
  core_.OnNeed("projects/b/jobs/secret", 0, 2, false, {{"rollout", 2}}, now_);
  for (uint64_t i = 1; i <= 3; ++i) {
    core_.OnHello(i, HelloOf("w" + std::to_string(i), "rollout"), now_);
  }
  core_.OnNeed("projects/a/jobs/next", 0, 3, false, {{"rollout", 1}}, now_);
  v1::ExplainJobResponse why;
  why.add_waits()->set_kind("workers");
  core_.Explain("projects/a/jobs/next", now_, &why);
  EXPECT_EQ(why.waits(0).cause(),
            "1 rollout worker to attach or to become free; 3 workers of role rollout are attached: "
            "job mine has 1, other projects have 2");
}

TEST_F(ClusterCoreTest, AWorkerSlotGoesToAWorkerThatPlaysAllItsRoles) {
  core_.OnNeed("j", 0, 1, false, {{"actor+critic", 1}}, now_);
  EXPECT_TRUE(Of<ClusterGrant>(core_.OnHello(1, HelloOf("a", "actor"), now_)).empty());
  const auto grants = Of<ClusterGrant>(core_.OnHello(2, Versatile("b", {"actor", "critic"}), now_));
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].worker, "b");
  EXPECT_EQ(grants[0].roles, "actor+critic");
  EXPECT_EQ(grants[0].credits.at("critic"), 1);
  EXPECT_EQ(core_.workers().List(now_)[1].role(), "actor+critic");
  // The worker comes back with both roles, and with a role of another job, which is released.
  v1::Hello back = Versatile("b", {"actor", "critic"});
  for (const auto& [job, role] : {std::pair{"j", "actor"}, {"j", "critic"}, {"k", "reward"}}) {
    v1::RoleHeld* held = back.add_roles_held();
    held->set_job(job);
    held->set_role(role);
  }
  const ClusterEffects effects = core_.OnHello(3, back, now_);
  ASSERT_EQ(Of<ClusterWelcome>(effects).size(), 1u);
  ASSERT_EQ(Of<ClusterWelcome>(effects)[0].release.size(), 1u);
  EXPECT_EQ(Of<ClusterWelcome>(effects)[0].release[0].role(), "reward");
  EXPECT_EQ(Of<ClusterReconnected>(effects).size(), 1u);
}

// A worker that plays only one of the roles is left for the worker slot that asks for no more.
TEST_F(ClusterCoreTest, WorkerSlotsOfManyRolesAreServedFirst) {
  core_.OnHello(1, Versatile("w1", {"actor", "critic"}), now_);
  core_.OnHello(2, Versatile("w2", {"actor", "reward", "rollout", "reference"}), now_);
  const auto grants =
      Of<ClusterGrant>(core_.OnNeed("j", 0, 1, false, {{"actor", 1}, {"actor+critic", 1}}, now_));
  ASSERT_EQ(grants.size(), 2u);
  for (const ClusterGrant& grant : grants) {
    EXPECT_EQ(grant.worker, grant.roles == "actor" ? "w2" : "w1");
  }
}

v1::Wait WaitOf(const ClusterCore& core, const std::string& job, absl::Time now) {
  v1::ExplainJobResponse answer;
  answer.add_waits()->set_kind("workers");
  core.Explain(job, now, &answer);
  return answer.waits(0);
}
std::string CauseOf(const ClusterCore& core, const std::string& job, absl::Time now) {
  return WaitOf(core, job, now).cause();
}

RoleNeeds NeedOfReward(const std::set<std::string>& methods,
                       const std::set<std::string>& features = {}) {
  return {{"reward", {methods, methods, features}}};
}

TEST_F(ClusterCoreTest, AJobWithACommandGetsOnlyWorkersThatRunCommands) {
  const RoleNeeds needs = NeedOfReward({"compute_reward"}, {"reward_command"});
  const std::string job = "projects/a/jobs/j";
  core_.OnHello(1, HelloOf("plain", "reward"), now_);
  EXPECT_THAT(Of<ClusterGrant>(core_.OnNeed(job, 0, 1, false, {{"reward", 1}}, now_, {}, needs)),
              IsEmpty());
  EXPECT_THAT(CauseOf(core_, job, now_),
              HasSubstr("no attached worker of role reward runs the command of spec.reward"));
  EXPECT_THAT(WaitOf(core_, job, now_).action(), HasSubstr("--allow-commands"));
  // Others are served meanwhile, by the same worker.
  EXPECT_THAT(
      Of<ClusterGrant>(core_.OnNeed("projects/a/jobs/k", 0, 2, false, {{"reward", 1}}, now_)),
      SizeIs(1));
  v1::Hello hello = HelloOf("bold", "reward");
  hello.add_features("reward_command");
  const auto grants = Of<ClusterGrant>(core_.OnHello(2, hello, now_));
  ASSERT_THAT(grants, SizeIs(1));
  EXPECT_EQ(grants[0].worker, "bold");
  EXPECT_EQ(grants[0].job, job);
}

/// A user's own reward worker: one method, and less credit for it than for another.
v1::Hello BrevityWorker(const std::string& id) {
  v1::Hello hello = HelloOf(id, "reward");
  hello.mutable_methods(0)->set_method("compute_brevity");
  hello.mutable_methods(0)->set_credits(3);
  *hello.add_methods() = hello.methods(0);
  hello.mutable_methods(1)->set_method("compute_length");
  hello.mutable_methods(1)->set_credits(9);
  return hello;
}

TEST_F(ClusterCoreTest, EachJobGetsTheWorkerThatOffersItsMethod) {
  const RoleNeeds rules = NeedOfReward({"compute_reward"}),
                  brevity = NeedOfReward({"compute_brevity"});
  core_.OnNeed("wants-rules", 0, 1, false, {{"reward", 1}}, now_, {}, rules);
  core_.OnNeed("wants-brevity", 0, 2, false, {{"reward", 1}}, now_, {}, brevity);
  auto grants = Of<ClusterGrant>(core_.OnHello(1, BrevityWorker("b"), now_));
  ASSERT_THAT(grants, SizeIs(1));
  EXPECT_EQ(grants[0].job, "wants-brevity");
  EXPECT_EQ(grants[0].credits.at("reward"), 3);  // of the method that the job calls
  EXPECT_EQ(CauseOf(core_, "wants-rules", now_),
            "1 reward worker to attach or to become free; no attached worker of role reward offers "
            "method compute_reward");
  grants = Of<ClusterGrant>(core_.OnHello(2, HelloOf("own", "reward"), now_));
  ASSERT_THAT(grants, SizeIs(1));
  EXPECT_EQ(grants[0].job, "wants-rules");
  core_.OnNeed("wants-brevity-too", 0, 3, false, {{"reward", 1}}, now_, {}, brevity);
  EXPECT_EQ(CauseOf(core_, "wants-brevity-too", now_),
            "1 reward worker to attach or to become free; 2 workers of role reward are attached: "
            "job wants-brevity has 1, 1 does not offer method compute_brevity");
}

// A worker of another project counts as an offer: otherwise `why` would advise a wrong remedy.
TEST_F(ClusterCoreTest, CountsOffersOfAnotherProjectsWorkersInTheWaitCause) {
  const RoleNeeds brevity = NeedOfReward({"compute_brevity"});
  core_.OnNeed("projects/b/jobs/j", 0, 1, false, {{"reward", 1}}, now_, {}, brevity);
  ASSERT_THAT(Of<ClusterGrant>(core_.OnHello(1, BrevityWorker("b"), now_)), SizeIs(1));
  core_.OnHello(2, HelloOf("own", "reward"), now_);
  core_.OnNeed("projects/a/jobs/j", 0, 2, false, {{"reward", 1}}, now_, {}, brevity);
  EXPECT_EQ(CauseOf(core_, "projects/a/jobs/j", now_),
            "1 reward worker to attach or to become free; 2 workers of role reward are attached: "
            "other projects have 1, 1 does not offer method compute_brevity");
}

// A worker slot of several roles asks for the methods of each of them.
TEST_F(ClusterCoreTest, ASharedWorkerSlotNeedsTheMethodsOfAllItsRoles) {
  const RoleNeeds needs = {{"actor", {{"update"}, {}, {}}},
                           {"critic", {{"compute_values"}, {}, {}}}};
  v1::Hello lacks = HelloOf("lacks", "actor");
  *lacks.add_methods() = lacks.methods(0);
  lacks.mutable_methods(1)->set_role("critic");  // and method update, no other
  core_.OnHello(1, lacks, now_);
  core_.OnNeed("j", 0, 1, false, {{"actor+critic", 1}}, now_, {}, needs);
  EXPECT_THAT(CauseOf(core_, "j", now_),
              HasSubstr("no attached worker of role critic offers method compute_values"));
  v1::Hello has = lacks;
  has.set_worker_id("has");
  has.mutable_methods(1)->set_method("compute_values");
  const auto grants = Of<ClusterGrant>(core_.OnHello(2, has, now_));
  ASSERT_THAT(grants, SizeIs(1));
  EXPECT_EQ(grants[0].worker, "has");
}

TEST_F(ClusterCoreTest, WhySaysHowToHaveMoreWorkers) {
  core_.OnHello(1, HelloOf("actor-0", "actor"), now_);
  core_.OnHello(2, HelloOf("rollout-0", "rollout"), now_);
  core_.OnNeed("first", 0, 1, false, {{"actor", 1}}, now_);
  core_.OnNeed("second", 0, 2, false, {{"actor", 2}, {"rollout", 1}}, now_);
  const v1::Wait wait = WaitOf(core_, "second", now_);
  EXPECT_EQ(wait.cause(),
            "2 actor workers to attach or to become free; 1 worker of role actor is attached: job "
            "first has it");
  EXPECT_EQ(
      wait.action(),
      "it starts as soon as these workers are there; start more with `baton-worker --roles actor`");
  core_.OnNeed("both", 0, 4, false, {{"actor", 1}, {"critic", 1}}, now_);
  EXPECT_THAT(
      WaitOf(core_, "both", now_).action(),
      HasSubstr("start more with `baton-worker --roles actor`, `baton-worker --roles critic`"));
  core_.OnNeed("graph", 0, 3, false, {{"median", 1}}, now_);
  EXPECT_EQ(
      WaitOf(core_, "graph", now_).action(),
      "it starts as soon as these workers are there; start the worker that plays role median");
}

TEST(ClusterOfUpTest, WhyNamesTheOptionsOfUp) {
  ClusterOptions options;
  options.up_workers = {
      {"trainers", 1}, {"rollouts", 2}, {"rewards", 1}, {"scorers", 2}, {"workers", 0}};
  ClusterCore core(1, options);
  const absl::Time now = absl::UnixEpoch();
  core.OnHello(1, HelloOf("actor-0", "actor"), now);
  core.OnNeed("first", 0, 1, false, {{"actor", 1}}, now);
  core.OnNeed("second", 0, 2, false, {{"actor", 1}}, now);
  EXPECT_EQ(
      WaitOf(core, "second", now).action(),
      "it starts as soon as these workers are there; start more: `baton down`, then `baton up "
      "--trainers 2`; all jobs then go on");
  core.OnNeed("critics", 0, 3, false, {{"critic", 3}, {"reference", 1}, {"actor", 1}}, now);
  EXPECT_THAT(WaitOf(core, "critics", now).action(),
              HasSubstr("`baton up --scorers 6 --trainers 2`"));
  core.OnNeed("pool", 0, 4, false, {{"actor+rollout", 2}}, now);
  EXPECT_THAT(WaitOf(core, "pool", now).action(), HasSubstr("`baton up --workers 2`"));
}

TEST_F(ClusterCoreTest, AWorkerOfAProjectGetsItsJobsAlone) {
  core_.OnNeed("projects/b/jobs/j", 9, 1, false, {{"rollout", 1}}, now_);
  EXPECT_THAT(Of<ClusterGrant>(core_.OnHello(1, HelloOf("r", "rollout"), now_, "a")), IsEmpty());
  EXPECT_THAT(CauseOf(core_, "projects/b/jobs/j", now_), HasSubstr("other projects have 1"));
  EXPECT_EQ(core_.workers().FindMethod("rollout", "generate", "b"), "");
  EXPECT_EQ(core_.workers().FindMethod("rollout", "generate", "a"), "a/r");
  EXPECT_EQ(core_.workers().List(now_)[0].project(), "a");
  const auto grants =
      Of<ClusterGrant>(core_.OnNeed("projects/a/jobs/j", 0, 2, false, {{"rollout", 1}}, now_));
  ASSERT_THAT(grants, SizeIs(1));
  EXPECT_EQ(grants[0].worker, "a/r");
}

}  // namespace
}  // namespace baton::controller
