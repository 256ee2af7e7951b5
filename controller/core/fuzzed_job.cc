#include "controller/core/fuzzed_job.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "controller/core/check_row.h"
#include "controller/core/spec.h"

namespace baton::controller {
namespace {

constexpr size_t kRemembered = 32;  // tasks that may still be answered
constexpr int kWorkers = 8;

bool IsOwn(const Event& event) {
  return std::holds_alternative<DataLoaded>(event) || std::holds_alternative<BatchBuilt>(event) ||
         std::holds_alternative<CheckpointCommitted>(event);
}

}  // namespace

void Require(bool holds, const char* rule) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", rule);
  std::abort();
}

v1::Job FuzzedSpec(const std::string& id, bool sft, FuzzedDataProvider& input) {
  v1::JobSpec spec;
  spec.set_kind(sft ? v1::JOB_KIND_SFT : v1::JOB_KIND_RL);
  spec.mutable_model()->mutable_init()->set_characters("01");
  spec.mutable_data()->add_train_files("t");
  spec.mutable_data()->set_train_batch_size(input.ConsumeIntegralInRange(1, 3));
  v1::TrainerSpec* trainer = spec.mutable_trainer();
  trainer->set_total_training_steps(input.ConsumeIntegralInRange(1, 4));
  trainer->set_save_freq(input.ConsumeIntegralInRange(0, 2));
  trainer->set_max_checkpoints(input.ConsumeIntegralInRange(0, 2));
  spec.set_priority(input.ConsumeIntegralInRange(-1, 1));
  if (!sft) {
    spec.mutable_rollout()->set_n(input.ConsumeIntegralInRange(1, 2));
    spec.mutable_reward()->add_rules()->set_type("numeric");
    const int shared = input.ConsumeIntegralInRange(0, 5);
    const int rollouts = input.ConsumeIntegralInRange(1, 2);
    if (shared != 1) spec.mutable_resources()->set_rollout_workers(rollouts);
    if (input.ConsumeIntegralInRange(0, 3) == 0) {  // ranks that score together
      spec.mutable_algorithm()->set_recompute_log_prob(true);
      spec.mutable_actor()->mutable_parallel()->set_tp(2);
    }
    if (input.ConsumeIntegralInRange(0, 3) == 0) {
      spec.mutable_algorithm()->set_use_kl_loss(true);
      spec.mutable_reference()->mutable_parallel()->set_tp(2);
    }
    if (shared > 0 && shared < 4) {
      v1::PoolSpec* pool = spec.mutable_resources()->add_pools();
      if (shared != 2) pool->add_roles("actor");
      pool->add_roles(shared == 3 ? "reward" : "rollout");
      if (shared == 2) pool->add_roles("reward");
      if (shared == 3) spec.mutable_resources()->add_pools()->add_roles("rollout");
    }
    if (input.ConsumeBool()) {
      spec.mutable_data()->add_val_files("v");
      trainer->set_test_freq(input.ConsumeIntegralInRange(0, 2));
      trainer->set_val_before_train(input.ConsumeBool());
      trainer->set_val_after_train(input.ConsumeBool());
    }
  }
  const CheckedSpec checked = CheckSpec(spec);
  Require(checked.violations.empty(), "the fuzzed spec is good");
  v1::Job job;
  job.set_name("projects/p/jobs/" + id);
  *job.mutable_spec() = spec;
  *job.mutable_effective_spec() = checked.effective;
  *job.mutable_dataflow() = checked.dataflow;
  return job;
}

FuzzedJob::FuzzedJob(const v1::Job& job, FuzzedDataProvider* input)
    : input_(input), core_(std::make_unique<JobCore>(job, 1, options_)), row_(core_->Row()) {}

FuzzedJob::FuzzedJob(const store::v1::JobRow& row, const Rows& rows, FuzzedDataProvider* input)
    : input_(input),
      core_(std::make_unique<JobCore>(row, rows, 2, options_)),
      row_(row),
      rows_(rows),
      policy_version_(row.job().policy_version()),
      incarnation_(row.incarnation()),
      revision_(row.job().revision()) {}

