#include "workers/hybrid/shared_policy.h"

#include <utility>

namespace baton::hybrid {

void SharedPolicy::Lend(const std::string& job, engine::Generator* generator, uint64_t version) {
  absl::MutexLock lock(&mu_);
  lender_ = job;
  generator_ = generator;
  version_ = version;
  Attach();
}

void SharedPolicy::TakeBack(const absl::Status& why) {
  absl::MutexLock lock(&mu_);
  generator_ = nullptr;
  Detach(why);
  mu_.Await(absl::Condition(this, &SharedPolicy::NobodyDetaches));
}

void SharedPolicy::Enter(const std::string& job, GeneratorUser* user) {
  absl::MutexLock lock(&mu_);
  borrower_ = job;
  user_ = user;
  Attach();
}

void SharedPolicy::Leave(const absl::Status& why) {
  absl::MutexLock lock(&mu_);
  Detach(why);
  user_ = nullptr;  // Before the wait, because another thread may lend a generator during the wait.
  mu_.Await(absl::Condition(this, &SharedPolicy::NobodyDetaches));
}

void SharedPolicy::Attach() {
  if (user_ == nullptr || generator_ == nullptr || borrower_ != lender_) return;
  user_->Attach(generator_, version_);
  attached_ = true;
}

void SharedPolicy::Detach(const absl::Status& why) {
  if (!std::exchange(attached_, false)) return;
  ++detaching_;
  user_->Detach(why, [this] {
    absl::MutexLock lock(&mu_);
    --detaching_;
  });
}

}  // namespace baton::hybrid
