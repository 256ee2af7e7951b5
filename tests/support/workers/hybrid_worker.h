// A worker that plays actor and rollout together, driven by an in-process controller.
#ifndef BATON_TESTS_SUPPORT_WORKERS_HYBRID_WORKER_H_
#define BATON_TESTS_SUPPORT_WORKERS_HYBRID_WORKER_H_

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sdk/common/messages/columns.h"
#include "tests/support/sdk/worker.h"
#include "tests/support/workers/policy.h"
#include "workers/hybrid/shared_policy.h"
#include "workers/policy/trajectory_columns.h"
#include "workers/rollout/rollout_role.h"
#include "workers/trainer/actor_role.h"

namespace baton::testing {

/// Demonstrations of sums; `first` makes one batch differ from another.
inline std::vector<v1::Trajectory> Sums(int first) {
  std::vector<v1::Trajectory> batch;
  for (int i = 0; i < 4; ++i) {
    v1::Trajectory trajectory;
    trajectory.set_prompt_text(std::to_string((first + i) % 10) + "+0=");
    trajectory.set_response_text(std::to_string((first + i) % 10));
    batch.push_back(trajectory);
  }
  return batch;
}

/// The place of a process among the ranks of role actor.
struct Place {
  int rank = 0, tp = 1, dp = 1;
  std::string store;
  int generation_tp = 1;
};

/// One worker process, as far as its roles know.
class HybridWorker {
 public:
  explicit HybridWorker(policy::WeightsRelay* relay, Place place = Place())
      : place_(std::move(place)),
        actor_({"cpu", "127.0.0.1"}, relay, &shared_),
        rollout_({}, relay, &shared_),
        worker_(controller_) {
    spec_ = policy::TinySpec();
    EXPECT_TRUE(actor_.Register(*worker_.operator->()).ok());
    EXPECT_TRUE(rollout_.Register(*worker_.operator->()).ok());
    worker_.Start();
    EXPECT_TRUE(controller_.WaitForHello(1).has_value());
    for (int step = 1; step <= 4; ++step) {
      controller_.SetBatch("step " + std::to_string(step), Sums(step));
    }
  }

  FakeController& controller() { return controller_; }
  v1::JobSpec& spec() { return spec_; }

  v1::Task Make(const std::string& role, const std::string& method) {
    return MakeTask("task " + std::to_string(++tokens_), role, method);
  }
  v1::TaskResult Run(const v1::Task& task) {
    const auto result = controller_.RunTask(task);
    EXPECT_TRUE(result.has_value()) << task.role() << "." << task.method() << " has no result";
    return result.value_or(v1::TaskResult());
  }
  v1::Task MakeAssign(const std::string& role) { return MakeAssign(role, place_.generation_tp); }
  v1::Task MakeAssign(const std::string& role, int generation_tp) {
    v1::Task task = Make(role, "assign_role");
    v1::AssignRole* assign = task.mutable_assign_role();
    *assign->mutable_spec() = spec_;
    assign->set_generation_tp(generation_tp);
    if (role == "actor" && place_.tp * place_.dp > 1) {
      assign->set_rank(place_.rank);
      assign->set_world_size(place_.tp * place_.dp);
      assign->mutable_rendezvous()->set_store(place_.store);
      assign->mutable_rendezvous()->set_name("actor");
      assign->mutable_rendezvous()->set_tp(place_.tp);
      assign->mutable_rendezvous()->set_dp(place_.dp);
      task.mutable_order()->set_pool("actor");
      task.mutable_order()->set_group_epoch(++group_epoch_);
      task.mutable_order()->set_sequence(1);
    }
    return task;
  }
  v1::TaskResult Assign(const std::string& role) { return Run(MakeAssign(role)); }
  v1::TaskResult Assign(const std::string& role, int generation_tp) {
    return Run(MakeAssign(role, generation_tp));
  }
  v1::TaskResult Release(const std::string& role) { return Run(Make(role, "release_role")); }

