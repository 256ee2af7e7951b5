// Role "reference": the policy as it was before the first step, for the KL to it.
#ifndef BATON_WORKERS_SCORING_REFERENCE_ROLE_H_
#define BATON_WORKERS_SCORING_REFERENCE_ROLE_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sdk/worker/worker.h"
#include "workers/engine/model/model.h"
#include "workers/ranks/ranks.h"
#include "workers/ranks/role_setup.h"
#include "workers/ranks/score_loop.h"

namespace baton::scoring {

/// Method compute_log_prob (Score): from columns `prompt_tokens` and `tokens` a column
/// `ref_log_prob`, float32 per response token, under softmax(logits / rollout.temperature) as the
/// policy's (temperature 1 where that is 0). The model is spec.reference.model, else spec.model;
/// never a checkpoint's, so a job that goes on keeps its reference. With several ranks
/// (ranks/ranks.h) the first of a tensor group is asked, and the others compute with it.
class ReferenceRole {
 public:
  explicit ReferenceRole(ranks::ModelRoleOptions options);
  ~ReferenceRole();

  /// Registers the role; this must outlive the worker's Run.
  absl::Status Register(Worker& worker);

 private:
  struct Assigned {
    std::unique_ptr<ranks::Ranks> ranks;  ///< Outlive what talks over them.
    std::unique_ptr<engine::CausalLM> model;
    std::unique_ptr<ranks::ScoreLoop> loop;  ///< Ends first.
  };
  absl::StatusOr<v1::TaskResult> Assign(const v1::Task& task, TaskContext& context);

  const ranks::ModelRoleOptions options_;
  std::unique_ptr<Assigned> assigned_;
};

}  // namespace baton::scoring

#endif  // BATON_WORKERS_SCORING_REFERENCE_ROLE_H_
