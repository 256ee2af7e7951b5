#include "bench/dispatch_controller.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace baton::bench {

using controller::WorkerStream;

// One worker. Its lock is held neither while a commit is asked for nor while a message is sent.
class DispatchController::Session : public controller::WorkerSession {
 public:
  Session(std::shared_ptr<State> state, std::shared_ptr<WorkerStream> stream)
      : state_(std::move(state)), stream_(std::move(stream)) {}
  void OnMessage(v1::WorkerMessage message) override;
  void OnClosed() override {}

 private:
  const std::shared_ptr<State> state_;
  const std::shared_ptr<WorkerStream> stream_;
};

struct DispatchController::State : std::enable_shared_from_this<State> {
  explicit State(const DispatchOptions& options) : options(options) {
    // Padding brings the message to its size; its own length field is part of that.
    task.set_job("projects/default/jobs/bench");
    task.set_role("reward");
    task.set_method("compute_reward");
    task.set_task_token(std::string(16, '0'));
    v1::Trajectory* trajectory = task.mutable_score()->mutable_trajectory();
    while (task.ByteSizeLong() < options.task_bytes)
      trajectory->mutable_response_text()->push_back('x');
  }

  v1::ControllerMessage NextTask() {
    v1::ControllerMessage message;
    *message.mutable_task() = task;
    message.mutable_task()->set_task_token(absl::StrCat(absl::Hex(++serial, absl::kZeroPad16)));
    return message;
  }

  void Dispatch(const std::shared_ptr<WorkerStream>& stream);
  void OnResult(const v1::TaskResult& result, const std::shared_ptr<WorkerStream>& stream);
  void Finished(const std::string& token);
  bool Started(const std::string& token) {
    absl::MutexLock lock(&mu);
    if (!running) return false;
    started[token] = absl::GetCurrentTimeNanos();
    return true;
  }
  bool IsRunning() {
    absl::MutexLock lock(&mu);
    return running;
  }

  const DispatchOptions options;
  v1::Task task;
  std::atomic<uint64_t> serial{0};

  absl::Mutex mu;
  bool running ABSL_GUARDED_BY(mu) = false;
  std::vector<std::shared_ptr<WorkerStream>> streams ABSL_GUARDED_BY(mu);
  std::map<std::string, int64_t> started ABSL_GUARDED_BY(mu);  // by token, in nanoseconds
  std::vector<double> latencies ABSL_GUARDED_BY(mu);
  int64_t finished ABSL_GUARDED_BY(mu) = 0;
};

void DispatchController::State::Dispatch(const std::shared_ptr<WorkerStream>& stream) {
  v1::ControllerMessage message = NextTask();
  const std::string token = message.task().task_token();
  if (!Started(token)) return;
  if (options.store == nullptr) return stream->Send(std::move(message));
  std::vector<store::Write> writes = {{kBenchTasks, token, message.task().SerializeAsString()}};
  options.store->Commit(std::move(writes),
                        [stream, message = std::move(message)](const absl::Status& status) mutable {
                          if (status.ok()) stream->Send(std::move(message));
                        });
}

// The result's row; with more than one task outstanding the next task's row is in the same
// transaction, as all effects of one event are.
void DispatchController::State::OnResult(const v1::TaskResult& result,
                                         const std::shared_ptr<WorkerStream>& stream) {
  const std::string token = result.task_token();
  if (options.store == nullptr) {
    Finished(token);
    return Dispatch(stream);
  }
  std::vector<store::Write> writes = {{kBenchResults, token, result.SerializeAsString()}};
  v1::ControllerMessage next;
  if (options.window > 1 && IsRunning()) {
    next = NextTask();
    if (Started(next.task().task_token())) {
      writes.push_back({kBenchTasks, next.task().task_token(), next.task().SerializeAsString()});
    } else {
      next.Clear();
    }
  }
  options.store->Commit(std::move(writes),
                        [self = shared_from_this(), token, stream,
                         next = std::move(next)](const absl::Status& status) mutable {
                          if (!status.ok()) return;
                          v1::ControllerMessage ack;
                          ack.mutable_result_ack()->set_task_token(token);
                          stream->Send(std::move(ack));
                          self->Finished(token);
                          if (next.has_task()) {
                            stream->Send(std::move(next));
                          } else {
                            self->Dispatch(stream);
                          }
                        });
}

void DispatchController::State::Finished(const std::string& token) {
  const int64_t now = absl::GetCurrentTimeNanos();
  absl::MutexLock lock(&mu);
  const auto it = started.find(token);
  if (it == started.end()) return;
  latencies.push_back(static_cast<double>(now - it->second) / 1e3);
  started.erase(it);
  ++finished;
}

void DispatchController::Session::OnMessage(v1::WorkerMessage message) {
  if (message.has_result()) return state_->OnResult(message.result(), stream_);
  if (message.has_heartbeat()) {
    v1::ControllerMessage answer;
    answer.mutable_heartbeat_ack()->set_sequence(message.heartbeat().sequence());
    answer.mutable_heartbeat_ack()->set_epoch(1);
    return stream_->Send(std::move(answer));
  }
  if (!message.has_hello()) return;
  v1::ControllerMessage answer;
  answer.mutable_welcome()->set_epoch(1);
  answer.mutable_welcome()->set_protocol(1);
  answer.mutable_welcome()->mutable_lease()->set_seconds(60);
  answer.mutable_welcome()->mutable_heartbeat_interval()->set_seconds(10);
  stream_->Send(std::move(answer));
  absl::MutexLock lock(&state_->mu);
  state_->streams.push_back(stream_);
}

DispatchController::DispatchController(const DispatchOptions& options)
    : state_(std::make_shared<State>(options)) {}

DispatchController::~DispatchController() = default;

std::unique_ptr<controller::WorkerSession> DispatchController::Attach(
    std::shared_ptr<WorkerStream> stream) {
  return std::make_unique<Session>(state_, std::move(stream));
}

bool DispatchController::WaitForWorkers(int workers, absl::Duration limit) {
  absl::MutexLock lock(&state_->mu);
  const auto all = [this, workers]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return static_cast<int>(state_->streams.size()) >= workers;
  };
  return state_->mu.AwaitWithTimeout(absl::Condition(&all), limit);
}

void DispatchController::RunFor(absl::Duration length) {
  std::vector<std::shared_ptr<WorkerStream>> streams;
  {
    absl::MutexLock lock(&state_->mu);
    state_->running = true;
    state_->latencies.clear();
    state_->finished = 0;
    streams = state_->streams;
  }
  const absl::Time begin = absl::Now();
  for (int i = 0; i < state_->options.window; ++i) {
    for (const auto& stream : streams) state_->Dispatch(stream);
  }
  absl::SleepFor(length);
  absl::MutexLock lock(&state_->mu);
  state_->running = false;
  const auto idle = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return state_->started.empty(); };
  state_->mu.AwaitWithTimeout(absl::Condition(&idle), absl::Seconds(30));
  elapsed_ = absl::Now() - begin;
}

int64_t DispatchController::finished() const {
  absl::MutexLock lock(&state_->mu);
  return state_->finished;
}

std::vector<double> DispatchController::TakeLatencies() {
  absl::MutexLock lock(&state_->mu);
  return std::exchange(state_->latencies, {});
}

}  // namespace baton::bench
