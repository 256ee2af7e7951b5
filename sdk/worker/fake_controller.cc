#include "sdk/worker/fake_controller.h"

#include <utility>

#include "grpcpp/server_builder.h"
#include "sdk/common/messages/times.h"

namespace baton {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(10);

}  // namespace

using WorkerStream = grpc::ServerReaderWriter<v1::ControllerMessage, v1::WorkerMessage>;

class FakeController::Workers final : public v1::WorkerService::Service {
 public:
  explicit Workers(FakeController* owner) : owner_(owner) {}

  grpc::Status Attach(grpc::ServerContext* context, WorkerStream* stream) override {
    v1::WorkerMessage message;
    if (!stream->Read(&message) || !message.has_hello()) {
      return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no Hello");
    }
    WaitBeforeWelcome();
    const auto welcome = MakeWelcome(*context);
    if (!welcome.has_value()) return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "bad token");
    {
      absl::MutexLock lock(&stream_mu_);
      context_ = context;
      stream_ = stream;
      stream_->Write(*welcome);  // Nothing can be sent before it.
    }
    {
      absl::MutexLock lock(&owner_->mu_);
      owner_->hellos_.push_back(message.hello());
    }
    while (stream->Read(&message)) Receive(message);
    absl::MutexLock lock(&stream_mu_);
    if (stream_ == stream) {  // If it differs, the worker is back already.
      context_ = nullptr;
      stream_ = nullptr;
    }
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "dropped");
  }

  void Send(const v1::ControllerMessage& message) {
    absl::MutexLock lock(&stream_mu_);
    stream_mu_.AwaitWithTimeout(
        absl::Condition(
            +[](WorkerStream** stream) { return *stream != nullptr; }, &stream_),
        kPatience);
    if (stream_ != nullptr) stream_->Write(message);
  }

  void Drop() {
    absl::MutexLock lock(&stream_mu_);
    if (context_ != nullptr) context_->TryCancel();
  }

 private:
  void WaitBeforeWelcome() {
    absl::MutexLock lock(&owner_->mu_);
    const bool never = false;
    owner_->mu_.AwaitWithTimeout(absl::Condition(&never), owner_->options_.welcome_delay);
  }

  /// Nothing when the worker's token is wrong.
  std::optional<v1::ControllerMessage> MakeWelcome(const grpc::ServerContext& context) {
    absl::MutexLock lock(&owner_->mu_);
    const Options options = owner_->options_;
    const auto& metadata = context.client_metadata();
    const auto token = metadata.find("authorization");
    const std::string wanted = "Bearer " + options.token;
    if (!options.token.empty() && (token == metadata.end() || token->second != wanted)) {
      return std::nullopt;
    }
    v1::ControllerMessage message;
    v1::Welcome& welcome = *message.mutable_welcome();
    welcome = owner_->welcome_;
    owner_->welcome_.Clear();
    welcome.set_epoch(options.epoch);
    welcome.set_protocol(options.protocol);
    *welcome.mutable_lease() = ToProto(options.lease);
    *welcome.mutable_heartbeat_interval() = ToProto(options.heartbeat_interval);
    return message;
  }

  void Receive(const v1::WorkerMessage& message) {
    v1::ControllerMessage answer;
    {
      absl::MutexLock lock(&owner_->mu_);
      owner_->messages_.push_back(message);
      if (message.has_heartbeat() && owner_->options_.acknowledge_heartbeats) {
        answer.mutable_heartbeat_ack()->set_sequence(message.heartbeat().sequence());
        answer.mutable_heartbeat_ack()->set_epoch(owner_->options_.epoch);
      } else if (message.has_result() && owner_->options_.acknowledge_results) {
        answer.mutable_result_ack()->set_task_token(message.result().task_token());
      }
    }
    if (answer.message_case() != v1::ControllerMessage::MESSAGE_NOT_SET) Send(answer);
  }

  FakeController* const owner_;
  absl::Mutex stream_mu_;
  grpc::ServerContext* context_ ABSL_GUARDED_BY(stream_mu_) = nullptr;
  WorkerStream* stream_ ABSL_GUARDED_BY(stream_mu_) = nullptr;
};

namespace {

std::vector<int> RowsOf(const v1::FetchBatchRequest& request, int size) {
  if (request.rows_size() > 0) return {request.rows().begin(), request.rows().end()};
  std::vector<int> rows;
  for (int i = request.begin(); i < (request.end() == 0 ? size : request.end()); ++i) {
    rows.push_back(i);
  }
  return rows;
}

}  // namespace

class FakeController::Experience final : public v1::ExperienceService::Service {
 public:
  explicit Experience(FakeController* owner) : owner_(owner) {}

