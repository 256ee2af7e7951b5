#include "sdk/worker/lease.h"

#include <algorithm>

namespace baton {

void Lease::Begin(Duration lease, Time hello_sent) {
  length_ = lease;
  end_ = hello_sent + lease;
  sent_.clear();
}

uint64_t Lease::SendHeartbeat(Time now) {
  sent_[next_] = now;
  return next_++;
}

void Lease::Acknowledge(uint64_t sequence) {
  const auto it = sent_.find(sequence);
  if (it == sent_.end()) return;
  if (end_.has_value() && it->second < *end_) {
    end_ = std::max(*end_, it->second + length_);
  }
  sent_.erase(sent_.begin(), std::next(it));
}

}  // namespace baton
