// What the tests of a whole controller share.
#ifndef BATON_CONTROLLER_RUNTIME_CONTROLLER_TESTING_H_
#define BATON_CONTROLLER_RUNTIME_CONTROLLER_TESTING_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "controller/runtime/controller_interface.h"
#include "controller/store/store.h"

namespace baton::controller {

/// Hands a store to a controller and keeps it for the next one, as a file would be kept. A test
/// may change what a call does.
class SharedStore : public store::Store {
 public:
  explicit SharedStore(std::shared_ptr<store::Store> store) : store_(std::move(store)) {}
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

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CONTROLLER_TESTING_H_
