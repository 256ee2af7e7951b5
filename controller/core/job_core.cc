#include "controller/core/job_core.h"

#include <variant>

#include "absl/strings/str_cat.h"

namespace baton::controller {

using Job = v1::Job;

std::shared_ptr<const Job> TakeSubmitted(Job* job) {
  auto out = std::make_shared<Job>();
  if (job->has_spec()) out->mutable_spec()->Swap(job->mutable_spec());
  if (job->has_effective_spec()) out->mutable_effective_spec()->Swap(job->mutable_effective_spec());
  if (job->has_dataflow()) out->mutable_dataflow()->Swap(job->mutable_dataflow());
  job->clear_spec();
  job->clear_effective_spec();
  job->clear_dataflow();
  return out;
}

JobCore::JobCore(v1::Job job, int64_t submit_order, const JobCoreOptions& options)
    : options_(options),
      submitted_(TakeSubmitted(&job)),
      graph_(submitted_->dataflow()),
      job_(std::move(job)),
      submit_order_(submit_order),
      rollout_pace_(options.pace) {
  job_.set_state(Job::STATE_QUEUED);
  job_.set_total_steps(spec().trainer().total_training_steps());
  roster_ = Roster(spec(), dataflow());
  MakeGroups();
}

Effects JobCore::Start(absl::Time now) {
  now_ = now;
  queued_since_ = phase_since_ = releasing_since_ = now;
  for (Slot& slot : roster_.slots()) slot.since = now;
  if (Commanded(TaskKind::kSaveCheckpoint)) {
    // What a rank wrote is known no more: those that were done with it save again.
    for (Group& group : groups_) {
      if (group.trains && !group.command.has_value()) {
        IssueCommand(TaskKind::kSaveCheckpoint, group);
      }
    }
  }
  if (!restored_ || job_.revision() == 0) {  // new, if from a checkpoint
    EmitState();
    for (const v1::Checkpoint& checkpoint : checkpoints_) Do(PutCheckpoint{checkpoint});
    Do(PutJob{});
  }
  if (state() == Job::STATE_QUEUED) AskForWorkers();
  if (IsActive(state())) {
    if (state() == Job::STATE_STOPPING || Releasing()) {
      ReleaseAll();
    } else {
      StartLoadingData();
      AskForWorkers();
    }
  }
  return std::exchange(effects_, {});
}

Effects JobCore::Handle(const Event& event, absl::Time now) {
  now_ = now;
  std::visit([this](const auto& e) { On(e); }, event);
  return std::exchange(effects_, {});
}

bool JobCore::Trigger(JobTrigger trigger) {
  const auto next = NextJobState(state(), trigger, stopping_as_);
  if (!next.has_value()) return false;
  if (*next == state()) return true;
  job_.set_state(*next);
  if (IsTerminal(*next)) {
    job_.mutable_end_time()->set_seconds(absl::ToUnixSeconds(now_));
    job_.clear_phase();
  }
  EmitState();
  if (IsTerminal(*next) || *next == Job::STATE_PAUSED) {
    ClearWork("the job ended");
    Do(LeaveQueue{});
  }
  Do(PutJob{});
  return true;
}

void JobCore::Emit(v1::JobEvent event) {
  job_.set_revision(job_.revision() + 1);
  event.set_revision(job_.revision());
  event.set_step(step_);
  event.mutable_time()->set_seconds(absl::ToUnixSeconds(now_));
  event.mutable_time()->set_nanos(
      static_cast<int>(absl::ToUnixNanos(now_) - absl::ToUnixSeconds(now_) * 1000000000));
  Do(EmitEvent{std::move(event), true});
}

void JobCore::EmitState() {
  v1::JobEvent event;
  event.set_type("state");
  event.set_state(state());
  event.set_message(job_.error().message());
  Emit(std::move(event));
}

void JobCore::EmitWarning(const std::string& message) {
  v1::JobEvent event;
  event.set_type("warning");
  event.set_message(message);
  Emit(std::move(event));
  Do(PutJob{});
}

void JobCore::EmitProgress() {
  const Job described = Progress();
  const int64_t mark = described.phase_done() * 16 + static_cast<int>(phase_);
  if (mark == last_progress_ || now_ - last_progress_at_ < absl::Milliseconds(200)) return;
  last_progress_ = mark;
  last_progress_at_ = now_;
  v1::JobEvent event;
  event.set_type("progress");
  event.set_step(step_);
  event.set_phase(described.phase());
  event.set_phase_done(described.phase_done());
  event.set_phase_total(described.phase_total());
  Do(EmitEvent{std::move(event), false});
}

void JobCore::Stop(Job::State as, JobTrigger trigger) {
  const Job::State before = std::exchange(stopping_as_, as);
  if (!Trigger(trigger)) {
    stopping_as_ = before;  // it stops already, and as something else
    return;
  }
  if (state() == Job::STATE_STOPPING) {
    ClearWork("the job stops");
    StopCommands("the job stops");
    DropCommands();
    ReleaseAll();
  }
}

void JobCore::Fail(const absl::Status& status) {
  if (IsTerminal(state()) || state() == Job::STATE_STOPPING) return;
  job_.mutable_error()->set_code(static_cast<int>(status.code()));
  job_.mutable_error()->set_message(std::string(status.message()));
  Stop(Job::STATE_FAILED, JobTrigger::kFail);
}

void JobCore::On(const CancelRequested&) { Stop(Job::STATE_CANCELLED, JobTrigger::kCancel); }

void JobCore::On(const PauseRequested&) {
  if (state() == Job::STATE_PAUSING) {  // no resume any more
    stopping_as_ = Job::STATE_CANCELLED;
    Do(PutJob{});
  }
  const bool set_up = state() == Job::STATE_RUNNING;
  if (!Trigger(JobTrigger::kPause) || state() != Job::STATE_PAUSING) return;
  if (!set_up) return ReleaseAll();  // nothing is ahead of the checkpoint
  Advance();
}

void JobCore::On(const ResumeRequested&) {
  if (state() == Job::STATE_PAUSING && Releasing()) {
    stopping_as_ = Job::STATE_QUEUED;  // CheckReleased resumes it
    return Do(PutJob{});
  }
  if (!Trigger(JobTrigger::kResume)) return;
  if (state() == Job::STATE_QUEUED) {
    queued_since_ = now_;
    AskForWorkers();
  }
  Advance();
}

void JobCore::On(const YieldRequested& event) {
  if (!IsActive(state()) || state() == Job::STATE_STOPPING || Releasing()) return;
  const bool set_up = state() == Job::STATE_RUNNING || state() == Job::STATE_PAUSING;
  if (state() != Job::STATE_PAUSING) {
    Trigger(JobTrigger::kPause);
    stopping_as_ = Job::STATE_QUEUED;  // CheckReleased resumes it
  }
  const std::string reason = absl::StrCat("the job gives its workers back: ", event.reason);
  if (set_up) return RecoverTrainer("", reason);
  EmitWarning(absl::StrCat(reason, "; it waits for workers again"));
  ReleaseAll();
}

void JobCore::On(const DataLoaded& event) {
  data_loading_ = false;
  if (!event.status.ok()) return Fail(event.status);
  data_loaded_ = true;
  prompts_ = PromptSource(event.train_size, static_cast<uint64_t>(spec().data().seed()),
                          spec().data().shuffle());
  val_sources_ = event.val_sources;
  Advance();
}

void JobCore::On(const BatchBuilt& event) {
  if (event.incarnation != incarnation_ || event.step != step_ + 1 || phase_ != Phase::kBatch) {
    return;
  }
  if (!event.status.ok()) return Fail(event.status);
  batch_at_ = now_;
  batch_metrics_ = event.metrics;
  batch_size_ = event.size;
  batch_algorithm_ = event.algorithm;
  if (Commanded(TaskKind::kPublish)) {
    batch_built_ = true;  // the weights are being published again; the actor is busy
    return;
  }
  if (SamplesMore(event)) return;
  if (!Commanded(TaskKind::kUpdate)) return StartUpdate();
  // Restored: a rank may have its update, have done it, or never have seen it.
  SetPhase(Phase::kUpdate);
  ReplayEarly(/*commands=*/true);
  SendCommands();
}

void JobCore::On(const CheckpointCommitted& event) {
  if (event.incarnation != incarnation_ || !committing_checkpoint_) return;
  committing_checkpoint_ = false;
  if (!event.status.ok()) return Fail(event.status);
  saved_step_ = event.checkpoint.step();
  saved_cursor_ = cursor_;
  saved_algorithm_ = algorithm_;
  checkpoints_.push_back(event.checkpoint);
  Do(PutCheckpoint{event.checkpoint});
  const size_t keep = static_cast<size_t>(spec().trainer().max_checkpoints());
  while (keep > 0 && checkpoints_.size() > keep) {
    Do(DeleteCheckpoint{checkpoints_.front()});
    checkpoints_.erase(checkpoints_.begin());
  }
  v1::JobEvent out;
  out.set_type("checkpoint");
  out.set_message(event.checkpoint.path());
  (*out.mutable_metrics())["timing_s/save_checkpoint"] = absl::ToDoubleSeconds(now_ - phase_since_);
  Emit(std::move(out));
  SetPhase(Phase::kNone);
  Do(PutJob{});
  Advance();
}

void JobCore::On(const TaskProgressed& event) {
  auto it = trajectories_.find(event.ref.subject);
  if (!Wants(event.worker, event.ref) || it == trajectories_.end()) return;
  it->second.tokens = event.tokens;
  rollouts_.Progressed(event.ref.subject, now_);
}

void JobCore::On(const TaskDone& event) {
  if (event.role_lost && event.ref.kind != TaskKind::kReleaseRole) {
    // Whatever it was asked, the answer is about the worker: what it held for the job is gone.
    Do(AckResult{event.worker, event.ref});
    if (!Wants(event.worker, event.ref)) return;
    return Evict(event.worker, absl::StrCat("it does not hold the role ", RoleOf(event.ref),
                                            " that it took on: ", event.status.message()));
  }
  switch (event.ref.kind) {
    case TaskKind::kAssignRole:
    case TaskKind::kReleaseRole:
      if (Slot* slot = roster_.At(event.ref.subject, event.worker)) OnRoleTask(event, *slot);
      break;
    case TaskKind::kLoadWeights:
      if (Slot* slot = roster_.At(event.ref.subject, event.worker)) OnLoadWeights(event, *slot);
      break;
    case TaskKind::kGenerate:
    case TaskKind::kScore:
      if (!Wants(event.worker, event.ref)) break;
      if (!begun_) {
        early_.push_back(event);
        return;
      }
      if (event.ref.kind == TaskKind::kGenerate) {
        OnGenerated(event);
      } else {
        OnScored(event);
      }
      break;
    case TaskKind::kUpdate:
    case TaskKind::kPublish:
    case TaskKind::kToGeneration:
    case TaskKind::kSaveCheckpoint:
      if (!Wants(event.worker, event.ref)) break;
      if (event.ref.kind == TaskKind::kUpdate && phase_ != Phase::kUpdate) {
        early_.push_back(event);
        return;
      }
      return OnCommand(event);  // which acknowledges
    case TaskKind::kExport:
      break;
  }
  Do(AckResult{event.worker, event.ref});
}

void JobCore::On(const Tick&) {
  if (!IsActive(state())) return;
  if (no_room_.has_value() && !WaitsForRoom() && !Commanded()) Advance();
  CheckSlotDeadlines();
  CheckOwnDeadlines();
  CheckGroups();
  CheckTaskDeadlines();
  EmitProgress();
}

}  // namespace baton::controller
