#include "workers/ranks/score_loop.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/model/number_coder.h"

namespace baton::ranks {
namespace {

using Scores = std::vector<std::vector<float>>;

/// The first number of the leader's message; the sequences, or the order of the work, follow.
enum class Next : int64_t { kScore, kAlone };

/// The interval at which a rank that waits for the leader checks whether it still should.
constexpr absl::Duration kGiveUpInterval = absl::Milliseconds(50);

template <typename Coder>
void Code(Coder& coder, engine::TrainSequence& sequence) {
  coder.Numbers(sequence.tokens);
  coder.Number(sequence.prompt_length);
}

bool IsLoss(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

/// The reason why ranks cannot go on together after a forward pass; else OK. Errors about sequences
/// and weights are the same on all ranks. Other failures (no memory) are one rank's own, which has
/// left the others somewhere in the pass.
absl::Status LossOf(const absl::Status& status) {
  if (IsLoss(status)) return status;
  if (status.ok() || absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status)) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat("a rank failed apart from the others: ", status.ToString()));
}

}  // namespace

/// A request, or work to be run alone (then `work` is set).
struct ScoreLoop::Item {
  ScoreRequest request;
  std::function<absl::Status()> work;
  uint64_t order = 0;
  absl::Status* status = nullptr;
  absl::Notification* ran = nullptr;
};

struct ScoreLoop::Inbox {
  /// The leader's message; nullopt when it ended.
  using Words = std::optional<std::vector<int64_t>>;

  mutable absl::Mutex mu;
  std::deque<Item> items ABSL_GUARDED_BY(mu);
  std::deque<Words> heard ABSL_GUARDED_BY(mu);
  bool stopping ABSL_GUARDED_BY(mu) = false;
  absl::Status broken ABSL_GUARDED_BY(mu);
  bool hushed ABSL_GUARDED_BY(mu) = false;
  Stats stats ABSL_GUARDED_BY(mu);

  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mu) {
    return stopping || !items.empty() || (!broken.ok() && !hushed);
  }
  bool HasItem() const ABSL_SHARED_LOCKS_REQUIRED(mu) {
    return stopping || !items.empty() || !broken.ok();
  }
  bool HasWord() const ABSL_SHARED_LOCKS_REQUIRED(mu) {
    return stopping || !heard.empty() || (!broken.ok() && (!items.empty() || !hushed));
  }

  /// Takes out the work of `ran`. False: it does not wait any more.
  bool Withdraw(const absl::Notification& ran) {
    absl::MutexLock lock(&mu);
    for (auto it = items.begin(); it != items.end(); ++it) {
      if (it->ran != &ran) continue;
      items.erase(it);
      return true;
    }
    return false;
  }

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

ScoreLoop::ScoreLoop(std::unique_ptr<engine::Communicator> control, const Options& options)
    : options_(options),
      alone_(control == nullptr),
      follows_(!alone_ && control->rank() > 0),
      inbox_(std::make_shared<Inbox>()),
      control_(std::move(control)) {
  if (alone_) return;
  if (follows_) {
    hearer_ = std::thread([this] { Hear(); });
  } else {
    leader_ = std::make_unique<engine::GroupLeader>(
        control_.get(), options_.keep_alive, [this](const absl::Status& why) { Break(why); });
  }
}

ScoreLoop::~ScoreLoop() {
  {
    absl::MutexLock lock(&inbox_->mu);
    inbox_->stopping = true;
  }
  leaving_ = true;
  if (thread_.joinable()) thread_.join();
  Refuse(absl::CancelledError("the role was released"));
  leader_.reset();
  if (hearer_.joinable()) hearer_.join();
}

void ScoreLoop::Start(int64_t max_token_len, Score score) {
  max_token_len_ = max_token_len;
  score_ = std::move(score);
  thread_ = std::thread([this] { follows_ ? FollowWork() : Work(); });
}

void ScoreLoop::Add(ScoreRequest request) {
  if (follows_) {
    return request.done(absl::FailedPreconditionError(
        "this rank follows the first of its tensor group, which is to be asked"));
  }
  Item item;
  item.request = std::move(request);
  absl::MutexLock lock(&inbox_->mu);
  inbox_->items.push_back(std::move(item));
}

