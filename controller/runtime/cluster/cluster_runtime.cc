#include "controller/runtime/cluster/cluster_runtime.h"

#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/job/job_state.h"
#include "controller/runtime/cluster/cluster_session.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/contracts/shared_key.h"
#include "sdk/common/messages/times.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {

ClusterRuntime::ClusterRuntime(const RuntimeContext* context, const ClusterOptions& options,
                               std::unique_ptr<Executor> strand, const JobTable* jobs)
    : context_(context),
      options_(options),
      jobs_(jobs),
      strand_(std::move(strand)),
      leases_(context->clock, options.lease),
      core_(context->epoch, options),
      exports_(context->epoch, options.lease, &core_, &directory_) {}

void ClusterRuntime::Expect(const JobRuntime& job) {
  if (!IsActive(job.state())) return;
  for (const auto& [worker, roles] : job.HeldWorkers()) {
    core_.Expect(job.name(), worker, roles, context_->clock->Now());
  }
}

void ClusterRuntime::Post(std::function<void()> work) {
  strand_->Post([this, work = std::move(work)] {
    // Read before the heartbeats are taken, so that heartbeats that arrive in between count as in
    // time.
    now_ = context_->clock->Now();
    for (const auto& [session, at] : leases_.Take()) core_.OnHeartbeats(session, at);
    if (!std::exchange(in_turn_, true)) {
      core_.BeginTurn();
      strand_->Post([this] {
        in_turn_ = false;
        Apply(core_.EndTurn());
      });
    }
    work();
  });
}

void ClusterRuntime::Need(const std::string& job, const NeedWorkers& need) {
  Post([this, job, need] {
    const JobTable::Entry entry = jobs_->Get(job);
    if (entry.job == nullptr) return;
    Apply(core_.OnNeed(job, entry.job->priority(), entry.order, IsActive(entry.job->state()),
                       need.missing, now_, need.hints, entry.job->role_needs()));
  });
}

void ClusterRuntime::Return(const std::string& job, const ReturnWorker& worker) {
  Post([this, job, worker] {
    Apply(core_.OnReturn(job, worker.worker, now_, worker.return_reason));
  });
}

void ClusterRuntime::Publishes(const std::string& job, const std::string& worker) {
  Post([this, job, worker] { Apply(core_.OnPublisher(job, worker)); });
}

void ClusterRuntime::Leave(const std::string& job) {
  Post([this, job] {
    core_.OnLeave(job);
    Apply(core_.OnTick(now_));
  });
}

void ClusterRuntime::Quarantine(const std::string& job) {
  Post([this, job] {
    core_.OnLeave(job);
    std::vector<std::string> held;  // first, because a return changes the map
    for (const auto& [id, worker] : core_.workers().all()) {
      if (worker.job == job) held.push_back(id);
    }
    for (const std::string& worker : held) {
      const uint64_t session = core_.workers().SessionOf(worker);
      Apply(core_.OnReturn(job, worker, now_));
      const auto at = sessions_.find(session);
      if (at == sessions_.end()) continue;
      // In the same turn, so that no other job is granted it before it has attached anew.
      const std::shared_ptr<WorkerStream> stream = at->second->stream;
      leases_.End(session);
      directory_.Remove(worker, stream.get());
      sessions_.erase(at);
      Apply(core_.OnClosed(session, now_));
      stream->Close(
          MakeError(absl::StatusCode::kAborted, "JOB_QUARANTINED",
                    absl::StrCat("job '", job, "', whose roles this worker plays, is quarantined; ",
                                 "attach again")));
    }
    Apply(core_.OnTick(now_));
  });
}

void ClusterRuntime::Apply(const ClusterEffects& effects) {
  if (context_->observer != nullptr) context_->observer->OnCluster(effects);
  for (const ClusterEffect& effect : effects) {
    std::visit([this](const auto& e) { Do(e); }, effect);
  }
  // From now on the worker's messages pass: its job already knows that the worker is back.
  for (const ClusterEffect& effect : effects) {
    const auto* welcome = std::get_if<ClusterWelcome>(&effect);
    if (welcome == nullptr) continue;
    const auto it = sessions_.find(welcome->session);
    if (it != sessions_.end()) PassHeld(*it->second, welcome->worker);
  }
}

void ClusterRuntime::PassHeld(SessionState& session, const std::string& worker) {
  absl::MutexLock lock(&session.mu);
  session.worker = worker;
  session.held_bytes = 0;
  for (v1::WorkerMessage& message : std::exchange(session.held, {})) {
    Session::Route(this, session, session.worker, std::move(message));
  }
  session.welcome = true;
}

