#include "tests/simulation/world/simulated_controller.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/runtime/cluster/job_restorer.h"
#include "controller/runtime/cluster/pause_checks.h"
#include "controller/runtime/cluster/take_over.h"
#include "controller/runtime/rows/tables.h"
#include "controller/spec/job_spec/spec.h"
#include "sdk/common/rpc/error.h"
#include "tests/simulation/world/simulated_worker.h"

namespace baton::simulation {

using namespace controller;  // NOLINT: this file is the controller's double

namespace {
constexpr absl::Duration kTick = absl::Milliseconds(250);
constexpr KeptRows kKept = {1000, 50, 100};
}  // namespace

JobCoreOptions SimulatedDeadlines() {
  JobCoreOptions options;
  options.setup_deadline = absl::Seconds(20);
  options.generate_stall = absl::Seconds(5);
  options.score_deadline = absl::Seconds(8);
  options.command_deadline = absl::Seconds(15);
  options.release_deadline = absl::Seconds(5);
  options.kept_steps = 3;
  options.stragglers.min_samples = 1;  // these jobs have few responses and few steps
  options.stragglers.min_phases = 1;
  options.stragglers.persists = absl::ZeroDuration();
  return options;
}

SimulatedController::SimulatedController(World* world)
    : world_(*world),
      clock_(world),
      executors_(world, &calls_),
      store_(world, &calls_),
      files_(world, &calls_),
      rules_(
          world, [this](const std::string& job) { return jobs_.Get(job).job->state(); },
          [this](const std::string& job) { return jobs_.Get(job).job->HeldPayloads(); }) {
  context_.executors = &executors_;
  context_.clock = &clock_;
  context_.store = &store_;
  context_.files = &files_;
  context_.observer = &rules_;
  context_.kept = kKept;
  context_.payloads = std::make_shared<PayloadBudget>(world_.scenario().payload_bytes);
  context_.job_payload_bytes = world_.scenario().job_payload_bytes;
  context_.sync_payloads = world_.scenario().sync_payloads;
  context_.core = SimulatedDeadlines();
  Restore();
}

void SimulatedController::Restore() {
  store::Store& store = world_.disk().store;
  const auto sound = [this](const absl::Status& read) {
    world_.Check("StoredJobsAreSound", read.ok() ? "" : read.ToString());
  };
  sound(TakeOver(store, &context_));
  world_.Check("EpochsOnlyGrow", EpochsOnlyGrow(world_.history().epoch, context_.epoch));
  world_.history().epoch = context_.epoch;
  cluster_ =
      std::make_unique<ClusterRuntime>(&context_, ClusterOptions(), executors_.NewStrand(), &jobs_);
  context_.workers = &cluster_->directory();
  context_.queue = cluster_.get();
  sound(cluster_->ReadDrains(store));
  const auto restored = JobRestorer(&context_, &store, {}).Restore(&jobs_);
  sound(restored.status());
  if (!restored.ok()) return;
  for (const auto& job : *restored) {
    const absl::Status error = FromProto(job->Brief().error());
    sound(ErrorReason(error) == "QUARANTINED" ? error : absl::OkStatus());
    JobHistory& history = world_.history().jobs[job->name()];
    for (const auto& [subject, token] : history.current) {
      const bool attempts_in_rows = subject.rfind("generate", 0) != 0 && subject.rfind("score", 0);
      if (!attempts_in_rows) history.forgotten.insert(subject);
    }
    history.forgotten.insert(history.stopped.begin(), history.stopped.end());
    cluster_->Expect(*job);
    job->Start({}, nullptr);
  }
  Tick();
}

void SimulatedController::Tick() {
  cluster_->Post([this] {
    cluster_->Tick();
    world_.time().After(kTick, world_.controller_process(), [this] { Tick(); });
  });
}

// ---- Streams ------------------------------------------------------------------------------------

// The controller's end of a stream of the world.
class SimulatedController::Stream : public WorkerStream {
 public:
  Stream(SimulatedController* controller, uint64_t number, v1::Hello hello)
      : controller_(*controller),
        number_(number),
        hello_(std::move(hello)),
        worker_(controller_.world_.WorkerOf(number)) {}

  std::string project() const override { return worker_.project(); }

  void Send(v1::ControllerMessage message) override {
    if (closed_ || !controller_.calls_.Take()) return;
    World& world = controller_.world_;
    const std::string& worker = worker_.id();
    absl::Time& lease_end = world.history().lease_end[worker];
    if (message.has_welcome()) {
      world.Check("StaleEpochIsRefused",
                  StaleEpochIsRefused(controller_.epoch(), hello_, {controller::ClusterWelcome()}));
      lease_end = world.now() + ClusterOptions().lease;
    } else if (message.has_heartbeat_ack()) {
      world.Check("LeaseIsNotRenewedAfterItsEnd",
                  LeaseIsNotRenewedAfterItsEnd(lease_end, world.now()));
      lease_end = world.now() + ClusterOptions().lease;
    }
    controller_.rules_.OnSend(worker, message);
    world.SendDown(number_, std::move(message));
  }

