#include "workers/scoring/critic_role.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sdk/base/log.h"
#include "sdk/base/status_macros.h"
#include "sdk/rpc/error.h"
#include "sdk/worker/checkpoint_files.h"
#include "workers/engine/scalar_directory.h"
#include "workers/policy/trajectory_columns.h"
#include "workers/scoring/critic_options.h"
#include "workers/trainer/score_tasks.h"
#include "workers/trainer/train_options.h"

namespace baton::scoring {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

absl::Status WrongStep(absl::string_view what, int64_t wanted, int64_t stands_at) {
  return MakeError(absl::StatusCode::kFailedPrecondition, "WRONG_STEP",
                   absl::StrCat(what, " step ", wanted, ", but the critic stands at ", stands_at));
}

/// Steps whose groups were all dropped make no version and are not told; a step in which the critic
/// learns alone makes no version either.
absl::Status CheckFrom(const v1::Update& update, const trainer::TrainerState& state) {
  const bool version_fits = update.policy_version() == state.policy_version ||
                            update.policy_version() == state.policy_version + 1;
  const bool follows = update.from_step() > state.step && version_fits;
  if (update.from_step() == state.step || follows) return absl::OkStatus();
  return WrongStep("update starts from", update.from_step(), state.step);
}

}  // namespace

CriticRole::CriticRole(std::string role, ScoringOptions options)
    : options_(std::move(options)),
      role_(std::move(role)),
      columns_(role_ == "cost_critic" ? trainer::ValueColumns{"cost_values", "cost_returns"}
                                      : trainer::ValueColumns()) {}
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
        trainer::ScoreColumn(*assigned_->loop, std::move(context), columns_.values);
      }));
  BATON_RETURN_IF_ERROR(
      worker.RegisterMethod(role_, "update", 1, [this](const v1::Task& task, TaskContext& context) {
        return trainer::RunCommand(*assigned_->loop, task, context,
                                   [&] { return Update(task, context); });
      }));
  return worker.RegisterMethod(role_, "save_checkpoint", 1,
                               [this](const v1::Task& task, TaskContext& context) {
                                 return trainer::RunCommand(*assigned_->loop, task, context,
                                                            [&] { return SaveCheckpoint(task); });
                               });
}

CriticRole::Result CriticRole::Assign(const v1::Task& task, TaskContext& context) {
  const v1::AssignRole& assign = task.assign_role();
  assigned_.reset();
  auto assigned = std::make_unique<Assigned>();
  BATON_RETURN_IF_ERROR(Meet(task, context, options_, &assigned->ranks, &assigned->loop));
  assigned->spec = SpecOfCritic(assign.spec(), role_);
  const v1::JobSpec& spec = assigned->spec;
  const torch::Device device(options_.device);
  if (!assign.checkpoint().empty()) {
    BATON_RETURN_IF_ERROR(VerifyCheckpointFiles(assign.checkpoint()));
    const std::string folder =
        absl::StrCat(assign.checkpoint(), "/", trainer::CriticParts(role_).model);
    BATON_ASSIGN_OR_RETURN(assigned->source, policy::PolicySource::Open(spec.model(), folder));
    BATON_ASSIGN_OR_RETURN(
        assigned->model,
        engine::LoadScalarModel(folder, kScoreDtype, device, engine::HeadWanted::kRequired,
                                assigned->ranks->tensor_group()));
  } else {
    const bool own = spec.critic().has_model();
    auto source = policy::PolicySource::Open(own ? spec.critic().model() : spec.model(), "");
    const std::string section = absl::StrCat("spec.", role_);
    if (!source.ok()) return own ? Annotate(source.status(), section) : source.status();
    assigned->source = *std::move(source);
    if (own) {
      BATON_RETURN_IF_ERROR(CheckReadsPolicyTokens(assign, *assigned->source, section + ".model"));
    }
    BATON_ASSIGN_OR_RETURN(
        assigned->model,
        trainer::LoadScalar(*assigned->source, device, static_cast<uint64_t>(spec.data().seed()),
                            /*needs_head=*/false, *assigned->ranks));
  }
  if (spec.rollout().deterministic()) assigned->model->SetDeterministic(true);
  auto trainer = engine::ScalarTrainer::Create(
      assigned->model.get(), trainer::MakeOptimizerSpec(spec), assigned->ranks->data_group());
  if (!trainer.ok()) return Annotate(trainer.status(), absl::StrCat("spec.", role_, ".train"));
  assigned->trainer = *std::move(trainer);
  if (assign.checkpoint().empty()) {
    assigned->state = {assign.step(), assign.policy_version()};
  } else {
    BATON_ASSIGN_OR_RETURN(assigned->state,
                           trainer::RestoreScalar(assign.checkpoint(), trainer::CriticParts(role_),
                                                  assign.step(), *assigned->trainer));
    assigned->state.policy_version = assign.policy_version();
  }
  assigned->loop->Start(
      trainer::BatchBudget(0, spec, assigned->model->device().is_cpu()),
      [model = assigned->model.get()](absl::Span<const engine::TrainSequence> batch) {
        return engine::ComputeValues(*model, batch, trainer::NoTokenLimit());
      });
  Log(LogLevel::kInfo, "critic is ready",
      {{"job", task.job()},
       {"role", role_},
       {"step", assigned->state.step},
       {"rank", assign.rank()},
       {"parameters", assigned->source->config().NumParameters()}});
  assigned_ = std::move(assigned);
  return v1::TaskResult();
}