absl::Status ScoreLoop::RunAlone(std::function<absl::Status()> work, uint64_t order,
                                 const std::function<bool()>& cancelled) {
  absl::Status status;
  absl::Notification ran;
  const std::shared_ptr<Inbox> inbox = inbox_;  // which may outlive the loop here
  const bool may_give_up = follows_ && cancelled;
  Item item;
  item.work = std::move(work);
  item.order = order;
  item.status = &status;
  item.ran = &ran;
  {
    absl::MutexLock lock(&inbox->mu);
    inbox->items.push_back(std::move(item));
  }
  while (may_give_up && !ran.WaitForNotificationWithTimeout(kGiveUpInterval)) {
    if (cancelled() && inbox->Withdraw(ran)) {
      return absl::CancelledError("cancelled before rank 0 of this tensor group began it");
    }
  }
  ran.WaitForNotification();
  return status;
}

ScoreLoop::Stats ScoreLoop::stats() const {
  absl::MutexLock lock(&inbox_->mu);
  return inbox_->stats;
}

void ScoreLoop::Break(const absl::Status& why) {
  absl::MutexLock lock(&inbox_->mu);
  if (inbox_->broken.ok()) inbox_->broken = why;
}

void ScoreLoop::Hush() {
  leaving_ = true;
  if (!follows_) {
    leader_.reset();
    control_.reset();
  }
  absl::MutexLock lock(&inbox_->mu);
  inbox_->hushed = true;
}

void ScoreLoop::Refuse(const absl::Status& why) {
  std::deque<Item> left;
  {
    absl::MutexLock lock(&inbox_->mu);
    left.swap(inbox_->items);
  }
  for (Item& item : left) {
    if (item.work) {
      *item.status = why;
      item.ran->Notify();
    } else {
      item.request.done(why);
    }
  }
}

absl::Status ScoreLoop::Say(const std::vector<int64_t>& words) {
  if (leader_ == nullptr) return absl::OkStatus();
  const absl::Status said = leader_->Say(words);
  if (!said.ok()) Break(said);
  return said;
}

void ScoreLoop::Work() {
  while (true) {
    Item alone;
    std::vector<ScoreRequest> batch;
    absl::Status broken;
    {
      absl::MutexLock lock(&inbox_->mu);
      inbox_->mu.Await(absl::Condition(inbox_.get(), &Inbox::HasWork));
      if (inbox_->stopping) return;
      broken = inbox_->broken;
      if (broken.ok() && inbox_->items.front().work) {
        alone = std::move(inbox_->items.front());
        inbox_->items.pop_front();
      } else if (broken.ok()) {
        batch = inbox_->TakeBatch(max_token_len_);
      }
    }
    if (!broken.ok()) {
      Hush();
      Refuse(broken);
    } else if (alone.work) {
      engine::NumberWriter words;
      Next next = Next::kAlone;
      words.Number(next);
      words.Number(alone.order);
      const absl::Status said = Say(words.numbers);
      if (!said.ok()) alone.work = [&] { return said; };
      Run(std::move(alone));
    } else {
      Answer(std::move(batch));
    }
  }
}

void ScoreLoop::Run(Item item) {
  try {
    *item.status = item.work();
  } catch (const std::exception& error) {
    *item.status = absl::InternalError(absl::StrCat("it threw an exception: ", error.what()));
  }
  if (!alone_ && IsLoss(*item.status)) Break(*item.status);
  item.ran->Notify();
}

absl::StatusOr<Scores> ScoreLoop::Compute(absl::Span<engine::TrainSequence> sequences) {
  if (leader_ != nullptr) {
    engine::NumberWriter words;
    Next next = Next::kScore;
    words.Number(next);
    for (engine::TrainSequence& sequence : sequences) Code(words, sequence);
    BATON_RETURN_IF_ERROR(Say(words.numbers));
  }
  auto scores = score_(sequences);
  if (scores.ok() && scores->size() != sequences.size()) {
    scores = absl::InternalError(absl::StrCat("the model answered ", scores->size(), " of ",
                                              sequences.size(), " sequences"));
  }
  if (alone_) return scores;
  if (const absl::Status lost = LossOf(scores.status()); !lost.ok()) {
    Break(lost);
    return lost;
  }
  return scores;
}