  void Close(absl::Status status) override {
    if (std::exchange(closed_, true) || !controller_.calls_.Take()) return;
    World& world = controller_.world_;
    if (world.tracing()) {
      world.Trace(
          absl::StrCat("controller ends the stream of ", worker_.id(), ": ", ErrorReason(status)));
    }
    world.CloseByController(number_);
  }

 private:
  SimulatedController& controller_;
  const uint64_t number_;
  const v1::Hello hello_;
  const SimulatedWorker& worker_;
  bool closed_ = false;
};

void SimulatedController::OnMessage(uint64_t stream, v1::WorkerMessage message) {
  std::unique_ptr<WorkerSession>& session = sessions_[stream];
  if (session == nullptr) {
    session = cluster_->Attach(std::make_shared<Stream>(this, stream, message.hello()));
  }
  session->OnMessage(std::move(message));
}

void SimulatedController::OnClosed(uint64_t stream) {
  const auto session = sessions_.find(stream);
  if (session == sessions_.end()) return;
  session->second->OnClosed();
  sessions_.erase(session);
}

// ---- Calls -------------------------------------------------------------

namespace {

// The answers that a client of the simulator asks for.
Callback<v1::Job> StateFor(const SimulatedController::Answer& done) {
  return [done](const absl::StatusOr<v1::Job>& job) {
    if (!job.ok()) return done(job.status());
    done(job->state());
  };
}

v1::Job JobOf(const std::string& name, const JobPlan& plan, const CheckedSpec& checked) {
  v1::Job job;
  job.set_name(name);
  job.set_uid("uid-" + plan.id);
  *job.mutable_spec() = SpecOf(plan);
  *job.mutable_effective_spec() = checked.effective;
  *job.mutable_dataflow() = checked.dataflow;
  return job;
}

}  // namespace

void SimulatedController::Create(const JobPlan& plan, const std::string& request_id,
                                 const Answer& done) {
  const std::string name = JobNameOf(plan);
  if (const auto job = jobs_.Get(name).job) {  // of this request: no two requests share an id here
    return job->Describe(StateFor(done));
  }
  const CheckedSpec checked = CheckSpec(SpecOf(plan));
  if (!checked.violations.empty()) {
    return done(absl::InvalidArgumentError(checked.violations[0].description()));
  }
  world_.history().jobs[name].spec = checked.effective;
  const int64_t order = jobs_.next_order();
  const auto job = std::make_shared<JobRuntime>(
      &context_, JobCore(JobOf(name, plan, checked), order, context_.core),
      /*next_log_sequence=*/1, /*stored=*/false);
  jobs_.Add(job, order);
  store::v1::RequestRow request;
  request.set_job(name);
  job->Start({{kRequestTable, plan.project + "/" + request_id, request.SerializeAsString()}},
             [job, done] { done(job->state()); });
}

void SimulatedController::Steer(const std::string& name, const Event& event, const Answer& done) {
  const auto job = jobs_.Find(name);
  if (job == nullptr) return done(absl::NotFoundError("no such job"));
  const auto check = [this, name, event](const JobCore& core) -> absl::Status {
    if (std::holds_alternative<CancelRequested>(event)) return absl::OkStatus();
    if (std::holds_alternative<PauseRequested>(event)) return CheckPause(core);
    // A user asks once that a job goes on after its end. A call that comes twice changes nothing:
    // request ids see to it.
    const bool ended = IsTerminal(core.state());
    bool& revivable = world_.history().jobs[name].revivable;
    if (ended && !revivable) return absl::FailedPreconditionError("asked for already");
    const absl::Status may = CheckResume(core);
    if (ended && may.ok()) revivable = false;
    return may;
  };
  job->PostAndDescribe(event, check, nullptr, StateFor(done));
}

void SimulatedController::Get(const std::string& name, const Answer& done) {
  const auto job = jobs_.Find(name);
  if (job == nullptr) return done(absl::NotFoundError("no such job"));
  done(job->state());
}

void SimulatedController::Drain(const std::string& worker) {
  cluster_->Drain(worker, [](const auto&) {});
}

void SimulatedController::Undrain(const std::string& worker) {
  cluster_->Undrain(worker, [](const auto&) {});
}

void SimulatedController::FetchBatch(const v1::FetchBatchRequest& request,
                                     const Callback<BatchPart>& done) {
  const auto job = jobs_.Find(request.job());
  if (job == nullptr) return done(absl::NotFoundError("no such job"));
  job->FetchBatch(request, done);
}

std::optional<std::pair<v1::Job::State, std::string>> SimulatedController::Where(
    const std::string& name) const {
  const JobCore* core = rules_.CoreOf(name);
  if (core == nullptr) return std::nullopt;
  return std::make_pair(core->state(), core->Describe().phase());
}

}  // namespace baton::simulation
