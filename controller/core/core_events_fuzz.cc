// Events in any order, with any references, doubled or never: the rules of the cores hold.
//
// The first byte chooses between one job whose queue says anything, and two jobs that share the
// real queue, whose own rules are checked against a plain model of which job has which worker.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "controller/core/cluster_core.h"
#include "controller/core/fuzzed_job.h"

namespace {

using namespace baton::controller;
namespace v1 = baton::v1;

constexpr int kEvents = 300;
constexpr int kProcesses = 5;

class Cluster {
 public:
  explicit Cluster(FuzzedDataProvider* input)
      : input_(input), core_(std::make_unique<ClusterCore>(1, ClusterOptions())) {
    for (int i = 0; i < 2; ++i) {
      jobs_.push_back(
          std::make_unique<FuzzedJob>(FuzzedSpec(absl::StrCat(i), /*sft=*/i == 1, *input), input));
      jobs_.back()->SetQueue([this, i](const Effect& effect) { asked_.emplace_back(i, effect); });
      jobs_.back()->Start(now_);
    }
    Settle();
    for (int i = 0; i <= kProcesses; ++i) Hello(absl::StrCat("w", i), /*well=*/true);
    Settle();
  }

  void Run() {
    for (int i = 0; i < kEvents && input_->remaining_bytes() > 0; ++i) {
      now_ += input_->ConsumeIntegralInRange(0, 7) == 0
                  ? absl::Seconds(input_->ConsumeIntegral<uint16_t>())
                  : absl::Milliseconds(100);
      const int what = input_->ConsumeIntegralInRange(0, 3);
      if (what < 2) {
        jobs_[static_cast<size_t>(what)]->Happen(now_);
      } else {
        Happen();
      }
      Settle();
      Check();
    }
  }

 private:
  struct Process {  // what a worker last said, and whose it is
    std::string job, role;
    std::set<std::string> plays;
    uint64_t session = 0;
    bool drained = false;
  };

  std::string SomeName() {
    return absl::StrCat("w", input_->ConsumeIntegralInRange(0, kProcesses));
  }
  bool Rarely() { return input_->ConsumeIntegralInRange(0, 7) == 0; }
  FuzzedJob* JobOf(const std::string& name) {
    for (const auto& job : jobs_) {
      if (job->core().name() == name) return job.get();
    }
    return nullptr;
  }

  void Happen() {
    switch (input_->ConsumeIntegralInRange(0, 7)) {
      case 0:
      case 1:
      case 2:
        return Hello(SomeName(), input_->ConsumeBool());
      case 3:
        return Take(core_->OnClosed(SomeSession(), now_));
      case 4: {
        const uint64_t session = SomeSession();
        const std::string worker = core_->workers().WorkerOf(session);
        Require(!core_->OnHeartbeat(session, now_) || !worker.empty(), "a heartbeat is somebody's");
        return;
      }
      case 5: {
        const std::string worker = SomeName();
        auto effects = core_->OnDrain(worker, now_);
        if (!effects.ok()) return;
        processes_[worker].drained = true;
        return Take(*effects);
      }
      case 6:
        return Restart();
      default:
        Take(core_->OnTick(now_));
        // A worker whose lease ended without a job is forgotten.
        return;
    }
  }

  uint64_t SomeSession() {
    return next_session_ -
           input_->ConsumeIntegralInRange<uint64_t>(0, std::min<uint64_t>(8, next_session_));
  }

  // `well`: as an orderly process would.
  void Hello(const std::string& worker, bool well) {
    v1::Hello hello;
    hello.set_worker_id(!well && Rarely() ? "BAD" : worker);
    hello.set_instance_id(!well && input_->ConsumeBool() ? "b" : "a");
    hello.set_protocol_min(1);
    hello.set_protocol_max(!well && Rarely() ? 0 : 1);
    hello.set_epoch_seen(!well && Rarely() ? epoch_ + 1 : epoch_);
    const int roles = well ? worker.back() - '0' : input_->ConsumeIntegralInRange(0, 7);
    std::set<std::string> plays;
    for (int r = 0; r < 3; ++r) {
      if (((roles + 1) >> r) % 2 == 0) continue;
      v1::MethodCredits* method = hello.add_methods();
      method->set_role(r == 0 ? "actor" : r == 1 ? "rollout" : "reward");
      method->set_method(r == 0 ? "update" : r == 1 ? "generate" : "compute_reward");
      method->set_credits(well ? 2 : input_->ConsumeIntegralInRange(-1, 3));
      plays.insert(method->role());
    }
    const int holds = well ? 3 : input_->ConsumeIntegralInRange(0, 7);
    Process& process = processes_[worker];
    // What it was given, or something else.
    const std::vector<std::string> given = absl::StrSplit(process.role, '+');
    for (size_t i = 0; holds > 0 && i < given.size(); ++i) {
      v1::RoleHeld* held = hello.add_roles_held();
      held->set_job(holds == 1 ? "projects/p/jobs/1" : process.job);
      held->set_role(holds == 2 ? "actor" : given[i]);
    }
    const uint64_t session = ++next_session_;
    const ClusterEffects effects = core_->OnHello(session, hello, now_);
    for (const ClusterEffect& effect : effects) {
      const auto* welcome = std::get_if<ClusterWelcome>(&effect);
      if (welcome == nullptr) continue;
      Require(welcome->session == session && welcome->worker == worker, "its own welcome");
      process.plays = plays;
    }
    hello_ = hello;
    Take(effects);
  }

