#include "controller/core/job_core.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "sdk/base/mutant.h"

namespace baton::controller {

using Job = v1::Job;

namespace {

void EmitState(const Job& job, EffectSink& out) {
  v1::JobEvent event;
  event.set_type("state");
  event.set_state(job.state());
  event.set_message(job.error().message());
  out.Emit(std::move(event));
}

}  // namespace

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
      scheduler_(submitted_, options),
      groups_(spec(), dataflow()),
      pools_(spec(), dataflow()),
      milestones_(submitted_, spec().trainer().total_training_steps()),
      slots_(spec(), dataflow(), options),
      job_(std::move(job)),
      submit_order_(submit_order) {
  job_.set_state(Job::STATE_QUEUED);
  job_.set_total_steps(spec().trainer().total_training_steps());
}

Effects JobCore::Start(absl::Time now) {
  out_.Begin(now);
  milestones_.Count(/*works=*/false, now);  // the controller was away: the job held no workers
  queued_since_ = phase_since_ = now;
  slots_.Begin(now);
  if (groups_.Commanded(TaskKind::kSaveCheckpoint)) {
    // What a rank wrote is known no more: those that were done with it save again.
    for (const Group& group : groups_.all()) {
      if (group.trains && !group.command.has_value()) {
        IssueCommand(TaskKind::kSaveCheckpoint, group);
      }
    }
  }
  if (!restored_ || out_.revision() == 0) {  // new, if from a checkpoint
    EmitState(job_, out_);
    for (const v1::Checkpoint& checkpoint : checkpoints()) out_.Do(PutCheckpoint{checkpoint});
    out_.Do(PutJob{});
  }
  if (state() == Job::STATE_QUEUED) slots_.Ask(groups_, out_);
  if (IsActive(state())) {
    if (state() == Job::STATE_STOPPING || slots_.Releasing()) {
      ReleaseAll();
    } else {
      data_.Load(out_);
      slots_.Ask(groups_, out_);
    }
  }
  return out_.Take();
}

Effects JobCore::Handle(const Event& event, absl::Time now) {
  out_.Begin(now);
  std::visit([this](const auto& e) { On(e); }, event);
  return out_.Take();
}

bool JobCore::Trigger(JobTrigger trigger) {
  const auto next = NextJobState(state(), trigger, stopping_as_);
  if (!next.has_value()) return false;
  if (*next == state()) return true;
  milestones_.Count(IsActive(state()), out_.now());
  job_.set_state(*next);
  if (IsTerminal(*next)) {
    job_.mutable_end_time()->set_seconds(absl::ToUnixSeconds(out_.now()));
    job_.clear_phase();
  }
  EmitState(job_, out_);
  if (IsTerminal(*next) || *next == Job::STATE_PAUSED) {
    ClearWork("the job ended");
    out_.Do(LeaveQueue{});
  }
  out_.Do(PutJob{});
  return true;
}

// Tells its user what keeps the job from learning, and fails it where the spec says so.
void JobCore::Heed(const LearningNews& news) {
  for (const std::string& warning : news.warnings) out_.Warn(warning);
  if (!news.failure.ok()) Fail(news.failure);
}

void JobCore::Stop(Job::State as, JobTrigger trigger) {
  const Job::State before = std::exchange(stopping_as_, as);
  if (!Trigger(trigger)) {
    stopping_as_ = before;  // it stops already, and as something else
    return;
  }
  if (state() == Job::STATE_STOPPING) {
    for (const std::string& line : LearningSummary(spec(), out_.step(), milestones_.learning()))
      out_.Warn(line);
    ClearWork("the job stops");
    groups_.Stop("the job stops", roster(), out_);
    groups_.DropAll(out_);
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
    out_.Do(PutJob{});
  }
  const bool set_up = state() == Job::STATE_RUNNING;
  if (!Trigger(JobTrigger::kPause) || state() != Job::STATE_PAUSING) return;
  if (!set_up) return ReleaseAll();  // nothing is ahead of the checkpoint
  Advance();
}

void JobCore::On(const ResumeRequested&) {
  if (state() == Job::STATE_PAUSING && slots_.Releasing()) {
    stopping_as_ = Job::STATE_QUEUED;  // CheckReleased resumes it
    return out_.Do(PutJob{});
  }
  if (NextJobState(state(), JobTrigger::kResume, stopping_as_).has_value() && IsTerminal(state())) {
    // It failed or was cancelled, and goes on as after the loss of its trainer. What stopped it may
    // have been any part of it, so all of them begin anew.
    job_.clear_error();
    job_.clear_end_time();
    stopping_as_ = Job::STATE_CANCELLED;
    data_.Forget();
    RollBack();
    slots_.Forgive();
    groups_.Forgive();
  }
  if (!Trigger(JobTrigger::kResume)) return;
  if (state() == Job::STATE_QUEUED) {
    queued_since_ = out_.now();
    slots_.Ask(groups_, out_);
  }
  Advance();
}

void JobCore::On(const YieldRequested& event) {
  if (!IsActive(state()) || state() == Job::STATE_STOPPING || slots_.Releasing()) return;
  const bool set_up = state() == Job::STATE_RUNNING || state() == Job::STATE_PAUSING;
  if (state() != Job::STATE_PAUSING) {
    Trigger(JobTrigger::kPause);
    stopping_as_ = Job::STATE_QUEUED;  // CheckReleased resumes it
  }
  const std::string reason = absl::StrCat("the job gives its workers back: ", event.reason);
  if (set_up) return RecoverTrainer("", reason);
  out_.Warn(absl::StrCat(reason, "; it waits for workers again"));
  ReleaseAll();
}

void JobCore::On(const DataLoaded& event) {
  if (!data_.loading() && !IsActive(state())) return;  // it was asked for before the job ended
  const absl::Status status = data_.Loaded(event, spec().data());
  if (!status.ok()) return Fail(status);
  Advance();
}

void JobCore::On(const BatchBuilt& event) {
  if (event.incarnation != out_.incarnation() || event.step != out_.step() + 1 ||
      phase_ != Phase::kBatch) {
    return;
  }
  if (!event.status.ok()) return Fail(event.status);
  buffer_.Built(event, out_.now());
  if (groups_.Commanded(TaskKind::kPublish)) {
    buffer_.Hold();  // the weights are being published again; the actor is busy
    return;
  }
  UseBatch();
}

// The batch stands, and the actor is free.
void JobCore::UseBatch() {
  if (SamplesMore()) return;
  if (!groups_.Commanded(TaskKind::kUpdate)) return StartUpdate();
  // Restored: a rank may have its update, have done it, or never have seen it.
  SetPhase(Phase::kUpdate);
  early_.Replay(/*commands=*/true, [this](const TaskDone& early) { On(early); });
  SendWaitingCommands(Commands());
}

void JobCore::On(const CheckpointCommitted& event) {
  // A checkpoint of an incarnation that is gone is of no use: the job went back before it.
  if (event.incarnation != out_.incarnation() || !milestones_.committing()) return;
  milestones_.DropCommit();
  if (!event.status.ok()) return Fail(event.status);
  versions_.Saved();
  milestones_.Saved(event.checkpoint, {scheduler_.draws().cursor(), buffer_.algorithm(), {}}, out_);
  v1::JobEvent out;
  out.set_type("checkpoint");
  out.set_message(event.checkpoint.path());
  (*out.mutable_metrics())["timing_s/save_checkpoint"] =
      absl::ToDoubleSeconds(out_.now() - phase_since_);
  out_.Emit(std::move(out));
  SetPhase(Phase::kNone);
  out_.Do(PutJob{});
  Advance();
}

void JobCore::On(const TaskProgressed& event) {
  const bool known = scheduler_.table().Find(event.ref.subject) != nullptr;
  if (known && Wants(event.worker, event.ref)) scheduler_.Progressed(event, out_.now());
}

void JobCore::On(const TaskDone& event) {
  if (event.role_lost && event.ref.kind != TaskKind::kReleaseRole) {
    // Whatever it was asked, the answer is about the worker: what it held for the job is gone.
    out_.Do(AckResult{event.worker, event.ref});
    if (!Wants(event.worker, event.ref)) return;
    return Evict(event.worker, absl::StrCat("it does not hold the role ", RoleOf(event.ref),
                                            " that it took on: ", event.status.message()));
  }
  switch (event.ref.kind) {
    case TaskKind::kAssignRole:
    case TaskKind::kReleaseRole:
      if (const Slot* slot = slots_.Awaits(event.worker, event.ref, versions_)) {
        OnRoleTask(event, *slot);
      }
      break;
    case TaskKind::kLoadWeights:
      if (const Slot* slot = slots_.Awaits(event.worker, event.ref, versions_)) {
        OnLoadWeights(event, *slot);
      }
      break;
    case TaskKind::kGenerate:
    case TaskKind::kScore:
      if (!Wants(event.worker, event.ref)) break;
      if (!begun_) {
        early_.NoteResult(event);
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
        early_.NoteResult(event);
        return;
      }
      return OnCommand(event);  // which acknowledges
    case TaskKind::kExport:
      break;
  }
  out_.Do(AckResult{event.worker, event.ref});
}

void JobCore::On(const RoleTroubled& event) {
  if (!slots_.NoteTrouble(event, out_.now())) return;
  scheduler_.errors().Tell(
      absl::StrCat("role ", event.role, ", worker ", event.worker, ": ", event.message), out_);
}

void JobCore::On(const Tick&) {
  if (!IsActive(state())) return;
  milestones_.Count(/*works=*/true, out_.now());
  if (groups_.room().RetryDue(out_.now()) && !groups_.Commanded()) Advance();
  CheckSlotDeadlines();
  CheckOwnDeadlines();
  CheckGroups();
  CheckTaskDeadlines();
  progress_.Tell(phase_, Progress(), out_);
}

}  // namespace baton::controller