void FuzzedJob::Start(absl::Time now) {
  started_ = true;
  Apply(core_->Start(now), now);
}

void FuzzedJob::Send(const Event& event, absl::Time now) {
  const v1::Job::State before = core_->state();
  // The user alone makes a job go on that FAILED or was CANCELLED.
  const bool resumed =
      before != v1::Job::STATE_SUCCEEDED && std::holds_alternative<ResumeRequested>(event);
  Apply(core_->Handle(event, now), now);
  Require(!IsTerminal(before) || core_->state() == before || resumed,
          "what has ended stays as it is");
}

void FuzzedJob::Restart(uint64_t epoch, absl::Time now) {
  own_.clear();  // with the process that did it
  need_.clear();
  core_ = std::make_unique<JobCore>(row_, rows_, epoch, options_);
  Require(core_->step() == row_.job().step(), "a restart is where the row says");
  if (IsTerminal(core_->state())) return;
  Start(now);
}

void FuzzedJob::Apply(const Effects& effects, absl::Time now) {
  bool changed = false;
  for (const Effect& effect : effects) {
    const auto* emit = std::get_if<EmitEvent>(&effect);
    if (std::holds_alternative<PutJob>(effect) || (emit != nullptr && emit->kept)) {
      row_ = core_->Row();
      changed = true;
    }
    if (changed) break;
  }
  if (changed) CheckRows();
  for (const Effect& effect : effects) See(effect);
  Check(now);
}

void FuzzedJob::See(const Effect& effect) {
  const bool queue = std::holds_alternative<NeedWorkers>(effect) ||
                     std::holds_alternative<ReturnWorker>(effect) ||
                     std::holds_alternative<LeaveQueue>(effect);
  if (queue && queue_) return queue_(effect);
  if (const auto* start = std::get_if<StartTask>(&effect)) {
    See(*start);
  } else if (const auto* put = std::get_if<PutTrajectory>(&effect)) {
    rows_[put->serial] = ToRow(put->trajectory, put->step, put->incarnation);
  } else if (const auto* drop = std::get_if<DropTrajectories>(&effect)) {
    Require(drop->begin <= drop->end, "rows that are dropped are a range");
    rows_.erase(rows_.lower_bound(drop->begin), rows_.lower_bound(drop->end));
  } else if (const auto* batch = std::get_if<PutBatch>(&effect)) {
    // A batch that filters left nothing of is consumed at once.
    const int64_t ahead = batch->row.step() - core_->step();
    Require(ahead == 1 || ahead == 0, "a batch is of the step in progress");
  } else if (const auto* drop = std::get_if<DropBatches>(&effect)) {
    Require(drop->begin < drop->end, "batches that are dropped are a range");
  } else if (const auto* emit = std::get_if<EmitEvent>(&effect)) {
    if (!emit->kept) return;
    Require(emit->event.revision() == revision_ + 1, "revisions have no holes");
    revision_ = emit->event.revision();
  } else if (const auto* need = std::get_if<NeedWorkers>(&effect)) {
    need_ = need->missing;
  } else if (std::holds_alternative<LeaveQueue>(effect)) {
    need_.clear();
  } else if (std::holds_alternative<LoadData>(effect)) {
    DataLoaded loaded;
    loaded.train_size = 5;
    if (core_->effective_spec().data().val_files_size() > 0) loaded.val_sources = {"a", "", "a"};
    loaded.val_size = loaded.val_sources.size();
    own_.emplace_back(std::move(loaded));
  } else if (const auto* batch = std::get_if<BuildBatch>(&effect)) {
    See(*batch);
  } else if (const auto* commit = std::get_if<CommitCheckpoint>(&effect)) {
    Require(commit->row.job().step() == commit->step, "a checkpoint is of its step");
    Require(CheckRow(commit->row).ok(), "a checkpoint's row is one to go on from");
    CheckpointCommitted committed;
    committed.incarnation = commit->incarnation;
    committed.checkpoint.set_step(commit->step);
    own_.emplace_back(std::move(committed));
  }
}

