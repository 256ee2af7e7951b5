#include "workers/engine/generation/draft_stats.h"

#include <cstddef>

namespace baton::engine {

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

}  // namespace baton::engine
