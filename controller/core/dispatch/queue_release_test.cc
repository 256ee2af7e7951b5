// JobCore and ClusterCore together: workers that a job gives back, and those that it is granted
// meanwhile.
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "controller/cluster/cluster_core.h"
#include "controller/core/loop/job_core.h"
#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Job = v1::Job;

v1::Job RlJob(const std::string& id) {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_model()->mutable_init()->set_characters("01");
  spec.mutable_data()->add_train_files("t");
  spec.mutable_trainer()->set_total_training_steps(5);
  spec.mutable_reward()->add_rules()->set_type("numeric");
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_TRUE(checked.violations.empty());
  v1::Job job;
  job.set_name("projects/default/jobs/" + id);
  *job.mutable_effective_spec() = checked.effective;
  *job.mutable_dataflow() = checked.dataflow;
  return job;
}

class QueueReleaseTest : public ::testing::Test {
 protected:
  /// A worker that plays every role.
  ClusterEffects Attach(const std::string& worker) {
    v1::Hello hello;
    hello.set_worker_id(worker);
    hello.set_instance_id("one");
    hello.set_protocol_min(1);
    hello.set_protocol_max(1);
    for (const char* role : {"actor", "rollout", "reward"}) hello.add_methods()->set_role(role);
    return cluster_.OnHello(++session_, hello, now_);
  }
  static std::vector<ClusterGrant> Grants(const ClusterEffects& effects) {
    std::vector<ClusterGrant> grants;
    for (const ClusterEffect& effect : effects) {
      if (const auto* grant = std::get_if<ClusterGrant>(&effect)) grants.push_back(*grant);
    }
    return grants;
  }
  /// Passes the job's effects to the queue in order; returns what the queue grants for them.
  std::vector<ClusterGrant> Tell(const JobCore& job, const Effects& effects) {
    ClusterEffects out;
    const auto take = [&](const ClusterEffects& more) {
      out.insert(out.end(), more.begin(), more.end());
    };
    for (const Effect& effect : effects) {
      if (const auto* need = std::get_if<NeedWorkers>(&effect)) {
        take(cluster_.OnNeed(job.name(), 0, 1, IsActive(job.state()), need->missing, now_,
                             need->hints));
      } else if (const auto* back = std::get_if<ReturnWorker>(&effect)) {
        take(cluster_.OnReturn(job.name(), back->worker, now_));
      } else if (std::holds_alternative<LeaveQueue>(effect)) {
        cluster_.OnLeave(job.name());
      } else if (const auto* start = std::get_if<StartTask>(&effect)) {
        tasks_[start->worker] = start->ref;
      }
    }
    return Grants(out);
  }

  const absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  ClusterCore cluster_{1, ClusterOptions()};
  std::map<std::string, TaskRef> tasks_;  // the last one, by worker
  uint64_t session_ = 0;
};

// The job lacks a rollout, which each worker that it releases could play.
TEST_F(QueueReleaseTest, AJobThatStopsIsNotGivenItsOwnWorkersAgain) {
  JobCore job(RlJob("j"), 1, {});
  EXPECT_THAT(Tell(job, job.Start(now_)), IsEmpty());
  for (const char* worker : {"a", "b"}) EXPECT_THAT(Grants(Attach(worker)), IsEmpty());
  const std::vector<ClusterGrant> granted = Grants(Attach("c"));
  ASSERT_THAT(granted, SizeIs(3));
  std::string rollout;
  for (const ClusterGrant& grant : granted) {
    if (grant.roles == "rollout") rollout = grant.worker;
    Tell(job, job.Handle(WorkerGranted{grant.worker, grant.roles, grant.credits}, now_));
  }
  ASSERT_TRUE(cluster_.OnDrain(rollout, now_).ok());
  EXPECT_THAT(Tell(job, job.Handle(WorkerLost{rollout, "it is drained"}, now_)), IsEmpty());
  Tell(job, job.Handle(CancelRequested{}, now_));
  ASSERT_EQ(job.state(), Job::STATE_STOPPING);
  for (const auto& [worker, role] : job.HeldWorkers()) {
    TaskDone released;
    released.worker = worker;
    released.ref = tasks_.at(worker);
    EXPECT_THAT(Tell(job, job.Handle(released, now_)), IsEmpty()) << worker;
  }
  EXPECT_EQ(job.state(), Job::STATE_CANCELLED);
}

// The job may have been resumed by the time its grant arrives, and take it.
TEST_F(QueueReleaseTest, KeepsAGrantUntilTheJobReturnsTheWorker) {
  Attach("w");
  EXPECT_THAT(Grants(cluster_.OnNeed("a", 0, 1, false, {{"actor", 1}}, now_)), SizeIs(1));
  cluster_.OnLeave("a");
  EXPECT_THAT(Grants(cluster_.OnNeed("b", 0, 2, false, {{"actor", 1}}, now_)), IsEmpty());
  EXPECT_EQ(cluster_.workers().JobOf("w"), "a");
  const std::vector<ClusterGrant> next = Grants(cluster_.OnReturn("a", "w", now_));
  ASSERT_THAT(next, SizeIs(1));
  EXPECT_EQ(next[0].job, "b");
}

}  // namespace
}  // namespace baton::controller
