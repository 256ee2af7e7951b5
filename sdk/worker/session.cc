#include "sdk/worker/session.h"

#include <unistd.h>

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/channel.h"
#include "sdk/common/rpc/channel_credentials.h"
#include "sdk/common/rpc/error.h"

namespace baton {
namespace {

constexpr int kProtocolVersion = 1;
constexpr auto kWelcomeTimeout = std::chrono::seconds(10);
constexpr auto kLogPollInterval = std::chrono::milliseconds(200);

std::string RandomId() {
  std::random_device random;
  return absl::StrFormat("%08x%08x", random(), random());
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

/// A channel of its own for every attempt: it connects at once, whatever happened before. (A kept
/// one has a back-off of its own, which outlasts a controller's restart.)
absl::StatusOr<std::shared_ptr<grpc::Channel>> FreshChannel(const WorkerOptions& options) {
  BATON_ASSIGN_OR_RETURN(const auto credentials, MakeChannelCredentials(options.tls));
  ChannelOptions how;
  how.own_connection = true;
  return MakeChannel(options.controller, credentials, how);
}

/// No later attempt can succeed.
bool IsFinal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
      return true;
    default:
      return ErrorReason(status) == "PROTOCOL_VERSION";
  }
}

SteadyClock::duration ToDuration(const google::protobuf::Duration& duration) {
  return std::chrono::seconds(duration.seconds()) + std::chrono::nanoseconds(duration.nanos());
}

}  // namespace

Session::Session(const WorkerOptions& options, Dispatcher* dispatcher, TaskLedger* ledger,
                 LogQueue* logs)
    : options_(options),
      dispatcher_(dispatcher),
      ledger_(ledger),
      logs_(logs),
      instance_id_(RandomId()) {}

void Session::Stop() {
  absl::MutexLock lock(&mu_);
  stopping_ = true;
  CancelStream();
}

void Session::ReportRelay(v1::RelayReport report) {
  {
    absl::MutexLock lock(&mu_);
    relay_report_ = std::move(report);
    relay_report_due_ = true;
  }
  ledger_->Wake();
}

void Session::CancelStream() {
  if (context_ != nullptr) context_->TryCancel();
}

bool Session::WaitBeforeRetry(absl::Duration delay) {
  absl::MutexLock lock(&mu_);
  return !mu_.AwaitWithTimeout(absl::Condition(&stopping_), delay);
}

absl::Status Session::Run() {
  std::thread watch([this] { WatchLoop(); });
  absl::Status result;
  absl::Duration delay = options_.min_backoff;
  while (true) {
    const bool was_welcomed = std::exchange(ever_welcomed_, false);
    const absl::Status status = ServeOnce();
    if (ever_welcomed_) delay = options_.min_backoff;
    ever_welcomed_ |= was_welcomed;
    {
      absl::MutexLock lock(&mu_);
      if (stopping_) break;
    }
    if (!ever_welcomed_ && IsFinal(status)) {
      result = Annotate(status, absl::StrCat("controller ", options_.controller, " refuses worker ",
                                             options_.worker_id));
      break;
    }
    Log(LogLevel::kWarn, "no connection to the controller",
        {{"worker", options_.worker_id},
         {"controller", options_.controller},
         {"retry_in", absl::FormatDuration(delay)},
         {"error", status.ToString(absl::StatusToStringMode::kWithNoExtraData)}});
    if (!WaitBeforeRetry(delay)) break;
    delay = std::min(delay * 2, options_.max_backoff);
  }
  Stop();
  watch.join();
  return result;
}

absl::Status Session::ServeOnce() {
  BATON_ASSIGN_OR_RETURN(const auto channel, FreshChannel(options_));
  grpc::ClientContext context;
  if (!options_.token.empty()) {
    context.AddMetadata("authorization", absl::StrCat("Bearer ", options_.token));
  }
  {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](bool* fencing) { return !*fencing; }, &fencing_));
    if (stopping_) return absl::OkStatus();
    context_ = &context;
    welcome_by_ = SteadyClock::now() + kWelcomeTimeout;
  }
  const auto stub = v1::WorkerService::NewStub(channel);
  const auto stream = stub->Attach(&context);
  const absl::Status refused = ServeStream(*stream);
  attached_ = false;
  if (!refused.ok()) context.TryCancel();
  const absl::Status status = FromGrpc(stream->Finish());
  {
    absl::MutexLock lock(&mu_);
    context_ = nullptr;
    welcome_by_.reset();
    lease_.Disconnect();
  }
  if (!refused.ok()) return refused;
  return status.ok() ? absl::UnavailableError("the controller ended the stream") : status;
}

