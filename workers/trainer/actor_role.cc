#include "workers/trainer/actor_role.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"
#include "sdk/worker/checkpoint_files.h"
#include "workers/engine/model/kept_update.h"
#include "workers/policy/generation_options.h"
#include "workers/policy/policy_source.h"
#include "workers/policy/sequences.h"
#include "workers/policy/trajectory_columns.h"
#include "workers/ranks/score_tasks.h"
#include "workers/trainer/train_options.h"
#include "workers/trainer/update_batch.h"

namespace baton::trainer {
namespace {

/// Weights are float32 while they learn, whatever they travel as.
constexpr torch::Dtype kTrainDtype = torch::kFloat32;

std::optional<int64_t> CountCutTexts(absl::Span<const engine::TrainSequence> batch) {
  std::optional<int64_t> cut;
  for (const engine::TrainSequence& sequence : batch) {
    if (sequence.pretraining) cut = cut.value_or(0) + (sequence.cut ? 1 : 0);
  }
  return cut;
}

}  // namespace

ActorRole::ActorRole(ranks::ModelRoleOptions options, policy::WeightsRelay* relay,
                     hybrid::SharedPolicy* shared)
    : options_(std::move(options)), relay_(relay), shared_(shared) {}

ActorRole::~ActorRole() { Drop(absl::CancelledError("the worker ends")); }

absl::Status ActorRole::Register(Worker& worker) {
  experience_ = std::make_unique<ExperienceClient>(worker.options());
  const auto method = [this](Result (ActorRole::*call)(const v1::Task&, TaskContext&)) {
    return [this, call](const v1::Task& task, TaskContext& context) -> Result {
      const auto run = [&] { return (this->*call)(task, context); };
      if (assigned_->loop == nullptr) return run();
      return ranks::RunCommand(*assigned_->loop, task, context, run);
    };
  };
  RoleOptions role;
  role.on_assign = [this](const v1::Task& task, TaskContext& context) {
    return Assign(task, context);
  };
  role.on_release = [this](const std::string& job) {
    Drop(absl::UnavailableError("the actor of this worker was released or is assigned again"));
    relay_->Forget(job);
  };
  BATON_RETURN_IF_ERROR(worker.RegisterRole("actor", std::move(role)));
  BATON_RETURN_IF_ERROR(worker.RegisterMethod("actor", "update", 1, method(&ActorRole::Update)));
  BATON_RETURN_IF_ERROR(worker.RegisterMethod("actor", "publish", 1, method(&ActorRole::Publish)));
  BATON_RETURN_IF_ERROR(
      worker.RegisterMethod("actor", "to_generation", 1, method(&ActorRole::ToGeneration)));
  BATON_RETURN_IF_ERROR(
      worker.RegisterMethod("actor", "save_checkpoint", 1, method(&ActorRole::SaveCheckpoint)));
  BATON_RETURN_IF_ERROR(worker.RegisterAsyncMethod(
      "actor", "compute_log_prob", options_.credits,
      [this](std::shared_ptr<TaskContext> context) { ComputeLogProb(std::move(context)); }));
  BATON_RETURN_IF_ERROR(
      worker.RegisterMethod("actor", "evaluate", 1, method(&ActorRole::Evaluate)));
  MethodOptions without_role;
  without_role.needs_role = false;
  return worker.RegisterMethod(
      "actor", "export", 1, [](const v1::Task& task, TaskContext&) { return Export(task); },
      without_role);
}

ActorRole::Result ActorRole::Assign(const v1::Task& task, TaskContext& context) {
  const v1::AssignRole& assign = task.assign_role();
  Drop(absl::UnavailableError("the actor of this worker is assigned again"));
  auto assigned = std::make_unique<Assigned>();
  assigned->spec = assign.spec();
  // First of all: what follows may take ranks differently long.
  BATON_ASSIGN_OR_RETURN(assigned->ranks, ranks::Ranks::Join(task, options_.group_host, [&context] {
                           return context.cancelled();
                         }));
  hybrid::HybridGroups groups;
  if (assign.generation_tp() > 0) {
    BATON_ASSIGN_OR_RETURN(groups, assigned->ranks->JoinHybrid(assign.generation_tp()));
  }
  if (assign.spec().kind() != v1::JOB_KIND_REWARD_MODEL) {
    BATON_ASSIGN_OR_RETURN(auto control, assigned->ranks->JoinControl());
    assigned->loop = std::make_unique<ranks::ScoreLoop>(std::move(control));
  }
  if (!assign.checkpoint().empty()) {
    BATON_RETURN_IF_ERROR(VerifyCheckpointFiles(assign.checkpoint()));
  }
  BATON_ASSIGN_OR_RETURN(assigned->source,
                         policy::PolicySource::Open(assign.spec().model(), assign.checkpoint()));
  TrainerState state = {assign.step(), assign.policy_version()};
  if (assign.spec().kind() == v1::JOB_KIND_REWARD_MODEL) {
    BATON_ASSIGN_OR_RETURN(assigned->reward_model,
                           RewardModelTraining::Create(assign, assigned->source.get(),
                                                       options_.device, *assigned->ranks));
  } else {
    BATON_RETURN_IF_ERROR(LoadPolicy(assign, *assigned));
  }
  if (!assign.checkpoint().empty()) {
    BATON_ASSIGN_OR_RETURN(state, RestoreLearner(assign.checkpoint(), ActorParts(), assign.step(),
                                                 LearnerIn(*assigned)));
    state.policy_version = assign.policy_version();
  }
  assigned->steps = LearningSteps("actor", LearningSteps::Versions::kEachUpdate, state);
  if (assign.generation_tp() > 0) {
    BATON_RETURN_IF_ERROR(ShareWithRollout(assign, std::move(groups), *assigned));
  }
  for (const std::string& warning : assigned->source->warnings()) {
    if (assign.rank() > 0) continue;
    Log(LogLevel::kWarn, "the model's folder says two things",
        {{"job", task.job()}, {"warning", warning}});
  }
  Log(LogLevel::kInfo, "actor is ready",
      {{"job", task.job()},
       {"step", state.step},
       {"version", state.policy_version},
       {"rank", assign.rank()},
       {"parameters", assigned->source->config().NumParameters()}});
  assigned_ = std::move(assigned);
  return v1::TaskResult();
}

Learner ActorRole::LearnerIn(const Assigned& assigned) {
  return assigned.reward_model != nullptr ? assigned.reward_model->learner()
                                          : LearnerOf(*assigned.model, *assigned.trainer);
}

absl::Status ActorRole::LoadPolicy(const v1::AssignRole& assign, Assigned& assigned) const {
  BATON_ASSIGN_OR_RETURN(
      assigned.model, assigned.source->LoadModel(kTrainDtype, torch::Device(options_.device),
                                                 static_cast<uint64_t>(assign.spec().data().seed()),
                                                 assigned.ranks->tensor_group()));
  assigned.publisher = std::make_unique<policy::WeightsPublisher>(relay_, assigned.model.get(),
                                                                  assigned.source->dtype());
  if (assign.spec().rollout().deterministic()) assigned.model->SetDeterministic(true);
  if (assign.spec().trainer().val_only()) {
    assigned.trainer =
        engine::Trainer::CreateWithoutOptimizer(assigned.model.get(), assigned.ranks->data_group());
  } else {
    auto trainer = engine::Trainer::Create(
        assigned.model.get(), MakeOptimizerSpec(assign.spec(), FirstStepOfActor(assign.spec())),
        assigned.ranks->data_group());
    if (!trainer.ok()) return Annotate(trainer.status(), "spec.actor");
    assigned.trainer = *std::move(trainer);
  }
  const double asked = assign.spec().rollout().temperature();
  const double temperature = asked > 0 ? asked : 1;
  assigned.loop->Start(
      ranks::BatchBudget(0, assign.spec(), assigned.model->device().is_cpu()),
      [raw = assigned.trainer.get(), temperature](absl::Span<const engine::TrainSequence> batch) {
        return raw->LogProbs(batch, temperature, ranks::NoTokenLimit());
      });
  return absl::OkStatus();
}

absl::Status ActorRole::ShareWithRollout(const v1::AssignRole& assign, hybrid::HybridGroups groups,
                                         Assigned& assigned) const {
  if (assigned.model == nullptr) {
    return absl::InvalidArgumentError(
        "generation_tp: a job of kind reward_model generates nothing");
  }
  hybrid::HybridOptions options = {policy::MakeGeneratorOptions(assign.spec().rollout()),
                                   policy::MakeDecode(*assigned.source)};
  options.generator.kv_cache_bytes /= assign.generation_tp();  // its heads' part of the replica's
  BATON_ASSIGN_OR_RETURN(assigned.hybrid,
                         hybrid::HybridEngine::Create(
                             assigned.model.get(), assigned.ranks->layout(assign.generation_tp()),
                             assigned.ranks->rank(), std::move(groups), std::move(options)));
  return absl::OkStatus();
}

void ActorRole::Drop(const absl::Status& why) {
  shared_->TakeBack(why);
  assigned_.reset();
}

absl::Status ActorRole::CheckPolicy(absl::string_view method) const {
  if (assigned_->model != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("actor.", method, ": a job of kind reward_model has no policy"));
}

absl::Status ActorRole::CheckVersion(absl::string_view method, uint64_t version) const {
  if (version == assigned_->steps.state().policy_version) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, "WRONG_VERSION",
                   absl::StrCat(method, ": asked for version ", version, ", but the actor holds ",
                                assigned_->steps.state().policy_version));
}

