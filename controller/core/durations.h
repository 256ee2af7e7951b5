#ifndef BATON_CONTROLLER_CORE_DURATIONS_H_
#define BATON_CONTROLLER_CORE_DURATIONS_H_

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"

namespace baton::controller {

inline void SetDuration(google::protobuf::Duration* out, absl::Duration duration) {
  const int64_t nanos = absl::ToInt64Nanoseconds(duration);
  out->set_seconds(nanos / 1000000000);
  out->set_nanos(static_cast<int>(nanos % 1000000000));
}

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_DURATIONS_H_