absl::Status Session::ServeStream(Stream& stream) {
  v1::WorkerMessage first;
  *first.mutable_hello() = MakeHello();
  const Time hello_sent = SteadyClock::now();
  v1::ControllerMessage message;
  if (!stream.Write(first) || !stream.Read(&message)) return absl::OkStatus();  // Finish tells why.
  if (!message.has_welcome()) {
    return absl::FailedPreconditionError("the controller's first message is not a Welcome");
  }
  BATON_RETURN_IF_ERROR(AcceptWelcome(message.welcome(), hello_sent));
  writing_ = true;
  std::thread writer([this, &stream] { WriteLoop(stream); });
  attached_ = true;
  ever_welcomed_ = true;
  while (stream.Read(&message)) HandleMessage(std::move(message));
  attached_ = false;
  writing_ = false;
  {
    absl::MutexLock lock(&mu_);
    CancelStream();  // A write that is blocked returns.
  }
  ledger_->Wake();
  writer.join();
  return absl::OkStatus();
}

v1::Hello Session::MakeHello() const {
  v1::Hello hello;
  hello.set_worker_id(options_.worker_id);
  hello.set_instance_id(instance_id_);
  hello.set_protocol_min(kProtocolVersion);
  hello.set_protocol_max(kProtocolVersion);
  for (const std::string& feature : options_.features) hello.add_features(feature);
  hello.set_host(HostName());
  hello.set_pid(getpid());
  hello.set_device(options_.device);
  hello.set_group_store(options_.group_store);
  hello.set_memory_id(options_.memory_id);
  if (options_.relay.has_value()) *hello.mutable_relay() = *options_.relay;
  hello.set_epoch_seen(epoch_);
  dispatcher_->Describe(hello);
  return hello;
}

absl::Status Session::AcceptWelcome(const v1::Welcome& welcome, Time hello_sent) {
  if (welcome.epoch() < epoch_) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "STALE_EPOCH",
                     absl::StrCat("the controller has epoch ", welcome.epoch(), ", but epoch ",
                                  epoch_.load(), " was seen: it is an older controller"));
  }
  if (welcome.protocol() != kProtocolVersion) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, "PROTOCOL_VERSION",
        absl::StrCat("the controller chose protocol ", welcome.protocol(), "; this worker speaks ",
                     kProtocolVersion, ": run the same release on both sides"));
  }
  epoch_ = welcome.epoch();
  {
    absl::MutexLock lock(&mu_);
    welcome_by_.reset();
    lease_.Begin(ToDuration(welcome.lease()), hello_sent);
    heartbeat_interval_ = std::max<SteadyClock::duration>(ToDuration(welcome.heartbeat_interval()),
                                                          std::chrono::milliseconds(1));
    next_heartbeat_ = SteadyClock::now() + heartbeat_interval_;
    relay_report_due_ = relay_report_.has_value();
  }
  for (const v1::RoleHeld& held : welcome.release()) dispatcher_->Release(held);
  ledger_->SendAgain();
  dispatcher_->SendTroubleAgain();
  Log(LogLevel::kInfo, "attached to the controller",
      {{"worker", options_.worker_id},
       {"controller", options_.controller},
       {"epoch", welcome.epoch()}});
  return absl::OkStatus();
}

