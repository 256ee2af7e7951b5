#include "workers/rollout/speculation/history_fetcher.h"

#include <algorithm>
#include <utility>

namespace baton::rollout {
namespace {

// The controller is away, busy or slow, and may answer later.
bool MayPass(const absl::Status& error) {
  return absl::IsUnavailable(error) || absl::IsResourceExhausted(error) ||
         absl::IsDeadlineExceeded(error) || absl::IsCancelled(error) || absl::IsInternal(error) ||
         absl::IsUnknown(error) || absl::IsAborted(error);
}

uint64_t KeyOf(const HistoryPrompt& prompt) {
  return prompt.prompt_id << 1 | (prompt.of_evaluation ? 1 : 0);
}

}  // namespace

HistoryFetcher::HistoryFetcher(std::unique_ptr<HistorySource> source, TreeDrafter* drafter,
                               HistoryFetcherOptions options)
    : source_(std::move(source)),
      drafter_(drafter),
      options_(options),
      rest_(options.rest),
      thread_([this] { Work(); }) {}

HistoryFetcher::~HistoryFetcher() { Stop(); }

void HistoryFetcher::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  source_->Cancel();
  if (thread_.joinable()) thread_.join();
}

void HistoryFetcher::Ask(HistoryPrompt prompt) {
  const uint64_t key = KeyOf(prompt);
  {
    absl::MutexLock lock(&mu_);
    if (stopping_ || waiting_.size() >= options_.most_waiting) return;
    if (asked_.contains(key)) return;
  }
  if (drafter_->Knows(prompt.tokens)) return;
  absl::MutexLock lock(&mu_);
  asked_.insert(key);
  waiting_.push_back({std::move(prompt)});
}

std::vector<HistoryFetcher::Waiting> HistoryFetcher::Await() {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(this, &HistoryFetcher::Wakes));
  std::vector<Waiting> next;
  while (!stopping_ && !waiting_.empty() && next.size() < options_.most_at_once) {
    next.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return next;
}

void HistoryFetcher::Work() {
  while (true) {
    std::vector<Waiting> next = Await();
    if (next.empty()) return;
    std::vector<HistoryPrompt> prompts;
    prompts.reserve(next.size());
    for (const Waiting& one : next) prompts.push_back(one.prompt);
    const auto history = source_->Fetch(prompts);
    if (history.ok()) {
      rest_ = options_.rest;
      Add(prompts, *history);
    } else if (!Rest(history.status(), std::move(next))) {
      return;
    }
  }
}

bool HistoryFetcher::Rest(const absl::Status& error, std::vector<Waiting> failed) {
  absl::MutexLock lock(&mu_);
  if (!MayPass(error)) {
    stopping_ = true;  // nothing more is asked for
    waiting_.clear();
    return false;
  }
  for (auto it = failed.rbegin(); it != failed.rend(); ++it) {
    // A controller that is busy with others says nothing of this prompt.
    const bool again = absl::IsResourceExhausted(error) || ++it->tries < options_.most_tries;
    if (again) waiting_.push_front(std::move(*it));
  }
  mu_.AwaitWithTimeout(absl::Condition(&stopping_), rest_);
  rest_ = std::min(2 * rest_, options_.longest_rest);
  return true;
}

// The newest response comes first and is added last, for a tree that grows too large keeps those
// that were added last.
void HistoryFetcher::Add(absl::Span<const HistoryPrompt> prompts,
                         absl::Span<const HistoryResponse> history) {
  absl::flat_hash_set<absl::Span<const int32_t>> wanted;
  for (const HistoryPrompt& prompt : prompts) wanted.emplace(prompt.tokens);
  for (size_t i = history.size(); i-- > 0 && !stopping();) {
    const HistoryResponse& said = history[i];
    // The data may have changed: then it was another prompt.
    if (!wanted.contains(said.prompt)) continue;
    if (!drafter_->AddEarlier(said.prompt, said.tokens, said.policy_version).ok()) continue;
    tokens_ += static_cast<int64_t>(said.tokens.size());
  }
}

}  // namespace baton::rollout
