#include "workers/trainer/score_loop.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace baton::trainer {

/// A request, or work to be run alone (then `work` is set).
struct ScoreLoop::Item {
  ScoreRequest request;
  std::function<absl::Status()> work;
  absl::Status* status = nullptr;
  absl::Notification* ran = nullptr;
};

struct ScoreLoop::Inbox {
  mutable absl::Mutex mu;
  std::deque<Item> items ABSL_GUARDED_BY(mu);
  bool stopping ABSL_GUARDED_BY(mu) = false;
  Stats stats ABSL_GUARDED_BY(mu);

  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mu) { return stopping || !items.empty(); }

  /// Requests from the front on that fit `budget`, the first of them in any case.
  std::vector<ScoreRequest> TakeBatch(int64_t budget) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    std::vector<ScoreRequest> batch;
    int64_t longest = 1;
    while (!items.empty() && !items.front().work) {
      ScoreRequest& next = items.front().request;
      longest = std::max(longest, static_cast<int64_t>(next.sequence.tokens.size()));
      if (!batch.empty() && longest > budget / static_cast<int64_t>(batch.size() + 1)) break;
      batch.push_back(std::move(next));
      items.pop_front();
    }
    return batch;
  }
};

ScoreLoop::ScoreLoop(int64_t max_token_len, Score score)
    : max_token_len_(max_token_len),
      score_(std::move(score)),
      inbox_(std::make_unique<Inbox>()),
      thread_([this] { Work(); }) {}

ScoreLoop::~ScoreLoop() {
  {
    absl::MutexLock lock(&inbox_->mu);
    inbox_->stopping = true;
  }
  thread_.join();
}

void ScoreLoop::Add(ScoreRequest request) {
  Item item;
  item.request = std::move(request);
  absl::MutexLock lock(&inbox_->mu);
  inbox_->items.push_back(std::move(item));
}

absl::Status ScoreLoop::RunAlone(std::function<absl::Status()> work) {
  absl::Status status;
  absl::Notification ran;
  Item item;
  item.work = std::move(work);
  item.status = &status;
  item.ran = &ran;
  {
    absl::MutexLock lock(&inbox_->mu);
    inbox_->items.push_back(std::move(item));
  }
  ran.WaitForNotification();
  return status;
}

ScoreLoop::Stats ScoreLoop::stats() const {
  absl::MutexLock lock(&inbox_->mu);
  return inbox_->stats;
}

void ScoreLoop::Work() {
  while (true) {
    Item alone;
    std::vector<ScoreRequest> batch;
    {
      absl::MutexLock lock(&inbox_->mu);
      inbox_->mu.Await(absl::Condition(inbox_.get(), &Inbox::HasWork));
      if (inbox_->stopping) break;
      if (inbox_->items.front().work) {
        alone = std::move(inbox_->items.front());
        inbox_->items.pop_front();
      } else {
        batch = inbox_->TakeBatch(max_token_len_);
      }
    }
    if (alone.work) {
      *alone.status = alone.work();
      alone.ran->Notify();
    } else {
      Answer(std::move(batch));
    }
  }
  std::deque<Item> left;
  {
    absl::MutexLock lock(&inbox_->mu);
    left.swap(inbox_->items);
  }
  const absl::Status why = absl::CancelledError("the role was released");
  for (Item& item : left) {
    if (item.work) {
      *item.status = why;
      item.ran->Notify();
    } else {
      item.request.done(why);
    }
  }
}

void ScoreLoop::Answer(std::vector<ScoreRequest> batch) {
  std::vector<engine::TrainSequence> sequences;
  std::vector<ScoreRequest*> waiting;
  for (ScoreRequest& request : batch) {
    if (request.cancelled && request.cancelled()) {
      request.done(absl::CancelledError("nobody waits for it any more"));
      continue;
    }
    sequences.push_back(std::move(request.sequence));
    waiting.push_back(&request);
  }
  if (waiting.empty()) return;
  auto scores = score_(sequences);
  if (scores.ok() && scores->size() != waiting.size()) {
    scores = absl::InternalError(
        absl::StrCat("the model answered ", scores->size(), " of ", waiting.size(), " sequences"));
  }
  {
    absl::MutexLock lock(&inbox_->mu);
    inbox_->stats.sequences += static_cast<int64_t>(waiting.size());
    ++inbox_->stats.batches;
  }
  for (size_t i = 0; i < waiting.size(); ++i) {
    if (scores.ok()) {
      waiting[i]->done(std::move((*scores)[i]));
      continue;
    }
    auto alone =
        waiting.size() == 1 ? std::move(scores) : score_(absl::MakeConstSpan(&sequences[i], 1));
    if (alone.ok()) {
      waiting[i]->done(std::move(alone->front()));
    } else {
      waiting[i]->done(alone.status());
    }
  }
}

}  // namespace baton::trainer
