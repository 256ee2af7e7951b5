#include "sdk/common/rpc/retry.h"

#include <string>

#include "absl/strings/cord.h"
#include "baton/v1/error.pb.h"

namespace baton {
namespace {

constexpr char kRetryUrl[] = "type.googleapis.com/baton.v1.RetryInfo";

}  // namespace

absl::Status WithRetry(absl::Status status, absl::Duration delay) {
  v1::RetryInfo info;
  const int64_t nanos = absl::ToInt64Nanoseconds(delay);
  info.mutable_retry_delay()->set_seconds(nanos / 1'000'000'000);
  info.mutable_retry_delay()->set_nanos(static_cast<int>(nanos % 1'000'000'000));
  status.SetPayload(kRetryUrl, absl::Cord(info.SerializeAsString()));
  return status;
}

absl::Duration RetryDelay(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryUrl);
  v1::RetryInfo info;
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload))) {
    return absl::InfiniteDuration();
  }
  return absl::Seconds(info.retry_delay().seconds()) +
         absl::Nanoseconds(info.retry_delay().nanos());
}

}  // namespace baton
