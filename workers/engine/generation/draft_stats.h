// Counts of the outcomes of drafts.
#ifndef BATON_WORKERS_ENGINE_GENERATION_DRAFT_STATS_H_
#define BATON_WORKERS_ENGINE_GENERATION_DRAFT_STATS_H_

#include <array>
#include <cstdint>

namespace baton::engine {

/// Outcomes of a generator's drafts since it was created: requests' own and a drafter's. A node is
/// a token of a draft.
struct DraftStats {
  static constexpr int64_t kDepths = 16;
  int64_t pass_rows = 0;      // rows of all forward passes, with or without nodes
  int64_t passes = 0;         // forward passes with nodes
  int64_t rows = 0;           // nodes computed
  int64_t judged = 0;         // nodes compared with what was drawn at their place
  int64_t accepted = 0;       // of these: equal
  int64_t short_passes = 0;   // passes for which no drafter was asked, memory being short
  int64_t bonus = 0;          // tokens drawn after the last equal node, in these passes
  double draft_seconds = 0;   // in the drafter
  double verify_seconds = 0;  // of the passes with nodes, all their other rows included
  // Nodes by their number of ancestors; the last place counts all deeper ones too.
  std::array<int64_t, kDepths> proposed_at{};
  std::array<int64_t, kDepths> accepted_at{};

  /// The outcomes since `before`.
  DraftStats operator-(const DraftStats& before) const;
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_GENERATION_DRAFT_STATS_H_
