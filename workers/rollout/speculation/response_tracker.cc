#include "workers/rollout/speculation/response_tracker.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/hash/hash.h"

namespace baton::rollout {
namespace {

// Tokens of a running response, and of all that ended, that wait to be followed.
constexpr size_t kMostWaiting = 2048;
constexpr int64_t kMostEnded = 1 << 20;
// Tokens of ended responses that are followed in one pass: some milliseconds.
constexpr int64_t kMostAtOnce = 1 << 13;

}  // namespace

void ResponseTracker::SetActorUpdates(int64_t updates) {
  absl::MutexLock lock(&age_mu_);
  if (actor_updates_ >= 0) age_ += std::abs(updates - actor_updates_);
  if (actor_updates_ < 0) age_ = updates;
  actor_updates_ = updates;
}

// A response counts for less with each update that lies between its weights and those of now,
// wherever a rollback has led.
absl::Status ResponseTracker::AddEarlier(absl::Span<const int32_t> prompt,
                                         absl::Span<const int32_t> response,
                                         uint64_t policy_version) {
  int64_t age = 0;
  if (policy_version != 0) {
    absl::MutexLock lock(&age_mu_);
    const auto version = static_cast<int64_t>(policy_version);
    age = std::max<int64_t>(age_ - std::abs(actor_updates_ - version), 0);
  }
  return cache_->Add(prompt, response, age);
}

void ResponseTracker::Begin(uint64_t id, absl::Span<const int32_t> prompt,
                            absl::Span<const int32_t> resumed) {
  Running& response = running_[id];
  response.prompt.assign(prompt.begin(), prompt.end());
  response.prompt_hash = absl::HashOf(prompt);
  response.waiting.assign(resumed.begin(), resumed.end());
  absl::MutexLock lock(&age_mu_);
  response.age = age_;
}

void ResponseTracker::Append(uint64_t id, absl::Span<const int32_t> tokens) {
  const auto found = running_.find(id);
  if (found == running_.end()) return;
  std::vector<int32_t>& waiting = found->second.waiting;
  waiting.insert(waiting.end(), tokens.begin(), tokens.end());
  if (waiting.size() >= kMostWaiting && !PutIntoTree(found->second)) running_.erase(found);
}

// False: it has a number that is no token. The engine draws tokens only; a resumed number may be
// anything, and then the response gets no drafts.
bool ResponseTracker::PutIntoTree(Running& response) {
  if (response.cursor == nullptr) response.cursor = cache_->Begin(response.prompt, response.age);
  const bool ok = response.waiting.empty() || response.cursor->Append(response.waiting).ok();
  response.waiting.clear();
  return ok;
}

ResponseCursor* ResponseTracker::Follow(uint64_t id, int64_t* followed) {
  const auto found = running_.find(id);
  if (found == running_.end()) return nullptr;
  Running& response = found->second;
  while (*followed < kMostAtOnce) {
    const auto ended = ended_of_prompt_.find(response.prompt_hash);
    if (ended == ended_of_prompt_.end()) break;
    *followed += FollowFirst(ended->second);
  }
  *followed += static_cast<int64_t>(response.waiting.size());
  if (PutIntoTree(response)) return response.cursor.get();
  running_.erase(found);
  return nullptr;
}

ResponseTracker::Said ResponseTracker::TakeFirst(std::list<Ended>::iterator ended) {
  Said said = std::move(ended->responses.front());
  ended->responses.pop_front();
  ended_tokens_ -= said.size();
  if (ended->responses.empty()) {
    ended_of_prompt_.erase(ended->prompt_hash);
    ended_.erase(ended);
  }
  return said;
}

int64_t ResponseTracker::FollowFirst(std::list<Ended>::iterator ended) {
  const Said said = TakeFirst(ended);
  // Appending fails if a resumed number was no token; nothing of the response is learned then.
  cache_->Add(said.prompt, said.tokens, said.age).IgnoreError();
  return said.size();
}

bool ResponseTracker::CatchUp(int64_t tokens) {
  while (!ended_.empty() && tokens > 0) tokens -= FollowFirst(ended_.begin());
  return !ended_.empty();
}

void ResponseTracker::End(uint64_t id) {
  const auto found = running_.find(id);
  if (found == running_.end()) return;
  Running response = std::move(found->second);
  running_.erase(found);
  if (response.cursor != nullptr) {
    PutIntoTree(response);                 // The response's cursor holds the tree in memory.
  } else if (!response.waiting.empty()) {  // Otherwise the response never ran.
    Wait(std::move(response));
  }
}

void ResponseTracker::Wait(Running response) {
  const auto [of_prompt, is_first] = ended_of_prompt_.try_emplace(response.prompt_hash);
  if (is_first) {
    of_prompt->second = ended_.insert(ended_.end(), Ended());
    of_prompt->second->prompt_hash = response.prompt_hash;
  }
  Said said = {std::move(response.prompt), std::move(response.waiting), response.age};
  ended_tokens_ += said.size();
  of_prompt->second->responses.push_back(std::move(said));
  // None of these responses was asked for a draft, so if so many wait, drafts do not pay.
  while (ended_tokens_ > kMostEnded) TakeFirst(ended_.begin());
}

}  // namespace baton::rollout
