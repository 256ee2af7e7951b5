// Role "judge": a generative reward model, that is, a language model asked about each response.
#ifndef BATON_WORKERS_SCORING_JUDGE_ROLE_H_
#define BATON_WORKERS_SCORING_JUDGE_ROLE_H_

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "sdk/worker/worker.h"
#include "workers/engine/generation/generator.h"
#include "workers/policy/policy_source.h"
#include "workers/ranks/role_setup.h"
#include "workers/reward/verdict.h"
#include "workers/rollout/generator_loop.h"

namespace baton::scoring {

/// Method compute_reward (Score): the model of spec.judge reads `template` with the response put
/// in, through its own chat template, and answers greedily; what its verdict is worth is the number
/// `reward`. A judgement without a verdict that can be read is worth spec.judge.neutral; the number
/// `unreadable` is then 1, else 0. So is a question that is longer than the model reads. The node's
/// options `template`, `verdict`, `verdicts`, `neutral` and `max_new_tokens` stand above the
/// spec's.
class JudgeRole {
 public:
  explicit JudgeRole(ranks::ModelRoleOptions options);
  ~JudgeRole();

  /// Registers the role; this must outlive the worker's Run.
  absl::Status Register(Worker& worker);

  /// The question to a model of `source` about a trajectory. The verdict's template is a template's
  /// own text; prompt, response and answer are content. `with_suffix`: the response comes with the
  /// trajectory's prompt_suffix in front (spec.reward.with_prompt_suffix).
  static absl::StatusOr<policy::Prompt> Question(const policy::PolicySource& source,
                                                 const reward::Verdict& verdict,
                                                 const v1::Trajectory& trajectory,
                                                 bool with_suffix = false);

 private:
  /// The question of one node.
  struct Node {
    std::unique_ptr<reward::Verdict> verdict;
    int64_t max_new_tokens = 0;
  };
  struct Assigned {
    v1::JudgeSpec spec;
    bool with_suffix = false;  ///< spec.reward.with_prompt_suffix.
    std::unique_ptr<policy::PolicySource> source;
    std::unique_ptr<engine::CausalLM> model;
    std::unique_ptr<engine::Generator> generator;
    absl::Mutex mu;
    std::map<std::string, std::shared_ptr<const Node>> nodes ABSL_GUARDED_BY(mu);  ///< By options.
    std::unique_ptr<rollout::GeneratorLoop> loop;                                  ///< Ends first.
  };
  absl::StatusOr<v1::TaskResult> Assign(const v1::AssignRole& assign);
  void Compute(std::shared_ptr<TaskContext> context);
  absl::StatusOr<rollout::Generation> Ask(const v1::Trajectory& trajectory, const Node& node) const;
  static absl::StatusOr<std::shared_ptr<const Node>> NodeOf(Assigned& assigned,
                                                            const v1::Score& score);
  static v1::TaskResult Judge(Assigned& assigned, const rollout::Generation& generation);

  const ranks::ModelRoleOptions options_;
  std::unique_ptr<Assigned> assigned_;
};

}  // namespace baton::scoring

#endif  // BATON_WORKERS_SCORING_JUDGE_ROLE_H_
