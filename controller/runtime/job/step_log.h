// Decides which events become lines of a job's log. A fast job makes more steps than a person can
// read.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_STEP_LOG_H_
#define BATON_CONTROLLER_RUNTIME_JOB_STEP_LOG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace baton::controller {

/// Lets one step line per second through. Lines of other events always pass. The next line of
/// either kind names the steps before it that have no line, so the log keeps the order of the
/// events. Not thread-safe.
class StepLog {
 public:
  static constexpr absl::Duration kEvery = absl::Seconds(1);

  /// The line to write for step number `step`, which is done `now`; empty if the line is held back.
  std::optional<std::string> TakeStep(int64_t step, std::string line, absl::Time now) {
    if (now - written_ < kEvery) {
      if (first_held_ == 0) first_held_ = step;
      last_held_ = step;
      return std::nullopt;
    }
    written_ = now;
    return WithHeld(std::move(line));
  }

  /// The line to write for another event.
  std::string TakeOther(std::string line) { return WithHeld(std::move(line)); }

 private:
  std::string WithHeld(std::string line) {
    if (first_held_ == 0) return line;
    if (first_held_ == last_held_) {
      absl::StrAppend(&line, " (before it step ", last_held_, ", without a line of its own)");
    } else {
      absl::StrAppend(&line, " (before it steps ", first_held_, " to ", last_held_,
                      ", without lines of their own)");
    }
    first_held_ = last_held_ = 0;
    return line;
  }

  absl::Time written_ = absl::InfinitePast();  // time of the last step line
  int64_t first_held_ = 0, last_held_ = 0;     // steps since the last line; 0: none
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_STEP_LOG_H_
