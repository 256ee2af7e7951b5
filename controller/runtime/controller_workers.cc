// Controller: workers' sessions and the cluster's queue.
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "boost/asio/bind_executor.hpp"
#include "controller/core/role_names.h"
#include "controller/runtime/controller.h"
#include "controller/runtime/session_state.h"
#include "sdk/base/log.h"
#include "sdk/base/utf8.h"
#include "sdk/messages/times.h"
#include "sdk/rpc/error.h"

namespace baton::controller {
namespace {

constexpr size_t kMaxTroubleBytes = 8 << 10;  // of a worker's message, which is stored as an event

}  // namespace

// All events that wait on the strand form one turn; workers are matched to jobs once, at its end.
void Controller::OnCluster(std::function<void()> work) {
  gate_.Post(cluster_strand_, [this, work = std::move(work)] {
    TakeHeartbeats();
    if (!std::exchange(in_turn_, true)) {
      cluster_->BeginTurn();
      gate_.Post(cluster_strand_, [this] {
        in_turn_ = false;
        Apply(cluster_->EndTurn());
      });
    }
    work();
  });
}

void Controller::Need(const std::string& job, const NeedWorkers& need) {
  OnCluster([this, job, need] {
    int64_t order = 0;
    std::shared_ptr<JobRuntime> runtime;
    {
      absl::MutexLock lock(&mu_);
      auto it = jobs_.find(job);
      if (it == jobs_.end()) return;
      runtime = it->second;
      order = order_[job];
    }
    Apply(cluster_->OnNeed(job, runtime->priority(), order, IsActive(runtime->state()),
                           need.missing, clock_.Now(), need.hints, runtime->role_needs()));
  });
}

void Controller::Return(const std::string& job, const ReturnWorker& worker) {
  OnCluster([this, job, worker] {
    Apply(cluster_->OnReturn(job, worker.worker, clock_.Now(), worker.conduct));
  });
}

void Controller::Leave(const std::string& job) {
  OnCluster([this, job] {
    cluster_->OnLeave(job);
    Apply(cluster_->OnTick(clock_.Now()));
  });
}

// Before every decision, the queue takes over the heartbeats that have arrived.
void Controller::TakeHeartbeats() {
  for (const auto& [session, at] : leases_.Take()) cluster_->OnHeartbeats(session, at);
}

std::unique_ptr<WorkerSession> Controller::Attach(std::shared_ptr<WorkerStream> stream) {
  auto state = std::make_shared<SessionState>();
  state->id = next_session_++;
  state->stream = std::move(stream);
  state->hello_by = clock_.Now() + options_.cluster.lease;
  OnCluster([this, state] { sessions_[state->id] = state; });
  return std::make_unique<Session>(this, std::move(state));
}

void Controller::Session::OnMessage(v1::WorkerMessage message) {
  std::string worker;
  {
    absl::MutexLock lock(&state_->mu);
    worker = state_->worker;
    if (!worker.empty() && !state_->welcome) {
      state_->held.push_back(std::move(message));
      return;
    }
  }
  if (worker.empty() != message.has_hello()) {
    state_->stream->Close(MakeError(absl::StatusCode::kInvalidArgument, "PROTOCOL",
                                    worker.empty() ? "the first message must be Hello"
                                                   : "Hello may only be the first message"));
    return;
  }
  if (worker.empty()) return OnHello(message.hello());
  Route(controller_, state_, worker, std::move(message));
}

void Controller::Session::OnHello(const v1::Hello& hello) {
  {
    absl::MutexLock lock(&state_->mu);
    state_->worker = hello.worker_id().empty() ? "?" : hello.worker_id();
  }
  controller_->OnCluster([controller = controller_, state = state_, hello] {
    const absl::Time now = controller->clock_.Now();
    auto effects = controller->cluster_->OnHello(state->id, hello, now, state->stream->project());
    const bool welcome = controller->cluster_->workers().SessionOf(hello.worker_id()) == state->id;
    if (welcome) {
      controller->leases_.Begin(hello.worker_id(), state->id, now);
      // before a job hears of the worker
      controller->directory_.Introduce(hello, state->stream->project());
    }
    controller->Apply(std::move(effects));
  });
}

void Controller::Session::OnClosed() {
  controller_->OnCluster([controller = controller_, state = state_] {
    std::string worker;
    {
      absl::MutexLock lock(&state->mu);
      worker = state->worker;
    }
    controller->leases_.End(state->id);
    controller->directory_.Remove(worker, state->stream.get());
    controller->sessions_.erase(state->id);
    controller->Apply(controller->cluster_->OnClosed(state->id, controller->clock_.Now()));
  });
}

// A worker of one project may not report on jobs of another.
std::shared_ptr<JobRuntime> Controller::Session::JobFor(Controller* controller,
                                                        const SessionState& state,
                                                        const TaskToken& token) {
  const std::string project = state.stream->project();
  auto job = controller->FindJobOf(token);
  return job == nullptr || project == "*" || ProjectId(job->name()) == project ? job : nullptr;
}

void Controller::Session::Route(Controller* controller, const std::shared_ptr<SessionState>& state,
                                const std::string& worker, v1::WorkerMessage message) {
  switch (message.message_case()) {
    case v1::WorkerMessage::kHeartbeat: {
      if (!controller->leases_.Renew(state->id)) {
        return state->stream->Close(
            MakeError(absl::StatusCode::kDeadlineExceeded, "LEASE_ENDED",
                      "the lease has ended, or another stream took this one's place"));
      }
      v1::ControllerMessage answer;
      answer.mutable_heartbeat_ack()->set_sequence(message.heartbeat().sequence());
      answer.mutable_heartbeat_ack()->set_epoch(controller->context_.epoch);
      state->stream->Send(std::move(answer));
      return;
    }
    case v1::WorkerMessage::kProgress: {
      const auto token = DecodeToken(message.progress().task_token());
      if (!token.has_value()) return;
      if (const auto job = JobFor(controller, *state, *token)) {
        job->OnProgress(worker, token->ref, std::move(*message.mutable_progress()));
      }
      return;
    }
    case v1::WorkerMessage::kResult: {
      const auto token = DecodeToken(message.result().task_token());
      const auto job = token.has_value() ? JobFor(controller, *state, *token) : nullptr;
      if (token.has_value() && token->ref.kind == TaskKind::kExport) {
        controller->OnCluster([controller, worker, ref = token->ref, result = message.result()] {
          controller->OnExportResult(worker, ref, result);
        });
      } else if (job != nullptr) {
        return job->OnResult(worker, token->ref, std::move(*message.mutable_result()));
      }
      // Nothing waits for this result, so the worker may forget it.
      v1::ControllerMessage answer;
      answer.mutable_result_ack()->set_task_token(message.result().task_token());
      state->stream->Send(std::move(answer));
      return;
    }
    case v1::WorkerMessage::kLog: {
      auto job = controller->FindJob(message.log().job());
      const std::string project = state->stream->project();
      if (message.log().job().empty() || !job.ok()) return;
      if (project == "*" || ProjectId((*job)->name()) == project)
        (*job)->OnWorkerLog(worker, message.log());
      return;
    }
    case v1::WorkerMessage::kTrouble: {
      v1::RoleTrouble& trouble = *message.mutable_trouble();
      auto job = controller->FindJob(trouble.job());
      const std::string project = state->stream->project();
      if (trouble.job().empty() || !job.ok()) return;
      if (project == "*" || ProjectId((*job)->name()) == project) {
        std::string text = std::move(*trouble.mutable_message());
        if (text.size() > kMaxTroubleBytes) {
          text.resize(ValidUtf8Prefix(absl::string_view(text).substr(0, kMaxTroubleBytes)));
        }
        (*job)->Post(RoleTroubled{worker, trouble.role(), std::move(text)});
      }
      return;
    }
    default:
      return;
  }
}

void Controller::Apply(const ClusterEffects& effects) {
  for (const ClusterEffect& effect : effects) {
    if (const auto* welcome = std::get_if<ClusterWelcome>(&effect)) {
      auto it = sessions_.find(welcome->session);
      if (it == sessions_.end()) continue;
      v1::ControllerMessage message;
      v1::Welcome* answer = message.mutable_welcome();
      answer->set_epoch(context_.epoch);
      answer->set_protocol(welcome->protocol);
      *answer->mutable_lease() = ToProto(options_.cluster.lease);
      *answer->mutable_heartbeat_interval() = ToProto(options_.cluster.heartbeat_interval);
      for (const v1::RoleHeld& held : welcome->release) *answer->add_release() = held;
      it->second->stream->Send(std::move(message));
      // Only now may others send: Welcome must be the first message of a stream.
      const auto before = directory_.Set(welcome->worker, it->second->stream);
      if (before != nullptr && before != it->second->stream) {
        before->Close(MakeError(absl::StatusCode::kAborted, "SESSION_REPLACED",
                                "the worker attached again on another stream"));
      }
      Log(LogLevel::kInfo, "worker attached", {{"worker", welcome->worker}});
    } else if (const auto* refuse = std::get_if<ClusterRefuse>(&effect)) {
      auto it = sessions_.find(refuse->session);
      if (it == sessions_.end()) continue;
      Log(LogLevel::kWarn, "worker refused", {{"reason", std::string(refuse->status.message())}});
      it->second->stream->Close(
          MakeError(refuse->status.code(), refuse->reason, refuse->status.message()));
    } else if (const auto* grant = std::get_if<ClusterGrant>(&effect)) {
      Log(LogLevel::kInfo, "worker granted",
          {{"worker", grant->worker}, {"job", grant->job}, {"roles", grant->roles}});
      auto job = FindJob(grant->job);
      if (job.ok()) (*job)->Post(WorkerGranted{grant->worker, grant->roles, grant->credits});
    } else if (const auto* lost = std::get_if<ClusterLost>(&effect)) {
      auto job = FindJob(lost->job);
      if (job.ok()) (*job)->Post(WorkerLost{lost->worker, lost->reason, lost->moves});
    } else if (const auto* yield = std::get_if<ClusterYield>(&effect)) {
      Log(LogLevel::kWarn, "job gives its workers back",
          {{"job", yield->job}, {"reason", yield->reason}});
      auto job = FindJob(yield->job);
      if (job.ok()) (*job)->Post(YieldRequested{yield->reason});
    } else if (const auto* back = std::get_if<ClusterBack>(&effect)) {
      Back(*back);
    }
  }
  // From now on the worker's messages pass: its job already knows that the worker is back.
  for (const ClusterEffect& effect : effects) {
    const auto* welcome = std::get_if<ClusterWelcome>(&effect);
    if (welcome == nullptr) continue;
    auto it = sessions_.find(welcome->session);
    if (it == sessions_.end()) continue;
    const std::shared_ptr<SessionState> state = it->second;
    absl::MutexLock lock(&state->mu);
    for (v1::WorkerMessage& message : state->held) {
      Session::Route(this, state, state->worker, std::move(message));
    }
    state->held.clear();
    state->welcome = true;
  }
}

void Controller::Back(const ClusterBack& back) {
  auto job = FindJob(back.job);
  if (!job.ok()) return;
  WorkerBack event;
  event.worker = back.worker;
  for (const v1::RoleHeld& held : back.hello.roles_held()) {
    if (held.job() != back.job) continue;
    event.holds[held.role()] = held.policy_version();
  }
  for (const v1::RunningTask& running : back.hello.running()) {
    const auto token = DecodeToken(running.task_token());
    if (token.has_value() && token->job == (*job)->token_name())
      event.running.push_back(token->ref);
  }
  for (const std::string& bytes : back.hello.unacknowledged()) {
    const auto token = DecodeToken(bytes);
    if (token.has_value() && token->job == (*job)->token_name())
      event.unacked.push_back(token->ref);
  }
  (*job)->Post(std::move(event));
}

void Controller::Tick() {
  const absl::Time now = clock_.Now();
  TakeHeartbeats();
  CloseSilentStreams(now);
  Apply(cluster_->OnTick(now));
  ExpireExports(now);
  ForgetOldRequests();
  RemoveUnnamedUploadsWhenDue(now);
  std::vector<std::shared_ptr<JobRuntime>> active;
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [name, job] : jobs_) {
      if (IsActive(job->state())) active.push_back(job);
    }
  }
  for (const auto& job : active) job->Tick();
  timer_.expires_after(std::chrono::milliseconds(absl::ToInt64Milliseconds(options_.tick)));
  timer_.async_wait(
      boost::asio::bind_executor(cluster_strand_, [this](const boost::system::error_code& error) {
        if (!error && !gate_.closed()) Tick();
      }));
}