absl::StatusOr<ActorRole::PolicyUpdate> ActorRole::PrepareUpdate(
    const v1::Update& update, std::vector<v1::Trajectory> trajectories,
    TaskContext& context) const {
  const Assigned& assigned = *assigned_;
  PolicyUpdate made;
  BATON_ASSIGN_OR_RETURN(made.loss, ReadUpdateLoss("actor", update));
  const auto held_out = std::stable_partition(
      trajectories.begin(), trajectories.end(),
      [](const v1::Trajectory& t) { return t.purpose() != v1::PURPOSE_EVAL; });
  const auto trained = static_cast<size_t>(held_out - trajectories.begin());
  const absl::Span<const v1::Trajectory> all(trajectories);
  BATON_ASSIGN_OR_RETURN(
      made.batch,
      policy::MakeTrainBatch(all.first(trained), assigned.spec.data(), *assigned.source));
  made.cut_texts = CountCutTexts(made.batch);
  // Before the update: what is wrong with an example must not leave an update half reported.
  BATON_ASSIGN_OR_RETURN(
      made.judged,
      policy::MakeTrainBatch(all.subspan(trained), assigned.spec.data(), *assigned.source));
  made.options = MakeUpdateOptions(assigned.spec, made.batch, assigned.model->device().is_cpu());
  FollowTask(context, &made.options);
  made.options.step = std::max<int64_t>(0, update.step() - 1 - FirstStepOfActor(assigned.spec));
  if (made.loss.ptx_coef > 0) {
    made.batch = engine::SpreadPretraining(std::move(made.batch),
                                           static_cast<size_t>(made.options.ppo_mini_batch_size));
  }
  if (assigned.ranks->data_group() == nullptr) return made;
  BATON_ASSIGN_OR_RETURN(const auto share,
                         assigned.trainer->Share(made.batch, made.loss, made.options));
  made.options.fetched = FetchShare(*experience_, context, trajectories, share, {}, &made.batch);
  return made;
}

