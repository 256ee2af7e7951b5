// Plays the events of a large job to the pure core.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "bench/control_plane/control_plane.h"
#include "controller/core/loop/job_core.h"
#include "controller/ports/fake_job_files.h"
#include "controller/ports/single_thread.h"
#include "controller/runtime/job/job_runtime.h"
#include "controller/spec/job_spec/spec.h"
#include "controller/store/memory_store.h"

namespace baton::bench {
namespace {

using namespace baton::controller;  // NOLINT: events and effects by the dozen

constexpr int kPrompts = 512, kSamples = 16, kReplicas = 64, kRewardWorkers = 8, kCredits = 64;
constexpr uint32_t kProgressTokens = 64;
const absl::Time kStart = SingleThread().Now();

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

JobData Prompts() {
  DataSet train;
  Example example;
  example.prompt = "1+1=";
  example.answer = "2";
  train.examples.assign(20'000, example);
  return MakeJobData(std::move(train));
}

void FillColumn(v1::TaskResult& result, const char* name, v1::DataType type, size_t elements) {
  v1::Column* column = result.add_columns();
  column->set_name(name);
  column->set_dtype(type);
  column->set_data(std::string(4 * elements, '\1'));
}

// The job's runtime on one thread in virtual time, and workers that answer its tasks. Response
// lengths have a long tail, as real ones do.
class World : private TurnObserver, private WorkerOutbox, private WorkerQueue {
 public:
  World() {
    context_.executors = &thread_;
    context_.clock = &thread_;
    context_.store = &store_;
    context_.files = &files_;
    context_.workers = this;
    context_.queue = this;
    context_.observer = this;
  }
  ~World() override {
    thread_.Drop();
    if (job_ != nullptr) job_->Abandon();
  }

  std::vector<Recorded> Record(int steps) {
    job_ = std::make_shared<JobRuntime>(&context_, JobCore(MakeJob(steps), 1, context_.core),
                                        /*next_log_sequence=*/1, /*stored=*/false);
    job_->Start({}, nullptr);
    while (!IsTerminal(job_->state()) && thread_.Now() < kStart + absl::Hours(24)) {
      thread_.Advance(absl::Milliseconds(250));
      job_->Tick();
    }
    if (job_->state() != v1::Job::STATE_SUCCEEDED) {
      std::fprintf(stderr, "the recorded job did not end: state %d\n", job_->state());
    }
    return std::move(recorded_);
  }

 private:
  void OnEvent(const JobCore& /*core*/, const Event& event) override {
    recorded_.push_back({event, thread_.Now()});
  }
  void OnTurn(const JobCore& /*core*/, const Effects& /*effects*/) override {}
  void OnEffect(const JobCore& /*core*/, const Effect& /*effect*/) override {}
  void OnResult(const JobCore& /*core*/, const std::string& /*worker*/, const TaskRef& /*ref*/,
                const v1::TaskResult& /*result*/) override {}
  void OnCluster(const ClusterEffects& /*effects*/) override {}

  void Need(const std::string& /*job*/, const NeedWorkers& need) override {
    for (const auto& [role, missing] : need.missing) {
      for (int i = 0; i < missing; ++i) {
        job_->Post(
            WorkerGranted{absl::StrCat(role, "-", next_worker_++), role, {{role, kCredits}}});
      }
    }
  }
  void Return(const std::string& /*job*/, const ReturnWorker& /*worker*/) override {}
  void Publishes(const std::string& /*job*/, const std::string& /*worker*/) override {}
  void Leave(const std::string& /*job*/) override {}
  void Quarantine(const std::string& /*job*/) override {}

  bool HasFeature(const std::string& /*worker*/, const std::string& /*feature*/) const override {
    return true;
  }
  std::string GroupStoreOf(const std::string& /*worker*/) const override { return ""; }

  void Send(const std::string& worker, v1::ControllerMessage message) override {
    if (!message.has_task()) return;
    const TaskRef ref = DecodeToken(message.task().task_token())->ref;
    v1::TaskResult result;
    result.set_task_token(message.task().task_token());
    double milliseconds = 5;
    if (ref.kind == TaskKind::kGenerate) {
      const double length = std::lognormal_distribution<double>(5.3, 0.8)(random_);
      const auto tokens = static_cast<uint32_t>(std::clamp(length, 1.0, 1024.0));
      for (uint32_t known = 0; known + kProgressTokens < tokens; known += kProgressTokens) {
        SendProgress(worker, ref, result.task_token(), known);
      }
      milliseconds = 20.0 * tokens;
      FillColumn(result, "prompt_tokens", v1::DATA_TYPE_INT32, 100);
      FillColumn(result, "tokens", v1::DATA_TYPE_INT32, tokens);
      FillColumn(result, "rollout_log_prob", v1::DATA_TYPE_FLOAT32, tokens);
      result.set_finish_reason(tokens == 1024 ? "length" : "stop");
    } else if (ref.kind == TaskKind::kScore) {
      (*result.mutable_metrics())["reward"] = static_cast<double>(random_() % 2);
    } else if (ref.kind == TaskKind::kUpdate) {
      (*result.mutable_metrics())["actor/pg_loss"] = 0.01;
      milliseconds = 5000;
    }
    workers_->PostAfter(
        absl::Milliseconds(milliseconds),
        [this, worker, ref, result = std::move(result)] { job_->OnResult(worker, ref, result); });
  }

  void SendProgress(const std::string& worker, const TaskRef& ref, const std::string& token,
                    uint32_t offset) {
    v1::Progress progress;
    progress.set_task_token(token);
    progress.set_offset(offset);
    progress.mutable_tokens()->Resize(kProgressTokens, 1);
    progress.mutable_log_probs()->Resize(kProgressTokens, -1);
    workers_->PostAfter(absl::Milliseconds(20.0 * (offset + kProgressTokens)),
                        [this, worker, ref, progress] { job_->OnProgress(worker, ref, progress); });
  }

  SingleThread thread_;
  store::MemoryStore store_;
  FakeJobFiles files_{Prompts()};
  RuntimeContext context_;
  const std::unique_ptr<Executor> workers_ = thread_.NewStrand();
  std::shared_ptr<JobRuntime> job_;
  std::vector<Recorded> recorded_;
  std::mt19937 random_{1};
  int next_worker_ = 0;
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
    result.effects = core.Start(kStart).size();
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