void FuzzedJob::See(const StartTask& start) {
  Require(!start.worker.empty(), "a task is for somebody");
  asked_.push_back({start});
  if (asked_.size() > kRemembered) asked_.pop_front();
}

void FuzzedJob::See(const BuildBatch& batch) {
  const v1::JobSpec& spec = core_->effective_spec();
  const bool rl = spec.kind() == v1::JOB_KIND_RL;
  const auto size =
      static_cast<size_t>(spec.data().train_batch_size() * (rl ? spec.rollout().n() : 1));
  Require(batch.trajectories.size() == size, "a batch has whole groups");
  for (size_t i = 0; i < size; ++i) {
    Require(batch.trajectories[i].state == TrajectoryState::kReady, "a batch is of READY ones");
    Require(batch.trajectories[i].purpose == v1::PURPOSE_TRAIN, "a batch is for training");
    Require(i == 0 || batch.trajectories[i - 1].id < batch.trajectories[i].id,
            "a batch is ordered");
  }
  BatchBuilt built;
  built.step = batch.step;
  built.incarnation = batch.incarnation;
  built.size = static_cast<uint32_t>(size);
  own_.emplace_back(built);
}

void FuzzedJob::CheckRows() {
  const v1::Job& job = row_.job();
  Require(job.policy_version() >= policy_version_, "the policy version never falls");
  Require(row_.incarnation() >= incarnation_, "the incarnation never falls");
  policy_version_ = job.policy_version();
  incarnation_ = row_.incarnation();
  const absl::Status good = CheckRow(row_);
  if (!good.ok()) std::fprintf(stderr, "%s\n", std::string(good.message()).c_str());
  Require(good.ok(), "a core writes rows that a core can go on from");
}

void FuzzedJob::Check(absl::Time now) {
  Require(core_->step() >= 0 && core_->step() <= row_.job().total_steps(),
          "the step is within the total");
  if (!started_ || !IsActive(core_->state())) return;
  const v1::ExplainJobResponse why = core_->Explain(now);
  if (why.waits_size() == 0) std::fprintf(stderr, "%s\n", why.summary().c_str());
  Require(why.waits_size() > 0, "an active job says what it waits for");
}

std::string FuzzedJob::SomeWorker() {
  const auto held = core_->HeldWorkers();
  const size_t pick = input_->ConsumeIntegralInRange<size_t>(0, 15);
  if (pick >= held.size()) return absl::StrCat("w", pick % kWorkers);
  return std::next(held.begin(), static_cast<std::ptrdiff_t>(pick))->first;
}

absl::Status FuzzedJob::SomeError() {
  static constexpr absl::StatusCode kCodes[] = {absl::StatusCode::kUnavailable,
                                                absl::StatusCode::kCancelled,
                                                absl::StatusCode::kAborted,
                                                absl::StatusCode::kNotFound,
                                                absl::StatusCode::kFailedPrecondition,
                                                absl::StatusCode::kInvalidArgument,
                                                absl::StatusCode::kDeadlineExceeded,
                                                absl::StatusCode::kInternal};
  return absl::Status(input_->PickValueInArray(kCodes), "fuzzed");
}