absl::StatusOr<std::map<std::string, double>> ActorRole::TrainPolicy(const PolicyUpdate& made) {
  engine::Trainer& trainer = *assigned_->trainer;
  BATON_ASSIGN_OR_RETURN(auto metrics, trainer.Update(made.batch, made.loss, made.options));
  if (made.cut_texts.has_value()) {
    metrics["data/cut_responses"] = static_cast<double>(*made.cut_texts);
  }
  if (!made.judged.empty()) {
    BATON_ASSIGN_OR_RETURN(const auto report, trainer.Evaluate(made.judged));
    metrics["val/loss"] = report.loss;
    metrics["val/token_accuracy"] = report.accuracy;
  }
  return metrics;
}

void ActorRole::LogSkippedSteps(const v1::Task& task) const {
  for (const std::string& reason : assigned_->reward_model != nullptr
                                       ? assigned_->reward_model->skip_reasons()
                                       : assigned_->trainer->skip_reasons()) {
    Log(LogLevel::kWarn, "an optimizer step was skipped",
        {{"job", task.job()}, {"step", task.update().step()}, {"reason", reason}});
  }
}

ActorRole::Result ActorRole::Update(const v1::Task& task, TaskContext& context) {
  Assigned& assigned = *assigned_;
  const v1::Update& update = task.update();
  if (const v1::TaskResult* made = assigned.steps.ResultOf(update)) return *made;
  BATON_RETURN_IF_ERROR(assigned.steps.CheckStart(update));
  const bool policy = assigned.reward_model == nullptr;
  if (policy) BATON_RETURN_IF_ERROR(ReadUpdateLoss("actor", update).status());
  const Stopwatch fetching;
  const bool shared = policy && assigned.ranks->data_group() != nullptr;
  BATON_ASSIGN_OR_RETURN(
      auto trajectories,
      FetchUpdateBatch(*experience_, context, shared ? BatchView::kHeaders : BatchView::kWhole));
  PolicyUpdate prepared;
  if (policy) {
    BATON_ASSIGN_OR_RETURN(prepared, PrepareUpdate(update, std::move(trajectories), context));
  }
  const double fetch_seconds = fetching.Seconds();
  BATON_RETURN_IF_ERROR(StopGeneration());
  const Stopwatch training;
  BATON_ASSIGN_OR_RETURN(auto metrics, policy
                                           ? TrainPolicy(prepared)
                                           : assigned.reward_model->Update(trajectories, context));
  LogSkippedSteps(task);
  metrics["timing_s/update_actor"] = training.Seconds();
  metrics["timing_s/fetch_batch"] = fetch_seconds;
  context.ReportPolicyVersion(update.policy_version());
  return assigned.steps.Finish(update, metrics);
}

