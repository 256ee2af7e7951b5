// Plays the events of a large job to the pure core.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <queue>
#include <random>
#include <tuple>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "bench/control_plane.h"
#include "controller/core/job_core.h"
#include "controller/core/spec.h"

namespace baton::bench {
namespace {

using namespace baton::controller;  // NOLINT: events and effects by the dozen

constexpr int kPrompts = 512, kSamples = 16, kReplicas = 64, kRewardWorkers = 8, kCredits = 64;
constexpr uint32_t kProgressTokens = 64;

struct Recorded {
  Event event;
  absl::Time time;
};

v1::Job MakeJob(int steps) {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_model()->set_path("/models/any");
  spec.mutable_data()->add_train_files("/data/prompts.jsonl");
  spec.mutable_data()->set_train_batch_size(kPrompts);
  spec.mutable_data()->set_max_response_length(1024);
  spec.mutable_rollout()->set_n(kSamples);
  spec.mutable_reward()->add_rules()->set_type("exact_match");
  spec.mutable_trainer()->set_total_training_steps(steps);
  spec.mutable_resources()->set_rollout_workers(kReplicas);
  spec.mutable_resources()->set_reward_workers(kRewardWorkers);
  const CheckedSpec checked = CheckSpec(spec);
  for (const v1::FieldViolation& violation : checked.violations) {
    std::fprintf(stderr, "%s: %s\n", violation.field().c_str(), violation.description().c_str());
  }
  v1::Job job;
  job.set_name("projects/default/jobs/bench");
  *job.mutable_spec() = spec;
  *job.mutable_effective_spec() = checked.effective;
  *job.mutable_dataflow() = checked.dataflow;
  return job;
}

// The world around the core, in virtual time: what it wants done comes back as events. Response
// lengths have a long tail, as real ones do.
class World {
 public:
  std::vector<Recorded> Record(int steps) {
    JobCore core(MakeJob(steps), 1, JobCoreOptions());
    now_ = absl::FromUnixSeconds(1'700'000'000);
    Carry(core.Start(now_));
    std::vector<Recorded> recorded;
    while (!queue_.empty() && core.state() != v1::Job::STATE_SUCCEEDED) {
      auto [time, order] = queue_.top();
      queue_.pop();
      now_ = time;
      auto at = pending_.find(order);
      recorded.push_back({std::move(at->second), now_});
      pending_.erase(at);
      if (std::holds_alternative<Tick>(recorded.back().event)) After(250, Tick{});
      Carry(core.Handle(recorded.back().event, now_));
    }
    if (core.state() != v1::Job::STATE_SUCCEEDED) {
      std::fprintf(stderr, "the recorded job did not end: state %d\n", core.state());
    }
    return recorded;
  }

 private:
  void After(double milliseconds, Event event) {
    queue_.push({now_ + absl::Milliseconds(milliseconds), next_});
    pending_[next_++] = std::move(event);
  }

  void Carry(const Effects& effects) {
    for (const Effect& effect : effects) {
      std::visit([this](const auto& e) { Do(e); }, effect);
    }
  }

  template <typename T>
  void Do(const T&) {}
  void Do(const NeedWorkers& effect) {
    if (!asked_) After(250, Tick{});
    asked_ = true;
    for (const auto& [role, missing] : effect.missing) {
      for (int i = 0; i < missing; ++i) {
        After(1, WorkerGranted{absl::StrCat(role, "-", next_worker_++), role, {{role, kCredits}}});
      }
    }
  }
  void Do(const LoadData&) { After(1, DataLoaded{absl::OkStatus(), 20'000, 0, {}}); }
  void Do(const BuildBatch& effect) {
    BatchBuilt built;
    built.step = effect.step;
    built.incarnation = effect.incarnation;
    built.size = static_cast<uint32_t>(effect.trajectories.size());
    After(10, built);
  }
  void Do(const CommitCheckpoint& effect) {
    CheckpointCommitted committed;
    committed.incarnation = effect.incarnation;
    committed.checkpoint.set_step(effect.step);
    After(10, committed);
  }
  void Do(const StartTask& effect) {
    TaskDone done;
    done.worker = effect.worker;
    done.ref = effect.ref;
    double milliseconds = 5;
    if (effect.ref.kind == TaskKind::kGenerate) {
      const double length = std::lognormal_distribution<double>(5.3, 0.8)(random_);
      const auto tokens = static_cast<uint32_t>(std::clamp(length, 1.0, 1024.0));
      for (uint32_t known = kProgressTokens; known < tokens; known += kProgressTokens) {
        After(20.0 * known, TaskProgressed{effect.worker, effect.ref, known});
      }
      milliseconds = 20.0 * tokens;
      done.output.tokens = tokens;
      done.output.prompt_tokens = 100;
      done.output.finish_reason = tokens == 1024 ? "length" : "stop";
      done.output.location = {1, offset_ += 8 * tokens, 8 * tokens};
    } else if (effect.ref.kind == TaskKind::kScore) {
      done.output.metrics["reward"] = static_cast<double>(random_() % 2);
    } else if (effect.ref.kind == TaskKind::kUpdate) {
      done.output.metrics["actor/pg_loss"] = 0.01;
      milliseconds = 5000;
    }
    After(milliseconds, std::move(done));
  }

  absl::Time now_;
  std::mt19937 random_{1};
  bool asked_ = false;
  int next_worker_ = 0;
  uint64_t next_ = 0;
  uint64_t offset_ = 0;
  std::priority_queue<std::pair<absl::Time, uint64_t>, std::vector<std::pair<absl::Time, uint64_t>>,
                      std::greater<>>
      queue_;
  std::map<uint64_t, Event> pending_;  // by order
};

const char* KindOf(const Event& event) {
  if (const auto* done = std::get_if<TaskDone>(&event)) {
    if (done->ref.kind == TaskKind::kGenerate) return "generated";
    if (done->ref.kind == TaskKind::kScore) return "scored";
    return "other task done";
  }
  if (std::holds_alternative<TaskProgressed>(event)) return "progress";
  if (std::holds_alternative<Tick>(event)) return "tick";
  return "other";
}

}  // namespace

CoreResult MeasureCore(int steps) {
  const std::vector<Recorded> recorded = World().Record(steps);
  CoreResult result;
  for (const Recorded& r : recorded) ++result.mix[KindOf(r.event)];
  double best = 0;
  for (int round = 0; round < 3; ++round) {
    JobCore core(MakeJob(steps), 1, JobCoreOptions());
    result.effects = core.Start(absl::FromUnixSeconds(1'700'000'000)).size();
    const auto start = std::chrono::steady_clock::now();
    for (const Recorded& r : recorded) result.effects += core.Handle(r.event, r.time).size();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(recorded.size()) / seconds.count());
    if (core.step() != steps) std::fprintf(stderr, "the replay went another way\n");
  }
  result.events_per_second = best;
  return result;
}

}  // namespace baton::bench
