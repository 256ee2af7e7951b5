#include "workers/engine/generation/speculation.h"

#include <algorithm>

#include "sdk/base/mutant.h"

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

DraftStats DraftStats::operator-(const DraftStats& before) const {
  DraftStats since = *this;
  since.pass_rows -= before.pass_rows;
  since.passes -= before.passes;
  since.rows -= before.rows;
  since.short_passes -= before.short_passes;
  since.judged -= before.judged;
  since.accepted -= before.accepted;
  since.bonus -= before.bonus;
  since.draft_seconds -= before.draft_seconds;
  since.verify_seconds -= before.verify_seconds;
  for (size_t depth = 0; depth < kDepths; ++depth) {
    since.proposed_at[depth] -= before.proposed_at[depth];
    since.accepted_at[depth] -= before.accepted_at[depth];
  }
  return since;
}

void Speculation::SetDrafter(Drafter* drafter) {
  EndAll();
  drafter_ = drafter;
}

void Speculation::Begin(const GenerateRequest& request) {
  if (drafter_ == nullptr) return;
  const Stopwatch watch(&stats_.draft_seconds);
  begun_[request.id] = kNoDraft;
  drafter_->Begin(request.id, request.prompt, request.resume);
}

// The clock is read once for all of them: on some machines that takes longer than to follow one.
void Speculation::Follow(const std::vector<GenerateUpdate>& updates) {
  if (begun_.empty()) return;
  const Stopwatch watch(&stats_.draft_seconds);
  for (const GenerateUpdate& update : updates) {
    const auto begun = begun_.find(update.id);
    if (begun == begun_.end()) continue;
    const int64_t verified = std::max<int64_t>(0, std::exchange(begun->second, kNoDraft));
    if (!update.new_tokens.empty()) drafter_->Append(update.id, update.new_tokens, verified);
    if (!update.finished) continue;
    begun_.erase(begun);
    drafter_->End(update.id);
  }
}

void Speculation::EndAll() {
  for (const auto& [id, verified] : begun_) drafter_->End(id);
  begun_.clear();
}

std::vector<std::pair<uint64_t, DraftTree>> Speculation::Ask(
    const std::vector<const Sequence*>& decoding) {
  std::vector<std::pair<uint64_t, DraftTree>> drafts;
  if (begun_.empty() || max_nodes_ == 0 || decoding.empty()) return drafts;
  const bool wanted = drafter_->WantsToDraft(static_cast<int64_t>(decoding.size()));
  if (!wanted && !Mutant("drafter-asked-at-rest")) return drafts;
  std::vector<uint64_t> ids;
  for (const Sequence* sequence : decoding) {
    const uint64_t id = sequence->request.id;
    if (begun_.count(id) > 0 && sequence->chain().empty()) ids.push_back(id);
  }
  if (ids.empty()) return drafts;
  const Stopwatch watch(&stats_.draft_seconds);
  std::vector<DraftTree> trees = drafter_->Draft(ids, max_nodes_);
  trees.resize(ids.size());
  int64_t left = max_nodes_;
  for (size_t i = 0; i < ids.size(); ++i) {
    DraftTree& tree = trees[i];
    if (tree.size() > left && !Mutant("draft-budget-for-each")) {
      tree.tokens.resize(left);
      tree.parents.resize(std::min(tree.parents.size(), tree.tokens.size()));
    }
    left = std::max<int64_t>(0, left - tree.size());
    if (tree.size() == 0) continue;
    begun_[ids[i]] = 0;
    drafts.emplace_back(ids[i], std::move(tree));
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
  const auto begun = begun_.find(drawn.update.id);
  if (begun != begun_.end() && begun->second != kNoDraft) begun->second = draw.draft_rows;
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