ActorRole::Result ActorRole::Publish(const v1::Task& task, TaskContext& context) {
  BATON_RETURN_IF_ERROR(CheckPolicy("publish"));
  Assigned& assigned = *assigned_;
  const uint64_t version = task.publish().policy_version();
  BATON_RETURN_IF_ERROR(CheckVersion("publish", version));
  const Stopwatch watch;
  if (!assigned.ranks->writes_model()) return v1::TaskResult();
  // After an assignment the job may make versions again that an earlier life has published.
  const policy::Publication publication = {
      task.job(),
      version,
      !assigned.published,
      task.publish().capability(),
      task.job_uid(),
      {task.publish().keep_versions().begin(), task.publish().keep_versions().end()},
      task.publish().relay()};
  const bool again = assigned.publishing == version;
  assigned.publishing = version;
  const auto cancelled = std::make_shared<absl::Notification>();
  context.OnCancel([cancelled] { cancelled->Notify(); });
  const absl::Status status = assigned.publisher->Publish(publication, *cancelled);
  if (!status.ok() && !(again && absl::IsAlreadyExists(status))) {
    return Annotate(status, absl::StrCat("publishing policy version ", version));
  }
  assigned.published = true;
  v1::TaskResult result;
  if (!assigned.ranks->first()) return result;
  (*result.mutable_metrics())["timing_s/publish"] = watch.Seconds();
  (*result.mutable_metrics())["perf/published_bytes"] =
      static_cast<double>(assigned.publisher->size_bytes());
  return result;
}