void ScoreLoop::Answer(std::vector<ScoreRequest> batch) {
  std::vector<engine::TrainSequence> sequences;
  std::vector<ScoreRequest*> waiting;
  for (ScoreRequest& request : batch) {
    if (request.cancelled && request.cancelled()) {
      request.done(absl::CancelledError("no caller waits for it any more"));
      continue;
    }
    sequences.push_back(std::move(request.sequence));
    waiting.push_back(&request);
  }
  if (waiting.empty()) return;
  auto scores = Compute(absl::MakeSpan(sequences));
  {
    absl::MutexLock lock(&inbox_->mu);
    inbox_->stats.sequences += static_cast<int64_t>(waiting.size());
    ++inbox_->stats.batches;
  }
  const bool final = waiting.size() == 1 || (!alone_ && IsLoss(scores.status()));
  absl::Status lost;
  for (size_t i = 0; i < waiting.size(); ++i) {
    if (scores.ok()) {
      waiting[i]->done(std::move((*scores)[i]));
      continue;
    }
    if (final || !lost.ok()) {
      waiting[i]->done(final ? scores.status() : lost);
      continue;
    }
    auto single = Compute(absl::MakeSpan(&sequences[i], 1));
    if (single.ok()) {
      waiting[i]->done(std::move(single->front()));
    } else {
      if (!alone_ && IsLoss(single.status())) lost = single.status();
      waiting[i]->done(single.status());
    }
  }
}

void ScoreLoop::Hear() {
  bool hears = true;
  while (hears) {
    auto words = engine::ReceiveFromLeader(*control_, leaving_);
    if (!words.ok()) {
      Break(words.status());
      break;
    }
    hears = words->has_value();
    absl::MutexLock lock(&inbox_->mu);
    inbox_->heard.push_back(*std::move(words));
  }
  control_.reset();
}

void ScoreLoop::FollowWork() {
  while (true) {
    Inbox::Words words;
    absl::Status broken;
    {
      absl::MutexLock lock(&inbox_->mu);
      inbox_->mu.Await(absl::Condition(inbox_.get(), &Inbox::HasWord));
      if (inbox_->stopping) return;
      broken = inbox_->broken;
      if (broken.ok()) {
        words = std::move(inbox_->heard.front());
        inbox_->heard.pop_front();
      } else {
        inbox_->heard.clear();
      }
    }
    if (!broken.ok()) {
      Hush();
      Refuse(broken);
      continue;
    }
    if (!words.has_value()) {
      Break(absl::UnavailableError("rank 0 of this tensor group, which leads, has left the role"));
      continue;
    }
    engine::NumberReader reader(*std::move(words));
    Next next = Next::kScore;
    reader.Number(next);
    if (next == Next::kAlone) {
      uint64_t order = 0;
      reader.Number(order);
      if (const absl::Status status = FollowRun(order); !status.ok()) Break(status);
      continue;
    }
    std::vector<engine::TrainSequence> sequences;
    while (!reader.done()) Code(reader, sequences.emplace_back());
    Compute(absl::MakeSpan(sequences)).status().IgnoreError();  // the leader answers
  }
}

absl::Status ScoreLoop::FollowRun(uint64_t order) {
  Item item;
  {
    absl::MutexLock lock(&inbox_->mu);
    if (!inbox_->mu.AwaitWithTimeout(absl::Condition(inbox_.get(), &Inbox::HasItem),
                                     options_.patience)) {
      return absl::DeadlineExceededError(absl::StrCat(
          "rank 0 of this tensor group began command ", order,
          ", which this rank was not given within ", absl::FormatDuration(options_.patience)));
    }
    if (inbox_->stopping || !inbox_->broken.ok()) return absl::OkStatus();  // seen by who called
    if (inbox_->items.front().order != order) {
      return absl::UnavailableError(absl::StrCat("rank 0 of this tensor group began command ",
                                                 order, ", this rank was given ",
                                                 inbox_->items.front().order));
    }
    item = std::move(inbox_->items.front());
    inbox_->items.pop_front();
  }
  Run(std::move(item));
  return absl::OkStatus();
}

}  // namespace baton::ranks