  grpc::Status FetchBatch(grpc::ServerContext* /*context*/, const v1::FetchBatchRequest* request,
                          grpc::ServerWriter<v1::FetchBatchResponse>* writer) override {
    std::vector<v1::Trajectory> batch;
    {
      absl::MutexLock lock(&owner_->mu_);
      const auto it = owner_->batches_.find(request->batch_id());
      if (it == owner_->batches_.end()) {
        return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such batch");
      }
      batch = it->second;
      owner_->fetches_.push_back(*request);
    }
    for (const int row : RowsOf(*request, static_cast<int>(batch.size()))) {
      v1::FetchBatchResponse response;
      v1::Trajectory* trajectory = response.add_trajectories();
      *trajectory = batch[static_cast<size_t>(row)];
      const bool header = request->view() == v1::FetchBatchRequest::VIEW_HEADERS;
      if (header && trajectory->segments_size() > 0) trajectory->clear_columns();
      writer->Write(response);
    }
    return grpc::Status::OK;
  }

  grpc::Status FetchHistory(grpc::ServerContext* /*context*/,
                            const v1::FetchHistoryRequest* request,
                            grpc::ServerWriter<v1::FetchHistoryResponse>* writer) override {
    HistoryAnswer answer;
    {
      absl::MutexLock lock(&owner_->mu_);
      owner_->history_fetches_.push_back(*request);
      answer = owner_->history_;
    }
    if (answer == nullptr) return grpc::Status::OK;
    const auto history = answer(*request);
    if (!history.ok()) {
      return {static_cast<grpc::StatusCode>(history.status().code()),
              std::string(history.status().message())};
    }
    for (const v1::EarlierResponse& one : *history) {  // one a message
      v1::FetchHistoryResponse response;
      *response.add_responses() = one;
      writer->Write(response);
    }
    return grpc::Status::OK;
  }

 private:
  FakeController* const owner_;
};

FakeController::FakeController(Options options)
    : options_(std::move(options)),
      workers_(std::make_unique<Workers>(this)),
      experience_(std::make_unique<Experience>(this)) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:" + std::to_string(options_.port),
                           grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(workers_.get());
  builder.RegisterService(experience_.get());
  server_ = builder.BuildAndStart();
}

FakeController::~FakeController() {
  workers_->Drop();
  server_->Shutdown(std::chrono::system_clock::now());
}

std::vector<v1::FetchBatchRequest> FakeController::fetches() const {
  absl::MutexLock lock(&mu_);
  return fetches_;
}

void FakeController::SetHistory(HistoryAnswer answer) {
  absl::MutexLock lock(&mu_);
  history_ = std::move(answer);
}

std::vector<v1::FetchHistoryRequest> FakeController::history_fetches() const {
  absl::MutexLock lock(&mu_);
  return history_fetches_;
}

std::string FakeController::address() const { return "127.0.0.1:" + std::to_string(port_); }

void FakeController::Change(const std::function<void(Options&)>& change) {
  absl::MutexLock lock(&mu_);
  change(options_);
}

void FakeController::SetWelcome(const v1::Welcome& welcome) {
  absl::MutexLock lock(&mu_);
  welcome_ = welcome;
}

std::optional<v1::Hello> FakeController::WaitForHello(int count) {
  absl::MutexLock lock(&mu_);
  const auto arrived = [this, count]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return static_cast<int>(hellos_.size()) >= count;
  };
  if (!mu_.AwaitWithTimeout(absl::Condition(&arrived), kPatience)) return std::nullopt;
  return hellos_[count - 1];
}

int FakeController::hello_count() const {
  absl::MutexLock lock(&mu_);
  return static_cast<int>(hellos_.size());
}

void FakeController::Send(const v1::ControllerMessage& message) { workers_->Send(message); }
void FakeController::Drop() { workers_->Drop(); }

std::optional<v1::WorkerMessage> FakeController::WaitFor(
    const std::function<bool(const v1::WorkerMessage&)>& wanted) {
  std::optional<v1::WorkerMessage> found;
  size_t looked_at = 0;
  absl::MutexLock lock(&mu_);
  const auto arrived = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    for (; looked_at < messages_.size() && !found.has_value(); ++looked_at) {
      if (wanted(messages_[looked_at])) found = messages_[looked_at];
    }
    return found.has_value();
  };
  mu_.AwaitWithTimeout(absl::Condition(&arrived), kPatience);
  return found;
}

std::vector<v1::WorkerMessage> FakeController::messages() const {
  absl::MutexLock lock(&mu_);
  return messages_;
}

void FakeController::SendTask(v1::Task task) {
  v1::ControllerMessage message;
  {
    absl::MutexLock lock(&mu_);
    if (task.epoch() == 0) task.set_epoch(options_.epoch);
  }
  *message.mutable_task() = std::move(task);
  Send(message);
}

std::optional<v1::TaskResult> FakeController::WaitForResult(const std::string& token) {
  const auto message = WaitFor([&token](const v1::WorkerMessage& candidate) {
    return candidate.has_result() && candidate.result().task_token() == token;
  });
  if (!message.has_value()) return std::nullopt;
  return message->result();
}

std::optional<v1::TaskResult> FakeController::RunTask(v1::Task task) {
  const std::string token = task.task_token();
  SendTask(std::move(task));
  return WaitForResult(token);
}

void FakeController::SetBatch(const std::string& batch_id,
                              std::vector<v1::Trajectory> trajectories) {
  absl::MutexLock lock(&mu_);
  batches_[batch_id] = std::move(trajectories);
}

}  // namespace baton
