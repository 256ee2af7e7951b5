// The decision in which passes drafts are made, and for how many responses.
#ifndef BATON_WORKERS_ROLLOUT_SPECULATION_DRAFT_SCHEDULE_H_
#define BATON_WORKERS_ROLLOUT_SPECULATION_DRAFT_SCHEDULE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "workers/rollout/speculation/gain_guard.h"
#include "workers/rollout/speculation/pass_cost.h"

namespace baton::rollout {

/// The cost of the drafts of one pass, in wall-clock seconds.
struct DraftingEffort {
  int64_t followed = 0;  ///< Tokens that went into trees …
  double follow_seconds = 0;
  int64_t chosen = 0;  ///< … and nodes that were chosen of all proposals.
  double draft_seconds = 0;
};

/// Learns what passes cost and what drafts yield, pass by pass: WantsToDraft, then (if it wants)
/// Begin and NoteDrafts, then NoteTokens for each response that was drafted, and NotePass. Where
/// drafts do not pay, it backs off, and probes now and then. One thread at a time.
///
/// A full batch seldom gains from drafts. So as long as it is not known that it does, a few of its
/// responses alone are drafted: to try costs next to nothing.
class DraftSchedule {
 public:
  DraftSchedule();

  /// A pass comes that decodes `decoding` responses. False: it is to have no drafts. `best`: no
  /// node of a draft is accepted with a higher probability.
  bool WantsToDraft(int64_t decoding, double best);

  /// `responses`, at least one, may have drafts in the pass, of `max_nodes` nodes together. Returns
  /// for how many of them drafts are to be made.
  size_t Begin(size_t responses, int64_t max_nodes);
  /// The drafts were made.
  void NoteDrafts(const DraftingEffort& effort);
  /// A response with a draft got `tokens` tokens; `computed` nodes of its draft had rows.
  void NoteTokens(int64_t tokens, int64_t computed);
  /// A forward pass computed so many rows in so many seconds.
  void NotePass(int64_t rows, double seconds);

  /// All responses from now on are run ahead, or not: whether drafts pay for those says nothing of
  /// the others, which have the history that these make.
  void SetAhead(bool ahead);

  /// Responses that the pass decodes.
  int64_t decoding() const { return pass_.decoding; }
  const PassCost& cost() const { return cost_; }

 private:
  // A forward pass, and the drafts that were made for it.
  struct Pass {
    int64_t decoding = 0;            // responses
    bool asked = false;              // drafts were made, though perhaps none was chosen
    bool ahead = false;              // no response was foreground work
    bool drafted_elsewhere = false;  // some responses had drafts that were not made here
    int64_t unasked = 0;             // responses for which none was made
    DraftingEffort effort;
    // The pass's outcome.
    int64_t rows = 0, computed = 0, tokens = 0;
    double seconds = 0;
  };
  void Settle();
  bool BacksOff(int64_t decoding, double best);
  bool MayPayAtAll(int64_t decoding, double best);
  void BackOffIfWasted();
  GainGuard& GuardOf(int64_t decoding);
  size_t Asked(size_t responses);

  PassCost cost_;
  // By the number of decoding responses, in powers of two: drafts may pay beside few alone.
  static constexpr size_t kGuards = 16;
  std::array<GainGuard, kGuards> guards_;
  Pass pass_;
  bool ahead_ = false;
  // If nothing paid lately, the schedule does not even ask for drafts: drafting costs time as well.
  int64_t wasted_ = 0;             // drafts in a row for which the budget was zero
  int64_t back_off_ = 0;           // passes without drafts that are left
  int64_t learning_ = 0;           // passes while the cost of a row was not known
  int64_t most_nodes_ = 1;         // of the last call
  double seconds_a_response_ = 0;  // that drafting took, faded
  int64_t passes_ = 0;
  int64_t asked_in_a_row_ = 0;  // passes
};

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_SPECULATION_DRAFT_SCHEDULE_H_
