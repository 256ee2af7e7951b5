#include "workers/scoring/reference_role.h"

#include <utility>

#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/loss/log_probs.h"
#include "workers/ranks/score_tasks.h"

namespace baton::scoring {

ReferenceRole::ReferenceRole(ranks::ModelRoleOptions options) : options_(std::move(options)) {}
ReferenceRole::~ReferenceRole() = default;

absl::Status ReferenceRole::Register(Worker& worker) {
  RoleOptions role;
  role.on_assign = [this](const v1::Task& task, TaskContext& context) {
    return Assign(task, context);
  };
  role.on_release = [this](const std::string&) { assigned_.reset(); };
  BATON_RETURN_IF_ERROR(worker.RegisterRole("reference", std::move(role)));
  return worker.RegisterAsyncMethod("reference", "compute_log_prob", options_.credits,
                                    [this](std::shared_ptr<TaskContext> context) {
                                      ranks::ScoreColumn(*assigned_->loop, std::move(context),
                                                         "ref_log_prob");
                                    });
}

absl::StatusOr<v1::TaskResult> ReferenceRole::Assign(const v1::Task& task, TaskContext& context) {
  const v1::AssignRole& assign = task.assign_role();
  assigned_.reset();
  auto assigned = std::make_unique<Assigned>();
  BATON_RETURN_IF_ERROR(ranks::Meet(task, context, options_, &assigned->ranks, &assigned->loop));
  const v1::JobSpec& spec = assign.spec();
  const bool own = spec.reference().has_model();
  const v1::ModelSpec& where = own ? spec.reference().model() : spec.model();
  auto source = policy::PolicySource::Open(where, "");
  if (!source.ok()) return own ? Annotate(source.status(), "spec.reference") : source.status();
  if (own)
    BATON_RETURN_IF_ERROR(ranks::CheckReadsPolicyTokens(assign, **source, "spec.reference.model"));
  BATON_ASSIGN_OR_RETURN(assigned->model,
                         (*source)->LoadModel(ranks::kScoreDtype, torch::Device(options_.device),
                                              static_cast<uint64_t>(spec.data().seed()),
                                              assigned->ranks->tensor_group()));
  if (spec.rollout().deterministic()) assigned->model->SetDeterministic(true);
  const double temperature = spec.rollout().temperature() > 0 ? spec.rollout().temperature() : 1;
  assigned->loop->Start(
      ranks::BatchBudget(spec.reference().max_token_len(), spec,
                         assigned->model->device().is_cpu()),
      [model = assigned->model.get(), temperature](absl::Span<const engine::TrainSequence> batch) {
        return engine::ComputeLogProbs(*model, batch, temperature, ranks::NoTokenLimit());
      });
  assigned_ = std::move(assigned);
  Log(LogLevel::kInfo, "reference is ready",
      {{"rank", assign.rank()}, {"parameters", (*source)->config().NumParameters()}});
  return v1::TaskResult();
}

}  // namespace baton::scoring
