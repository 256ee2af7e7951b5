// The prompt groups of a job: the responses to one draw of a prompt, from their draw until a batch
// takes them.
//
// Owns which draws are open and spent (DrawLedger), which groups are complete and in which order,
// how many were given up since the last step, and how fast groups and steps are. The trajectories
// are the scheduler's. group_flow.h says what happens to groups:
//
// clang-format off
//   a round begins, or a rollout has room --> open --all READY--> complete --> a batch (StepBatch)
//        ^                                     |  (of those that     |
//        |                                     |  are not given up)  |
//        +-- stale: drawn anew ----------------+---------------------+
//                                              +-- too few rewards, or nothing to learn --> spent
// clang-format on
#ifndef BATON_CONTROLLER_CORE_STEPS_PROMPT_GROUPS_H_
#define BATON_CONTROLLER_CORE_STEPS_PROMPT_GROUPS_H_

#include <cstdint>
#include <deque>
#include <set>

#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/core/prompts/draw_ledger.h"
#include "controller/core/prompts/prompt_lengths.h"
#include "controller/core/steps/admission_pace.h"
#include "controller/core/steps/complete_groups.h"
#include "controller/core/steps/late_groups.h"

namespace baton::controller {

struct PromptGroups {
  void Restore(const store::v1::JobRow& row) {
    draws.Restore(row);
    lost = row.lost_groups();
    filtered = row.filtered_groups();
  }
  /// Sets spent, saved_spent, open_draws, lost_groups and filtered_groups. `per_draw`: trajectories
  /// of a draw; `in_batch`: the draws that an update may be learning from.
  void Save(uint32_t per_draw, const std::set<uint64_t>& in_batch, store::v1::JobRow* row) const {
    draws.Save(per_draw, in_batch, row);
    row->set_lost_groups(lost);
    row->set_filtered_groups(filtered);
  }
  /// Some are open, or were given up since the last step.
  bool any() const { return !draws.open().empty() || lost > 0 || filtered > 0; }
  /// The next step begins.
  void EndStep() {
    lost = filtered = unrewarded = stale = stale_tokens = 0;
    late.EndStep();
  }
  /// Nothing is open any more.
  void CloseAll() {
    draws.CloseAll();
    unmade.clear();
    complete.Clear();
    late.Clear();
  }

  DrawLedger draws;
  /// Open draws of a round whose trajectories are made as rollouts take those before them.
  std::deque<uint64_t> unmade;
  CompleteGroups complete;
  AdmissionPace pace;
  /// How long the responses to each prompt were, for schedule.begin_order.
  PromptLengths lengths;
  LateGroups late;
  uint64_t judged_version = 0;  ///< Stale groups were dropped since this version was made.
  // Groups since the last step.
  uint64_t lost = 0;          ///< Given up for want of rewards.
  uint64_t filtered = 0;      ///< Given up since all their responses are worth the same.
  uint64_t unrewarded = 0;    ///< Responses without a reward of those that were given up.
  uint64_t stale = 0;         ///< Dropped, and their draws made again …
  uint64_t stale_tokens = 0;  ///< … with so many tokens.
  // Rollouts have room, and the bound of staleness has none.
  absl::Time bounded_since = absl::InfinitePast();
  bool paced = false;  ///< It is the pace that holds them back.
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_STEPS_PROMPT_GROUPS_H_
