#include "sdk/cli/watch/watch_view.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sdk/cli/shared/options.h"
#include "sdk/cli/shared/table.h"
#include "sdk/cli/shared/wait_text.h"

namespace baton::cli {
namespace {

constexpr absl::Duration kLineEvery = absl::Seconds(5);      // where there is no terminal
constexpr absl::Duration kSilence = absl::Seconds(5);        // then the reason is asked for
constexpr absl::Duration kLongestPause = absl::Seconds(60);  // between equal reasons
constexpr absl::Duration kBriefWait = absl::Seconds(2);      // waits of every start are shorter
constexpr absl::Duration kQuickWork = absl::Seconds(30);     // never takes long
constexpr size_t kTimedSteps = 20;

std::string StateWord(v1::Job::State state) { return v1::Job::State_Name(state).substr(6); }

// A job in such a state waits for its user or for workers, and no step ends it.
bool WaitsForOthers(v1::Job::State state) {
  return state == v1::Job::STATE_QUEUED || state == v1::Job::STATE_PAUSED;
}

// A wait for a worker that is at work, and has a deadline.
bool IsWork(const v1::Wait& wait) {
  static const std::set<std::string> kinds = {"update",        "publish",  "save_checkpoint",
                                              "to_generation", "generate", "score"};
  return wait.has_deadline_in() && kinds.count(wait.kind()) > 0;
}

// The first wait, then the side of an async job that waits for the other one.
std::string ReasonText(const v1::ExplainJobResponse& answer) {
  if (answer.waits().empty()) return "";
  std::string text = WaitText(answer.waits(0));
  for (int i = 1; i < answer.waits_size(); ++i) {
    const v1::Wait& wait = answer.waits(i);
    static const std::set<std::string> sides = {"batch", "evaluation", "staleness", "pace"};
    if (sides.count(wait.kind()) > 0) absl::StrAppend(&text, "  ", WaitText(wait));
  }
  return text;
}

}  // namespace

WatchView::WatchView(const v1::Job& job, WatchViewOptions options)
    : options_(std::move(options)),
      total_(job.total_steps()),
      state_(job.state()),
      error_(job.error().message()),
      step_(job.step()),
      heard_(options_.now()),
      reason_pause_(kLineEvery) {}

void WatchView::Header(const v1::Job& job) {
  Say(absl::StrCat(
      ShortJobName(job.name()), " is ", StateWord(job.state()), job.phase().empty() ? "" : ", ",
      PhaseText(job.phase(), job.phase_done(), job.phase_total()),
      // A job that only evaluates has no steps.
      job.total_steps() == 0 ? ""
                             : absl::StrCat(", step ", job.step(), " of ", job.total_steps())));
}

void WatchView::OnPast(const v1::JobEvent& event) {
  if (event.type() != "step") return OnEvent(event);
  TakeStep(event);
  Say(StepLine());
}

void WatchView::OnEvent(const v1::JobEvent& event) {
  const absl::Time now = options_.now();
  heard_ = now;
  if (state_ == v1::Job::STATE_RUNNING) reason_.clear();
  if (event.type() == "progress") {
    phase_ = PhaseText(event.phase(), event.phase_done(), event.phase_total());
    phase_is_counted_ = event.phase_total() > 0;
    Draw();
  } else if (event.type() == "step") {
    TakeStep(event);
    held_ = true;
    Draw();
    // The first one at once: what comes later is compared with it.
    if (!std::exchange(a_step_happened_, true) || now - printed_ >= kLineEvery) FlushStep();
  } else if (event.type() == "state") {
    OnState(event);
  } else if (event.type() == "evaluation") {
    Say(absl::StrCat("step ", event.step(), "  evaluation: ", event.message()));
  } else if (event.type() == "checkpoint") {
    Say(absl::StrCat("step ", event.step(), "  checkpoint ", event.message()));
  } else if (event.type() == "warning") {
    Say(absl::StrCat("step ", event.step(), "  warning: ", event.message()));
  } else if (event.type() == "notice") {
    Say(absl::StrCat("step ", event.step(), "  ", event.message()));
  }
}

void WatchView::TakeStep(const v1::JobEvent& event) {
  const double time = static_cast<double>(event.time().seconds()) +
                      static_cast<double>(event.time().nanos()) * 1e-9;
  if (timed_step_ >= 0 && event.step() == timed_step_ + 1) {
    step_seconds_.push_back(time - timed_at_);
    if (step_seconds_.size() > kTimedSteps) step_seconds_.pop_front();
  }
  timed_step_ = event.step();
  timed_at_ = time;
  step_ = event.step();
  for (const auto& [name, value] : event.metrics()) metrics_[name] = value;
  phase_.clear();
  phase_is_counted_ = false;
}

void WatchView::OnState(const v1::JobEvent& event) {
  state_ = event.state();
  error_ = event.message();
  phase_.clear();
  phase_is_counted_ = false;
  reason_.clear();
  reason_key_.clear();
  timed_step_ = -1;  // what passes until the next step is not a step's time
  if (options_.terminal && Ended() && !step_seconds_.empty()) Say(StepLine());
  Say(absl::StrCat("state ", StateWord(state_)));
}

void WatchView::OnTick() {
  if (options_.terminal) return;
  const absl::Time now = options_.now();
  if (now - printed_ < kLineEvery) return;
  if (held_) return FlushStep();
  if (!phase_.empty() && now - heard_ < kSilence) Say(absl::StrCat(StepLine(), "  ", phase_));
}

bool WatchView::Ended() const {
  return state_ == v1::Job::STATE_SUCCEEDED || state_ == v1::Job::STATE_FAILED ||
         state_ == v1::Job::STATE_CANCELLED;
}

bool WatchView::WantsReason() const {
  if (Ended()) return false;
  return state_ != v1::Job::STATE_RUNNING || options_.now() - heard_ >= kSilence;
}

// Work takes long if it needs twice the time of a step, or half of the time that it may take. An
// update whose progress is told takes long only if it has come no further for that time.
bool WatchView::TakesLong(const v1::Wait& work) const {
  double seconds = static_cast<double>(work.since().seconds());
  if (work.kind() == "update" && phase_is_counted_) {
    seconds = std::min(seconds, absl::ToDoubleSeconds(options_.now() - heard_));
  }
  if (seconds < absl::ToDoubleSeconds(kQuickWork)) return false;
  if (seconds >= static_cast<double>(work.deadline_in().seconds())) return true;
  return !step_seconds_.empty() &&
         seconds > 2 * *std::max_element(step_seconds_.begin(), step_seconds_.end());
}

std::string WatchView::WorkText(const v1::Wait& work) const {
  return absl::StrCat(phase_.empty() ? work.kind() : phase_, ", ",
                      ShortDuration(static_cast<double>(work.since().seconds())));
}

void WatchView::OnExplained(const v1::ExplainJobResponse& answer) {
  if (!WantsReason()) return;  // something happened meanwhile
  const bool waits = answer.waits_size() > 0;
  const bool works = waits && state_ == v1::Job::STATE_RUNNING && IsWork(answer.waits(0)) &&
                     !TakesLong(answer.waits(0));
  reason_ = works ? WorkText(answer.waits(0)) : ReasonText(answer);
  if (!waits) return Draw();
  const v1::Wait& wait = answer.waits(0);
  const bool brief =
      !WaitsForOthers(state_) && wait.since().seconds() < absl::ToInt64Seconds(kBriefWait);
  if (brief) return Draw();
  const absl::Time now = options_.now();
  // Each step has the same work, so that of the next step is no news.
  const std::string key = works ? "work" : absl::StrCat(wait.kind(), " ", wait.subject());
  const bool changed = key != std::exchange(reason_key_, key);
  // A terminal has it in the line that is redrawn; there, the whole of it is printed once.
  const bool runs = state_ == v1::Job::STATE_RUNNING;
  if (options_.terminal && (runs || !changed)) return Draw();
  if (changed) reason_pause_ = kLineEvery;
  if (!changed && now - reason_at_ < reason_pause_) return;
  if (!changed) reason_pause_ = std::min(2 * reason_pause_, kLongestPause);
  reason_at_ = now;
  Say(runs ? absl::StrCat(StepLine(), "  ", reason_) : reason_);
}

void WatchView::Finish() {
  FlushStep();
  Clear();
}

std::string WatchView::Metric(const char* label, const char* name) const {
  auto it = metrics_.find(name);
  return it == metrics_.end() ? "" : absl::StrCat("  ", label, " ", ShortNumber(it->second));
}

// The numbers of an async job: "staleness 0.500/2  buffer 3/16  idle trainer 12% rollouts 40%".
std::string WatchView::AsyncPart() const {
  const auto pair = [&](const char* label, const char* first, const char* second) {
    const auto a = metrics_.find(first), b = metrics_.find(second);
    if (a == metrics_.end() || b == metrics_.end()) return std::string();
    return absl::StrCat("  ", label, " ", ShortNumber(a->second), "/", ShortNumber(b->second));
  };
  const auto percent = [&](const char* label, const char* name) {
    const auto it = metrics_.find(name);
    if (it == metrics_.end()) return std::string();
    return absl::StrCat(" ", label, " ", std::lround(100 * it->second), "%");
  };
  if (metrics_.count("staleness/mean") == 0) return "";
  const std::string idle =
      absl::StrCat(percent("trainer", "idle/trainer"), percent("rollouts", "idle/rollouts"));
  return absl::StrCat(pair("staleness", "staleness/mean", "staleness/max"),
                      pair("buffer", "buffer/complete_groups", "buffer/open_groups"),
                      idle.empty() ? "" : "  idle", idle);
}

std::string WatchView::StepLine() const {
  std::string line =
      absl::StrCat("step ", step_, "/", total_, Metric("reward", "critic/score/mean"),
                   Metric("accuracy", "reward/accuracy/mean"), Metric("loss", "train/loss"),
                   Metric("length", "response_length/mean"), Metric("tok/s", "perf/throughput"));
  if (!step_seconds_.empty() && total_ > step_) {
    const double mean = std::accumulate(step_seconds_.begin(), step_seconds_.end(), 0.0) /
                        static_cast<double>(step_seconds_.size());
    absl::StrAppend(&line, "  left ", ShortDuration(mean * static_cast<double>(total_ - step_)));
  }
  absl::StrAppend(&line, AsyncPart());
  return line;
}

std::string WatchView::LiveLine() const {
  constexpr int kBar = 24;
  const int filled = total_ > 0 ? static_cast<int>(kBar * std::min(step_, total_) / total_) : 0;
  std::string line;
  for (int i = 0; i < kBar; ++i) line += i < filled ? "█" : "░";
  absl::StrAppend(&line, " ", StepLine());
  if (state_ != v1::Job::STATE_RUNNING) absl::StrAppend(&line, "  ", StateWord(state_));
  const bool in_reason = !phase_.empty() && absl::StartsWith(reason_, phase_);
  if (!phase_.empty() && !in_reason) absl::StrAppend(&line, "  ", phase_);
  if (!reason_.empty()) absl::StrAppend(&line, "  ", reason_);
  return line;
}

// Never longer than the terminal is wide: if a line went on in the next row, only that row would be
// redrawn.
void WatchView::Draw() {
  if (!options_.terminal) return;
  options_.print(absl::StrCat("\r\033[K", OneLine(LiveLine(), options_.width - 2)));
  drawn_ = true;
  held_ = false;
}

void WatchView::Clear() {
  if (drawn_) options_.print("\r\033[K");
  drawn_ = false;
}

void WatchView::Say(const std::string& line) {
  FlushStep();
  Clear();
  options_.print(absl::StrCat(OneLine(line), "\n"));
  printed_ = options_.now();
  if (!Ended()) Draw();
}

void WatchView::FlushStep() {
  if (!std::exchange(held_, false) || options_.terminal) return;
  options_.print(absl::StrCat(StepLine(), "\n"));
  printed_ = options_.now();
}

}  // namespace baton::cli