TaskRef FuzzedJob::SomeRef() {
  TaskRef ref;
  if (!asked_.empty() && input_->ConsumeBool()) {
    ref = asked_[input_->ConsumeIntegralInRange<size_t>(0, asked_.size() - 1)].task.ref;
    switch (input_->ConsumeIntegralInRange(0, 6)) {
      case 0:
        ref.subject = input_->ConsumeIntegral<uint64_t>();
        break;
      case 1:
        ref.part = input_->ConsumeIntegral<uint32_t>();
        break;
      case 2:
        ref.attempt = input_->ConsumeIntegral<uint32_t>();
        break;
      case 3:
        ref.step += input_->ConsumeIntegralInRange(-1, 1);
        break;
      case 4:
        ref.incarnation = input_->ConsumeIntegral<uint64_t>();
        ref.birth = input_->ConsumeIntegral<uint64_t>();
        break;
      case 5:
        ref.kind = static_cast<TaskKind>(input_->ConsumeIntegralInRange(1, 10));
        break;
      default:
        break;
    }
    return ref;
  }
  ref.kind = static_cast<TaskKind>(input_->ConsumeIntegralInRange(1, 10));
  ref.subject = input_->ConsumeIntegralInRange<uint64_t>(0, 8);
  if (input_->ConsumeBool()) ref.subject |= uint64_t{1} << 56;
  ref.part = input_->ConsumeIntegralInRange<uint32_t>(0, 2);
  ref.attempt = input_->ConsumeIntegralInRange<uint32_t>(0, 2);
  ref.step = core_->step();
  ref.incarnation = core_->incarnation();
  if (IsTrajectoryTask(ref.kind)) {
    ref.step = 0;
    ref.incarnation = 0;
    ref.birth = input_->ConsumeIntegralInRange<uint64_t>(0, 40);
  }
  return ref;
}

// Of a task that was given: well, with an error, or of something like it.
TaskDone FuzzedJob::Answer() {
  TaskDone done;
  const int how = input_->ConsumeIntegralInRange(0, 15);
  if (asked_.empty() || how == 0) {
    done.worker = SomeWorker();
    done.ref = SomeRef();
  } else {
    // The newest first: an exhausted input still makes the job go on.
    const size_t back = input_->ConsumeIntegralInRange<size_t>(0, asked_.size() - 1);
    Asked& asked = asked_[asked_.size() - 1 - back];
    done.worker = how == 1 ? SomeWorker() : asked.task.worker;
    done.ref = asked.task.ref;
    asked.answered = asked.answered || how > 1;
  }
  if (how == 2) done.status = SomeError();
  done.output.tokens = input_->ConsumeIntegral<uint8_t>();
  done.output.prompt_tokens = 2;
  done.output.finish_reason = how == 3 ? "length" : "stop";
  done.output.location.file = input_->ConsumeIntegralInRange<uint32_t>(0, 3);
  if (how != 4) done.output.metrics["reward"] = input_->ConsumeFloatingPoint<double>();
  if (how == 5) done.output.error = "fuzzed";
  done.output.infra_failed = how == 5 && done.ref.subject % 2 == 1;
  return done;
}

WorkerBack FuzzedJob::Back(const std::string& worker, bool holds_role) {
  WorkerBack back;
  back.worker = worker;
  const uint64_t version =
      input_->ConsumeBool() ? policy_version_ : input_->ConsumeIntegralInRange<uint64_t>(0, 4);
  for (const auto& slot : row_.slots()) {
    if (holds_role && slot.worker_id() == worker) back.holds[slot.role()] = version;
  }
  for (const auto& [task, answered] : asked_) {
    if (task.worker != worker) continue;
    const int now = input_->ConsumeIntegralInRange(0, 2);  // lost, running, finished
    if (now > 0) (now == 1 ? back.running : back.unacked).push_back(task.ref);
  }
  for (int more = input_->ConsumeIntegralInRange(0, 2); more > 0; --more) {
    (input_->ConsumeBool() ? back.running : back.unacked).push_back(SomeRef());
  }
  return back;
}

void FuzzedJob::HappenToQueue(absl::Time now) {
  const std::string worker = SomeWorker();
  switch (input_->ConsumeIntegralInRange(0, 3)) {
    case 0:
      return Send(WorkerLost{worker, "fuzzed"}, now);
    case 1:
      return Send(Back(worker, input_->ConsumeBool()), now);
    default:
      break;
  }
  GrantNext(now);
}

bool FuzzedJob::GrantNext(absl::Time now) {
  for (auto& [roles, count] : need_) {
    if (count == 0 || (need_.size() > 1 && input_->ConsumeBool())) continue;
    const auto held = core_->HeldWorkers();
    for (int w = 0; w < kWorkers; ++w) {
      const std::string free = absl::StrCat("w", w);
      if (held.count(free) > 0) continue;
      --count;
      WorkerGranted granted{free, roles, {}};
      const int credits = input_->ConsumeIntegralInRange(1, 3);
      for (absl::string_view role : absl::StrSplit(roles, '+')) {
        granted.credits[std::string(role)] = credits;
      }
      Send(granted, now);
      return true;
    }
  }
  return false;
}