ActorRole::Result ActorRole::ToGeneration(const v1::Task& task, TaskContext& /*context*/) {
  Assigned& assigned = *assigned_;
  if (assigned.hybrid == nullptr) {
    return absl::FailedPreconditionError(
        "to_generation: the actor was assigned without generation_tp, so rollouts have weights of "
        "their own; publish them");
  }
  const uint64_t version = task.to_generation().policy_version();
  BATON_RETURN_IF_ERROR(CheckVersion("to_generation", version));
  const Stopwatch watch;
  BATON_RETURN_IF_ERROR(Annotate(assigned.hybrid->generating() ? assigned.hybrid->CheckUnchanged()
                                                               : assigned.hybrid->ToGeneration(),
                                 absl::StrCat("generating with policy version ", version)));
  if (!assigned.hybrid->follows()) {
    shared_->Lend(task.job(), assigned.hybrid->generator(), version);
  }
  v1::TaskResult result;
  (*result.mutable_metrics())["timing_s/to_generation"] = watch.Seconds();
  return result;
}

/// Gives the weights back to the trainer.
absl::Status ActorRole::StopGeneration() {
  if (assigned_->hybrid == nullptr || !assigned_->hybrid->generating()) return absl::OkStatus();
  shared_->TakeBack(absl::CancelledError("the weights that sample it are being updated"));
  return assigned_->hybrid->ToTraining();
}

ActorRole::Result ActorRole::SaveCheckpoint(const v1::Task& task, TaskContext& /*context*/) {
  const Assigned& assigned = *assigned_;
  return SaveStep(assigned.steps, task.save_checkpoint(), LearnerIn(assigned),
                  assigned.source->companions(), ActorParts(), *assigned.ranks,
                  "timing_s/save_checkpoint");
}

void ActorRole::ComputeLogProb(std::shared_ptr<TaskContext> context) {
  const absl::Status can = CheckPolicy("compute_log_prob");
  if (!can.ok()) return context->Finish(can);
  ranks::ScoreColumn(*assigned_->loop, std::move(context), "old_log_prob");
}

ActorRole::Result ActorRole::Evaluate(const v1::Task& /*task*/, TaskContext& context) {
  Assigned& assigned = *assigned_;
  BATON_ASSIGN_OR_RETURN(const auto trajectories, experience_->FetchBatch(context));
  v1::TaskResult result;
  if (assigned.reward_model != nullptr) {
    BATON_ASSIGN_OR_RETURN(const auto metrics, assigned.reward_model->Evaluate(trajectories));
    for (const auto& [name, value] : metrics) (*result.mutable_metrics())[name] = value;
    return result;
  }
  BATON_ASSIGN_OR_RETURN(
      const auto batch,
      policy::MakeTrainBatch(trajectories, assigned.spec.data(), *assigned.source));
  BATON_ASSIGN_OR_RETURN(const auto report, assigned.trainer->Evaluate(batch));
  (*result.mutable_metrics())["val/loss"] = report.loss;
  (*result.mutable_metrics())["val/token_accuracy"] = report.accuracy;
  return result;
}

ActorRole::Result ActorRole::Export(const v1::Task& task) {
  BATON_RETURN_IF_ERROR(
      VerifyCheckpointFiles(task.export_().checkpoint(), CheckpointUse::kWeights));
  BATON_RETURN_IF_ERROR(ExportCheckpoint(task.export_().checkpoint(), task.export_().directory(),
                                         task.export_().dtype()));
  v1::TaskResult result;
  const std::string& base = task.export_().base_model();
  const std::string& name = task.export_().dtype();
  if (base.empty() || name.empty() || name == "float32") return result;  // all of it is kept
  BATON_ASSIGN_OR_RETURN(const torch::Dtype dtype, engine::TorchDtypeFromName(name));
  const auto update =
      engine::CompareUpdate(absl::StrCat(task.export_().checkpoint(), "/", ActorParts().model),
                            policy::ModelDirectory(base), dtype);
  if (!update.ok()) {
    // The export is there all the same; the caller is told that it is unknown what it keeps.
    Log(LogLevel::kWarn, "an export cannot be compared with the model that the job began with",
        {{"job", task.job()}, {"model", base}, {"error", update.status().message()}});
    return result;
  }
  (*result.mutable_metrics())["changed_weights"] = static_cast<double>(update->changed);
  (*result.mutable_metrics())["kept_weights"] = static_cast<double>(update->kept);
  return result;
}

}  // namespace baton::trainer
