#include "controller/core/prompts/draw_ledger.h"

#include <algorithm>
#include <iterator>

#include "sdk/common/base/mutant.h"

namespace baton::controller {

// ---- DrawSet ------------------------------------------------------------------------------------

void DrawSet::Add(uint64_t draw) {
  if (Contains(draw)) return;
  ++size_;
  auto next = ranges_.upper_bound(draw);
  const bool joins_next = next != ranges_.end() && next->first == draw + 1;
  const uint64_t last = joins_next ? next->second : draw;
  if (joins_next) next = ranges_.erase(next);
  if (next != ranges_.begin() && std::prev(next)->second + 1 == draw) {
    std::prev(next)->second = last;
  } else {
    ranges_.emplace_hint(next, draw, last);
  }
}

uint64_t DrawSet::Skip(uint64_t draw) const {
  const auto after = ranges_.upper_bound(draw);
  if (after == ranges_.begin()) return draw;
  const uint64_t last = std::prev(after)->second;
  return last >= draw ? last + 1 : draw;
}

void DrawSet::Restore(const google::protobuf::RepeatedPtrField<store::v1::DrawRange>& rows) {
  ranges_.clear();
  size_ = 0;
  for (const store::v1::DrawRange& row : rows) {
    ranges_[row.first()] = row.last();
    size_ += row.last() - row.first() + 1;
  }
}

void DrawSet::Save(google::protobuf::RepeatedPtrField<store::v1::DrawRange>* rows) const {
  for (const auto& [first, last] : ranges_) {
    store::v1::DrawRange* const row = rows->Add();
    row->set_first(first);
    row->set_last(last);
  }
}

// ---- DrawLedger ---------------------------------------------------------------------------------

void DrawLedger::Restore(const store::v1::JobRow& row) {
  spent_.Restore(row.spent());
  saved_.Restore(row.saved_spent());
  for (const store::v1::OpenDraws& open : row.open_draws()) {
    for (uint64_t i = 0; i < open.count(); ++i) {
      open_[open.draw() + i] = open.first_birth() + i * open.per_draw();
    }
    for (const uint32_t sample : open.given_up()) GiveUp(open.draw(), sample);
  }
}

// The row is written for every group that begins, so runs of regular groups are stored as one
// entry.
void DrawLedger::Save(uint32_t per_draw, const std::set<uint64_t>& in_batch,
                      store::v1::JobRow* row) const {
  spent_.Save(row->mutable_spent());
  saved_.Save(row->mutable_saved_spent());
  store::v1::OpenDraws* last = nullptr;
  for (const auto& [draw, birth] : open_) {
    const bool in = in_batch.count(draw) > 0;
    const std::set<uint32_t> given_up = this->given_up(draw);
    const bool follows = last != nullptr && given_up.empty() && last->given_up().empty() &&
                         draw == last->draw() + last->count() &&
                         birth == last->first_birth() + last->count() * per_draw &&
                         in == last->in_batch();
    if (!follows) {
      last = row->add_open_draws();
      last->set_draw(draw);
      last->set_first_birth(birth);
      last->set_per_draw(per_draw);
      last->set_in_batch(in);
      last->mutable_given_up()->Assign(given_up.begin(), given_up.end());
    }
    last->set_count(last->count() + 1);
  }
}

uint64_t DrawLedger::Next() {
  for (;;) {
    const uint64_t draw = spent_.Skip(next_);
    next_ = draw;
    if (open_.count(draw) == 0) return draw;
    ++next_;
  }
}

std::vector<uint64_t> DrawLedger::Window(uint64_t window) {
  const uint64_t first = Next();
  std::vector<uint64_t> draws;
  for (uint64_t draw = first; draw < (first / window + 1) * window; ++draw) {
    if (open_.count(draw) == 0 && !spent_.Contains(draw)) draws.push_back(draw);
  }
  return draws;
}

std::vector<uint64_t> DrawLedger::Upcoming(uint64_t count) {
  std::vector<uint64_t> draws;
  for (uint64_t draw = Next(); draws.size() < count; draw = spent_.Skip(draw + 1)) {
    if (open_.count(draw) == 0) draws.push_back(draw);
  }
  return draws;
}

void DrawLedger::Reopen(uint64_t draw) {
  ++changes_;
  open_.erase(draw);
  given_up_.erase(draw);
  next_ = std::min(next_, draw);
}

void DrawLedger::Spend(uint64_t draw) {
  ++changes_;
  open_.erase(draw);
  given_up_.erase(draw);
  spent_.Add(draw);
}

void DrawLedger::CloseAll() {
  ++changes_;
  open_.clear();
  given_up_.clear();
  next_ = 0;
}

uint64_t DrawLedger::OpenBefore(uint64_t draw) const {
  if (open_.empty() || open_.rbegin()->first < draw) return open_.size();
  return static_cast<uint64_t>(std::distance(open_.begin(), open_.lower_bound(draw)));
}

bool DrawLedger::Has(uint64_t draw, uint64_t birth, uint32_t per_draw) const {
  const auto found = open_.find(draw);
  return found != open_.end() && birth >= found->second && birth - found->second < per_draw;
}

bool DrawLedger::HasBirth(uint64_t birth, uint32_t per_draw) const {
  return std::any_of(open_.begin(), open_.end(), [&](const auto& open) {
    return birth >= open.second && birth - open.second < per_draw;
  });
}

void DrawLedger::RollBack() {
  ++changes_;
  if (!Mutant("spent-outlives-rollback")) spent_ = saved_;
  next_ = 0;
}

}  // namespace baton::controller