  v1::Task MakeUpdate(int64_t step) {
    v1::Task task = Make("actor", "update");
    v1::Update* update = task.mutable_update();
    update->set_step(step);
    update->set_from_step(step - 1);
    update->set_batch_id("step " + std::to_string(step));
    update->set_loss("sft");
    update->set_policy_version(static_cast<uint64_t>(step));
    return task;
  }
  v1::TaskResult Update(int64_t step) { return Run(MakeUpdate(step)); }
  v1::TaskResult ToGeneration(uint64_t version) {
    v1::Task task = Make("actor", "to_generation");
    task.mutable_to_generation()->set_policy_version(version);
    return Run(task);
  }
  v1::TaskResult Publish(uint64_t version) {
    v1::Task task = Make("actor", "publish");
    task.mutable_publish()->set_policy_version(version);
    return Run(task);
  }
  v1::TaskResult Load(uint64_t version) {
    v1::Task task = Make("rollout", "load_weights");
    task.mutable_load_weights()->set_policy_version(version);
    return Run(task);
  }
  v1::TaskResult Save(int64_t step, const std::string& directory) {
    std::filesystem::create_directories(directory);
    v1::Task task = Make("actor", "save_checkpoint");
    task.mutable_save_checkpoint()->set_step(step);
    task.mutable_save_checkpoint()->set_directory(directory);
    return Run(task);
  }
  std::vector<float> LogProbs() {
    v1::Task task = Make("actor", "compute_log_prob");
    v1::Trajectory* trajectory = task.mutable_score()->mutable_trajectory();
    *trajectory->add_columns() = MakeColumn("prompt_tokens", false, std::vector<int32_t>{3, 13});
    *trajectory->add_columns() = MakeColumn("tokens", true, std::vector<int32_t>{5, 1});
    v1::Trajectory scored;
    *scored.mutable_columns() = Run(task).columns();
    return policy::ReadFloat(scored, "old_log_prob").value();
  }

  v1::Task MakeGenerate(uint64_t version, uint32_t sample = 0, int tokens = 12) {
    v1::Task task = Make("rollout", "generate");
    *task.mutable_generate() = policy::TinyGenerate(version, sample);
    task.mutable_generate()->set_max_new_tokens(tokens);
    return task;
  }
  /// Eight responses, all at once.
  std::vector<v1::TaskResult> Generate(uint64_t version) {
    std::vector<v1::Task> tasks;
    for (uint32_t sample = 0; sample < 8; ++sample) tasks.push_back(MakeGenerate(version, sample));
    for (const v1::Task& task : tasks) controller_.SendTask(task);
    std::vector<v1::TaskResult> results;
    for (const v1::Task& task : tasks) {
      results.push_back(controller_.WaitForResult(task.task_token()).value_or(v1::TaskResult()));
      EXPECT_EQ(results.back().status().code(), 0) << results.back().status().message();
      EXPECT_EQ(results.back().columns_size(), 3);
    }
    return results;
  }

  /// Many live generations; with rollout.max_num_seqs 1 they are so for long. Returns when all have
  /// begun and one has ended.
  std::vector<v1::Task> StartMany(uint64_t version) {
    std::vector<v1::Task> tasks;
    for (uint32_t i = 0; i < 256; ++i) tasks.push_back(MakeGenerate(version, i, 40));
    for (const v1::Task& task : tasks) controller_.SendTask(task);
    Run(MakeGenerate(version + 1));  // Refused at once, in its turn.
    EXPECT_TRUE(controller_.WaitForResult(tasks[0].task_token()).has_value());
    return tasks;
  }

 private:
  const Place place_;
  v1::JobSpec spec_;
  FakeController controller_;
  hybrid::SharedPolicy shared_;
  trainer::ActorRole actor_;
  rollout::RolloutRole rollout_;
  RunningWorker worker_;
  int tokens_ = 0;
  uint64_t group_epoch_ = 0;
};

inline std::vector<int32_t> TokensOf(const v1::TaskResult& result) {
  std::vector<int32_t> tokens(result.columns(1).data().size() / 4);
  std::memcpy(tokens.data(), result.columns(1).data().data(), tokens.size() * 4);
  return tokens;
}

/// Tokens; with `bits`, the log-probs' bits too.
inline void ExpectSameResponses(const std::vector<v1::TaskResult>& a,
                                const std::vector<v1::TaskResult>& b, bool bits) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_GE(a[i].columns_size(), 3);
    ASSERT_GE(b[i].columns_size(), 3);
    EXPECT_GT(TokensOf(a[i]).size(), 0u);
    EXPECT_EQ(TokensOf(a[i]), TokensOf(b[i]));
    EXPECT_EQ(a[i].response_text(), b[i].response_text());
    EXPECT_EQ(a[i].finish_reason(), b[i].finish_reason());
    if (bits) EXPECT_EQ(a[i].columns(2).data(), b[i].columns(2).data());
  }
}

}  // namespace baton::testing

#endif  // BATON_TESTS_SUPPORT_WORKERS_HYBRID_WORKER_H_
