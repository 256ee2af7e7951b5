// The view of one job that `watch` prints. On a terminal the newest step is one line that is
// redrawn; elsewhere (a file, a pipe) it is a line every few seconds, however fast or slow the
// steps are.
//
// Not thread-safe: its owner takes turns between the events and the clock.
#ifndef BATON_SDK_CLI_WATCH_WATCH_VIEW_H_
#define BATON_SDK_CLI_WATCH_WATCH_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "baton/v1/job_service.pb.h"

namespace baton::cli {

struct WatchViewOptions {
  bool terminal = false;  ///< The newest step is redrawn in place.
  size_t width = 80;      ///< Width of the terminal, in characters.
  std::function<void(absl::string_view)> print;
  std::function<absl::Time()> now = absl::Now;
};

class WatchView {
 public:
  WatchView(const v1::Job& job, WatchViewOptions options);

  /// Prints the state of the job as one line: "add is RUNNING, training, step 3 of 10".
  void Header(const v1::Job& job);
  /// An event of the past: its line is printed at once.
  void OnPast(const v1::JobEvent& event);
  /// An event that happens now.
  void OnEvent(const v1::JobEvent& event);
  /// Prints what became due; to be called about twice a second.
  void OnTick();
  /// True: the job does not run, or nothing happened for some seconds, so the reason is wanted
  /// (JobService.ExplainJob, then OnExplained).
  bool WantsReason() const;
  /// Prints the first wait where it is new or was not printed for long, and those of trainer and
  /// rollouts of an async job for each other. Of a worker that is at work and does not take long,
  /// it prints what the job does, and for how long.
  void OnExplained(const v1::ExplainJobResponse& answer);
  /// Prints a sentence about the watch itself.
  void Notice(const std::string& text) { Say(text); }
  /// Ends the line that is redrawn, and prints a step that was held back.
  void Finish();

  v1::Job::State state() const { return state_; }  ///< The newest heard of.
  const std::string& error() const { return error_; }

 private:
  void TakeStep(const v1::JobEvent& event);
  void OnState(const v1::JobEvent& event);
  bool Ended() const;
  bool TakesLong(const v1::Wait& work) const;
  std::string WorkText(const v1::Wait& work) const;
  std::string Metric(const char* label, const char* name) const;
  std::string AsyncPart() const;
  std::string StepLine() const;
  std::string LiveLine() const;
  void Draw();
  void Clear();
  void Say(const std::string& line);
  void FlushStep();

  const WatchViewOptions options_;
  const int64_t total_;
  v1::Job::State state_;
  std::string error_;
  int64_t step_;
  std::map<std::string, double> metrics_;  // of the newest step
  std::string phase_;                      // "generating 3/8"
  bool phase_is_counted_ = false;          // it says how much of it is done
  bool drawn_ = false;                     // the line that is redrawn stands on the terminal
  bool held_ = false;                      // a step has happened that is not printed yet
  bool a_step_happened_ = false;           // and not in the past alone
  absl::Time printed_ = absl::InfinitePast();
  absl::Time heard_;  // of the job, the last time

  // Time from one step to the next, in seconds: the newest ones, without interruptions.
  std::deque<double> step_seconds_;
  int64_t timed_step_ = -1;  // -1: the next step has nothing to be measured from
  double timed_at_ = 0;      // seconds since 1970

  std::string reason_;      // the work, or the first wait as a sentence and those for each other
  std::string reason_key_;  // what it is about, without its numbers
  absl::Time reason_at_ = absl::InfinitePast();
  absl::Duration reason_pause_;  // until the same one is printed again
};

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_WATCH_WATCH_VIEW_H_
