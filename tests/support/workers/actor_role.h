// The set-up of tests of the actor role, for all kinds of jobs.
#ifndef BATON_TESTS_SUPPORT_WORKERS_ACTOR_ROLE_H_
#define BATON_TESTS_SUPPORT_WORKERS_ACTOR_ROLE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "tests/support/sdk/worker.h"
#include "tests/support/workers/policy.h"
#include "tests/support/workers/test_relay.h"
#include "workers/trainer/actor_role.h"

namespace baton::trainer {

/// Fixture: an actor on a tiny model, driven by an in-process controller.
class ActorTest : public ::testing::Test {
 protected:
  ActorTest() { Restart(); }

  /// A new process, as far as the role knows.
  void Restart() {
    worker_.reset();
    role_ = std::make_unique<ActorRole>(ranks::ModelRoleOptions(), relay_.get(), &shared_);
    worker_ = std::make_unique<RunningWorker>(controller_);
    EXPECT_TRUE(role_->Register(*worker_->operator->()).ok());
    worker_->Start();
    EXPECT_TRUE(controller_.WaitForHello(++processes_).has_value());
  }
  v1::Task Make(const std::string& method) {
    return MakeTask(std::to_string(++tokens_), "actor", method);
  }
  v1::TaskResult Run(const v1::Task& task) {
    return controller_.RunTask(task).value_or(v1::TaskResult());
  }
  v1::TaskResult Assign(const std::string& checkpoint = "", int64_t step = 0) {
    v1::Task task = Make("assign_role");
    *task.mutable_assign_role()->mutable_spec() = spec_;
    task.mutable_assign_role()->set_checkpoint(checkpoint);
    task.mutable_assign_role()->set_step(step);
    task.mutable_assign_role()->set_policy_version(static_cast<uint64_t>(step));
    return Run(task);
  }
  /// The update from the step before, which makes the version of that number.
  v1::Task MakeUpdate(int64_t step, const std::string& loss, const std::string& batch) {
    v1::Task task = Make("update");
    task.mutable_update()->set_step(step);
    task.mutable_update()->set_from_step(step - 1);
    task.mutable_update()->set_batch_id(batch);
    task.mutable_update()->set_loss(loss);
    task.mutable_update()->set_policy_version(static_cast<uint64_t>(step));
    return task;
  }
  v1::TaskResult Save(int64_t step, const std::string& name) {
    const std::string directory = folder_.path(name);
    std::filesystem::create_directories(directory);
    v1::Task task = Make("save_checkpoint");
    task.mutable_save_checkpoint()->set_step(step);
    task.mutable_save_checkpoint()->set_directory(directory);
    return Run(task);
  }

  TestFolder folder_;
  v1::JobSpec spec_ = policy::TinySpec();  ///< Spec of the job that Assign gives.
  FakeController controller_;
  policy::TestRelay relay_;
  hybrid::SharedPolicy shared_;
  std::unique_ptr<ActorRole> role_;
  std::unique_ptr<RunningWorker> worker_;
  int tokens_ = 0;
  int processes_ = 0;
};

}  // namespace baton::trainer

#endif  // BATON_TESTS_SUPPORT_WORKERS_ACTOR_ROLE_H_
