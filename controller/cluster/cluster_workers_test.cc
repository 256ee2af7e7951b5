// Workers by name, and workers that do not leave their roles.
#include "controller/cluster/cluster_workers.h"

#include <string>
#include <variant>
#include <vector>

#include "controller/cluster/cluster_core.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::Hello HelloWithRole(const std::string& id, const std::string& role,
                        const std::string& instance = "i1") {
  v1::Hello hello;
  hello.set_worker_id(id);
  hello.set_instance_id(instance);
  hello.set_protocol_min(1);
  hello.set_protocol_max(1);
  v1::MethodCredits* method = hello.add_methods();
  method->set_role(role);
  method->set_method("generate");
  method->set_credits(8);
  return hello;
}

template <typename T>
std::vector<T> EffectsOf(const ClusterEffects& effects) {
  std::vector<T> out;
  for (const ClusterEffect& effect : effects) {
    if (const T* wanted = std::get_if<T>(&effect)) out.push_back(*wanted);
  }
  return out;
}

std::string CauseFor(const ClusterCore& core, const std::string& job, absl::Time now) {
  v1::ExplainJobResponse answer;
  answer.add_waits()->set_kind("workers");
  core.Explain(job, now, &answer);
  for (const v1::Wait& wait : answer.waits()) {
    if (wait.kind() == "workers") return wait.cause();
  }
  return "";
}

class ClusterWorkersTest : public ::testing::Test {
 protected:
  ClusterCore core_{3, {}};
  absl::Time now_ = absl::UnixEpoch();
};

// Neither of two workers with the same id keeps the other one out, nor takes its place.
TEST_F(ClusterWorkersTest, EachProjectHasIdsOfItsOwn) {
  core_.OnNeed("projects/a/jobs/j", 0, 1, false, {{"rollout", 1}}, now_);
  core_.OnNeed("projects/b/jobs/j", 0, 2, false, {{"rollout", 1}}, now_);
  auto grants =
      EffectsOf<ClusterGrant>(core_.OnHello(1, HelloWithRole("r", "rollout", "i1"), now_, "a"));
  ASSERT_THAT(grants, SizeIs(1));
  EXPECT_EQ(grants[0].worker, "a/r");
  EXPECT_EQ(grants[0].job, "projects/a/jobs/j");
  // A worker of another project with the same instance id, which every list of workers shows.
  const ClusterEffects other = core_.OnHello(2, HelloWithRole("r", "rollout", "i1"), now_, "b");
  EXPECT_THAT(EffectsOf<ClusterRefuse>(other), IsEmpty());
  EXPECT_THAT(EffectsOf<ClusterLost>(other), IsEmpty());
  grants = EffectsOf<ClusterGrant>(other);
  ASSERT_THAT(grants, SizeIs(1));
  EXPECT_EQ(grants[0].worker, "b/r");
  EXPECT_EQ(EffectsOf<ClusterWelcome>(other)[0].worker, "b/r");
  const ClusterEffects of_all = core_.OnHello(3, HelloWithRole("r", "rollout", "i1"), now_, "*");
  EXPECT_EQ(EffectsOf<ClusterWelcome>(of_all)[0].worker, "r");
  EXPECT_EQ(core_.workers().SessionOf("a/r"), 1u);
  EXPECT_EQ(core_.workers().SessionOf("b/r"), 2u);
  EXPECT_EQ(core_.workers().SessionOf("r"), 3u);
  // A second process with the project's own token waits, as before.
  const auto refused =
      EffectsOf<ClusterRefuse>(core_.OnHello(4, HelloWithRole("r", "rollout", "i2"), now_, "a"));
  ASSERT_THAT(refused, SizeIs(1));
  EXPECT_EQ(refused[0].reason, "WORKER_ID_TAKEN");
  EXPECT_THAT(std::string(refused[0].status.message()), HasSubstr("'a/r'"));
  // Each is drained by its name.
  EXPECT_TRUE(core_.OnDrain("b/r", now_).ok());
  std::vector<std::string> names, draining;
  for (const v1::Worker& worker : core_.workers().List(now_)) {
    names.push_back(worker.worker_id());
    if (worker.state() == v1::Worker::STATE_DRAINING) draining.push_back(worker.worker_id());
  }
  EXPECT_THAT(names, ElementsAre("a/r", "b/r", "r"));
  EXPECT_THAT(draining, ElementsAre("b/r"));
}

TEST_F(ClusterWorkersTest, AnIdWithoutItsProjectIsNotGuessed) {
  core_.OnHello(1, HelloWithRole("r", "rollout"), now_, "a");
  const auto drained = core_.OnDrain("r", now_);
  EXPECT_TRUE(absl::IsNotFound(drained.status()));
  EXPECT_THAT(std::string(drained.status().message()), HasSubstr("there is 'a/r'"));
}