  void Restart() {
    core_ = std::make_unique<ClusterCore>(++epoch_, ClusterOptions());
    processes_.clear();
    asked_.clear();
    taken_.clear();
    for (size_t i = 0; i < jobs_.size(); ++i) {
      FuzzedJob& job = *jobs_[i];
      job.Restart(epoch_, now_);
      for (const auto& [worker, role] : job.core().HeldWorkers()) {
        if (!IsActive(job.core().state())) continue;
        core_->Expect(job.core().name(), worker, role, now_);
        processes_[worker].job = job.core().name();
        processes_[worker].role = role;
      }
    }
  }

  void Take(const ClusterEffects& effects) {
    for (const ClusterEffect& effect : effects) taken_.push_back(effect);
  }

  // Effects of the queue and of the jobs, until there are no more.
  void Settle() {
    while (!taken_.empty() || !asked_.empty()) {
      if (!taken_.empty()) {
        const ClusterEffect effect = taken_.front();
        taken_.erase(taken_.begin());
        Do(effect);
        continue;
      }
      const auto [number, effect] = asked_.front();
      asked_.erase(asked_.begin());
      const JobCore& job = jobs_[static_cast<size_t>(number)]->core();
      if (const auto* need = std::get_if<NeedWorkers>(&effect)) {
        Take(core_->OnNeed(job.name(), job.effective_spec().priority(), number,
                           IsActive(job.state()), need->missing, now_, need->hints));
      } else if (const auto* back = std::get_if<ReturnWorker>(&effect)) {
        const auto& [worker, conduct] = *back;
        Process& process = processes_[worker];
        if (process.job == job.name()) process.job = process.role = "";
        Take(core_->OnReturn(job.name(), worker, now_, conduct));
      } else {
        core_->OnLeave(job.name());
      }
    }
  }

  void Do(const ClusterEffect& effect) {
    if (const auto* grant = std::get_if<ClusterGrant>(&effect)) {
      Process& process = processes_[grant->worker];
      Require(process.job.empty(), "a worker is one job's");
      for (absl::string_view role : absl::StrSplit(grant->roles, '+')) {
        Require(process.plays.count(std::string(role)) > 0, "a worker is given what it plays");
        Require(grant->credits.at(std::string(role)) >= 1, "who is granted takes something");
      }
      process.job = grant->job;
      process.role = grant->roles;
      JobOf(grant->job)->Send(WorkerGranted{grant->worker, grant->roles, grant->credits}, now_);
    } else if (const auto* lost = std::get_if<ClusterLost>(&effect)) {
      Process& process = processes_[lost->worker];
      if (process.job == lost->job) process.job = process.role = "";
      JobOf(lost->job)->Send(WorkerLost{lost->worker, lost->reason, lost->moves}, now_);
    } else if (const auto* yield = std::get_if<ClusterYield>(&effect)) {
      JobOf(yield->job)->Send(YieldRequested{yield->reason}, now_);
    } else if (const auto* back = std::get_if<ClusterBack>(&effect)) {
      bool holds = false;
      for (const v1::RoleHeld& held : hello_.roles_held()) holds |= held.job() == back->job;
      JobOf(back->job)->Send(JobOf(back->job)->Back(back->worker, holds), now_);
    }
  }

  void Check() {
    std::set<std::string> listed;
    for (const v1::Worker& worker : core_->workers().List(now_)) {
      Require(listed.insert(worker.worker_id()).second, "a worker is listed once");
      const uint64_t session = core_->workers().SessionOf(worker.worker_id());
      Require(session == 0 || core_->workers().WorkerOf(session) == worker.worker_id(),
              "a session is its worker's");
    }
    for (const auto& [worker, process] : processes_) {
      Require(core_->workers().JobOf(worker) == process.job, "the queue knows whose a worker is");
    }
    std::set<std::string> held;
    for (const auto& job : jobs_) {
      for (const auto& [worker, role] : job->core().HeldWorkers()) {
        Require(held.insert(worker).second, "no worker is held twice");
        Require(core_->workers().JobOf(worker) == job->core().name(),
                "a job holds what it was granted");
      }
    }
  }

  FuzzedDataProvider* const input_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  uint64_t epoch_ = 1;
  std::unique_ptr<ClusterCore> core_;
  std::vector<std::unique_ptr<FuzzedJob>> jobs_;
  std::vector<std::pair<int, Effect>> asked_;  // job, what it asks of the queue
  std::vector<ClusterEffect> taken_;
  std::map<std::string, Process> processes_;
  v1::Hello hello_;  // the last one
  uint64_t next_session_ = 0;
};

void OneJob(FuzzedDataProvider& input) {
  FuzzedJob job(FuzzedSpec("j", input.ConsumeBool(), input), &input);
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  job.Start(now);
  uint64_t epoch = 1;
  for (int i = 0; i < kEvents && input.remaining_bytes() > 0; ++i) {
    now += input.ConsumeIntegralInRange(0, 7) == 0
               ? absl::Seconds(input.ConsumeIntegral<uint16_t>())
               : absl::Milliseconds(100);
    if (input.ConsumeIntegralInRange(0, 31) == 0) {
      job.Restart(++epoch, now);
    } else {
      job.Happen(now);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  if (input.ConsumeBool()) {
    OneJob(input);
  } else {
    Cluster(&input).Run();
  }
  return 0;
}
