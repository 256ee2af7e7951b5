// How other threads reach a transport's thread while the transport lives.
#ifndef BATON_RELAY_SERVER_MAILBOX_H_
#define BATON_RELAY_SERVER_MAILBOX_H_

#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "relay/transport/transport.h"

namespace baton::relay {

/// Thread-safe. What is posted after Close is dropped.
class Mailbox {
 public:
  explicit Mailbox(Transport* transport) : transport_(transport) {}

  void Post(std::function<void()> call) {
    absl::MutexLock lock(&mu_);
    if (transport_ != nullptr) transport_->Post(std::move(call));
  }
  /// Before the transport is destroyed.
  void Close() {
    absl::MutexLock lock(&mu_);
    transport_ = nullptr;
  }

 private:
  absl::Mutex mu_;
  Transport* transport_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::relay

#endif  // BATON_RELAY_SERVER_MAILBOX_H_
