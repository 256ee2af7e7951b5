#include "workers/trainer/actor_role.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/base/log.h"
#include "sdk/base/status_macros.h"
#include "sdk/rpc/error.h"
#include "sdk/worker/checkpoint_files.h"
#include "workers/engine/weights_io.h"
#include "workers/policy/generation_options.h"
#include "workers/policy/trajectory_columns.h"
#include "workers/trainer/score_tasks.h"
#include "workers/trainer/train_batch.h"
#include "workers/trainer/train_options.h"

namespace baton::trainer {
namespace {

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

absl::Status WrongStep(absl::string_view what, int64_t wanted, int64_t stands_at) {
  return MakeError(absl::StatusCode::kFailedPrecondition, "WRONG_STEP",
                   absl::StrCat(what, " step ", wanted, ", but the actor stands at ", stands_at));
}

/// Responses whose log-probs may be asked for at once: what can go into one micro-batch.
constexpr int kScoreCredits = 256;

/// Weights are float32 while they learn, whatever they travel as.
constexpr torch::Dtype kTrainDtype = torch::kFloat32;

}  // namespace

ActorRole::ActorRole(ActorOptions options, policy::WeightsRelay* relay,
                     hybrid::SharedPolicy* shared)
    : options_(std::move(options)), relay_(relay), shared_(shared) {}

ActorRole::~ActorRole() { Drop(absl::CancelledError("the worker ends")); }

absl::Status ActorRole::Register(Worker& worker) {
  experience_ = std::make_unique<ExperienceClient>(worker.options());
  const auto method = [this](Result (ActorRole::*call)(const v1::Task&, TaskContext&)) {
    return [this, call](const v1::Task& task, TaskContext& context) -> Result {
      const auto run = [&] { return (this->*call)(task, context); };
      if (assigned_->loop == nullptr) return run();
      return RunCommand(*assigned_->loop, task, context, run);
    };
  };
  RoleOptions role;
  role.on_assign = [this](const v1::Task& task, TaskContext& context) {
    return Assign(task, context);
  };
  role.on_release = [this](const std::string& job) {
    Drop(absl::UnavailableError("the actor of this worker was released or is assigned anew"));
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
      "actor", "compute_log_prob", kScoreCredits,
      [this](std::shared_ptr<TaskContext> context) { ComputeLogProb(std::move(context)); }));
  BATON_RETURN_IF_ERROR(
      worker.RegisterMethod("actor", "evaluate", 1, method(&ActorRole::Evaluate)));
  MethodOptions anybodys;
  anybodys.needs_role = false;
  return worker.RegisterMethod(
      "actor", "export", 1, [](const v1::Task& task, TaskContext&) { return Export(task); },
      anybodys);
}

ActorRole::Result ActorRole::Assign(const v1::Task& task, TaskContext& context) {
  const v1::AssignRole& assign = task.assign_role();
  Drop(absl::UnavailableError("the actor of this worker is assigned anew"));
  auto assigned = std::make_unique<Assigned>();
  assigned->spec = assign.spec();
  // First of all: what follows may take ranks differently long.
  BATON_ASSIGN_OR_RETURN(assigned->ranks, Ranks::Join(task, options_.group_host,
                                                      [&context] { return context.cancelled(); }));
  hybrid::HybridGroups groups;
  if (assign.generation_tp() > 0) {
    BATON_ASSIGN_OR_RETURN(groups, assigned->ranks->JoinHybrid(assign.generation_tp()));
  }
  if (assign.spec().kind() != v1::JOB_KIND_REWARD_MODEL) {
    BATON_ASSIGN_OR_RETURN(auto control, assigned->ranks->JoinControl());
    assigned->loop = std::make_unique<ScoreLoop>(std::move(control));
  }
  if (!assign.checkpoint().empty()) {
    BATON_RETURN_IF_ERROR(VerifyCheckpointFiles(assign.checkpoint()));
  }
  BATON_ASSIGN_OR_RETURN(assigned->source,
                         policy::PolicySource::Open(assign.spec().model(), assign.checkpoint()));
  assigned->state = {assign.step(), assign.policy_version()};
  if (assign.spec().kind() == v1::JOB_KIND_REWARD_MODEL) {
    BATON_ASSIGN_OR_RETURN(assigned->reward_model,
                           RewardModelTraining::Create(assign, assigned->source.get(),
                                                       options_.device, *assigned->ranks));
  } else {
    BATON_RETURN_IF_ERROR(LoadPolicy(assign, *assigned));
  }
  if (!assign.checkpoint().empty()) {
    BATON_ASSIGN_OR_RETURN(
        assigned->state,
        assigned->reward_model != nullptr
            ? assigned->reward_model->Restore(assign.checkpoint(), assign.step())
            : RestoreTrainer(assign.checkpoint(), assign.step(), *assigned->trainer));
    assigned->state.policy_version = assign.policy_version();
  }
  if (assign.generation_tp() > 0) {
    BATON_RETURN_IF_ERROR(ShareWithRollout(assign, std::move(groups), *assigned));
  }
  Log(LogLevel::kInfo, "actor is ready",
      {{"job", task.job()},
       {"step", assigned->state.step},
       {"version", assigned->state.policy_version},
       {"rank", assign.rank()},
       {"parameters", assigned->source->config().NumParameters()}});
  assigned_ = std::move(assigned);
  return v1::TaskResult();
}