void FuzzedJob::GoWell(int turns, absl::Time now) {
  for (; turns > 0 && !IsTerminal(core_->state()); --turns) {
    now += absl::Milliseconds(10);
    if (!own_.empty()) {
      Event event = std::move(own_.front());
      own_.erase(own_.begin());
      Send(event, now);
      continue;
    }
    auto next = std::find_if(asked_.begin(), asked_.end(), [&](const Asked& asked) {
      return !asked.answered && core_->Wants(asked.task.worker, asked.task.ref);
    });
    if (next != asked_.end()) {
      next->answered = true;
      TaskDone done;
      done.worker = next->task.worker;
      done.ref = next->task.ref;
      done.output.tokens = 3;
      done.output.finish_reason = "stop";
      done.output.location.file = 1;
      done.output.metrics["reward"] = next->task.args.trajectory.sample;
      Send(done, now);
    } else if (queue_ || !GrantNext(now)) {
      return;
    }
  }
}

void FuzzedJob::HappenToController(absl::Time now) {
  if (own_.empty()) return Send(Tick{}, now);
  Event event = std::move(own_.front());
  own_.erase(own_.begin());
  Require(IsOwn(event), "the controller's own work");
  const int how = input_->ConsumeIntegralInRange(0, 15);
  if (how == 0)
    std::visit(
        [&](auto& e) {
          if constexpr (std::is_same_v<std::decay_t<decltype(e)>, DataLoaded> ||
                        std::is_same_v<std::decay_t<decltype(e)>, BatchBuilt> ||
                        std::is_same_v<std::decay_t<decltype(e)>, CheckpointCommitted>) {
            e.status = SomeError();
          }
        },
        event);
  if (auto* built = std::get_if<BatchBuilt>(&event); built != nullptr && how == 1) built->size = 0;
  Send(event, now);
}

void FuzzedJob::Happen(absl::Time now) {
  if (IsTerminal(core_->state()) && input_->ConsumeBool()) return;
  switch (input_->ConsumeIntegralInRange(0, 15)) {
    case 0:
    case 1:
    case 2:
      return GoWell(input_->ConsumeIntegralInRange(1, 32), now);
    case 3:
    case 4:
    case 5:
      return Send(Answer(), now);
    case 6:
    case 7:
      return HappenToController(now);
    case 8:
    case 9:
      if (queue_) return Send(Answer(), now);
      return HappenToQueue(now);
    case 10:
      if (input_->ConsumeIntegralInRange(0, 3) == 0) {
        return Send(RoleTroubled{SomeWorker(), "reward", input_->ConsumeBool() ? "fuzzed" : ""},
                    now);
      }
      return Send(TaskProgressed{SomeWorker(), SomeRef(), input_->ConsumeIntegral<uint32_t>()},
                  now);
    case 11:
      return Send(TimeLost{absl::Seconds(input_->ConsumeIntegralInRange(0, 1000))}, now);
    case 12:
      return Send(PauseRequested{}, now);
    case 13:
      if (input_->ConsumeIntegralInRange(0, 3) == 0) return Send(YieldRequested{"fuzzed"}, now);
      return Send(ResumeRequested{}, now);
    case 14:
      if (input_->ConsumeIntegralInRange(0, 7) == 0) return Send(CancelRequested{}, now);
      if (input_->ConsumeIntegralInRange(0, 3) == 0) {
        const TaskRef ref = SomeRef();
        const TrajectoryInfo* info = core_->Find(ref.subject);
        return Send(PayloadLost{{{ref.subject, info == nullptr ? ref.part : info->serial}}, "lost"},
                    now);
      }
      return Send(Tick{}, now);
    default:
      return Send(Tick{}, now);
  }
}

}  // namespace baton::controller
