#include "sdk/worker/role_runner.h"

namespace baton {

RoleRunner::RoleRunner(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

RoleRunner::~RoleRunner() { Stop(); }

void RoleRunner::Post(std::function<void()> function, bool exclusive) {
  {
    absl::MutexLock lock(&mu_);
    if (!stopped_) {
      queue_.emplace_back(std::move(function), exclusive);
      return;
    }
  }
  function();
}

void RoleRunner::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  std::deque<std::pair<std::function<void()>, bool>> rest;
  {
    absl::MutexLock lock(&mu_);
    stopped_ = true;
    rest.swap(queue_);
  }
  for (auto& [function, exclusive] : rest) function();
}

bool RoleRunner::CanStart() const {
  if (queue_.empty() || exclusive_active_) return false;
  return !queue_.front().second || active_ == 0;
}

bool RoleRunner::CanStartOrEnd() const { return CanStart() || (stopping_ && queue_.empty()); }

void RoleRunner::Work() {
  absl::MutexLock lock(&mu_);
  while (true) {
    mu_.Await(absl::Condition(this, &RoleRunner::CanStartOrEnd));
    if (!CanStart()) return;
    auto [function, exclusive] = std::move(queue_.front());
    queue_.pop_front();
    ++active_;
    exclusive_active_ = exclusive;
    mu_.Unlock();
    function();
    function = nullptr;
    mu_.Lock();
    --active_;
    if (exclusive) exclusive_active_ = false;
  }
}

}  // namespace baton