void ClusterRuntime::Do(const ClusterWelcome& welcome) {
  const auto it = sessions_.find(welcome.session);
  if (it == sessions_.end()) return;
  const std::shared_ptr<WorkerStream>& stream = it->second->stream;
  v1::ControllerMessage message;
  v1::Welcome* answer = message.mutable_welcome();
  answer->set_epoch(context_->epoch);
  answer->set_protocol(welcome.protocol);
  *answer->mutable_lease() = ToProto(options_.lease);
  *answer->mutable_heartbeat_interval() = ToProto(options_.heartbeat_interval);
  for (const v1::RoleHeld& held : welcome.release) *answer->add_release() = held;
  stream->Send(std::move(message));
  // Only now may others send: Welcome must be the first message of a stream.
  const auto before = directory_.Set(welcome.worker, stream);
  if (before != nullptr && before != stream) {
    before->Close(MakeError(absl::StatusCode::kAborted, "SESSION_REPLACED",
                            "the worker attached again on another stream"));
  }
  Log(LogLevel::kInfo, "worker attached", {{"worker", welcome.worker}});
}

void ClusterRuntime::Do(const ClusterRefuse& refuse) {
  const auto it = sessions_.find(refuse.session);
  if (it == sessions_.end()) return;
  Log(LogLevel::kWarn, "worker refused", {{"reason", std::string(refuse.status.message())}});
  it->second->stream->Close(
      MakeError(refuse.status.code(), refuse.reason, refuse.status.message()));
}

void ClusterRuntime::Do(const ClusterGrant& grant) {
  Log(LogLevel::kInfo, "worker granted",
      {{"worker", grant.worker}, {"job", grant.job}, {"roles", grant.roles}});
  const auto job = jobs_->Find(grant.job);
  if (job == nullptr) return TakeBack(grant.job, grant.worker);
  job->Post(WorkerGranted{grant.worker, grant.roles, grant.credits});
}

// The job ended and left memory, or was deleted, while it was about to get the worker.
void ClusterRuntime::TakeBack(const std::string& job, const std::string& worker) {
  core_.OnLeave(job);
  Return(job, ReturnWorker{worker});
}

void ClusterRuntime::Do(const ClusterLost& lost) {
  const auto job = jobs_->Find(lost.job);
  if (job != nullptr) job->Post(WorkerLost{lost.worker, lost.reason, lost.moves});
}

void ClusterRuntime::Do(const ClusterYield& yield) {
  Log(LogLevel::kWarn, "job gives its workers back",
      {{"job", yield.job}, {"reason", yield.reason}});
  const auto job = jobs_->Find(yield.job);
  if (job != nullptr) job->Post(YieldRequested{yield.reason});
}

void ClusterRuntime::Do(const ClusterReconnected& back) {
  const auto job = jobs_->Find(back.job);
  if (job == nullptr) return TakeBack(back.job, back.worker);
  WorkerReconnected event;
  event.worker = back.worker;
  for (const v1::RoleHeld& held : back.hello.roles_held()) {
    if (held.job() != back.job) continue;
    event.holds[held.role()] = held.policy_version();
  }
  for (const v1::RunningTask& running : back.hello.running()) {
    const auto token = DecodeToken(running.task_token());
    if (token.has_value() && token->job == job->token_name()) event.running.push_back(token->ref);
  }
  for (const std::string& bytes : back.hello.unacknowledged()) {
    const auto token = DecodeToken(bytes);
    if (token.has_value() && token->job == job->token_name()) event.unacked.push_back(token->ref);
  }
  job->Post(std::move(event));
}

void ClusterRuntime::Do(const ClusterRelays& relays) {
  const auto job = jobs_->Find(relays.job);
  if (job != nullptr) job->Post(RelaysSeen{relays.relays});
}

void ClusterRuntime::Do(const ClusterRelayOrders& orders) {
  v1::ControllerMessage message;
  for (const v1::RelayOrder& order : orders.orders.orders()) {
    const auto job = jobs_->Find(order.job());
    if (job == nullptr) continue;
    v1::RelayOrder& filled = *message.mutable_relay_orders()->add_orders();
    filled = order;
    filled.set_job_uid(job->uid());
    filled.set_encoding(job->effective_spec().weights().encoding());
    if (context_->relay_key.empty()) continue;
    filled.set_capability(PublishCapability(context_->relay_key, order.job(), job->uid()));
  }
  message.mutable_relay_orders();  // also where there is none any more
  directory_.Send(orders.relay, std::move(message));
}

