#include "workers/engine/speculation.h"

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

void Speculation::Follow(const GenerateUpdate& update) {
  if (begun_.count(update.id) == 0) return;
  const Stopwatch watch(&stats_.draft_seconds);
  if (!update.new_tokens.empty()) drafter_->Append(update.id, update.new_tokens);
  if (!update.finished) return;
  begun_.erase(update.id);
  drafter_->End(update.id);
}

void Speculation::EndAll() {
  for (const uint64_t id : begun_) drafter_->End(id);
  begun_.clear();
}

std::vector<std::pair<uint64_t, DraftTree>> Speculation::Ask(
    const std::vector<const Sequence*>& decoding) {
  std::vector<std::pair<uint64_t, DraftTree>> drafts;
  std::vector<Drafter::Query> queries;
  for (const Sequence* sequence : decoding) {
    const uint64_t id = sequence->request.id;
    if (begun_.count(id) > 0 && sequence->chain().empty()) queries.push_back({id, 0});
  }
  if (queries.empty()) return drafts;
  int64_t share = max_nodes_ / static_cast<int64_t>(queries.size());
  if (Mutant("draft-budget-for-each")) share = max_nodes_;
  if (share == 0) return drafts;
  for (Drafter::Query& query : queries) query.max_nodes = share;
  const Stopwatch watch(&stats_.draft_seconds);
  std::vector<DraftTree> trees = drafter_->Draft(queries);
  trees.resize(queries.size());
  for (size_t i = 0; i < queries.size(); ++i) {
    DraftTree& tree = trees[i];
    if (tree.size() > share) {
      tree.tokens.resize(share);
      tree.parents.resize(std::min(tree.parents.size(), tree.tokens.size()));
    }
    if (tree.size() > 0) drafts.emplace_back(queries[i].id, std::move(tree));
  }
  return drafts;
}

void Speculation::Count(const StepPlan::Draw& draw, const Verification& drawn) {
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
  if (draw.draft_rows > 0) {
    stats_.bonus += static_cast<int64_t>(drawn.update.new_tokens.size()) - accepted;
  }
}

void Speculation::CountPass(int64_t draft_rows, Clock::duration time) {
  if (draft_rows == 0) return;
  ++stats_.passes;
  stats_.verify_seconds += Seconds(time);
}

}  // namespace baton::engine
