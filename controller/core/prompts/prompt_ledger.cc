#include "controller/core/prompts/prompt_ledger.h"

#include <algorithm>
#include <iterator>

namespace baton::controller {

// ---- PromptIndexSet -----------------------------------------------------------------------------

void PromptIndexSet::Add(uint64_t prompt_index) {
  if (Contains(prompt_index)) return;
  ++size_;
  auto next = ranges_.upper_bound(prompt_index);
  const bool joins_next = next != ranges_.end() && next->first == prompt_index + 1;
  const uint64_t last = joins_next ? next->second : prompt_index;
  if (joins_next) next = ranges_.erase(next);
  if (next != ranges_.begin() && std::prev(next)->second + 1 == prompt_index) {
    std::prev(next)->second = last;
  } else {
    ranges_.emplace_hint(next, prompt_index, last);
  }
}

uint64_t PromptIndexSet::Skip(uint64_t prompt_index) const {
  const auto after = ranges_.upper_bound(prompt_index);
  if (after == ranges_.begin()) return prompt_index;
  const uint64_t last = std::prev(after)->second;
  return last >= prompt_index ? last + 1 : prompt_index;
}

void PromptIndexSet::Restore(
    const google::protobuf::RepeatedPtrField<store::v1::PromptIndexRange>& rows) {
  ranges_.clear();
  size_ = 0;
  for (const store::v1::PromptIndexRange& row : rows) {
    ranges_[row.first()] = row.last();
    size_ += row.last() - row.first() + 1;
  }
}

void PromptIndexSet::Save(
    google::protobuf::RepeatedPtrField<store::v1::PromptIndexRange>* rows) const {
  for (const auto& [first, last] : ranges_) {
    store::v1::PromptIndexRange* const row = rows->Add();
    row->set_first(first);
    row->set_last(last);
  }
}

// ---- PromptLedger -------------------------------------------------------------------------------

void PromptLedger::Restore(const store::v1::JobRow& row) {
  spent_.Restore(row.spent());
  saved_.Restore(row.saved_spent());
  for (const store::v1::OpenPrompts& open : row.open_prompts()) {
    for (uint64_t i = 0; i < open.count(); ++i) {
      open_[open.prompt_index() + i] = open.first_uid() + i * open.per_prompt();
    }
    for (const uint32_t sample : open.given_up()) GiveUp(open.prompt_index(), sample);
  }
}

// The row is written for every group that begins, so runs of regular groups are stored as one
// entry.
void PromptLedger::Save(uint32_t per_prompt, const std::set<uint64_t>& in_batch,
                        store::v1::JobRow* row) const {
  spent_.Save(row->mutable_spent());
  saved_.Save(row->mutable_saved_spent());
  store::v1::OpenPrompts* last = nullptr;
  for (const auto& [prompt_index, trajectory_uid] : open_) {
    const bool in = in_batch.count(prompt_index) > 0;
    const std::set<uint32_t> given_up = this->given_up(prompt_index);
    const bool follows = last != nullptr && given_up.empty() && last->given_up().empty() &&
                         prompt_index == last->prompt_index() + last->count() &&
                         trajectory_uid == last->first_uid() + last->count() * per_prompt &&
                         in == last->in_batch();
    if (!follows) {
      last = row->add_open_prompts();
      last->set_prompt_index(prompt_index);
      last->set_first_uid(trajectory_uid);
      last->set_per_prompt(per_prompt);
      last->set_in_batch(in);
      last->mutable_given_up()->Assign(given_up.begin(), given_up.end());
    }
    last->set_count(last->count() + 1);
  }
}

uint64_t PromptLedger::Next() {
  for (;;) {
    const uint64_t prompt_index = spent_.Skip(next_);
    next_ = prompt_index;
    if (open_.count(prompt_index) == 0) return prompt_index;
    ++next_;
  }
}

std::vector<uint64_t> PromptLedger::Window(uint64_t window) {
  const uint64_t first = Next();
  std::vector<uint64_t> prompt_indices;
  for (uint64_t prompt_index = first; prompt_index < (first / window + 1) * window;
       ++prompt_index) {
    if (open_.count(prompt_index) == 0 && !spent_.Contains(prompt_index)) {
      prompt_indices.push_back(prompt_index);
    }
  }
  return prompt_indices;
}

std::vector<uint64_t> PromptLedger::Upcoming(uint64_t count) {
  std::vector<uint64_t> prompt_indices;
  for (uint64_t prompt_index = Next(); prompt_indices.size() < count;
       prompt_index = spent_.Skip(prompt_index + 1)) {
    if (open_.count(prompt_index) == 0) prompt_indices.push_back(prompt_index);
  }
  return prompt_indices;
}

void PromptLedger::Reopen(uint64_t prompt_index) {
  ++changes_;
  open_.erase(prompt_index);
  given_up_.erase(prompt_index);
  next_ = std::min(next_, prompt_index);
}

void PromptLedger::Spend(uint64_t prompt_index) {
  ++changes_;
  open_.erase(prompt_index);
  given_up_.erase(prompt_index);
  spent_.Add(prompt_index);
}

void PromptLedger::CloseAll() {
  ++changes_;
  open_.clear();
  given_up_.clear();
  next_ = 0;
}

uint64_t PromptLedger::OpenBefore(uint64_t prompt_index) const {
  if (open_.empty() || open_.rbegin()->first < prompt_index) return open_.size();
  return static_cast<uint64_t>(std::distance(open_.begin(), open_.lower_bound(prompt_index)));
}

bool PromptLedger::Has(uint64_t prompt_index, uint64_t trajectory_uid, uint32_t per_prompt) const {
  const auto found = open_.find(prompt_index);
  return found != open_.end() && trajectory_uid >= found->second &&
         trajectory_uid - found->second < per_prompt;
}

bool PromptLedger::HasTrajectoryUid(uint64_t trajectory_uid, uint32_t per_prompt) const {
  return std::any_of(open_.begin(), open_.end(), [&](const auto& open) {
    return trajectory_uid >= open.second && trajectory_uid - open.second < per_prompt;
  });
}

void PromptLedger::RollBack() {
  ++changes_;
  spent_ = saved_;
  next_ = 0;
}

}  // namespace baton::controller
