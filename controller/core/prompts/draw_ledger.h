// Which draws of a job are open, and which are spent.
//
// Owns both sets. A draw is a prompt's group of responses (prompt_source.h says which prompt).
// Groups may be complete in any order, so a cursor does not say what was trained on; the set of
// spent draws does.
//
// clang-format off
//   never drawn --Open--> open --Spend--> spent: a batch consumed it, or it was given up for good
//      ^                   |                |
//      +----- Reopen ------+                |
//      +----- RollBack, if the checkpoint has not spent it
// clang-format on
//
// An open draw is under way, complete, or in a batch.
//
// Next is the smallest draw that is neither. So after a way back the draws that are made again come
// first, and no prompt is skipped or trained on twice.
#ifndef BATON_CONTROLLER_CORE_PROMPTS_DRAW_LEDGER_H_
#define BATON_CONTROLLER_CORE_PROMPTS_DRAW_LEDGER_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "baton/store/v1/rows.pb.h"

namespace baton::controller {

/// A set of draws, as ranges.
class DrawSet {
 public:
  void Add(uint64_t draw);
  bool Contains(uint64_t draw) const { return Skip(draw) != draw; }
  /// The smallest draw from `draw` on that is not in the set.
  uint64_t Skip(uint64_t draw) const;
  /// Draws in it.
  uint64_t size() const { return size_; }

  void Restore(const google::protobuf::RepeatedPtrField<store::v1::DrawRange>& rows);
  void Save(google::protobuf::RepeatedPtrField<store::v1::DrawRange>* rows) const;

 private:
  std::map<uint64_t, uint64_t> ranges_;  // first -> last; no two touch
  uint64_t size_ = 0;
};

class DrawLedger {
 public:
  void Restore(const store::v1::JobRow& row);
  /// Sets spent, saved_spent and open_draws. `per_draw`: trajectories of a draw; `in_batch`: the
  /// draws that the update under way learns from.
  void Save(uint32_t per_draw, const std::set<uint64_t>& in_batch, store::v1::JobRow* row) const;

  /// The draw to begin next.
  uint64_t Next();
  /// It is begun; its trajectories have the birth numbers from `first_birth` on.
  void Open(uint64_t draw, uint64_t first_birth) {
    open_[draw] = first_birth;
    ++changes_;
  }
  /// It is begun anew later, under other birth numbers.
  void Reopen(uint64_t draw);
  /// It is done with.
  void Spend(uint64_t draw);
  /// A response of an open draw is given up: the draw goes on without.
  void GiveUp(uint64_t draw, uint32_t sample) { given_up_[draw].insert(sample); }
  /// Nothing is open any more.
  void CloseAll();

  /// By draw: the first birth number of its trajectories.
  const std::map<uint64_t, uint64_t>& open() const { return open_; }
  /// The samples of an open draw that were given up.
  std::set<uint32_t> given_up(uint64_t draw) const {
    const auto found = given_up_.find(draw);
    return found == given_up_.end() ? std::set<uint32_t>() : found->second;
  }
  /// The draws that may be begun next: those from Next on that are neither open nor spent, up to
  /// the end of its window. Windows have `window` draws each, at least 1.
  std::vector<uint64_t> Window(uint64_t window);
  /// The first `count` draws that are neither open nor spent.
  std::vector<uint64_t> Upcoming(uint64_t count);
  /// Open draws before `draw`.
  uint64_t OpenBefore(uint64_t draw) const;
  uint64_t spent() const { return spent_.size(); }
  /// Grows with each change of what is open or spent.
  uint64_t changes() const { return changes_; }
  /// The draw is open, and that number is one of the `per_draw` of its trajectories.
  bool Has(uint64_t draw, uint64_t birth, uint32_t per_draw) const;
  /// Some open draw has that number.
  bool HasBirth(uint64_t birth, uint32_t per_draw) const;

  /// A checkpoint is being completed; it is complete.
  void Cut() { cut_ = spent_; }
  void Saved() { saved_ = cut_; }
  /// The job goes back to its newest checkpoint. What is open stays so.
  void RollBack();

 private:
  DrawSet spent_, saved_, cut_;
  std::map<uint64_t, uint64_t> open_;
  std::map<uint64_t, std::set<uint32_t>> given_up_;  // by open draw
  uint64_t next_ = 0;                                // no smaller draw is Next
  uint64_t changes_ = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_PROMPTS_DRAW_LEDGER_H_
