#include "workers/scoring/reward_model_role.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"
#include "sdk/worker/score_output.h"
#include "workers/policy/sequences.h"
#include "workers/ranks/score_tasks.h"

namespace baton::scoring {

RewardModelRole::RewardModelRole(std::string role, ranks::ModelRoleOptions options)
    : role_(std::move(role)), options_(std::move(options)) {}
RewardModelRole::~RewardModelRole() = default;

absl::Status RewardModelRole::Register(Worker& worker) {
  RoleOptions role;
  role.on_assign = [this](const v1::Task& task, TaskContext& context) {
    return Assign(task, context);
  };
  role.on_release = [this](const std::string&) { assigned_.reset(); };
  BATON_RETURN_IF_ERROR(worker.RegisterRole(role_, std::move(role)));
  return worker.RegisterAsyncMethod(
      role_, "compute_reward", options_.credits,
      [this](std::shared_ptr<TaskContext> context) { Compute(std::move(context)); });
}

absl::StatusOr<v1::TaskResult> RewardModelRole::Assign(const v1::Task& task, TaskContext& context) {
  const v1::AssignRole& assign = task.assign_role();
  assigned_.reset();
  auto assigned = std::make_unique<Assigned>();
  BATON_RETURN_IF_ERROR(ranks::Meet(task, context, options_, &assigned->ranks, &assigned->loop));
  const v1::JobSpec& spec = assign.spec();
  const bool cost = role_ == "cost";
  const std::string key = cost ? "spec.cost_model" : "spec.reward_model";
  const v1::ScoringModelSpec& own = cost ? spec.cost_model() : spec.reward_model();
  if (own.model().path().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ".model.path: role ", role_,
                     " needs a model with a scalar head; name its directory, or job:NAME of a job "
                     "of kind reward_model"));
  }
  BATON_ASSIGN_OR_RETURN(const auto policy,
                         policy::PolicySource::Open(spec.model(), assign.checkpoint()));
  auto source = policy::PolicySource::Open(own.model(), "");
  if (!source.ok()) return Annotate(source.status(), key);
  assigned->source = *std::move(source);
  auto model =
      assigned->source->LoadScalarModel(torch::Device(options_.device), 0,
                                        /*needs_head=*/true, assigned->ranks->tensor_group());
  if (!model.ok()) return Annotate(model.status(), absl::StrCat(key, ".model.path"));
  assigned->model = *std::move(model);
  if (spec.rollout().deterministic()) assigned->model->SetDeterministic(true);
  assigned->reads_tokens = ranks::SameTokens(policy->tokenizer(), assigned->source->tokenizer());
  assigned->error_reward = spec.reward().error_reward();
  assigned->loop->Start(
      ranks::BatchBudget(own.max_token_len(), spec, assigned->model->device().is_cpu()),
      [scalar = assigned->model.get()](absl::Span<const engine::TrainSequence> batch)
          -> absl::StatusOr<std::vector<std::vector<float>>> {
        BATON_ASSIGN_OR_RETURN(const auto scores,
                               engine::ComputeScores(*scalar, batch, ranks::NoTokenLimit()));
        std::vector<std::vector<float>> out;
        for (const float score : scores) out.push_back({score});
        return out;
      });
  Log(LogLevel::kInfo, "reward model is ready",
      {{"role", role_},
       {"rank", assign.rank()},
       {"reads", assigned->reads_tokens ? "tokens" : "text"},
       {"parameters", assigned->source->config().NumParameters()}});
  assigned_ = std::move(assigned);
  return v1::TaskResult();
}

absl::StatusOr<engine::TrainSequence> RewardModelRole::SequenceOf(
    const v1::Trajectory& trajectory) const {
  if (assigned_->reads_tokens) return policy::FromColumns(trajectory);
  // If the policy did not end its response, this text does not end either.
  return policy::FromTexts(trajectory, v1::DataSpec(), *assigned_->source,
                           /*ends=*/trajectory.finish_reason() != "length");
}

void RewardModelRole::Compute(std::shared_ptr<TaskContext> context) {
  const v1::Score& score = context->task().score();
  const std::string name = OutputName(score, role_ == "cost" ? "cost" : "reward");
  auto sequence = SequenceOf(score.trajectory());
  absl::Status unreadable = sequence.status();
  if (unreadable.ok()) {
    unreadable =
        engine::ValidateForScores(absl::MakeConstSpan(&*sequence, 1), assigned_->model->config());
  }
  if (absl::IsInvalidArgument(unreadable)) {
    v1::TaskResult result;
    result.set_error(ReplaceInvalidUtf8(unreadable.message()));
    (*result.mutable_metrics())[name] = assigned_->error_reward;
    context->Finish(std::move(result));
    return;
  }
  ranks::ScoreTask(*assigned_->loop, std::move(context), std::move(sequence),
                   [name](const std::vector<float>& scores) {
                     v1::TaskResult result;
                     (*result.mutable_metrics())[name] = scores.front();
                     return result;
                   });
}

}  // namespace baton::scoring