TEST_F(ClusterWorkersTest, AfterARestartAnotherProjectDoesNotTakeAWorkersPlace) {
  core_.Expect("projects/b/jobs/j", "b/r", "rollout", now_);
  core_.KeepDrained("b/s", "a user asked for it");
  for (const v1::Worker& worker : core_.workers().List(now_)) EXPECT_EQ(worker.project(), "b");
  v1::Hello hello = HelloWithRole("r", "rollout");
  hello.add_roles_held()->set_job("projects/b/jobs/j");
  hello.mutable_roles_held(0)->set_role("rollout");
  ClusterEffects effects = core_.OnHello(1, hello, now_, "a");
  EXPECT_THAT(EffectsOf<ClusterLost>(effects), IsEmpty());
  EXPECT_THAT(EffectsOf<ClusterReconnected>(effects), IsEmpty());
  EXPECT_THAT(EffectsOf<ClusterWelcome>(effects)[0].release, SizeIs(1));
  effects = core_.OnHello(2, hello, now_, "b");
  EXPECT_THAT(EffectsOf<ClusterLost>(effects), IsEmpty());
  ASSERT_THAT(EffectsOf<ClusterReconnected>(effects), SizeIs(1));
  EXPECT_EQ(EffectsOf<ClusterReconnected>(effects)[0].worker, "b/r");
}

// The worker's next job would wait for tasks that the last job left running.
TEST_F(ClusterWorkersTest, AWorkerThatDoesNotLeaveItsRoleIsNotGranted) {
  const std::string first = "projects/a/jobs/first", next = "projects/b/jobs/next";
  core_.OnHello(1, HelloWithRole("r", "rollout"), now_);
  core_.OnNeed(first, 0, 1, false, {{"rollout", 1}}, now_);
  core_.OnNeed(next, 0, 2, false, {{"rollout", 1}}, now_);
  core_.OnLeave(first);
  EXPECT_THAT(core_.OnReturn(first, "r", now_, ReturnReason::kStuck), IsEmpty());
  EXPECT_THAT(CauseFor(core_, next, now_), HasSubstr("worker r has not left its last role"));
  EXPECT_THAT(core_.workers().List(now_)[0].drain_reason(),
              HasSubstr("it has not left its last role, rollout"));
  // The worker's stream breaks, and it still runs what it ran.
  v1::Hello hello = HelloWithRole("r", "rollout");
  hello.add_running()->set_task_token("old");
  EXPECT_THAT(EffectsOf<ClusterGrant>(core_.OnHello(2, hello, now_)), IsEmpty());
  const auto grants = EffectsOf<ClusterGrant>(core_.OnReleased("r", first));
  ASSERT_THAT(grants, SizeIs(1));
  EXPECT_EQ(grants[0].job, next);
  EXPECT_EQ(core_.workers().List(now_)[0].drain_reason(), "");
  // A new process has nothing left to leave.
  core_.OnLeave(next);
  core_.OnReturn(next, "r", now_, ReturnReason::kStuck);
  core_.OnNeed(first, 0, 3, false, {{"rollout", 1}}, now_);
  core_.OnClosed(2, now_);
  EXPECT_THAT(EffectsOf<ClusterGrant>(core_.OnHello(3, HelloWithRole("r", "rollout", "i2"), now_)),
              SizeIs(1));
}

// The worker's release was on its way when the job gave it back.
TEST_F(ClusterWorkersTest, AWorkerThatHasLeftItsRoleIsNotStuck) {
  const std::string first = "projects/a/jobs/first", next = "projects/a/jobs/next";
  core_.OnHello(1, HelloWithRole("r", "rollout"), now_);
  core_.OnNeed(first, 0, 1, false, {{"rollout", 1}}, now_);
  core_.OnNeed(next, 0, 2, false, {{"rollout", 1}}, now_);
  core_.OnLeave(first);
  EXPECT_THAT(core_.OnReleased("r", first), IsEmpty());
  EXPECT_THAT(EffectsOf<ClusterGrant>(core_.OnReturn(first, "r", now_, ReturnReason::kStuck)),
              SizeIs(1));
  // A release from the first job does not count as a release from the next one.
  core_.OnLeave(next);
  core_.OnNeed(first, 0, 3, false, {{"rollout", 1}}, now_);
  EXPECT_THAT(core_.OnReturn(next, "r", now_, ReturnReason::kStuck), IsEmpty());
  ASSERT_TRUE(core_.OnDrain("r", now_).ok());
  EXPECT_THAT(core_.OnReleased("r", next), IsEmpty()) << "an operator's drain stays";
  EXPECT_THAT(EffectsOf<ClusterGrant>(*core_.OnUndrain("r")), SizeIs(1));
}

}  // namespace
}  // namespace baton::controller
