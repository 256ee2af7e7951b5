#include "controller/runtime/job/task_sender.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/runtime/payloads/score_inputs.h"
#include "controller/spec/dataflow/role_names.h"
#include "controller/spec/dataflow/roles.h"
#include "sdk/common/contracts/shared_key.h"
#include "sdk/common/contracts/worker_features.h"

namespace baton::controller {
namespace {

// Sets the sampling parameters of a response.
void FillSampling(const v1::JobSpec& spec, v1::Generate* generate) {
  const v1::RolloutSpec& rollout = spec.rollout();
  const bool eval = generate->purpose() == v1::PURPOSE_EVAL;
  generate->set_seed(static_cast<uint64_t>(spec.data().seed()));
  generate->set_temperature(eval ? rollout.val().temperature() : rollout.temperature());
  generate->set_top_p(eval ? rollout.val().top_p() : rollout.top_p());
  generate->set_top_k(eval ? rollout.val().top_k() : rollout.top_k());
  generate->set_max_new_tokens(spec.data().max_response_length());
  generate->set_max_prompt_length(spec.data().max_prompt_length());
  for (const std::string& stop : rollout.stop()) generate->add_stop(stop);
}

absl::Status NoGroupStore(const std::string& worker) {
  return absl::UnavailableError(
      absl::StrCat("worker ", worker,
                   " serves no store where ranks can meet; run a baton-worker there that was "
                   "built with Gloo"));
}

}  // namespace

v1::Task TaskSender::MakeTask(const StartTask& effect) const {
  v1::Task task;
  task.set_task_token(EncodeToken({scope_->token_name, effect.ref}));
  task.set_epoch(scope_->context->epoch);
  task.set_job(scope_->name);
  task.set_job_uid(scope_->uid);
  task.set_role(effect.args.role);
  task.set_method(effect.args.method.empty() ? std::string(MethodName(effect.ref.kind))
                                             : effect.args.method);
  task.set_attempt(TryOf(effect.ref.attempt));
  if (effect.args.deadline != absl::InfiniteDuration()) {
    task.mutable_deadline()->set_seconds(absl::ToInt64Seconds(effect.args.deadline));
  }
  if (IsGroupCommand(effect.ref.kind)) {
    task.mutable_order()->set_pool(effect.args.role);
    task.mutable_order()->set_group_epoch(effect.args.group_epoch);
    task.mutable_order()->set_sequence(effect.args.sequence);
  }
  return task;
}

void TaskSender::Send(const std::string& worker, v1::Task task) const {
  v1::ControllerMessage message;
  *message.mutable_task() = std::move(task);
  scope_->context->workers->Send(worker, std::move(message));
}

void TaskSender::Start(const StartTask& effect) {
  v1::Task task = MakeTask(effect);
  switch (effect.ref.kind) {
    case TaskKind::kAssignRole:
      return Assign(effect, std::move(task));
    case TaskKind::kReleaseRole:
      task.mutable_release_role();
      break;
    case TaskKind::kLoadWeights:
      task.mutable_load_weights()->set_policy_version(effect.args.policy_version);
      task.mutable_load_weights()->set_relay(scope_->core.RelayFor(effect.worker));
      break;
    case TaskKind::kGenerate:
      return Generate(effect);
    case TaskKind::kScore:
      return Score(effect);
    case TaskKind::kUpdate:
      FillUpdate(effect, task.mutable_update());
      break;
    case TaskKind::kPublish:
      FillPublish(effect, task.mutable_publish());
      break;
    case TaskKind::kToGeneration:
      task.mutable_to_generation()->set_policy_version(effect.args.policy_version);
      break;
    case TaskKind::kSaveCheckpoint:
      return from_.saves->Send(effect, std::move(task));
    case TaskKind::kExport:
    case TaskKind::kRunAhead:  // RunAhead
      return;
  }
  Send(effect.worker, std::move(task));
}

void TaskSender::Stop(const StopTask& effect) const {
  v1::ControllerMessage message;
  message.mutable_cancel()->set_task_token(EncodeToken({scope_->token_name, effect.ref}));
  message.mutable_cancel()->set_reason(effect.reason);
  scope_->context->workers->Send(effect.worker, std::move(message));
}

void TaskSender::Acknowledge(const AckResult& effect) const {
  v1::ControllerMessage message;
  message.mutable_result_ack()->set_task_token(EncodeToken({scope_->token_name, effect.ref}));
  scope_->context->workers->Send(effect.worker, std::move(message));
}

void TaskSender::Assign(const StartTask& effect, v1::Task task) {
  const TaskArgs& args = effect.args;
  const v1::JobSpec& spec = scope_->core.effective_spec();
  v1::AssignRole* assign = task.mutable_assign_role();
  *assign->mutable_spec() = spec;
  assign->set_world_size(1);
  assign->set_policy_version(args.policy_version);
  if (args.checkpoint_step >= 0) {
    assign->set_checkpoint(scope_->files->CheckpointPath(args.checkpoint_step));
    assign->set_step(args.checkpoint_step);
  }
  const bool guesses = spec.rollout().speculation().mode() == "auto";
  if (args.role == roles::kRollout && guesses) {
    assign->set_history_capability(from_.history->Capability());
  }
  if (args.hybrid) assign->set_generation_tp(GenerationTp(spec));
  // The epoch of the group goes to the worker with the role, so that a worker that comes back
  // reports it.
  task.mutable_order()->set_pool(args.role);
  task.mutable_order()->set_group_epoch(args.group_epoch);
  const bool grouped = !args.first_worker.empty();
  if (const int ranks = grouped ? RanksOf(spec, args.role) : 1; ranks > 1) {
    assign->set_rank(static_cast<int>(args.rank));
    assign->set_world_size(ranks);
    v1::Rendezvous* meet = assign->mutable_rendezvous();
    const GroupShape shape = ShapeOf(spec, args.role);
    meet->set_tp(shape.tp);
    meet->set_dp(shape.dp);
    meet->set_store(scope_->context->workers->GroupStoreOf(args.first_worker));
    meet->set_name(absl::StrCat(scope_->token_name, "/", args.role));
    if (meet->store().empty()) {
      return from_.threads->OnStrand([this, effect] {
        scope_->run(
            TaskDone{effect.worker, effect.ref, NoGroupStore(effect.args.first_worker), {}});
      });
    }
  }
  Send(effect.worker, std::move(task));
}

void TaskSender::Generate(const StartTask& effect) {
  const auto send = [this](const StartTask& start) {
    v1::Task task = MakeTask(start);
    FillGenerate(start, task.mutable_generate());
    Send(start.worker, std::move(task));
  };
  const TrajectoryInfo& info = effect.args.trajectory;
  const bool begins = info.tokens == 0 && from_.payloads->FindPartial(info.id) == nullptr;
  if (info.earlier.tokens == 0 || !begins) return send(effect);
  from_.threads->OnDisk([this, effect, send] {
    LoggedPayload logged;
    logged.id = effect.args.trajectory.id;
    logged.records = {effect.args.trajectory.earlier.location};
    auto read = from_.disk->ReadWhole(logged);
    from_.threads->OnStrand([this, effect, send, read = std::move(read)] {
      if (!scope_->core.Wants(effect.worker, effect.ref)) return;
      // If the log no longer has the earlier response, the response is made without a draft.
      if (read.ok()) from_.payloads->Partial(effect.args.trajectory.id).DraftFrom(*read);
      send(effect);
    });
  });
}

void TaskSender::FillGenerate(const StartTask& effect, v1::Generate* generate) {
  const TrajectoryInfo& info = effect.args.trajectory;
  generate->set_trajectory_id(TrajectoryName(info.id));
  generate->set_purpose(info.purpose);
  if (const Example* example = from_.data->Of(info)) SetPrompt(*example, generate);
  // The core knows how many tokens are from this version's weights. Other tokens are a draft, or
  // useless.
  if (PartialResponse* const partial = from_.payloads->FindPartial(info.id); partial != nullptr) {
    if (partial->tokens.size() != info.tokens) partial->BecomeDraft();
    const bool drafts = info.drafted > 0 || info.earlier.tokens > 0;
    if (partial->tokens.empty() && !drafts) {
      from_.payloads->DropPartial(info.id);
    } else {
      partial->Fill(generate);
    }
  }
  generate->set_prompt_id(info.prompt_id);
  generate->set_prompt_index(info.prompt_index);
  generate->set_sample_index(info.sample);
  generate->set_policy_version(effect.args.policy_version);
  FillSampling(scope_->core.effective_spec(), generate);
}

void TaskSender::RunAhead(const StartAhead& effect) {
  const DataSet* const train = from_.data->train().get();
  if (train == nullptr || effect.response.prompt_id >= train->examples.size()) return;
  StartTask named;
  named.worker = effect.worker;
  named.ref = effect.ref;
  named.args.role = roles::kRollout;
  v1::Task task = MakeTask(named);
  v1::Generate* generate = task.mutable_run_ahead()->mutable_response();
  generate->set_purpose(v1::PURPOSE_TRAIN);
  SetPrompt(train->examples[effect.response.prompt_id], generate);
  generate->set_prompt_id(effect.response.prompt_id);
  generate->set_prompt_index(effect.response.prompt_index);
  generate->set_sample_index(effect.response.sample);
  generate->set_policy_version(effect.policy_version);
  FillSampling(scope_->core.effective_spec(), generate);
  Send(effect.worker, std::move(task));
}

void TaskSender::Score(const StartTask& effect) {
  const uint64_t id = effect.args.trajectory.id;
  if (const PayloadCache::Payload payload = from_.payloads->Find(id); payload != nullptr) {
    return SendScore(effect, payload->Unpack());
  }
  from_.threads->OnDisk([this, effect] {  // after a restart, or where memory had no room for it
    auto read = from_.disk->ReadWhole(LoggedPayload(effect.args.trajectory));
    from_.threads->OnStrand(
        [this, effect, read = std::move(read)] { ScoreWithRead(effect, read); });
  });
}

void TaskSender::ScoreWithRead(const StartTask& effect,
                               const absl::StatusOr<v1::Trajectory>& read) {
  const TrajectoryInfo& asked = effect.args.trajectory;
  if (absl::IsUnavailable(read.status())) {
    return from_.disk->ReadAgain(read.status(), [this, effect] {
      if (scope_->core.Wants(effect.worker, effect.ref)) Score(effect);
    });
  }
  if (!read.ok()) {
    return scope_->run(
        PayloadLost{{{asked.id, asked.serial}}, std::string(read.status().message())});
  }
  if (!scope_->core.Wants(effect.worker, effect.ref)) return;  // it was found lost meanwhile
  // A column that was stored during the read is in the log, and not in what was read.
  const TrajectoryInfo& now = *scope_->core.Find(asked.id);
  if (now.columns.size() != asked.columns.size()) {
    StartTask again = effect;
    again.args.trajectory.columns = now.columns;
    return Score(again);
  }
  from_.payloads->KeepRead(asked.id, *read);
  SendScore(effect, *read);
}

void TaskSender::SendScore(const StartTask& effect, const v1::Trajectory& payload) const {
  const v1::ScoreNode& node = scope_->core.dataflow().score(static_cast<int>(effect.ref.target));
  v1::Task task = MakeTask(effect);
  v1::Score* score = task.mutable_score();
  *score->mutable_trajectory() = ScoreInputs(payload, effect.args.trajectory.scores, node);
  score->set_node(node.node());
  for (const TrajectoryInfo& info : effect.args.group) *score->add_group() = ScoresOf(info);
  *score->mutable_options() = node.options();
  if (const Example* example = from_.data->Of(effect.args.trajectory)) {
    score->set_extra_json(example->extra_json);
  }
  Send(effect.worker, std::move(task));
}

void TaskSender::FillUpdate(const StartTask& effect, v1::Update* update) const {
  const auto& nodes = scope_->core.dataflow().update();
  const v1::UpdateNode& node =
      *std::find_if(nodes.begin(), nodes.end(),
                    [&](const v1::UpdateNode& n) { return n.role() == effect.args.role; });
  update->set_step(effect.ref.step + 1);
  update->set_from_step(effect.ref.step);
  from_.batches->NameIn(update);
  update->set_loss(node.loss());
  *update->mutable_options() = node.options();
  update->set_policy_version(effect.args.policy_version);
  update->set_batch_size(static_cast<int>(effect.args.batch_size));
}

void TaskSender::FillPublish(const StartTask& effect, v1::Publish* publish) const {
  publish->set_policy_version(effect.args.policy_version);
  publish->mutable_keep_versions()->Assign(effect.args.keep_versions.begin(),
                                           effect.args.keep_versions.end());
  publish->set_relay(scope_->core.RelayFor(effect.worker));
  const RuntimeContext& context = *scope_->context;
  // Rank 0 alone answers for the version, in whose host's relay it lies.
  if (effect.args.rank == 0) context.queue->Publishes(scope_->name, effect.worker);
  if (context.relay_key.empty()) return;
  // A worker without this feature does not tell the relay the uid.
  const bool by_uid = context.workers->HasFeature(effect.worker, kJobUidFeature);
  publish->set_capability(
      PublishCapability(context.relay_key, scope_->name, by_uid ? scope_->uid : ""));
}

}  // namespace baton::controller
