// Trajectories and tasks for tests of the scoring roles.
#ifndef BATON_TESTS_SUPPORT_WORKERS_ROLE_H_
#define BATON_TESTS_SUPPORT_WORKERS_ROLE_H_

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "baton/v1/worker_service.pb.h"
#include "gtest/gtest.h"
#include "sdk/common/messages/columns.h"
#include "tests/support/sdk/worker.h"
#include "tests/support/workers/policy.h"
#include "workers/engine/model/hf_directory.h"
#include "workers/engine/scalar/scalar_directory.h"
#include "workers/engine/scalar/scalar_model.h"
#include "workers/policy/policy_source.h"

namespace baton::ranks {

/// Ragged, with the tokens of TinySpec's model (0 … 16); responses of length 1 among them.
inline std::vector<v1::Trajectory> TinyTrajectories(int count) {
  std::vector<v1::Trajectory> out;
  for (int i = 0; i < count; ++i) {
    v1::Trajectory trajectory;
    trajectory.set_trajectory_id("t" + std::to_string(i));
    std::vector<int32_t> prompt, response;
    for (int t = 0; t < 1 + i % 4; ++t) prompt.push_back((i * 5 + t * 3) % 14);
    for (int t = 0; t < 1 + (i * 7) % 11; ++t) response.push_back((i * 3 + t * 5) % 14);
    *trajectory.add_columns() = MakeColumn("prompt_tokens", false, absl::MakeConstSpan(prompt));
    *trajectory.add_columns() = MakeColumn("tokens", true, absl::MakeConstSpan(response));
    const auto prompt_end = static_cast<uint32_t>(prompt.size());
    v1::Segment* segment = trajectory.add_segments();
    segment->set_kind(v1::Segment::KIND_PROMPT);
    segment->set_end(prompt_end);
    segment = trajectory.add_segments();
    segment->set_kind(v1::Segment::KIND_MODEL);
    segment->set_begin(prompt_end);
    segment->set_end(prompt_end + static_cast<uint32_t>(response.size()));
    out.push_back(trajectory);
  }
  return out;
}

/// A reward model with random weights on the characters of a policy like `model`.
inline std::unique_ptr<engine::ScalarModel> WriteRewardModel(const v1::ModelSpec& model,
                                                             const std::string& dir) {
  const auto source = policy::PolicySource::Open(model, "").value();
  const auto decoder = source->LoadModel(torch::kFloat32, torch::kCPU, 11).value();
  auto scalar = engine::ScalarModel::FromCausalLM(*decoder, torch::kFloat32, torch::kCPU).value();
  torch::NoGradGuard no_grad;
  torch::Tensor head = scalar->parameters().back().second;
  head.copy_(torch::arange(head.numel()).reshape_as(head) * 0.1 - 0.5);
  engine::SaveOptions options;
  options.companions = source->companions();
  EXPECT_TRUE(engine::SaveScalarModel(*scalar, dir, options).ok());
  scalar->SetDeterministic(true);
  return scalar;
}

/// Trajectories as a critic learns them: values 0, returns 1 and -1 in turn.
inline std::vector<v1::Trajectory> WithReturns(std::vector<v1::Trajectory> batch) {
  for (size_t i = 0; i < batch.size(); ++i) {
    const size_t length = FindColumn(batch[i], "tokens")->data().size() / 4;
    const std::vector<float> values(length, 0.0f), returns(length, i % 2 == 0 ? 1.0f : -1.0f);
    *batch[i].add_columns() = MakeColumn("values", true, absl::MakeConstSpan(values));
    *batch[i].add_columns() = MakeColumn("returns", true, absl::MakeConstSpan(returns));
  }
  return batch;
}

inline std::vector<float> Floats(const v1::Column& column) {
  std::vector<float> values(column.data().size() / sizeof(float));
  std::memcpy(values.data(), column.data().data(), column.data().size());
  return values;
}

/// Sends tasks of one role to a worker and waits for their results.
class RoleDriver {
 public:
  RoleDriver(FakeController& controller, std::string role)
      : controller_(controller), role_(std::move(role)) {}

  v1::Task Make(const std::string& method) {
    return MakeTask(std::to_string(++tokens_), role_, method);
  }
  v1::TaskResult Run(const v1::Task& task) {
    return controller_.RunTask(task).value_or(v1::TaskResult());
  }
  v1::TaskResult Assign(const v1::JobSpec& spec, const std::string& checkpoint = "",
                        int64_t step = 0) {
    v1::Task task = Make("assign_role");
    *task.mutable_assign_role()->mutable_spec() = spec;
    task.mutable_assign_role()->set_checkpoint(checkpoint);
    task.mutable_assign_role()->set_step(step);
    task.mutable_assign_role()->set_policy_version(static_cast<uint64_t>(step));
    return Run(task);
  }
  v1::Task MakeScore(const std::string& method, const v1::Trajectory& trajectory) {
    v1::Task task = Make(method);
    *task.mutable_score()->mutable_trajectory() = trajectory;
    return task;
  }
  /// All at once; the results in order.
  std::vector<v1::TaskResult> ScoreAll(const std::string& method,
                                       const std::vector<v1::Trajectory>& trajectories) {
    std::vector<v1::Task> tasks;
    for (const auto& trajectory : trajectories) tasks.push_back(MakeScore(method, trajectory));
    for (const v1::Task& task : tasks) controller_.SendTask(task);
    std::vector<v1::TaskResult> results;
    for (const v1::Task& task : tasks) {
      results.push_back(controller_.WaitForResult(task.task_token()).value_or(v1::TaskResult()));
      EXPECT_EQ(results.back().status().code(), 0) << results.back().status().message();
    }
    return results;
  }

 private:
  FakeController& controller_;
  const std::string role_;
  int tokens_ = 0;
};

}  // namespace baton::ranks

#endif  // BATON_TESTS_SUPPORT_WORKERS_ROLE_H_
