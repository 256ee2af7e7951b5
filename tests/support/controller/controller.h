// The set-up of the tests of a whole controller.
#ifndef BATON_TESTS_SUPPORT_CONTROLLER_CONTROLLER_H_
#define BATON_TESTS_SUPPORT_CONTROLLER_CONTROLLER_H_

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "controller/runtime/calls/calls.h"
#include "controller/store/memory_store.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {

/// Hands a store to a controller and keeps it for the next one, as a file would be kept. A test
/// may change what a call does. Commits that wait when the controller ends are lost, unanswered.
class SharedStore : public store::Store {
 public:
  explicit SharedStore(std::shared_ptr<store::Store> store) : store_(std::move(store)) {}
  ~SharedStore() override {
    auto* memory = dynamic_cast<store::MemoryStore*>(store_.get());
    if (memory != nullptr) memory->CutPower(memory->unsynced());
  }
  using Store::Commit;
  void Commit(std::vector<store::Write> writes, store::Durability durability, Done done) override {
    store_->Commit(std::move(writes), durability, std::move(done));
  }
  absl::StatusOr<std::optional<std::string>> Get(absl::string_view table,
                                                 absl::string_view key) override {
    return store_->Get(table, key);
  }
  absl::StatusOr<std::vector<store::Row>> Scan(absl::string_view table,
                                               const store::ScanOptions& options) override {
    return store_->Scan(table, options);
  }
  absl::Status CopyTo(const std::string& path) override { return store_->CopyTo(path); }
  absl::Status health() const override { return store_->health(); }

 private:
  const std::shared_ptr<store::Store> store_;
};

/// The answer of one call, waited for.
template <typename T>
absl::StatusOr<T> Wait(const std::function<void(Callback<T>)>& call) {
  absl::Notification done;
  absl::StatusOr<T> answer = absl::UnknownError("no answer");
  call([&](absl::StatusOr<T> result) {
    answer = std::move(result);
    done.Notify();
  });
  done.WaitForNotification();
  return answer;
}

/// A worker's end of a stream, without a network. Thread-safe.
class FakeStream : public WorkerStream {
 public:
  /// `project`: of the worker's token; "*": of all.
  explicit FakeStream(std::string project = "*") : project_(std::move(project)) {}
  std::string project() const override { return project_; }
  void Send(v1::ControllerMessage message) override {
    absl::MutexLock lock(&mu_);
    messages_.push_back(std::move(message));
  }
  void Close(absl::Status status) override {
    absl::MutexLock lock(&mu_);
    if (closed_.ok()) closed_ = std::move(status);
  }
  /// Waits until the controller ends the stream; its reason.
  std::string WaitUntilClosed() {
    absl::MutexLock lock(&mu_);
    mu_.AwaitWithTimeout(absl::Condition(
                             +[](absl::Status* s) { return !s->ok(); }, &closed_),
                         absl::Seconds(10));
    return ErrorReason(closed_);
  }
  size_t size() {
    absl::MutexLock lock(&mu_);
    return messages_.size();
  }
  /// Waits for the message of that number; none came: an empty one.
  v1::ControllerMessage Message(size_t number) {
    absl::MutexLock lock(&mu_);
    const auto there = [this, number]()
                           ABSL_SHARED_LOCKS_REQUIRED(mu_) { return messages_.size() > number; };
    mu_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(10));
    return there() ? messages_[number] : v1::ControllerMessage();
  }

 private:
  const std::string project_;
  absl::Mutex mu_;
  std::vector<v1::ControllerMessage> messages_ ABSL_GUARDED_BY(mu_);
  absl::Status closed_ ABSL_GUARDED_BY(mu_);
};

/// A valid job of kind rl over one data file.
inline v1::JobSpec SmallRlSpec(const std::string& file) {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_model()->mutable_init()->set_characters("0123456789+=");
  spec.mutable_data()->add_train_files(file);
  spec.mutable_data()->set_max_response_length(8);
  spec.mutable_reward()->add_rules()->set_type("exact_match");
  spec.mutable_trainer()->set_total_training_steps(9);
  return spec;
}

/// Every file and folder below, by its relative path, with its content.
inline std::map<std::string, std::string> TreeOf(const std::filesystem::path& root) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    std::string& content = out[entry.path().lexically_relative(root).string()];
    if (entry.is_directory()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    content.assign(std::istreambuf_iterator<char>(in), {});
  }
  return out;
}

}  // namespace baton::controller

#endif  // BATON_TESTS_SUPPORT_CONTROLLER_CONTROLLER_H_
