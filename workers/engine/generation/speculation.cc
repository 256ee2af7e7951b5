#include "workers/engine/generation/speculation.h"

#include <algorithm>
#include <cstddef>

namespace baton::engine {
namespace {

using Clock = Speculation::Clock;

double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// Adds the time of its life to `seconds`.
class Stopwatch {
 public:
  explicit Stopwatch(double* seconds) : seconds_(seconds) {}
  ~Stopwatch() { *seconds_ += Seconds(Clock::now() - began_); }

 private:
  double* const seconds_;
  const Clock::time_point began_ = Clock::now();
};

}  // namespace

void Speculation::SetDrafter(Drafter* drafter) {
  EndAll();
  drafter_ = drafter;
}

void Speculation::Begin(const GenerateRequest& request) {
  if (drafter_ == nullptr) return;
  const Stopwatch watch(&stats_.draft_seconds);
  begun_.insert(request.id);
  drafter_->Begin(request.id, request.prompt, request.resume);
}

// The clock is read once for all of them: on some machines that takes longer than to follow one.
void Speculation::Follow(const std::vector<GenerateUpdate>& updates) {
  if (begun_.empty()) return;
  const Stopwatch watch(&stats_.draft_seconds);
  for (const GenerateUpdate& update : updates) {
    if (begun_.count(update.id) == 0) continue;
    if (!update.new_tokens.empty()) {
      drafter_->Append(update.id, update.new_tokens, OutcomeOf(update.id));
    }
    if (!update.finished) continue;
    begun_.erase(update.id);
    drafter_->End(update.id);
  }
  proposed_.clear();
}

DraftOutcome Speculation::OutcomeOf(uint64_t id) const {
  const auto proposed = proposed_.find(id);
  if (proposed == proposed_.end()) return {};
  const auto& [nodes, computed, path] = proposed->second;
  return {absl::MakeConstSpan(nodes).subspan(0, computed), path};
}

void Speculation::EndAll() {
  for (const uint64_t id : begun_) drafter_->End(id);
  begun_.clear();
  proposed_.clear();
}

std::vector<std::pair<uint64_t, DraftTree>> Speculation::Ask(
    const std::vector<const Sequence*>& decoding) {
  if (begun_.empty() || max_nodes_ == 0 || decoding.empty()) return {};
  const bool wanted = drafter_->WantsToDraft(static_cast<int64_t>(decoding.size()));
  if (!wanted) return {};
  std::vector<uint64_t> ids;
  std::vector<int64_t> depths;
  for (const Sequence* sequence : decoding) {
    const uint64_t id = sequence->request.id;
    if (begun_.count(id) == 0 || !sequence->chain().empty()) continue;
    ids.push_back(id);
    depths.push_back(sequence->most_to_compute());
  }
  if (ids.empty()) return {};
  const Stopwatch watch(&stats_.draft_seconds);
  std::vector<DraftTree> trees = drafter_->Draft(ids, max_nodes_);
  std::vector<std::pair<uint64_t, DraftTree>> drafts;
  int64_t left = max_nodes_;
  for (size_t i = 0; i < std::min(ids.size(), trees.size()); ++i) {
    const int64_t nodes = std::min(trees[i].size(), left);
    if (nodes == 0) continue;
    left -= nodes;
    proposed_[ids[i]].nodes = PruneDraft({vocab_size_, depths[i], nodes}, &trees[i]);
    drafts.emplace_back(ids[i], std::move(trees[i]));
  }
  return drafts;
}

void Speculation::AskNothing() {
  if (!begun_.empty() && max_nodes_ > 0) ++stats_.short_passes;
}

void Speculation::Count(const StepPlan::Draw& draw, const Verification& drawn) {
  if (draw.draft.size() == 0) return;
  const int64_t deepest = DraftStats::kDepths - 1;
  for (const int32_t depth : DraftDepths(draw.draft)) {
    ++stats_.proposed_at[std::min<int64_t>(depth, deepest)];
  }
  const auto accepted = static_cast<int64_t>(drawn.path.size());
  for (int64_t depth = 0; depth < accepted; ++depth) {
    ++stats_.accepted_at[std::min(depth, deepest)];
  }
  stats_.judged += drawn.judged;
  stats_.accepted += accepted;
  stats_.rows += draw.draft_rows;
  if (const auto found = proposed_.find(drawn.update.id); found != proposed_.end()) {
    Proposed& proposed = found->second;
    proposed.computed = static_cast<size_t>(draw.draft_rows);
    for (const int32_t node : drawn.path) {
      proposed.path.push_back(proposed.nodes[node]);
    }
  }
  if (draw.draft_rows > 0) {
    stats_.bonus += static_cast<int64_t>(drawn.update.new_tokens.size()) - accepted;
  }
}

void Speculation::CountPass(int64_t rows, int64_t draft_rows, Clock::duration time) {
  stats_.pass_rows += rows;
  if (drafter_ != nullptr && rows > 0) drafter_->PassDone(rows, Seconds(time));
  if (draft_rows == 0) return;
  ++stats_.passes;
  stats_.verify_seconds += Seconds(time);
}

}  // namespace baton::engine
