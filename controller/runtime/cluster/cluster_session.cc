// The messages of one worker's stream, for ClusterRuntime.
#include "controller/runtime/cluster/cluster_session.h"

#include "absl/strings/str_cat.h"
#include "controller/cluster/need_queue.h"
#include "sdk/common/contracts/text_bounds.h"
#include "sdk/common/messages/bounded_texts.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
bool ClusterRuntime::SessionState::MayReportOn(const JobRuntime& job) const {
  const std::string project = stream->project();
  return project == "*" || ProjectId(job.name()) == project;
}

std::unique_ptr<WorkerSession> ClusterRuntime::Attach(std::shared_ptr<WorkerStream> stream) {
  auto state = std::make_shared<SessionState>();
  state->id = next_session_++;
  state->stream = std::move(stream);
  state->hello_by = context_->clock->Now() + options_.lease;
  Post([this, state] { sessions_[state->id] = state; });
  return std::make_unique<Session>(this, std::move(state));
}

// Every message enters here, so its texts are bounded here.
void ClusterRuntime::Session::OnMessage(v1::WorkerMessage message) {
  const absl::Status bounded = BoundTexts(&message);
  if (!bounded.ok()) {
    return state_->stream->Close(
        MakeError(absl::StatusCode::kInvalidArgument, "PROTOCOL", bounded.message()));
  }
  std::string worker;
  {
    absl::MutexLock lock(&state_->mu);
    worker = state_->worker;
    if (!worker.empty() && !state_->welcome) return Hold(std::move(message));
  }
  if (worker.empty() != message.has_hello()) {
    state_->stream->Close(MakeError(absl::StatusCode::kInvalidArgument, "PROTOCOL",
                                    worker.empty() ? "the first message must be Hello"
                                                   : "Hello may only be the first message"));
    return;
  }
  if (worker.empty()) return OnHello(message.hello());
  Route(cluster_, *state_, worker, std::move(message));
}

// Messages of a refused worker are never passed on.
void ClusterRuntime::Session::Hold(v1::WorkerMessage message) {
  state_->held_bytes += message.ByteSizeLong();
  if (state_->held_bytes > kHeldMessageBytes) {
    state_->held.clear();
    return state_->stream->Close(
        MakeError(absl::StatusCode::kResourceExhausted, "WORKER_TOO_FAST",
                  absl::StrCat("messages of more than ", kHeldMessageBytes,
                               " bytes came before Welcome; wait for it after Hello")));
  }
  state_->held.push_back(std::move(message));
}

void ClusterRuntime::Session::OnHello(const v1::Hello& hello) {
  {
    absl::MutexLock lock(&state_->mu);
    state_->worker = hello.worker_id().empty() ? "?" : hello.worker_id();
  }
  cluster_->Post([cluster = cluster_, state = state_, hello] {
    const absl::Time now = cluster->now_;
    const auto effects = cluster->core_.OnHello(state->id, hello, now, state->stream->project());
    const std::string name = cluster->core_.workers().WorkerOf(state->id);  // empty: refused
    if (!name.empty()) {
      cluster->leases_.Begin(name, state->id, now);
      // before a job hears of the worker
      cluster->directory_.Introduce(name, hello, state->stream->project());
    }
    cluster->Apply(effects);
  });
}

void ClusterRuntime::Session::OnClosed() {
  cluster_->Post([cluster = cluster_, state = state_] {
    std::string worker;
    {
      absl::MutexLock lock(&state->mu);
      worker = state->worker;
    }
    cluster->leases_.End(state->id);
    cluster->directory_.Remove(worker, state->stream.get());
    cluster->sessions_.erase(state->id);
    cluster->Apply(cluster->core_.OnClosed(state->id, cluster->now_));
  });
}

std::shared_ptr<JobRuntime> ClusterRuntime::Session::JobFor(const ClusterRuntime& cluster,
                                                            const SessionState& state,
                                                            const std::optional<TaskToken>& token) {
  auto job = token.has_value() ? cluster.jobs_->FindOf(*token) : nullptr;
  return job != nullptr && state.MayReportOn(*job) ? job : nullptr;
}

std::shared_ptr<JobRuntime> ClusterRuntime::Session::JobFor(const ClusterRuntime& cluster,
                                                            const SessionState& state,
                                                            const std::string& name) {
  auto job = name.empty() ? nullptr : cluster.jobs_->Find(FullJobName(name));
  return job != nullptr && state.MayReportOn(*job) ? job : nullptr;
}

void ClusterRuntime::Session::Route(ClusterRuntime* cluster, const SessionState& state,
                                    const std::string& worker, v1::WorkerMessage message) {
  switch (message.message_case()) {
    case v1::WorkerMessage::kHeartbeat: {
      if (!cluster->leases_.Renew(state.id)) {
        return state.stream->Close(
            MakeError(absl::StatusCode::kDeadlineExceeded, "LEASE_ENDED",
                      "the lease has ended, or another stream took this one's place"));
      }
      v1::ControllerMessage answer;
      answer.mutable_heartbeat_ack()->set_sequence(message.heartbeat().sequence());
      answer.mutable_heartbeat_ack()->set_epoch(cluster->context_->epoch);
      state.stream->Send(std::move(answer));
      return;
    }
    case v1::WorkerMessage::kProgress: {
      const auto token = DecodeToken(message.progress().task_token());
      if (const auto job = JobFor(*cluster, state, token)) {
        job->OnProgress(worker, token->ref, std::move(*message.mutable_progress()));
      }
      return;
    }
    case v1::WorkerMessage::kResult: {
      const auto token = DecodeToken(message.result().task_token());
      const auto job = JobFor(*cluster, state, token);
      if (token.has_value() && token->ref.kind == TaskKind::kReleaseRole) {
        // The task's job may have ended, or been deleted.
        const std::string left = token->job.substr(0, token->job.find('#'));
        cluster->Post(
            [cluster, worker, left] { cluster->Apply(cluster->core_.OnReleased(worker, left)); });
      }
      if (token.has_value() && token->ref.kind == TaskKind::kExport) {
        cluster->Post([cluster, worker, ref = token->ref, result = message.result()] {
          cluster->exports_.OnResult(worker, ref, result);
        });
      } else if (job != nullptr) {
        return job->OnResult(worker, token->ref, std::move(*message.mutable_result()));
      }
      // Nothing waits for this result, so the worker may forget it.
      v1::ControllerMessage answer;
      answer.mutable_result_ack()->set_task_token(message.result().task_token());
      state.stream->Send(std::move(answer));
      return;
    }
    case v1::WorkerMessage::kLog:
      if (const auto job = JobFor(*cluster, state, message.log().job())) {
        job->OnWorkerLog(worker, message.log());
      }
      return;
    case v1::WorkerMessage::kTrouble: {
      v1::RoleTrouble& trouble = *message.mutable_trouble();
      if (const auto job = JobFor(*cluster, state, trouble.job())) {
        job->Post(RoleTroubled{worker, trouble.role(), std::move(*trouble.mutable_message())});
      }
      return;
    }
    case v1::WorkerMessage::kRelayReport: {
      v1::RelayReport& report = *message.mutable_relay_report();
      cluster->Post([cluster, session = state.id, report = std::move(report)] {
        cluster->OnRelayReport(session, report);
      });
      return;
    }
    default:
      return;
  }
}

}  // namespace baton::controller
