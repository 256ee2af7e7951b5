#include "workers/trainer/critic_role.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"
#include "sdk/worker/checkpoint_files.h"
#include "workers/engine/scalar/scalar_directory.h"
#include "workers/policy/trajectory_columns.h"
#include "workers/ranks/score_tasks.h"
#include "workers/trainer/critic_options.h"
#include "workers/trainer/train_options.h"
#include "workers/trainer/update_batch.h"

namespace baton::trainer {
CriticRole::CriticRole(std::string role, ranks::ModelRoleOptions options)
    : options_(std::move(options)),
      role_(std::move(role)),
      columns_(role_ == "cost_critic" ? policy::ValueColumns{"cost_values", "cost_returns"}
                                      : policy::ValueColumns()) {}
CriticRole::~CriticRole() = default;

absl::Status CriticRole::Register(Worker& worker) {
  experience_ = std::make_unique<ExperienceClient>(worker.options());
  RoleOptions role;
  role.on_assign = [this](const v1::Task& task, TaskContext& context) {
    return Assign(task, context);
  };
  role.on_release = [this](const std::string&) { assigned_.reset(); };
  BATON_RETURN_IF_ERROR(worker.RegisterRole(role_, std::move(role)));
  BATON_RETURN_IF_ERROR(worker.RegisterAsyncMethod(
      role_, "compute_values", options_.credits, [this](std::shared_ptr<TaskContext> context) {
        ranks::ScoreColumn(*assigned_->loop, std::move(context), columns_.values);
      }));
  BATON_RETURN_IF_ERROR(
      worker.RegisterMethod(role_, "update", 1, [this](const v1::Task& task, TaskContext& context) {
        return ranks::RunCommand(*assigned_->loop, task, context,
                                 [&] { return Update(task, context); });
      }));
  return worker.RegisterMethod(role_, "save_checkpoint", 1,
                               [this](const v1::Task& task, TaskContext& context) {
                                 return ranks::RunCommand(*assigned_->loop, task, context,
                                                          [&] { return SaveCheckpoint(task); });
                               });
}

CriticRole::Result CriticRole::Assign(const v1::Task& task, TaskContext& context) {
  const v1::AssignRole& assign = task.assign_role();
  assigned_.reset();
  auto assigned = std::make_unique<Assigned>();
  BATON_RETURN_IF_ERROR(ranks::Meet(task, context, options_, &assigned->ranks, &assigned->loop));
  assigned->spec = SpecOfCritic(assign.spec(), role_);
  const v1::JobSpec& spec = assigned->spec;
  const torch::Device device(options_.device);
  if (!assign.checkpoint().empty()) {
    BATON_RETURN_IF_ERROR(VerifyCheckpointFiles(assign.checkpoint()));
    const std::string folder = absl::StrCat(assign.checkpoint(), "/", CriticParts(role_).model);
    BATON_ASSIGN_OR_RETURN(assigned->source, policy::PolicySource::Open(spec.model(), folder));
    BATON_ASSIGN_OR_RETURN(
        assigned->model,
        engine::LoadScalarModel(folder, ranks::kScoreDtype, device, engine::HeadWanted::kRequired,
                                assigned->ranks->tensor_group()));
  } else {
    const bool own = spec.critic().has_model();
    auto source = policy::PolicySource::Open(own ? spec.critic().model() : spec.model(), "");
    const std::string section = absl::StrCat("spec.", role_);
    if (!source.ok()) return own ? Annotate(source.status(), section) : source.status();
    assigned->source = *std::move(source);
    if (own) {
      BATON_RETURN_IF_ERROR(
          ranks::CheckReadsPolicyTokens(assign, *assigned->source, section + ".model"));
    }
    BATON_ASSIGN_OR_RETURN(
        assigned->model,
        assigned->source->LoadScalarModel(device, static_cast<uint64_t>(spec.data().seed()),
                                          /*needs_head=*/false, assigned->ranks->tensor_group()));
  }
  if (spec.rollout().deterministic()) assigned->model->SetDeterministic(true);
  auto trainer = engine::ScalarTrainer::Create(assigned->model.get(), MakeOptimizerSpec(spec),
                                               assigned->ranks->data_group());
  if (!trainer.ok()) return Annotate(trainer.status(), absl::StrCat("spec.", role_, ".train"));
  assigned->trainer = *std::move(trainer);
  TrainerState state = {assign.step(), assign.policy_version()};
  if (!assign.checkpoint().empty()) {
    BATON_ASSIGN_OR_RETURN(state,
                           RestoreLearner(assign.checkpoint(), CriticParts(role_), assign.step(),
                                          LearnerOf(*assigned->model, *assigned->trainer)));
    state.policy_version = assign.policy_version();
  }
  assigned->steps = LearningSteps(role_, LearningSteps::Versions::kSomeUpdates, state);
  assigned->loop->Start(
      ranks::BatchBudget(0, spec, assigned->model->device().is_cpu()),
      [model = assigned->model.get()](absl::Span<const engine::TrainSequence> batch) {
        return engine::ComputeValues(*model, batch, ranks::NoTokenLimit());
      });
  Log(LogLevel::kInfo, "critic is ready",
      {{"job", task.job()},
       {"role", role_},
       {"step", state.step},
       {"rank", assign.rank()},
       {"parameters", assigned->source->config().NumParameters()}});
  assigned_ = std::move(assigned);
  return v1::TaskResult();
}

absl::StatusOr<CriticRole::Metrics> CriticRole::Train(
    const v1::Task& task, const std::vector<engine::TrainSequence>& batch, const LossSpec& loss,
    const engine::UpdateOptions& options) {
  Assigned& assigned = *assigned_;
  BATON_ASSIGN_OR_RETURN(const auto measured, assigned.trainer->UpdateValues(batch, loss, options));
  for (const std::string& reason : assigned.trainer->skip_reasons()) {
    Log(LogLevel::kWarn, "an optimizer step of the critic was skipped",
        {{"job", task.job()}, {"role", role_}, {"step", task.update().step()}, {"reason", reason}});
  }
  Metrics metrics;
  for (const auto& [name, value] : measured) {
    if (name == "perf/total_num_tokens") continue;  // the actor tells it
    const bool own = absl::StartsWith(name, "critic/");
    metrics[own ? absl::StrCat(role_, name.substr(name.find('/'))) : name] = value;
  }
  return metrics;
}

CriticRole::Result CriticRole::Update(const v1::Task& task, TaskContext& context) {
  Assigned& assigned = *assigned_;
  const v1::Update& update = task.update();
  if (const v1::TaskResult* made = assigned.steps.ResultOf(update)) return *made;
  BATON_RETURN_IF_ERROR(assigned.steps.CheckStart(update));
  BATON_ASSIGN_OR_RETURN(const auto loss, ReadUpdateLoss(role_, update));
  const bool shared = assigned.ranks->data_group() != nullptr;
  BATON_ASSIGN_OR_RETURN(
      auto trajectories,
      FetchUpdateBatch(*experience_, context, shared ? BatchView::kHeaders : BatchView::kWhole));
  // Texts, which the actor imitates and the critic does not learn from, stand behind all others.
  const auto texts =
      std::stable_partition(trajectories.begin(), trajectories.end(), policy::IsSampled);
  trajectories.erase(texts, trajectories.end());
  BATON_ASSIGN_OR_RETURN(auto batch, policy::MakeTrainBatch(trajectories, assigned.spec.data(),
                                                            *assigned.source, columns_));
  auto options = MakeUpdateOptions(assigned.spec, batch, assigned.model->device().is_cpu());
  FollowTask(context, &options);
  options.step = std::max<int64_t>(0, update.step() - 1);
  if (shared) {
    BATON_ASSIGN_OR_RETURN(const auto share, assigned.trainer->Share(batch, loss, options));
    options.fetched = FetchShare(*experience_, context, trajectories, share, columns_, &batch);
  }
  const Stopwatch watch;
  BATON_ASSIGN_OR_RETURN(Metrics metrics, Train(task, batch, loss, options));
  metrics["timing_s/update_" + role_] = watch.Seconds();
  return assigned.steps.Finish(update, metrics);
}

CriticRole::Result CriticRole::SaveCheckpoint(const v1::Task& task) {
  const Assigned& assigned = *assigned_;
  return SaveStep(assigned.steps, task.save_checkpoint(),
                  LearnerOf(*assigned.model, *assigned.trainer), assigned.source->companions(),
                  CriticParts(role_), *assigned.ranks, "timing_s/save_" + role_);
}

}  // namespace baton::trainer
