#include "bench/speculation/speculation_drafters.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace baton::bench {
namespace {

void CheckDrafter(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "speculation_engine_bench: %s\n", std::string(status.message()).c_str());
  std::exit(1);
}

std::unique_ptr<rollout::TreeCache> NewCache() {
  auto cache = rollout::TreeCache::Create({});
  CheckDrafter(cache.status());
  return *std::move(cache);
}

}  // namespace

void OracleDrafter::Begin(uint64_t id, absl::Span<const int32_t> prompt,
                          absl::Span<const int32_t> resumed) {
  said_[id] = resumed.size();
}

void OracleDrafter::Append(uint64_t id, absl::Span<const int32_t> tokens,
                           const engine::DraftOutcome& outcome) {
  said_[id] += tokens.size();
}

std::vector<engine::DraftTree> OracleDrafter::Draft(absl::Span<const uint64_t> ids,
                                                    int64_t max_nodes) {
  std::vector<int64_t> lengths(ids.size(), 0);
  bool more = true;
  for (int64_t left = max_nodes; more && left > 0;) {
    more = false;
    for (size_t i = 0; i < ids.size() && left > 0; ++i) {
      const auto rest =
          static_cast<int64_t>(epoch_.responses[ids[i]].tokens.size() - said_.at(ids[i])) - 1;
      if (lengths[i] >= std::min(rest, most_)) continue;
      ++lengths[i];
      --left;
      more = true;
    }
  }
  std::vector<engine::DraftTree> drafts;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto all = absl::MakeConstSpan(epoch_.responses[ids[i]].tokens);
    drafts.push_back(
        engine::ChainDraft(all.subspan(said_.at(ids[i]), static_cast<size_t>(lengths[i]))));
  }
  return drafts;
}

std::vector<int32_t> IsolatedDrafter::KeyOf(absl::Span<const int32_t> prompt, uint64_t id) {
  std::vector<int32_t> key(prompt.begin(), prompt.end());
  key.push_back(static_cast<int32_t>(id));
  return key;
}

bool CpuClockDrafter::WantsToDraft(int64_t decoding) {
  const bool wants = drafter_.WantsToDraft(decoding);
  asked_at_ = ThreadSeconds();
  return wants;
}

std::vector<engine::DraftTree> CpuClockDrafter::Draft(absl::Span<const uint64_t> ids,
                                                      int64_t max_nodes) {
  std::vector<engine::DraftTree> drafts = drafter_.Draft(ids, max_nodes);
  asked_at_ = ThreadSeconds();
  return drafts;
}

// A pass that decodes nothing began without a question, later than asked_at_.
void CpuClockDrafter::PassDone(int64_t rows, double seconds) {
  drafter_.PassDone(rows, std::min(seconds, ThreadSeconds() - asked_at_));
}

History ResponsesOf(const Epoch& epoch) {
  History history;
  for (const Epoch::Response& response : epoch.responses) history.push_back(response.tokens);
  return history;
}

History MisleadingHistory(const Epoch& epoch, const Stretches& stretches, int64_t vocab_size) {
  std::mt19937_64 rng(29);
  History history = ResponsesOf(epoch);
  for (std::vector<int32_t>& tokens : history) {
    size_t right = stretches.right, random = stretches.random;
    for (int32_t& token : tokens) {
      if (right > 0) {
        --right;
        continue;
      }
      token = static_cast<int32_t>(rng() % static_cast<uint64_t>(vocab_size));
      if (--random == 0) right = stretches.right, random = stretches.random;
    }
  }
  return history;
}

std::unique_ptr<rollout::TreeDrafter> DrafterWith(const EpochLoad& load, const History& history) {
  auto cache = NewCache();
  for (size_t i = 0; i < history.size(); ++i) {
    CheckDrafter(cache->Add(load.PromptOf(i), history[i], 0));
  }
  auto drafter = std::make_unique<rollout::TreeDrafter>(std::move(cache));
  drafter->SetActorUpdates(1);
  return drafter;
}

std::unique_ptr<rollout::TreeDrafter> IsolatedDrafterWith(const EpochLoad& load,
                                                          const History& history) {
  auto cache = NewCache();
  const auto samples = static_cast<size_t>(load.samples);
  for (size_t i = 0; i < history.size(); ++i) {
    // Each sibling knows it.
    for (size_t id = i - i % samples; id < i - i % samples + samples; ++id) {
      CheckDrafter(cache->Add(IsolatedDrafter::KeyOf(load.PromptOf(i), id), history[i], 0));
    }
  }
  return std::make_unique<IsolatedDrafter>(std::move(cache));
}

}  // namespace baton::bench
