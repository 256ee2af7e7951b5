#include "bench/core_rows.h"

#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "controller/core/job_core.h"
#include "controller/core/spec.h"

namespace baton::bench {
namespace {

using namespace controller;  // NOLINT: events and effects by their names

constexpr int kReplicas = 64;
constexpr int kCredits = 64;       // responses that a replica generates at the same time
constexpr uint32_t kTokens = 256;  // of a response …
constexpr uint32_t kChunk = 64;    // … and of a report of progress
constexpr int kRewardCredits = 64;

struct Timed {
  absl::Time time;
  Event event;
};

absl::StatusOr<v1::Job> MakeJob(int steps) {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_model()->mutable_init()->set_characters("0123456789+=");
  spec.mutable_data()->add_train_files("train.jsonl");
  spec.mutable_data()->set_train_batch_size(512);
  spec.mutable_data()->set_max_response_length(kTokens);
  spec.mutable_rollout()->set_n(16);
  spec.mutable_reward()->add_rules()->set_type("exact_match");
  spec.mutable_trainer()->set_total_training_steps(steps);
  spec.mutable_resources()->set_rollout_workers(kReplicas);
  spec.mutable_resources()->set_reward_workers(8);
  const CheckedSpec checked = CheckSpec(spec);
  if (!checked.violations.empty()) {
    return absl::InternalError(checked.violations[0].ShortDebugString());
  }
  v1::Job job;
  job.set_name("projects/default/jobs/bench");
  job.set_uid("bench");
  *job.mutable_spec() = spec;
  *job.mutable_effective_spec() = checked.effective;
  *job.mutable_dataflow() = checked.dataflow;
  return job;
}

/// Workers, data and files that always succeed, on a simulated clock.
class World {
 public:
  /// Runs the job to its end; answers every event with its time, in order.
  absl::StatusOr<std::vector<Timed>> Record(const v1::Job& job, int64_t* effects) {
    JobCore core(job, 1, {});
    now_ = absl::UnixEpoch() + absl::Hours(1);
    Take(core.Start(now_), effects);
    At(absl::Milliseconds(250), Tick{});
    while (core.state() != v1::Job::STATE_SUCCEEDED) {
      if (log_.size() > 5'000'000) {
        return absl::InternalError(
            absl::StrCat("the job does not end: ", core.Explain(now_).ShortDebugString()));
      }
      auto next = agenda_.begin();
      now_ = next->first.first;
      log_.push_back({now_, std::move(next->second)});
      agenda_.erase(next);
      if (std::holds_alternative<Tick>(log_.back().event)) At(absl::Milliseconds(250), Tick{});
      Take(core.Handle(log_.back().event, now_), effects);
    }
    return std::move(log_);
  }

 private:
  void At(absl::Duration delay, Event event) {
    agenda_.emplace(std::make_pair(now_ + delay, serial_++), std::move(event));
  }

  void Take(const Effects& effects, int64_t* count) {
    *count += static_cast<int64_t>(effects.size());
    for (const Effect& effect : effects) {
      std::visit([this](const auto& e) { On(e); }, effect);
    }
  }

  template <typename T>
  void On(const T&) {}  // rows, events and acknowledgements need no answer

  void On(const NeedWorkers& effect) {
    for (const auto& [role, missing] : effect.missing) {
      for (int i = 0; i < missing; ++i) {
        const std::string worker = absl::StrCat(role, "-", workers_++);
        At(absl::Milliseconds(1),
           WorkerGranted{worker, role, role == "rollout" ? kCredits : kRewardCredits});
      }
    }
  }
  void On(const LoadData&) {
    DataLoaded loaded;
    loaded.train_size = 100'000;
    At(absl::Seconds(1), loaded);
  }
  void On(const BuildBatch& effect) {
    BatchBuilt built;
    built.step = effect.step;
    built.incarnation = effect.incarnation;
    built.size = static_cast<uint32_t>(effect.trajectories.size());
    At(absl::Milliseconds(100), built);
  }
  void On(const CommitCheckpoint& effect) {
    CheckpointCommitted committed;
    committed.incarnation = effect.incarnation;
    committed.checkpoint.set_step(effect.step);
    committed.checkpoint.set_policy_version(effect.policy_version);
    At(absl::Milliseconds(100), committed);
  }
  void On(const StartTask& effect) {
    TaskDone done;
    done.worker = effect.worker;
    done.ref = effect.ref;
    absl::Duration length = absl::Milliseconds(50);
    if (effect.ref.kind == TaskKind::kGenerate) {
      length = Generate(effect);
      done.output.tokens = kTokens;
      done.output.prompt_tokens = 12;
      done.output.finish_reason = "stop";
      done.output.location = {1, 4096 * serial_, 4096};
    } else if (effect.ref.kind == TaskKind::kScore) {
      done.output.metrics["reward"] = effect.args.trajectory.sample % 2 == 0 ? 1 : 0;
    }
    At(length, done);
  }

  /// Reports of progress, one a chunk; no two responses are equally fast.
  absl::Duration Generate(const StartTask& effect) {
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    const absl::Duration chunk = absl::Microseconds(500'000 + (random_ >> 33) % 500'000);
    absl::Duration length;
    for (uint32_t tokens = kChunk; tokens < kTokens; tokens += kChunk) {
      length += chunk;
      At(length, TaskProgressed{effect.worker, effect.ref, tokens});
    }
    return length + chunk;
  }

  absl::Time now_;
  std::map<std::pair<absl::Time, uint64_t>, Event> agenda_;  // by time, then order of making
  uint64_t serial_ = 0;
  uint64_t random_ = 1;
  int workers_ = 0;
  std::vector<Timed> log_;
};

std::string KindOf(const Event& event) {
  if (std::holds_alternative<TaskProgressed>(event)) return "progress";
  if (const auto* done = std::get_if<TaskDone>(&event)) {
    if (done->ref.kind == TaskKind::kGenerate) return "generated";
    if (done->ref.kind == TaskKind::kScore) return "scored";
    return "command done";
  }
  return std::holds_alternative<Tick>(event) ? "tick" : "other";
}

}  // namespace

absl::StatusOr<CoreRun> MeasureCore(int steps) {
  const auto job = MakeJob(steps);
  if (!job.ok()) return job.status();
  int64_t recorded_effects = 0;
  const auto log = World().Record(*job, &recorded_effects);
  if (!log.ok()) return log.status();

  CoreRun run;
  run.events = static_cast<int64_t>(log->size());
  for (const Timed& timed : *log) ++run.mix[KindOf(timed.event)];
  JobCore core(*job, 1, {});
  const absl::Time begin = absl::Now();
  run.effects = static_cast<int64_t>(core.Start(log->front().time).size());
  for (const Timed& timed : *log) {
    run.effects += static_cast<int64_t>(core.Handle(timed.event, timed.time).size());
  }
  run.events_per_second =
      static_cast<double>(run.events) / absl::ToDoubleSeconds(absl::Now() - begin);
  if (core.state() != v1::Job::STATE_SUCCEEDED || run.effects != recorded_effects) {
    return absl::InternalError(
        absl::StrCat("the replay made ", run.effects, " effects, not ", recorded_effects));
  }
  return run;
}

}  // namespace baton::bench
