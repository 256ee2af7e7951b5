#include "controller/api/open_streams.h"

#include <utility>
#include <vector>

#include "absl/time/clock.h"

namespace baton::api {
namespace {

/// Cancels a call unless it has ended.
class Canceller {
 public:
  explicit Canceller(grpc::CallbackServerContext* context) : context_(context) {}
  void Cancel() {
    absl::MutexLock lock(&mu_);
    if (context_ != nullptr) context_->TryCancel();
  }
  void Forget() {
    absl::MutexLock lock(&mu_);
    context_ = nullptr;
  }

 private:
  absl::Mutex mu_;
  grpc::CallbackServerContext* context_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

OpenStreams::OpenStreams(std::shared_ptr<const access::TokenTable> tokens, absl::Duration period)
    : tokens_(std::move(tokens)), period_(period) {}

OpenStreams::~OpenStreams() {
  {
    absl::MutexLock lock(&state_->mu);
    state_->stopping = true;
  }
  absl::MutexLock lock(&thread_mu_);
  if (thread_.joinable()) thread_.join();
}

OpenStreams::Place OpenStreams::Add(const access::Caller& caller, Cut cut) {
  if (!caller.kept) return nullptr;  // this token cannot end
  {
    absl::MutexLock lock(&thread_mu_);
    if (!thread_.joinable()) thread_ = std::thread([this] { Watch(); });
  }
  absl::MutexLock lock(&state_->mu);
  const uint64_t number = ++state_->next;
  state_->entries[number] = std::make_shared<Entry>(Entry{caller, std::move(cut)});
  return Place(state_.get(), [state = state_, number](const void*) {
    std::shared_ptr<const Entry> gone;  // destroyed after the lock is released
    absl::MutexLock lock(&state->mu);
    const auto it = state->entries.find(number);
    gone = std::move(it->second);
    state->entries.erase(it);
  });
}

OpenStreams::Place OpenStreams::AddCall(const access::Caller& caller,
                                        grpc::CallbackServerContext* context) {
  const auto canceller = std::make_shared<Canceller>(context);
  Place place = Add(caller, [canceller](const absl::Status&) { canceller->Cancel(); });
  if (place == nullptr) return nullptr;
  return Place(place.get(), [place, canceller](const void*) { canceller->Forget(); });
}

void OpenStreams::Watch() {
  while (true) {
    std::vector<std::shared_ptr<const Entry>> entries;
    {
      absl::MutexLock lock(&state_->mu);
      state_->mu.AwaitWithTimeout(absl::Condition(&state_->stopping), period_);
      if (state_->stopping) return;
      for (const auto& [number, entry] : state_->entries) entries.push_back(entry);
    }
    const absl::Time now = absl::Now();
    for (const auto& entry : entries) {
      if (const absl::Status good = tokens_->StillGood(entry->caller, now); !good.ok()) {
        entry->cut(good);
      }
    }
  }
}

}  // namespace baton::api