absl::Status ActorRole::LoadPolicy(const v1::AssignRole& assign, Assigned& assigned) const {
  BATON_ASSIGN_OR_RETURN(
      assigned.model, assigned.source->LoadModel(kTrainDtype, torch::Device(options_.device),
                                                 static_cast<uint64_t>(assign.spec().data().seed()),
                                                 assigned.ranks->tensor_group()));
  if (assign.spec().rollout().deterministic()) assigned.model->SetDeterministic(true);
  auto trainer = engine::Trainer::Create(
      assigned.model.get(), MakeOptimizerSpec(assign.spec(), FirstStepOfActor(assign.spec())),
      assigned.ranks->data_group());
  if (!trainer.ok()) return Annotate(trainer.status(), "spec.actor");
  assigned.trainer = *std::move(trainer);
  const double asked = assign.spec().rollout().temperature();
  const double temperature = asked > 0 ? asked : 1;
  assigned.loop->Start(
      BatchBudget(0, assign.spec(), assigned.model->device().is_cpu()),
      [raw = assigned.trainer.get(), temperature](absl::Span<const engine::TrainSequence> batch) {
        return raw->LogProbs(batch, temperature, NoTokenLimit());
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
  if (version == assigned_->state.policy_version) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, "WRONG_VERSION",
                   absl::StrCat(method, ": asked for version ", version, ", but the actor holds ",
                                assigned_->state.policy_version));
}

absl::Status ActorRole::CheckFrom(const v1::Update& update) const {
  const TrainerState& state = assigned_->state;
  // Steps whose groups were all dropped make no version and are not told.
  const bool follows =
      update.from_step() > state.step && update.policy_version() == state.policy_version + 1;
  if (update.from_step() == state.step || follows) return absl::OkStatus();
  return WrongStep("update starts from", update.from_step(), state.step);
}

absl::StatusOr<std::map<std::string, double>> ActorRole::Train(
    const v1::Task& task, const std::vector<v1::Trajectory>& trajectories, TaskContext& context) {
  Assigned& assigned = *assigned_;
  const auto cancelled = [&context] { return context.cancelled(); };
  absl::StatusOr<std::map<std::string, double>> metrics;
  if (assigned.reward_model != nullptr) {
    metrics = assigned.reward_model->Update(trajectories, task.update(), cancelled);
  } else {
    BATON_ASSIGN_OR_RETURN(const engine::LossSpec loss, MakeLossSpec(assigned.spec, task.update()));
    BATON_ASSIGN_OR_RETURN(auto batch,
                           MakeTrainBatch(trajectories, assigned.spec.data(), *assigned.source));
    auto options = MakeUpdateOptions(assigned.spec, batch, assigned.model->device().is_cpu());
    options.cancelled = cancelled;
    options.step = std::max<int64_t>(0, task.update().step() - 1 - FirstStepOfActor(assigned.spec));
    if (loss.ptx_coef > 0) {
      batch = engine::SpreadPretraining(std::move(batch),
                                        static_cast<size_t>(options.ppo_mini_batch_size));
    }
    metrics = assigned.trainer->Update(batch, loss, options);
  }
  if (!metrics.ok()) return metrics.status();
  for (const std::string& reason : assigned.reward_model != nullptr
                                       ? assigned.reward_model->skip_reasons()
                                       : assigned.trainer->skip_reasons()) {
    Log(LogLevel::kWarn, "an optimizer step was skipped",
        {{"job", task.job()}, {"step", task.update().step()}, {"reason", reason}});
  }
  return metrics;
}

ActorRole::Result ActorRole::Update(const v1::Task& task, TaskContext& context) {
  Assigned& assigned = *assigned_;
  const v1::Update& update = task.update();
  if (update.step() == assigned.state.step && assigned.last_update.metrics_size() > 0) {
    return assigned.last_update;
  }
  BATON_RETURN_IF_ERROR(CheckFrom(update));
  if (assigned.reward_model == nullptr) {
    BATON_RETURN_IF_ERROR(MakeLossSpec(assigned.spec, update).status());
  }
  const Stopwatch fetching;
  BATON_ASSIGN_OR_RETURN(const auto trajectories, experience_->FetchBatch(context));
  if (update.batch_size() > 0 && static_cast<int>(trajectories.size()) != update.batch_size()) {
    return absl::DataLossError(absl::StrCat("the batch of step ", update.step(), " has ",
                                            trajectories.size(), " trajectories instead of ",
                                            update.batch_size()));
  }
  const double fetch_seconds = fetching.Seconds();
  if (context.cancelled()) return absl::CancelledError("update was cancelled");
  BATON_RETURN_IF_ERROR(StopGeneration());
  const Stopwatch training;
  BATON_ASSIGN_OR_RETURN(auto metrics, Train(task, trajectories, context));
  metrics["timing_s/update_actor"] = training.Seconds();
  metrics["timing_s/fetch_batch"] = fetch_seconds;
  assigned.state = {update.step(), update.policy_version()};
  assigned.last_update.Clear();
  for (const auto& [name, value] : metrics) {
    (*assigned.last_update.mutable_metrics())[name] = value;
  }
  context.ReportPolicyVersion(update.policy_version());
  return assigned.last_update;
}

ActorRole::Result ActorRole::Publish(const v1::Task& task, TaskContext& context) {
  BATON_RETURN_IF_ERROR(CheckPolicy("publish"));
  Assigned& assigned = *assigned_;
  const uint64_t version = task.publish().policy_version();
  BATON_RETURN_IF_ERROR(CheckVersion("publish", version));
  const Stopwatch watch;
  if (!assigned.ranks->writes_model()) return v1::TaskResult();
  BATON_ASSIGN_OR_RETURN(const auto image,
                         engine::ModelImage(*assigned.model, assigned.source->dtype()));
  if (!assigned.ranks->first()) return v1::TaskResult();
  // After an assignment the job may make versions again that an earlier life has published.
  const policy::Publication publication = {task.job(), version, !assigned.published,
                                           task.publish().capability(), task.job_uid()};
  const bool again = assigned.publishing == version;
  assigned.publishing = version;
  const auto cancelled = std::make_shared<absl::Notification>();
  context.OnCancel([cancelled] { cancelled->Notify(); });
  const absl::Status status = relay_->Publish(publication, image, *cancelled);
  if (!status.ok() && !(again && absl::IsAlreadyExists(status))) {
    return Annotate(status, absl::StrCat("publishing policy version ", version));
  }
  assigned.published = true;
  v1::TaskResult result;
  (*result.mutable_metrics())["timing_s/publish"] = watch.Seconds();
  (*result.mutable_metrics())["perf/published_bytes"] = static_cast<double>(image.size_bytes());
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
  const v1::SaveCheckpoint& save = task.save_checkpoint();
  const bool later = save.step() > assigned.state.step && save.has_policy_version() &&
                     save.policy_version() == assigned.state.policy_version;
  if (save.step() != assigned.state.step && !later) {
    return WrongStep("asked to save", save.step(), assigned.state.step);
  }
  const Stopwatch watch;
  const TrainerState state = {save.step(), assigned.state.policy_version};
  BATON_RETURN_IF_ERROR(assigned.reward_model != nullptr
                            ? assigned.reward_model->Save(state, save.directory())
                            : SaveTrainer(*assigned.model, *assigned.trainer, *assigned.source,
                                          state, *assigned.ranks, save.directory()));
  v1::TaskResult result;
  if (!assigned.ranks->first()) return result;
  BATON_RETURN_IF_ERROR(ReportCheckpointFiles(
      save.directory(), {"actor", "optimizer.safetensors", "trainer.json"}, result));
  (*result.mutable_metrics())["timing_s/save_checkpoint"] = watch.Seconds();
  return result;
}

void ActorRole::ComputeLogProb(std::shared_ptr<TaskContext> context) {
  const absl::Status can = CheckPolicy("compute_log_prob");
  if (!can.ok()) return context->Finish(can);
  ScoreColumn(*assigned_->loop, std::move(context), "old_log_prob");
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
  BATON_ASSIGN_OR_RETURN(const auto batch,
                         MakeTrainBatch(trajectories, assigned.spec.data(), *assigned.source));
  BATON_ASSIGN_OR_RETURN((*result.mutable_metrics())["val/loss"], assigned.trainer->Loss(batch));
  return result;
}

ActorRole::Result ActorRole::Export(const v1::Task& task) {
  BATON_RETURN_IF_ERROR(VerifyCheckpointFiles(task.export_().checkpoint()));
  BATON_RETURN_IF_ERROR(ExportCheckpoint(task.export_().checkpoint(), task.export_().directory(),
                                         task.export_().dtype()));
  return v1::TaskResult();
}

}  // namespace baton::trainer