void Controller::CloseSilentStreams(absl::Time now) {
  for (const auto& [id, state] : sessions_) {
    if (state->hello_by > now) continue;
    absl::MutexLock lock(&state->mu);
    if (!state->worker.empty()) continue;
    state->stream->Close(MakeError(absl::StatusCode::kDeadlineExceeded, "NO_HELLO",
                                   "the stream has not said Hello in time"));
  }
}

void Controller::ExpireExports(absl::Time now) {
  for (auto it = exports_.begin(); it != exports_.end();) {
    PendingExport& pending = it->second;
    if (cluster_->workers().SessionOf(pending.worker) != 0) pending.seen = now;
    const bool lost = now - pending.seen > options_.cluster.lease;
    if (pending.deadline > now && !lost) {
      ++it;
      continue;
    }
    auto done = std::move(pending.done);
    const absl::Status why =
        lost ? MakeError(absl::StatusCode::kUnavailable, "NO_WORKER",
                         absl::StrCat("worker ", pending.worker, " is gone; try again"))
             : MakeError(absl::StatusCode::kDeadlineExceeded, "EXPORT_DEADLINE",
                         "no worker finished the export in time; try again");
    it = exports_.erase(it);
    done(why);
  }
}

void Controller::SendExport(const std::string& job, const std::string& checkpoint,
                            PendingExport pending) {
  OnCluster([this, job, checkpoint, pending = std::move(pending)]() mutable {
    const std::string worker =
        cluster_->workers().FindMethod(roles::kActor, "export", ProjectId(job));
    if (worker.empty()) {
      return pending.done(MakeError(absl::StatusCode::kUnavailable, "NO_WORKER",
                                    "no attached worker can export (role actor); start one"));
    }
    TaskRef ref;
    ref.kind = TaskKind::kExport;
    ref.subject = next_export_++;
    ref.incarnation = context_.epoch;
    v1::ControllerMessage message;
    v1::Task* task = message.mutable_task();
    task->set_task_token(EncodeToken({job, ref}));
    task->set_epoch(context_.epoch);
    task->set_job(job);
    task->set_role(roles::kActor);
    task->set_method("export");
    task->mutable_export_()->set_checkpoint(checkpoint);
    task->mutable_export_()->set_directory(pending.directory);
    task->mutable_export_()->set_dtype(pending.dtype);
    pending.worker = worker;
    pending.seen = clock_.Now();
    pending.deadline = pending.seen + absl::Minutes(10);
    exports_[ref.subject] = std::move(pending);
    directory_.Send(worker, std::move(message));
  });
}

void Controller::OnExportResult(const std::string& worker, const TaskRef& ref,
                                const v1::TaskResult& result) {
  auto it = exports_.find(ref.subject);
  if (it == exports_.end() || ref.incarnation != context_.epoch) return;
  if (it->second.worker != worker) return;  // another worker was asked
  PendingExport pending = std::move(it->second);
  exports_.erase(it);
  const absl::Status status = FromProto(result.status());
  if (!status.ok()) return pending.done(status);
  v1::ExportCheckpointResponse answer;
  answer.set_directory(pending.directory);
  answer.set_step(pending.step);
  pending.done(std::move(answer));
}

}  // namespace baton::controller
