// The ledger of a job's prompt groups: which are open, and which are spent.
//
// Owns both sets. A group is named by its prompt index, which counts the prompts in the order in
// which the job draws them (prompt_mix.h). Groups may be complete in any order, so a cursor does
// not say what was trained on; the set of spent groups does.
//
// clang-format off
//   not begun --Open--> open --Spend--> spent: a batch consumed it, or it was given up for good
//     ^                  |                |
//     +---- Reopen ------+                |
//     +---- RollBack, unless the ---------+
//           checkpoint has spent it
// clang-format on
//
// An open group is under way, complete, or in a batch.
//
// Next is the smallest prompt index that is neither open nor spent. So after a rollback the groups
// that are made again come first, and no prompt is skipped or trained on twice.
#ifndef BATON_CONTROLLER_CORE_PROMPTS_PROMPT_LEDGER_H_
#define BATON_CONTROLLER_CORE_PROMPTS_PROMPT_LEDGER_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "baton/store/v1/rows.pb.h"

namespace baton::controller {

/// A set of prompt indices, as ranges.
class PromptIndexSet {
 public:
  void Add(uint64_t prompt_index);
  bool Contains(uint64_t prompt_index) const { return Skip(prompt_index) != prompt_index; }
  /// The smallest prompt index from `prompt_index` on that is not in the set.
  uint64_t Skip(uint64_t prompt_index) const;
  /// Number of prompt indices in the set.
  uint64_t size() const { return size_; }

  void Restore(const google::protobuf::RepeatedPtrField<store::v1::PromptIndexRange>& rows);
  void Save(google::protobuf::RepeatedPtrField<store::v1::PromptIndexRange>* rows) const;

 private:
  std::map<uint64_t, uint64_t> ranges_;  // first -> last; no two touch
  uint64_t size_ = 0;
};

class PromptLedger {
 public:
  void Restore(const store::v1::JobRow& row);
  /// Sets spent, saved_spent and open_prompts. `per_prompt`: trajectories of a group; `in_batch`:
  /// the groups that the update under way learns from.
  void Save(uint32_t per_prompt, const std::set<uint64_t>& in_batch, store::v1::JobRow* row) const;

  /// The group to begin next.
  uint64_t Next();
  /// The group is begun; its trajectories have the uids from `first_uid` on.
  void Open(uint64_t prompt_index, uint64_t first_uid) {
    open_[prompt_index] = first_uid;
    ++changes_;
  }
  /// The group will be begun again later, with other trajectory uids.
  void Reopen(uint64_t prompt_index);
  /// The group is not needed any more.
  void Spend(uint64_t prompt_index);
  /// A response of an open group is given up: the group goes on without it.
  void GiveUp(uint64_t prompt_index, uint32_t sample) { given_up_[prompt_index].insert(sample); }
  /// Nothing is open any more.
  void CloseAll();

  /// The first trajectory uid of each open group.
  const std::map<uint64_t, uint64_t>& open() const { return open_; }
  /// The samples of an open group that were given up.
  std::set<uint32_t> given_up(uint64_t prompt_index) const {
    const auto found = given_up_.find(prompt_index);
    return found == given_up_.end() ? std::set<uint32_t>() : found->second;
  }
  /// The groups that may be begun next: those from Next on that are neither open nor spent, up to
  /// the end of Next's window. Windows have `window` prompt indices each, at least 1.
  std::vector<uint64_t> Window(uint64_t window);
  /// The first `count` groups that are neither open nor spent.
  std::vector<uint64_t> Upcoming(uint64_t count);
  /// Number of open groups before `prompt_index`.
  uint64_t OpenBefore(uint64_t prompt_index) const;
  uint64_t spent() const { return spent_.size(); }
  /// Grows with each change of the open or spent groups.
  uint64_t changes() const { return changes_; }
  /// True if the group is open, and one of its `per_prompt` trajectories has this uid.
  bool Has(uint64_t prompt_index, uint64_t trajectory_uid, uint32_t per_prompt) const;
  /// True if some open group has a trajectory with this uid.
  bool HasTrajectoryUid(uint64_t trajectory_uid, uint32_t per_prompt) const;

  /// Cut: a checkpoint is being completed. Saved: it is complete.
  void Cut() { cut_ = spent_; }
  void Saved() { saved_ = cut_; }
  /// The job goes back to its newest checkpoint. Open groups stay open.
  void RollBack();

 private:
  PromptIndexSet spent_, saved_, cut_;
  std::map<uint64_t, uint64_t> open_;
  std::map<uint64_t, std::set<uint32_t>> given_up_;  // by open group
  uint64_t next_ = 0;                                // Next is not smaller than this
  uint64_t changes_ = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_PROMPTS_PROMPT_LEDGER_H_
