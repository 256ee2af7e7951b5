// Role "rollout": load_weights, generate and run_ahead, for one job at a time. With
// AssignRole.generation_tp it has no weights of its own: it generates with those of the actor that
// this process plays.
#ifndef BATON_WORKERS_ROLLOUT_ROLLOUT_ROLE_H_
#define BATON_WORKERS_ROLLOUT_ROLLOUT_ROLE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sdk/worker/experience_client.h"
#include "sdk/worker/worker.h"
#include "workers/engine/generation/generator.h"
#include "workers/hybrid/shared_policy.h"
#include "workers/policy/policy_source.h"
#include "workers/policy/weights_relay.h"
#include "workers/rollout/generator_loop.h"
#include "workers/rollout/speculation/drafter_cache.h"
#include "workers/rollout/speculation/history_fetcher.h"

namespace baton::rollout {

struct RolloutOptions {
  std::string device = "cpu";  ///< As torch names it.
  int credits = 1024;  ///< Tasks at once; those beyond rollout.max_num_seqs wait in the generator.
};

/// The role's methods are called by the worker's threads for this role, one at a time; `generate`
/// returns at once and its response streams from the generator's own thread.
class RolloutRole {
 public:
  /// `relay` and `shared` must outlive this. Role actor of this process has the same `shared`.
  RolloutRole(RolloutOptions options, policy::WeightsRelay* relay, hybrid::SharedPolicy* shared);
  ~RolloutRole();

  /// Registers the role; this must outlive the worker's Run.
  absl::Status Register(Worker& worker);

  /// The assignment's drafter; null: it has none. Between tasks only.
  const TreeDrafter* drafter() const { return assigned_ ? assigned_->drafter.get() : nullptr; }

 private:
  /// The state of an assignment. Order matters: the loop ends first.
  struct Assigned {
    v1::JobSpec spec;
    std::string job_uid;
    std::unique_ptr<policy::PolicySource> source;
    std::unique_ptr<TreeDrafter> drafter;  ///< Null: rollout.speculation is off.
    TreeCacheOptions drafter_options;
    std::unique_ptr<HistoryFetcher> history;  ///< For the drafter; null: there is none to ask for.
    std::unique_ptr<engine::CausalLM> model;  ///< Null: the actor's …
    std::unique_ptr<engine::Generator> generator;  ///< … and so is this.
    std::unique_ptr<GeneratorLoop> loop;
  };

  absl::StatusOr<v1::TaskResult> Assign(const v1::Task& task);
  absl::Status MakeGenerator(Assigned& assigned) const;
  absl::Status MakeDrafter(Assigned& assigned);
  void Release();
  absl::StatusOr<v1::TaskResult> LoadWeights(const v1::Task& task, TaskContext& context);
  /// `ahead`: the task is "run_ahead".
  void Generate(std::shared_ptr<TaskContext> context, bool ahead);
  absl::StatusOr<Generation> MakeGeneration(const v1::Generate& task) const;

  const RolloutOptions options_;
  policy::WeightsRelay* const relay_;
  hybrid::SharedPolicy* const shared_;
  std::unique_ptr<ExperienceClient> experience_;
  DrafterCache kept_;  ///< Drafter of the last assignment.
  std::unique_ptr<Assigned> assigned_;
};

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_ROLLOUT_ROLE_H_
