#include "controller/core/trajectories/speculation_counts.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(SpeculationCountsTest, AddsUpTheCountsOfReplicas) {
  SpeculationCounts counts;
  EXPECT_THAT(counts.Take(), IsEmpty());
  counts.Note({{"spec/passes", 2},
               {"spec/draft_tokens", 30},
               {"spec/accepted_tokens", 12},
               {"step_rows", 5}});
  counts.Note({{"spec/passes", 3},
               {"spec/draft_tokens", 10},
               {"spec/accepted_tokens", 8},
               {"spec/verify_seconds", 0.5},
               {"spec/proposed_at/0", 4},
               {"spec/accepted_at/0", 3},
               {"tokens", 7}});
  EXPECT_THAT(counts.Take(),
              UnorderedElementsAre(
                  Pair("rollout/spec/draft_tokens", 40), Pair("rollout/spec/tokens_saved", 20),
                  Pair("rollout/spec/acceptance", 0.5), Pair("rollout/spec/draft_length", 8),
                  Pair("rollout/spec/accepted_per_pass", 4), Pair("rollout/spec/draft_seconds", 0),
                  Pair("rollout/spec/verify_seconds", 0.5),
                  Pair("rollout/spec/acceptance_at_depth/0", 0.75)));
  EXPECT_THAT(counts.Take(), IsEmpty()) << "each is told once";
}

TEST(SpeculationCountsTest, ReportsDraftTimeEvenWithoutPasses) {
  SpeculationCounts counts;
  counts.Note({{"spec/draft_seconds", 0.25}, {"spec/passes", 0}});
  EXPECT_THAT(counts.Take(), UnorderedElementsAre(Pair("rollout/spec/draft_seconds", 0.25)));
  EXPECT_THAT(counts.Take(), IsEmpty());
}

TEST(SpeculationCountsTest, ReportsTheHistoryTokensThatReplicasFetched) {
  SpeculationCounts counts;
  counts.Note({{"spec/history_tokens", 500}});
  counts.Note({{"spec/history_tokens", 20}});
  EXPECT_THAT(counts.Take(), UnorderedElementsAre(Pair("rollout/spec/history_tokens", 520)));
  EXPECT_THAT(counts.Take(), IsEmpty());
}

TEST(SpeculationCountsTest, ReportsPassesWithoutMemoryForDrafts) {
  SpeculationCounts counts;
  counts.Note({{"spec/memory_short_passes", 30}});
  counts.Note({{"spec/memory_short_passes", 4}});
  EXPECT_THAT(counts.Take(), UnorderedElementsAre(Pair("rollout/spec/memory_short_passes", 34)));
  EXPECT_THAT(counts.Take(), IsEmpty());
}

TEST(SpeculationCountsTest, ReportsDraftsOfRegeneratedResponsesSeparately) {
  SpeculationCounts counts;
  counts.NoteMadeAgain(10, 4);
  counts.NoteMadeAgain(5, 7);  // more than there were
  counts.NoteMadeAgain(5, std::nan(""));
  EXPECT_THAT(counts.Take(), UnorderedElementsAre(Pair("rollout/spec/made_again_tokens", 20),
                                                  Pair("rollout/spec/made_again_accepted", 9)));
  EXPECT_THAT(counts.Take(), IsEmpty());
}

TEST(SpeculationCountsTest, IgnoresInvalidCounts) {
  SpeculationCounts counts;
  for (const double nonsense : {-1.0, std::nan(""), HUGE_VAL, 1e300}) {
    counts.Note({{"spec/passes", nonsense}, {"spec/draft_tokens", nonsense}});
  }
  counts.Note({{"spec/passes", 1}, {"spec/draft_tokens", 2}});
  for (const char* name : {"spec/", "spec/x", "spec/proposed_at/", "spec/proposed_at/16",
                           "spec/proposed_at/-1", "spec/proposed_at/1x"}) {
    counts.Note({{name, 5}});
  }
  EXPECT_EQ(counts.Take().size(), 7u);
}

}  // namespace
}  // namespace baton::controller