void Session::HandleMessage(v1::ControllerMessage message) {
  switch (message.message_case()) {
    case v1::ControllerMessage::kHeartbeatAck: {
      if (message.heartbeat_ack().epoch() < epoch_) return;
      absl::MutexLock lock(&mu_);
      lease_.Acknowledge(message.heartbeat_ack().sequence());
      return;
    }
    case v1::ControllerMessage::kTask:
      if (message.task().epoch() < epoch_) {
        Log(LogLevel::kWarn, "a task of an older epoch is ignored",
            {{"job", message.task().job()}, {"epoch", message.task().epoch()}});
        return;
      }
      {
        absl::MutexLock dispatching(&dispatch_mu_);
        {
          absl::MutexLock lock(&mu_);
          if (!lease_.Holds(SteadyClock::now())) return;  // fenced; the stream is about to end
        }
        dispatcher_->Dispatch(std::move(*message.mutable_task()));
        return;
      }
    case v1::ControllerMessage::kCancel:
      dispatcher_->Cancel(message.cancel().task_token());
      return;
    case v1::ControllerMessage::kResultAck:
      ledger_->Acknowledge(message.result_ack().task_token());
      return;
    case v1::ControllerMessage::kRelayOrders:
      if (options_.on_relay_orders) options_.on_relay_orders(message.relay_orders());
      return;
    case v1::ControllerMessage::kRelayForget:
      if (options_.on_relay_forget) options_.on_relay_forget(message.relay_forget());
      return;
    case v1::ControllerMessage::kWelcome:
    case v1::ControllerMessage::MESSAGE_NOT_SET:
      return;  // A message of a later version.
  }
}

bool Session::NextMessage(Time now, v1::WorkerMessage& message) {
  {
    absl::MutexLock lock(&mu_);
    if (now >= next_heartbeat_) {
      message.mutable_heartbeat()->set_sequence(lease_.SendHeartbeat(now));
      next_heartbeat_ = now + heartbeat_interval_;
      return true;
    }
    if (std::exchange(relay_report_due_, false)) {
      *message.mutable_relay_report() = *relay_report_;
      return true;
    }
  }
  if (ledger_->Next(now, message)) return true;
  message.Clear();
  if (dispatcher_->NextTrouble(*message.mutable_trouble())) return true;
  return logs_->Pop(*message.mutable_log());
}

void Session::WriteLoop(Stream& stream) {
  v1::WorkerMessage message;
  v1::WorkerMessage following;
  bool have = NextMessage(SteadyClock::now(), message);
  while (writing_) {
    const Time now = SteadyClock::now();
    if (!have) {
      Time until = now + kLogPollInterval;
      {
        absl::MutexLock lock(&mu_);
        until = std::min(until, next_heartbeat_);
      }
      ledger_->Wait(until);
      have = NextMessage(SteadyClock::now(), message);
      continue;
    }
    // With the hint the message waits in the transport for the next one: fewer system calls.
    following.Clear();
    const bool more = NextMessage(now, following);
    grpc::WriteOptions how;
    if (more) how.set_buffer_hint();
    if (!stream.Write(message, how)) return;
    message.Swap(&following);
    have = more;
  }
}

// No handler can be stopped from outside.
void Session::ReportStuck(const std::string& role) {
  const std::string what = absl::StrCat("what this worker did did not end within ",
                                        absl::FormatDuration(options_.role_end_limit), ": ", role);
  Log(LogLevel::kError, "a role does not end", {{"worker", options_.worker_id}, {"role", role}});
  if (options_.on_stuck) options_.on_stuck(what);
}

void Session::WatchLoop() {
  absl::MutexLock lock(&mu_);
  while (!stopping_) {
    const Time now = SteadyClock::now();
    if (lease_.end().has_value() && now >= *lease_.end()) {
      lease_.End();
      fencing_ = true;
      CancelStream();
      mu_.Unlock();
      Log(LogLevel::kWarn, "the lease ran out: all tasks are stopped and all roles released",
          {{"worker", options_.worker_id}, {"controller", options_.controller}});
      {
        absl::MutexLock dispatching(&dispatch_mu_);
        dispatcher_->Fence();
      }
      mu_.Lock();
      fencing_ = false;
      continue;
    }
    if (welcome_by_.has_value() && now >= *welcome_by_) {
      welcome_by_.reset();
      CancelStream();
    }
    if (!stuck_reported_) {
      mu_.Unlock();
      const std::string stuck =
          dispatcher_->RoleEndingSince(now - absl::ToChronoNanoseconds(options_.role_end_limit));
      if (!stuck.empty()) ReportStuck(stuck);
      mu_.Lock();
      stuck_reported_ = !stuck.empty();
      if (stuck_reported_) continue;
    }
    Time until = now + std::chrono::milliseconds(200);
    if (lease_.end().has_value()) until = std::min(until, *lease_.end());
    if (welcome_by_.has_value()) until = std::min(until, *welcome_by_);
    mu_.AwaitWithTimeout(absl::Condition(&stopping_), absl::FromChrono(until - now));
  }
}

}  // namespace baton
