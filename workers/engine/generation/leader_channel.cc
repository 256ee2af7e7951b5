#include "workers/engine/generation/leader_channel.h"

#include <utility>

namespace baton::engine {
namespace {

/// A message is {kind, length} and `length` words.
constexpr int64_t kWords = 0;
constexpr int64_t kStillHere = 1;
constexpr int64_t kEnd = 2;

void BroadcastNumbers(Communicator& control, std::vector<int64_t>& numbers) {
  const auto size = static_cast<int64_t>(numbers.size());
  control.Broadcast(torch::from_blob(numbers.data(), {size}, torch::kInt64), 0);
}

}  // namespace

GroupLeader::GroupLeader(Communicator* control, absl::Duration keep_alive,
                         std::function<void(const absl::Status&)> lost)
    : control_(control),
      keep_alive_(keep_alive),
      lost_(std::move(lost)),
      keeper_([this] { KeepAlive(); }) {}

GroupLeader::~GroupLeader() { End().IgnoreError(); }

absl::Status GroupLeader::Say(const std::vector<int64_t>& words) {
  absl::MutexLock lock(&mu_);
  return Send(kWords, words);
}

absl::Status GroupLeader::End() {
  absl::Status status;
  {
    absl::MutexLock lock(&mu_);
    if (!std::exchange(ended_, true)) Send(kEnd, {}).IgnoreError();  // it is in broken_
    status = broken_;
  }
  if (keeper_.joinable()) keeper_.join();
  return status;
}

absl::Status GroupLeader::Send(int64_t kind, std::vector<int64_t> words) {
  if (!broken_.ok()) return broken_;
  sent_ = true;
  try {
    std::vector<int64_t> head = {kind, static_cast<int64_t>(words.size())};
    BroadcastNumbers(*control_, head);
    if (!words.empty()) BroadcastNumbers(*control_, words);
  } catch (const CollectiveError& error) {
    broken_ = error.status();
  }
  return broken_;
}

void GroupLeader::KeepAlive() {
  absl::Status status;
  {
    absl::MutexLock lock(&mu_);
    while (status.ok() && !mu_.AwaitWithTimeout(absl::Condition(&ended_), keep_alive_)) {
      if (!sent_) status = Send(kStillHere, {});
      sent_ = false;
    }
  }
  if (!status.ok() && lost_) lost_(status);
}

absl::StatusOr<std::optional<std::vector<int64_t>>> ReceiveFromLeader(
    Communicator& control, const std::atomic<bool>& leaving) {
  try {
    while (true) {
      std::vector<int64_t> head(2);
      BroadcastNumbers(control, head);
      if (head[0] == kEnd) return std::nullopt;
      if (leaving) return absl::CancelledError("this rank leaves the group");
      if (head[0] == kStillHere) continue;
      std::vector<int64_t> words(static_cast<size_t>(head[1]));
      if (!words.empty()) BroadcastNumbers(control, words);
      return words;
    }
  } catch (const CollectiveError& error) {
    return error.status();
  }
}

}  // namespace baton::engine
