// The prompt groups of a job: the responses to one prompt index, from their beginning until a batch
// takes them.
//
// Owns which groups are open and spent (PromptLedger), which are complete and in which order, how
// many were given up since the last step, and how fast groups and steps are. The trajectories are
// the scheduler's. group_flow.h says what happens to groups:
//
// clang-format off
//   a round begins, or     all responses READY,
//   a rollout has room     except those given up
//        -------> open -----------------------> judged --> complete --> a batch (StepBatch)
//                  ^                               |          |
//                  +---- stale: begun anew --------+----------+
//                                                  |
//                                                  +--> spent: too few rewards, or zero-advantage
// clang-format on
#ifndef BATON_CONTROLLER_CORE_STEPS_PROMPT_GROUPS_H_
#define BATON_CONTROLLER_CORE_STEPS_PROMPT_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/core/job/trajectory.h"
#include "controller/core/prompts/prompt_ledger.h"
#include "controller/core/prompts/prompt_lengths.h"
#include "controller/core/steps/admission_pace.h"

namespace baton::controller {

/// Complete groups in order, named by their prompt indices. Every call takes O(log n).
class CompleteGroups {
 public:
  void Add(uint64_t prompt_index) { Put(prompt_index, last_++); }
  /// Puts groups that were complete before ahead of all others, in this order.
  void AddFirst(const std::vector<uint64_t>& prompt_indices) {
    for (auto prompt_index = prompt_indices.rbegin(); prompt_index != prompt_indices.rend();
         ++prompt_index) {
      Put(*prompt_index, --first_);
    }
  }
  /// Does nothing if the group is not complete.
  void Remove(uint64_t prompt_index) {
    const auto found = places_.find(prompt_index);
    if (found == places_.end()) return;
    order_.erase(found->second);
    places_.erase(found);
  }
  void Clear() {
    order_.clear();
    places_.clear();
  }

  size_t size() const { return places_.size(); }
  bool Has(uint64_t prompt_index) const { return places_.count(prompt_index) > 0; }
  /// The first `count` of them, or all.
  std::vector<uint64_t> First(size_t count) const {
    std::vector<uint64_t> first;
    for (auto it = order_.begin(); it != order_.end() && first.size() < count; ++it) {
      first.push_back(it->second);
    }
    return first;
  }

 private:
  void Put(uint64_t prompt_index, int64_t place) {
    Remove(prompt_index);
    order_[place] = prompt_index;
    places_[prompt_index] = place;
  }

  int64_t first_ = 0, last_ = 0;
  std::map<int64_t, uint64_t> order_;   // place -> prompt index
  std::map<uint64_t, int64_t> places_;  // prompt index -> place
};

/// The time at which each open prompt group began, and the responses given up since the last step,
/// for schedule.group_timeout_seconds (group_flow.h).
class LateGroups {
 public:
  /// After a restart: the times at which open groups began are not stored, so they count from now.
  void Restore(absl::Time now) { restored_at_ = now; }
  void NoteBegun(uint64_t prompt_index, absl::Time now) { begun_[prompt_index] = now; }
  absl::Time BegunAt(uint64_t prompt_index) const {
    const auto begun = begun_.find(prompt_index);
    return begun == begun_.end() ? restored_at_ : begun->second;
  }
  /// The group is complete, or dropped.
  void End(uint64_t prompt_index) { begun_.erase(prompt_index); }
  void Clear() { begun_.clear(); }
  /// Call this while responses can come. While the job has no rollouts, reads its data or is
  /// paused, or its machine is suspended, no response can come; such a gap between calls counts for
  /// no group.
  void Look(absl::Time now) {
    const absl::Duration gap = now - std::exchange(looked_, now);
    if (gap <= kLongestLook || gap == absl::InfiniteDuration()) return;
    for (auto& [prompt_index, begun] : begun_) begun += gap;
    restored_at_ += gap;
  }

  /// Responses that were given up since the last step, and their tokens.
  uint64_t given_up() const { return given_up_; }
  uint64_t given_up_tokens() const { return given_up_tokens_; }
  void NoteGivenUp(uint64_t tokens) {
    ++given_up_;
    given_up_tokens_ += tokens;
  }
  void EndStep() { given_up_ = given_up_tokens_ = 0; }

 private:
  static constexpr absl::Duration kLongestLook = absl::Seconds(10);  // from one to the next

  std::map<uint64_t, absl::Time> begun_;  // of groups that this controller began …
  absl::Time restored_at_;                // … and when it took over the others
  absl::Time looked_ = absl::InfinitePast();
  uint64_t given_up_ = 0, given_up_tokens_ = 0;
};

/// Responses that were made for a batch but are consumed by none.
struct GivenUp {
  void Add(const TrajectoryInfo& response) {
    tokens += response.tokens;
    prompt_tokens += response.prompt_tokens;
    errors += response.error.empty() ? 0 : 1;
    unrewarded += response.failed == 0 ? 0 : 1;
  }
  uint64_t tokens = 0, prompt_tokens = 0;
  uint64_t errors = 0;      ///< Responses whose reward failed …
  uint64_t unrewarded = 0;  ///< … and those of them without a reward.
};

struct PromptGroups {
  void Restore(const store::v1::JobRow& row) {
    prompts.Restore(row);
    lost = row.lost_groups();
    filtered = row.filtered_groups();
  }
  /// Sets spent, saved_spent, open_prompts, lost_groups and filtered_groups. `per_prompt`:
  /// trajectories of a group; `in_batch`: the groups that an update may be learning from.
  void Save(uint32_t per_prompt, const std::set<uint64_t>& in_batch, store::v1::JobRow* row) const {
    prompts.Save(per_prompt, in_batch, row);
    row->set_lost_groups(lost);
    row->set_filtered_groups(filtered);
  }
  /// True if some groups are open, or were given up since the last step.
  bool any() const { return !prompts.open().empty() || lost > 0 || filtered > 0; }
  /// The next step begins.
  void EndStep() {
    lost = filtered = stale = stale_tokens = 0;
    given_up = {};
    late.EndStep();
  }
  /// Nothing is open any more.
  void CloseAll() {
    prompts.CloseAll();
    unmade.clear();
    complete.Clear();
    late.Clear();
  }

  PromptLedger prompts;
  /// Open groups of a round whose trajectories are made once rollouts have taken the earlier ones.
  std::deque<uint64_t> unmade;
  CompleteGroups complete;
  AdmissionPace pace;
  /// Lengths of the responses to each prompt, for schedule.begin_order.
  PromptLengths lengths;
  LateGroups late;
  uint64_t judged_version = 0;  ///< Stale groups were dropped since this version was made.
  // Groups since the last step.
  uint64_t lost = 0;          ///< Given up for lack of rewards.
  uint64_t filtered = 0;      ///< Given up because they are zero-advantage.
  GivenUp given_up;           ///< Responses of these and of a round's surplus.
  uint64_t stale = 0;         ///< Dropped, and begun anew …
  uint64_t stale_tokens = 0;  ///< … and the tokens that were dropped.
  // When the bound on staleness began to hold back rollouts that have room.
  absl::Time bounded_since = absl::InfinitePast();
  bool paced = false;  ///< The pace holds them back.
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_STEPS_PROMPT_GROUPS_H_
