#include "controller/runtime/submit/checker_pool.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/process/low_priority.h"
#include "sdk/common/rpc/error.h"
#include "sdk/common/rpc/retry.h"

namespace baton::controller {
namespace {

constexpr absl::Duration kComeAgain = absl::Seconds(10);

// The interval at which the pool looks for waiting checks whose callers have left.
constexpr absl::Duration kAskWaiting = absl::Milliseconds(500);

bool IsGone(const CallerGone& gone) { return gone != nullptr && gone(); }

absl::Status CallerIsGone() { return absl::CancelledError("the caller is gone"); }

}  // namespace

CheckerPool::CheckerPool(Options options)
    : options_(std::move(options)), queue_(std::max(1, (options_.processes - 1) / 2)) {
  if (options_.program.empty()) return;
  for (int i = 0; i < options_.processes; ++i) threads_.emplace_back([this] { Work(); });
  threads_.emplace_back([this] { Look(); });
}

CheckerPool::~CheckerPool() { Stop(); }

void CheckerPool::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
    changed_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  // Objects that are released after the lock.
  std::vector<std::unique_ptr<Waiting>> dropped;
  std::vector<Idle> ended;
  absl::MutexLock lock(&mu_);
  dropped = queue_.Remove([](const auto&) { return true; });
  ended.swap(idle_);
}

bool CheckerPool::stopping() const {
  absl::MutexLock lock(&mu_);
  return stopping_;
}

int CheckerPool::running() const {
  absl::MutexLock lock(&mu_);
  return busy_ + static_cast<int>(idle_.size());
}

void CheckerPool::Post(const std::string& project, CheckerProcess::Request request, Begin begin,
                       CallerGone gone, Callback<v1::ValidateJobResponse> done) {
  auto waiting = std::make_unique<Waiting>(
      Waiting{project, std::move(request), std::move(begin), std::move(gone),
              BootNow() + options_.queue_limit, std::move(done)});
  absl::MutexLock lock(&mu_);
  if (stopping_) return;
  queue_.Push(project, std::move(waiting));
  changed_.SignalAll();
}

absl::Status CheckerPool::Late(const Waiting& waiting) const {
  return WithRetry(
      MakeError(absl::StatusCode::kResourceExhausted, "CHECKS_WAITING",
                absl::StrCat(
                    "the models and data were not checked: within ",
                    absl::FormatDuration(options_.queue_limit), " none of the ", options_.processes,
                    " processes that check submissions was free for project ", waiting.project,
                    ", as other submissions were being checked; submit again later")),
      kComeAgain);
}

void CheckerPool::Work() {
  LowerThreadPriority();  // also of the processes that it starts
  while (true) {
    std::unique_ptr<Waiting> next;
    Idle process;
    {
      absl::MutexLock lock(&mu_);
      std::optional<std::unique_ptr<Waiting>> taken;
      while (!stopping_ && !(taken = queue_.Take()).has_value()) changed_.Wait(&mu_);
      if (stopping_) return;
      next = *std::move(taken);
      ++busy_;
      if (!idle_.empty()) {
        process = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (process.process == nullptr) {
      process.process = std::make_unique<CheckerProcess>(options_.program);
    }
    RunOne(std::move(next), std::move(process));
  }
}

void CheckerPool::RunOne(std::unique_ptr<Waiting> next, Idle process) {
  absl::StatusOr<v1::ValidateJobResponse> answer = CallerIsGone();
  if (!IsGone(next->gone)) {
    if (next->begin != nullptr) next->begin(&next->request);
    answer = process.process->Check(next->request, options_.limit,
                                    [&] { return stopping() || IsGone(next->gone); });
  }
  const bool is_gone = absl::IsCancelled(answer.status());
  if (absl::IsDeadlineExceeded(answer.status())) {
    answer = absl::DeadlineExceededError(
        absl::StrCat("was not done within ", absl::FormatDuration(options_.limit)));
  }
  if (++process.checks >= options_.checks) process.process->End();
  process.since = BootNow();
  bool stopped = false;
  {
    absl::MutexLock lock(&mu_);
    --busy_;
    queue_.End(next->project);
    if (process.process->running()) idle_.push_back(std::move(process));
    stopped = stopping_;
    changed_.SignalAll();
  }
  if (stopped) return;
  next->done(is_gone ? CallerIsGone() : std::move(answer));
}

absl::Time CheckerPool::NextLook() const {
  absl::Time next = absl::InfiniteFuture();
  if (queue_.waiting() > 0) next = BootNow() + kAskWaiting;
  for (const Idle& idle : idle_) next = std::min(next, idle.since + options_.idle);
  return next;
}

// Ends idle processes, and answers checks that have waited too long or whose callers have left.
void CheckerPool::Look() {
  while (true) {
    std::vector<std::unique_ptr<Waiting>> left;
    std::vector<Idle> ended;
    {
      absl::MutexLock lock(&mu_);
      if (stopping_) return;
      changed_.WaitWithTimeout(&mu_, NextLook() - BootNow());
      if (stopping_) return;
      const absl::Time now = BootNow();
      left = queue_.Remove([now](const auto& w) { return now >= w->deadline || IsGone(w->gone); });
      const auto stay = std::stable_partition(idle_.begin(), idle_.end(), [&](const Idle& idle) {
        return now < idle.since + options_.idle;
      });
      std::move(stay, idle_.end(), std::back_inserter(ended));
      idle_.erase(stay, idle_.end());
    }
    for (const auto& waiting : left) {
      waiting->done(IsGone(waiting->gone) ? CallerIsGone() : Late(*waiting));
    }
  }
}

}  // namespace baton::controller