// A report on an earlier job of the same name is no report on this one.
void ClusterRuntime::OnRelayReport(uint64_t session, const v1::RelayReport& report) {
  if (!core_.IsRelay(session)) return;
  v1::RelayReport of_jobs;
  v1::ControllerMessage answer;
  for (const v1::RelayVersions& versions : report.jobs()) {
    const auto job = jobs_->Find(versions.job());
    if (job != nullptr && job->uid() == versions.job_uid() && !IsTerminal(job->state())) {
      *of_jobs.add_jobs() = versions;
      continue;
    }
    v1::RelayVersions& over = *answer.mutable_relay_forget()->add_jobs();
    over.set_job(versions.job());
    over.set_job_uid(versions.job_uid());
  }
  const std::string relay = core_.workers().WorkerOf(session);
  if (answer.has_relay_forget()) directory_.Send(relay, std::move(answer));
  Apply(core_.OnRelayReport(session, of_jobs));
}

void ClusterRuntime::Tick() {
  CloseSilentStreams();
  Apply(core_.OnTick(now_));
  exports_.Expire(now_);
  for (const auto& [job, order] : jobs_->Below("")) {
    if (IsActive(job->state())) job->Tick();
  }
}

void ClusterRuntime::CloseSilentStreams() {
  for (const auto& [id, state] : sessions_) {
    if (state->hello_by > now_) continue;
    absl::MutexLock lock(&state->mu);
    if (!state->worker.empty()) continue;
    state->stream->Close(MakeError(absl::StatusCode::kDeadlineExceeded, "NO_HELLO",
                                   "the stream has not said Hello in time"));
  }
}

// ---- Calls ------------------------------------------------------------------------------------

absl::Status ClusterRuntime::ReadDrains(store::Store& store) {
  BATON_ASSIGN_OR_RETURN(const auto rows, store.Scan(kWorkerTable, {}));
  for (const store::Row& stored : rows) {
    store::v1::WorkerRow row;
    if (!row.ParseFromString(stored.value)) {
      return absl::DataLossError(absl::StrCat("row ", stored.key, " of workers is damaged"));
    }
    if (!row.drain_reason().empty()) core_.KeepDrained(stored.key, row.drain_reason());
  }
  return absl::OkStatus();
}

v1::Worker ClusterRuntime::WorkerNamed(const std::string& worker) const {
  for (v1::Worker& known : core_.workers().List(now_)) {
    if (known.worker_id() == worker) return std::move(known);
  }
  v1::Worker gone;
  gone.set_worker_id(worker);
  return gone;
}

// `reason` empty: undoes the drain. A restart finds the row that was stored last. Commits answer in
// order, so the last call wins here too.
void ClusterRuntime::SetDrained(const std::string& worker, const std::string& reason,
                                Callback<v1::Worker> done) {
  if (!core_.workers().Knows(worker)) {
    return done(MakeError(absl::StatusCode::kNotFound, "WORKER_NOT_FOUND",
                          core_.workers().Unknown(worker).message()));
  }
  store::Write write = {kWorkerTable, worker, std::nullopt};
  if (!reason.empty()) {
    store::v1::WorkerRow row;
    row.set_drain_reason(reason);
    write.value = row.SerializeAsString();
  }
  context_->store->Commit({std::move(write)}, [this, worker, reason,
                                               done = std::move(done)](const absl::Status& status) {
    if (!status.ok()) return done(status);
    Post([this, worker, reason, done] {
      const auto effects = reason.empty() ? core_.OnUndrain(worker) : core_.OnDrain(worker, now_);
      if (effects.ok()) {
        Apply(*effects);
        // the worker left meanwhile, and will be drained when it is back
      } else if (!reason.empty()) {
        core_.KeepDrained(worker, reason);
      }
      done(WorkerNamed(worker));
    });
  });
}

void ClusterRuntime::Drain(const std::string& worker, Callback<v1::Worker> done) {
  Post([this, worker, done = std::move(done)] { SetDrained(worker, "a user asked for it", done); });
}

void ClusterRuntime::Undrain(const std::string& worker, Callback<v1::Worker> done) {
  Post([this, worker, done = std::move(done)] { SetDrained(worker, "", done); });
}

void ClusterRuntime::Export(const std::string& job, const std::string& checkpoint,
                            PendingExport pending) {
  Post([this, job, checkpoint, pending = std::move(pending)]() mutable {
    exports_.Begin(job, checkpoint, std::move(pending), now_);
  });
}

}  // namespace baton::controller
