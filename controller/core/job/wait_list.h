// List of a job's waits, with their beginnings. Every part of a JobCore adds its own waits for
// Explain.
#ifndef BATON_CONTROLLER_CORE_JOB_WAIT_LIST_H_
#define BATON_CONTROLLER_CORE_JOB_WAIT_LIST_H_

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "baton/v1/job_service.pb.h"
#include "sdk/common/messages/times.h"

namespace baton::controller {

/// Moves `since`, the beginning of a wait, by `duration`, but not beyond `now`. A time that was
/// never set stays.
inline void DelayTime(absl::Duration duration, absl::Time now, absl::Time& since) {
  // Both values mean that nothing waits. A wait cannot have begun later than now.
  if (since == absl::Time() || since == absl::InfinitePast()) return;
  since = std::min(now, since + duration);
}

class WaitList {
 public:
  /// Adds to `out`, which must outlive the list, as of `now`.
  WaitList(absl::Time now, v1::ExplainJobResponse* out) : now_(now), out_(out) {}

  /// `subject` waits for `cause` since `since`, for at most `limit`. `action`: what happens after
  /// that.
  v1::Wait* Add(const std::string& kind, const std::string& subject, const std::string& cause,
                absl::Time since, absl::Duration limit, const std::string& action) {
    v1::Wait* wait = out_->add_waits();
    wait->set_kind(kind);
    wait->set_subject(subject);
    wait->set_cause(cause);
    wait->set_action(action);
    *wait->mutable_since() = ToProto(now_ - since);
    if (limit != absl::InfiniteDuration()) {
      *wait->mutable_deadline_in() = ToProto(since + limit - now_);
    }
    return wait;
  }
  /// The same for a cause of several lines: the first is the cause, the others follow the action.
  void AddText(const std::string& kind, const std::string& subject, const std::string& text,
               absl::Time since, const std::string& action) {
    const size_t line = std::min(text.find('\n'), text.size());
    Add(kind, subject, text.substr(0, line), since, absl::InfiniteDuration(),
        absl::StrCat(action, text.substr(line)));
  }

  absl::Time now() const { return now_; }

 private:
  const absl::Time now_;
  v1::ExplainJobResponse* const out_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_WAIT_LIST_H_
