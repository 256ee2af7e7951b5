// Times and durations between Abseil and the API's messages.
#ifndef BATON_SDK_COMMON_MESSAGES_TIMES_H_
#define BATON_SDK_COMMON_MESSAGES_TIMES_H_

#include <cstdint>

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace baton {

/// To the nanosecond, towards zero; an infinite duration becomes the longest that Abseil counts in
/// nanoseconds (292 years).
inline google::protobuf::Duration ToProto(absl::Duration duration) {
  const int64_t nanos = absl::ToInt64Nanoseconds(duration);
  google::protobuf::Duration out;
  out.set_seconds(nanos / 1'000'000'000);
  out.set_nanos(static_cast<int32_t>(nanos % 1'000'000'000));
  return out;
}

/// To the nanosecond, towards the past.
inline google::protobuf::Timestamp ToProto(absl::Time time) {
  google::protobuf::Timestamp out;
  const int64_t seconds = absl::ToUnixSeconds(time);
  out.set_seconds(seconds);
  out.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
  return out;
}

/// To the second, towards the past: what rows and resources keep.
inline google::protobuf::Timestamp ToProtoSeconds(absl::Time time) {
  google::protobuf::Timestamp out;
  out.set_seconds(absl::ToUnixSeconds(time));
  return out;
}

inline absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

inline absl::Time FromProto(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

}  // namespace baton

#endif  // BATON_SDK_COMMON_MESSAGES_TIMES_H_
