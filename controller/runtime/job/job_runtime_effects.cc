// JobRuntime: carries out what the core wants.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/runtime/job/job_runtime.h"
#include "controller/runtime/job/make_payload.h"
#include "controller/runtime/job/score_inputs.h"
#include "controller/runtime/rows/tables.h"
#include "controller/spec/role_names.h"
#include "sdk/base/digest.h"
#include "sdk/base/log.h"
#include "sdk/base/mutant.h"
#include "sdk/base/shared_key.h"
#include "sdk/base/status_macros.h"
#include "sdk/base/worker_features.h"
#include "sdk/rpc/error.h"

namespace baton::controller {
namespace {

// The line that a job's log has of an event.
std::string TextOf(const v1::JobEvent& event) {
  std::string text = event.type();
  if (event.type() == "state") absl::StrAppend(&text, " ", StateName(event.state()));
  if (event.type() == "evaluation") absl::StrAppend(&text, " of step ", event.step());
  if (event.type() == "step") {
    absl::StrAppend(&text, " ", event.step());
    for (const char* key : {"critic/score/mean", "reward/accuracy/mean", "train/loss",
                            "actor/pg_loss", "actor/lr", "timing_s/step"}) {
      auto it = event.metrics().find(key);
      if (it != event.metrics().end()) absl::StrAppend(&text, " ", key, "=", it->second);
    }
  }
  if (!event.message().empty()) absl::StrAppend(&text, ": ", event.message());
  return text;
}

// How a response is sampled.
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

}  // namespace

// ---- Tasks --------------------------------------------------------------------------------

v1::Task JobRuntime::MakeTask(const StartTask& effect) {
  v1::Task task;
  task.set_task_token(EncodeToken({token_name_, effect.ref}));
  task.set_epoch(context_->epoch);
  task.set_job(name_);
  task.set_job_uid(uid_);
  task.set_role(effect.args.role);
  task.set_method(effect.args.method.empty() ? std::string(MethodName(effect.ref.kind))
                                             : effect.args.method);
  task.set_attempt(TryOf(effect.ref.attempt));
  if (effect.args.deadline != absl::InfiniteDuration()) {
    task.mutable_deadline()->set_seconds(absl::ToInt64Seconds(effect.args.deadline));
  }
  if (IsGroupCommand(effect.ref.kind)) {
    task.mutable_order()->set_pool(effect.args.role);
    task.mutable_order()->set_generation(effect.args.group_epoch);
    task.mutable_order()->set_sequence(effect.args.sequence);
  }
  return task;
}

void JobRuntime::Send(const std::string& worker, v1::Task task) {
  v1::ControllerMessage message;
  *message.mutable_task() = std::move(task);
  context_->workers->Send(worker, std::move(message));
}

void JobRuntime::Do(const StartTask& effect) {
  v1::Task task = MakeTask(effect);
  switch (effect.ref.kind) {
    case TaskKind::kAssignRole:
      return SendAssign(effect, std::move(task));
    case TaskKind::kReleaseRole:
      task.mutable_release_role();
      break;
    case TaskKind::kLoadWeights:
      task.mutable_load_weights()->set_policy_version(effect.args.policy_version);
      break;
    case TaskKind::kGenerate:
      return SendGenerate(effect, std::move(task));
    case TaskKind::kScore:
      return SendScore(effect);
    case TaskKind::kUpdate:
      FillUpdate(effect, task);
      break;
    case TaskKind::kPublish:
      task.mutable_publish()->set_policy_version(effect.args.policy_version);
      task.mutable_publish()->mutable_keep_versions()->Assign(effect.args.keep_versions.begin(),
                                                              effect.args.keep_versions.end());
      if (!context_->relay_key.empty()) {
        // A worker that does not promise it tells the relay no uid.
        const bool by_uid = context_->workers->Promises(effect.worker, kJobUidFeature);
        task.mutable_publish()->set_capability(
            PublishCapability(context_->relay_key, name_, by_uid ? uid_ : ""));
      }
      break;
    case TaskKind::kToGeneration:
      task.mutable_to_generation()->set_policy_version(effect.args.policy_version);
      break;
    case TaskKind::kSaveCheckpoint:
      return SendSave(effect, std::move(task));
    case TaskKind::kExport:
    case TaskKind::kRunAhead:  // StartAhead
      return;
  }
  Send(effect.worker, std::move(task));
}

const Example* JobRuntime::ExampleOf(const TrajectoryInfo& info) const {
  return FindExample(info, train_.get(), val_.get());
}

void JobRuntime::SendGenerate(const StartTask& effect, v1::Task task) {
  const TrajectoryInfo& info = effect.args.trajectory;
  const bool begins = info.tokens == 0 && partials_.count(info.id) == 0;
  if (info.earlier.tokens == 0 || !begins) {
    FillGenerate(effect, task);
    return Send(effect.worker, std::move(task));
  }
  OnDisk([this, effect] {
    LoggedPayload logged;
    logged.id = effect.args.trajectory.id;
    logged.records = {effect.args.trajectory.earlier.location};
    auto read = ReadWhole(logged);
    OnStrand([this, effect, read = std::move(read)] {
      if (!core_.Wants(effect.worker, effect.ref)) return;
      // If the log has it no longer, the response is made without a draft.
      if (read.ok()) partials_[effect.args.trajectory.id].DraftFrom(*read);
      v1::Task task = MakeTask(effect);
      FillGenerate(effect, task);
      Send(effect.worker, std::move(task));
    });
  });
}

void JobRuntime::FillGenerate(const StartTask& effect, v1::Task& task) {
  const TrajectoryInfo& info = effect.args.trajectory;
  v1::Generate* generate = task.mutable_generate();
  generate->set_trajectory_id(TrajectoryName(info.id));
  generate->set_purpose(info.purpose);
  if (const Example* example = ExampleOf(info)) SetPrompt(*example, generate);
  // The core knows how many tokens are of this version's weights. Others are a draft, or no use.
  const auto partial = partials_.find(info.id);
  if (partial != partials_.end()) {
    if (partial->second.tokens.size() != info.tokens) partial->second.BecomeDraft();
    const bool drafts = info.drafted > 0 || info.earlier.tokens > 0;
    if (partial->second.tokens.empty() && !drafts) {
      partials_.erase(partial);
    } else {
      partial->second.Fill(generate);
    }
  }
  generate->set_prompt_id(info.prompt_id);
  generate->set_draw(info.draw);
  generate->set_sample_index(info.sample);
  generate->set_policy_version(effect.args.policy_version);
  FillSampling(core_.effective_spec(), generate);
}

void JobRuntime::Do(const StartAhead& effect) {
  if (train_ == nullptr || effect.response.prompt_id >= train_->examples.size()) return;
  StartTask named;
  named.worker = effect.worker;
  named.ref = effect.ref;
  named.args.role = roles::kRollout;
  v1::Task task = MakeTask(named);
  v1::Generate* generate = task.mutable_run_ahead()->mutable_response();
  generate->set_purpose(v1::PURPOSE_TRAIN);
  SetPrompt(train_->examples[effect.response.prompt_id], generate);
  generate->set_prompt_id(effect.response.prompt_id);
  generate->set_draw(effect.response.draw);
  generate->set_sample_index(effect.response.sample);
  generate->set_policy_version(effect.policy_version);
  FillSampling(core_.effective_spec(), generate);
  Send(effect.worker, std::move(task));
}

void JobRuntime::FillScore(const StartTask& effect, const v1::Trajectory& payload, v1::Task& task) {
  v1::Score* score = task.mutable_score();
  const v1::ScoreNode& node = core_.dataflow().score(static_cast<int>(effect.ref.target));
  *score->mutable_trajectory() = ScoreInputs(payload, effect.args.trajectory.scores, node);
  score->set_node(node.node());
  for (const TrajectoryInfo& info : effect.args.group) *score->add_group() = ScoresOf(info);
  *score->mutable_options() = node.options();
  if (const Example* example = ExampleOf(effect.args.trajectory)) {
    score->set_extra_json(example->extra_json);
  }
}

void JobRuntime::SendScore(const StartTask& effect) {
  const uint64_t id = effect.args.trajectory.id;
  if (const PayloadCache::Payload payload = payloads_.Find(id); payload != nullptr) {
    v1::Task task = MakeTask(effect);
    FillScore(effect, payload->Unpack(), task);
    return Send(effect.worker, std::move(task));
  }
  OnDisk([this, effect, id] {  // after a restart, or where memory had no room for it
    auto read = ReadWhole(LoggedPayload(effect.args.trajectory));
    OnStrand([this, effect, id, read = std::move(read)]() mutable {
      if (absl::IsUnavailable(read.status())) {
        return ReadAgain(read.status(), [this, effect] {
          if (core_.Wants(effect.worker, effect.ref)) SendScore(effect);
        });
      }
      if (!read.ok()) {
        const TrajectoryInfo& info = effect.args.trajectory;
        return Run(PayloadLost{{{info.id, info.serial}}, std::string(read.status().message())});
      }
      if (!core_.Wants(effect.worker, effect.ref)) return;  // it was found lost meanwhile
      // A column that was stored during the read is in the log, and not in what was read.
      const TrajectoryInfo& now = *core_.Find(id);
      if (now.columns.size() != effect.args.trajectory.columns.size()) {
        StartTask again = effect;
        again.args.trajectory.columns = now.columns;
        return SendScore(again);
      }
      if (payloads_.Find(id) == nullptr) {  // else it was read for another score meanwhile
        payloads_.Put(id, std::make_shared<const PackedPayload>(*read));
      }
      v1::Task task = MakeTask(effect);
      FillScore(effect, *read, task);
      Send(effect.worker, std::move(task));
    });
  });
}

void JobRuntime::FillUpdate(const StartTask& effect, v1::Task& task) {
  const auto& nodes = core_.dataflow().update();
  const v1::UpdateNode& node =
      *std::find_if(nodes.begin(), nodes.end(),
                    [&](const v1::UpdateNode& n) { return n.role() == effect.args.role; });
  v1::Update* update = task.mutable_update();
  update->set_step(effect.ref.step + 1);
  update->set_from_step(effect.ref.step);
  update->set_batch_id(batch_.id);
  update->set_capability(batch_.capability);
  update->set_loss(node.loss());
  *update->mutable_options() = node.options();
  update->set_policy_version(effect.args.policy_version);
  update->set_batch_size(static_cast<int>(effect.args.batch_size));
}

void JobRuntime::Do(const StopTask& effect) {
  v1::ControllerMessage message;
  message.mutable_cancel()->set_task_token(EncodeToken({token_name_, effect.ref}));
  message.mutable_cancel()->set_reason(effect.reason);
  context_->workers->Send(effect.worker, std::move(message));
}

void JobRuntime::Do(const AckResult& effect) {
  v1::ControllerMessage message;
  message.mutable_result_ack()->set_task_token(EncodeToken({token_name_, effect.ref}));
  context_->workers->Send(effect.worker, std::move(message));
}

// ---- Data and batches -----------------------------------------------------------------------

void JobRuntime::OnDataReaders(const v1::DataSpec& data, std::function<void()> work) {
  const auto self = shared_from_this();
  context_->executors->PostDataRead(
      name_, [self, data] { return self->files_->DataBytes(data); },
      [self, work = std::move(work)] { self->Guard(work); });
}

void JobRuntime::Do(const LoadData& effect) {
  const v1::JobSpec spec = core_.effective_spec();
  OnDataReaders(
      spec.data(), [this, spec, held = effect.held, number = ++data_read_, restoring = restoring_] {
        // Later, a job reads its files for longer than it works: a death then says nothing of it.
        const auto mark = restoring ? files_->MarkWork() : nullptr;
        const absl::StatusOr<JobData> read = files_->ReadData(spec, held);
        if (!read.ok()) {
          return OnStrand([this, number, waits = DataWaits{std::string(read.status().message())}] {
            if (!IsTerminal(core_.state()) && number == data_read_) Run(waits);
          });
        }
        DataLoaded loaded;
        if (!read->problems.empty()) {
          loaded.status = absl::InvalidArgumentError(
              absl::StrCat("the data cannot be used:\n  ", absl::StrJoin(read->problems, "\n  ")));
        }
        loaded.train_size = read->train->examples.size();
        loaded.val_size = read->val->examples.size();
        loaded.train_file_sizes = read->train->file_sizes;
        for (const Example& example : read->val->examples) {
          loaded.val_sources.push_back(example.source);
        }
        OnStrand([this, number, loaded, data = *read] {
          if (IsTerminal(core_.state()) || number != data_read_) return;
          train_ = data.train;
          val_ = data.val;
          pretrain_ = data.pretrain;
          Run(loaded);
        });
      });
}

std::string JobRuntime::BatchId(int64_t step, uint64_t incarnation) {
  return absl::StrCat("step-", step, "-", incarnation);
}

std::string JobRuntime::Capability(const std::string& batch_id) const {
  return Mac(context_->secret, {"FetchBatch", token_name_, batch_id});
}

// ---- Checkpoints, watchers, the queue -------------------------------------------------------

void JobRuntime::Do(const CommitCheckpoint& effect) {
  auto committed = std::make_shared<CheckpointCommitted>();
  committed->incarnation = effect.incarnation;
  std::vector<v1::FileHash> files;
  for (const auto& [role, saved] : std::exchange(saved_files_, {})) {
    files.insert(files.end(), saved.begin(), saved.end());
  }
  const auto write = [this, effect, committed, files] {
    auto checkpoint = files_->CommitCheckpoint(effect.step, effect.incarnation, effect.row, files);
    if (checkpoint.ok()) committed->checkpoint = *checkpoint;
    // A full disk is waited for; anything else ends the job.
    if (checkpoint.ok() || absl::IsResourceExhausted(checkpoint.status())) {
      return checkpoint.status();
    }
    committed->status = checkpoint.status();
    return absl::OkStatus();
  };
  // The job may go back to an earlier step while the disk is full. Its next checkpoint clears the
  // folder that this one would complete.
  WriteUntilDone(
      write,
      [this, committed](const absl::Status& status) {
        const bool given_up = !status.ok() && !Mutant("given-up-checkpoint-listed");
        if (!given_up) Run(*committed);
      },
      [this, incarnation = effect.incarnation] {
        return core_.WantsCheckpoint(incarnation) || Mutant("stale-checkpoint-repeated");
      });
}

void JobRuntime::Do(const DeleteCheckpoint& effect) {
  OnDisk([this, effect] { files_->DeleteCheckpoint(effect.checkpoint); });
}

void JobRuntime::Do(const EmitEvent& effect) {
  const v1::JobEvent& event = effect.event;
  events_.Publish(event);
  if (event.type() == "progress") return;
  const bool ended = event.type() == "state" && IsTerminal(event.state());
  if (event.type() == "state" && !ended) logs_ended_ = false;  // it may have been resumed
  const std::optional<std::string> line =
      event.type() == "step"
          ? step_log_.TakeStep(event.step(), TextOf(event), context_->clock->Now())
          : step_log_.TakeOther(TextOf(event));
  if (line.has_value()) {
    const bool warning = event.type() == "warning";
    baton::Log(warning ? LogLevel::kWarn : LogLevel::kInfo, *line, {{"job", name_}});
    AppendLog("controller", warning ? "WARN" : "INFO", *line, nullptr);
  }
  if (!ended) return;
  Finish({}, {}, [this] {
    if (!IsTerminal(core_.state())) return;
    logs_ended_ = true;
    logs_.End(absl::OkStatus());
  });
  events_.End(absl::OkStatus());
  DropWork();
}

void JobRuntime::DropWork() {
  batch_ = Batch();
  payloads_.SetBatch(0);
  payloads_.Clear();
  partials_.clear();
  early_.TakePieces();
  for (const EarlyResponses::Result& held : early_.TakeResults()) {
    OnStrand([this, worker = held.worker, ref = held.ref] { Refuse(worker, ref); });
  }
  history_.Forget();
  train_ = val_ = pretrain_ = nullptr;
  OnDisk([this] { log_ = nullptr; });  // readers open it again
}

void JobRuntime::Do(const NeedWorkers& effect) { context_->queue->Need(name_, effect); }
void JobRuntime::Do(const ReturnWorker& effect) { context_->queue->Return(name_, effect); }
void JobRuntime::Do(const LeaveQueue&) {
  context_->queue->Leave(name_);
  ++data_read_;
  train_ = val_ = pretrain_ = nullptr;
}

}  // namespace baton::controller
