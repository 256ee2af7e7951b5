// The set-up of the tests of the rollout role: the role on a tiny model, driven by an in-process
// controller.
#ifndef BATON_TESTS_SUPPORT_WORKERS_ROLLOUT_ROLE_H_
#define BATON_TESTS_SUPPORT_WORKERS_ROLLOUT_ROLE_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/engine/model_image.h"
#include "tests/support/sdk/worker.h"
#include "tests/support/workers/policy.h"
#include "tests/support/workers/test_relay.h"
#include "tests/support/workers/weights_relay.h"
#include "workers/rollout/rollout_role.h"

namespace baton::rollout {

/// Fixture: a rollout role on a tiny model, driven by an in-process controller.
class RolloutRoleTest : public ::testing::Test {
 protected:
  RolloutRoleTest() : role_({}, relay_.get(), &shared_), worker_(controller_) {
    EXPECT_TRUE(role_.Register(*worker_.operator->()).ok());
    worker_.Start();
    source_ = policy::PolicySource::Open(policy::TinySpec().model(), "").value();
  }

  v1::TaskResult Run(const v1::Task& task) {
    return controller_.RunTask(task).value_or(v1::TaskResult());
  }
  v1::Task Make(const std::string& method) {
    return MakeTask(std::to_string(++tokens_), "rollout", method);
  }
  void Assign(const v1::JobSpec& spec = policy::TinySpec(), const std::string& job_uid = "",
              const std::string& history_capability = "") {
    v1::Task task = Make("assign_role");
    task.set_job_uid(job_uid);
    task.mutable_assign_role()->set_history_capability(history_capability);
    *task.mutable_assign_role()->mutable_spec() = spec;
    const v1::TaskResult result = Run(task);
    ASSERT_FALSE(result.task_token().empty());
    ASSERT_EQ(result.status().code(), 0) << result.status().message();
  }
  void Publish(uint64_t version, uint64_t seed) {
    const auto model = source_->LoadModel(torch::kFloat32, torch::kCPU, seed).value();
    const auto image = engine::testing::ModelImage(*model).value();
    ASSERT_TRUE(
        policy::PublishImage(*relay_, {"projects/default/jobs/test", version, true, ""}, image)
            .ok());
  }
  v1::TaskResult Load(uint64_t version) {
    v1::Task task = Make("load_weights");
    task.mutable_load_weights()->set_policy_version(version);
    return Run(task);
  }
  v1::Task MakeGenerate(uint64_t version, uint32_t sample = 0) {
    v1::Task task = Make("generate");
    *task.mutable_generate() = policy::TinyGenerate(version, sample);
    return task;
  }
  static std::vector<int32_t> Tokens(const v1::TaskResult& result, int column) {
    std::vector<int32_t> tokens(result.columns(column).data().size() / 4);
    std::memcpy(tokens.data(), result.columns(column).data().data(), tokens.size() * 4);
    return tokens;
  }

  FakeController controller_;
  policy::TestRelay relay_;
  hybrid::SharedPolicy shared_;
  RolloutRole role_;
  RunningWorker worker_;
  std::unique_ptr<policy::PolicySource> source_;
  int tokens_ = 0;
};

}  // namespace baton::rollout

#endif  // BATON_TESTS_SUPPORT_WORKERS_ROLLOUT_ROLE_H_