absl::Status CriticRole::Train(const v1::Task& task,
                               const std::vector<engine::TrainSequence>& batch,
                               const engine::ValueLossSpec& loss, TaskContext& context) {
  Assigned& assigned = *assigned_;
  auto options =
      trainer::MakeUpdateOptions(assigned.spec, batch, assigned.model->device().is_cpu());
  options.cancelled = [&context] { return context.cancelled(); };
  options.step = std::max<int64_t>(0, task.update().step() - 1);
  BATON_ASSIGN_OR_RETURN(const auto metrics, assigned.trainer->UpdateValues(batch, loss, options));
  for (const std::string& reason : assigned.trainer->skip_reasons()) {
    Log(LogLevel::kWarn, "an optimizer step of the critic was skipped",
        {{"job", task.job()}, {"role", role_}, {"step", task.update().step()}, {"reason", reason}});
  }
  assigned.last_update.Clear();
  for (const auto& [name, value] : metrics) {
    if (name == "perf/total_num_tokens") continue;  // the actor tells it
    const bool own = absl::StartsWith(name, "critic/");
    const std::string called = own ? absl::StrCat(role_, name.substr(name.find('/'))) : name;
    (*assigned.last_update.mutable_metrics())[called] = value;
  }
  return absl::OkStatus();
}

CriticRole::Result CriticRole::Update(const v1::Task& task, TaskContext& context) {
  Assigned& assigned = *assigned_;
  const v1::Update& update = task.update();
  if (update.step() == assigned.state.step && assigned.last_update.metrics_size() > 0) {
    return assigned.last_update;
  }
  BATON_RETURN_IF_ERROR(CheckFrom(update, assigned.state));
  BATON_ASSIGN_OR_RETURN(const auto loss, MakeValueLossSpec(assigned.spec, update));
  BATON_ASSIGN_OR_RETURN(auto trajectories, experience_->FetchBatch(context));
  if (update.batch_size() > 0 && static_cast<int>(trajectories.size()) != update.batch_size()) {
    return absl::DataLossError(absl::StrCat("the batch of step ", update.step(), " has ",
                                            trajectories.size(), " trajectories instead of ",
                                            update.batch_size()));
  }
  std::vector<v1::Trajectory> sampled;  // texts that the actor imitates are none of the critic's
  for (v1::Trajectory& trajectory : trajectories) {
    if (policy::FindColumn(trajectory, "tokens") != nullptr) {
      sampled.push_back(std::move(trajectory));
    }
  }
  BATON_ASSIGN_OR_RETURN(const auto batch, trainer::MakeTrainBatch(sampled, assigned.spec.data(),
                                                                   *assigned.source, columns_));
  if (context.cancelled()) return absl::CancelledError("update was cancelled");
  const auto start = Clock::now();
  BATON_RETURN_IF_ERROR(Train(task, batch, loss, context));
  (*assigned.last_update.mutable_metrics())["timing_s/update_" + role_] = SecondsSince(start);
  assigned.state = {update.step(), update.policy_version()};
  return assigned.last_update;
}

CriticRole::Result CriticRole::SaveCheckpoint(const v1::Task& task) {
  const Assigned& assigned = *assigned_;
  const v1::SaveCheckpoint& save = task.save_checkpoint();
  const bool later = save.step() > assigned.state.step && save.has_policy_version() &&
                     save.policy_version() == assigned.state.policy_version;
  if (save.step() != assigned.state.step && !later) {
    return WrongStep("asked to save", save.step(), assigned.state.step);
  }
  const auto start = Clock::now();
  BATON_RETURN_IF_ERROR(
      trainer::SaveScalar(*assigned.model, *assigned.trainer, assigned.source->companions(),
                          {save.step(), assigned.state.policy_version}, trainer::CriticParts(role_),
                          *assigned.ranks, save.directory()));
  v1::TaskResult result;
  if (!assigned.ranks->first()) return result;
  BATON_RETURN_IF_ERROR(
      ReportCheckpointFiles(save.directory(), trainer::CriticParts(role_).all(), result));
  (*result.mutable_metrics())["timing_s/save_" + role_] = SecondsSince(start);
  return result;
}

}  // namespace baton::scoring
