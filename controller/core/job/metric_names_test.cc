#include "controller/core/job/metric_names.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(MetricNamesTest, GivesEachOfAFewSourcesItsOwnSeries) {
  const SourceNames names({"b", "", "a", "b"}, 4);
  EXPECT_EQ(names.SeriesOf("a"), "a");
  EXPECT_EQ(names.SeriesOf("b"), "b");
  EXPECT_EQ(names.SeriesOf(""), "all");
  EXPECT_EQ(names.folded(), 0u);
}

TEST(MetricNamesTest, GivesOnlyTheLargestOfManySourcesTheirOwnSeries) {
  std::vector<std::string> sources;
  for (int i = 0; i < 100; ++i) sources.push_back(absl::StrCat("s", 100 + i));
  for (int i = 90; i < 100; ++i) sources.push_back(absl::StrCat("s", 100 + i));  // twice
  sources.push_back(std::string(300, 'x'));
  sources.push_back(std::string(300, 'x'));
  const SourceNames names(sources, sources.size());
  EXPECT_EQ(names.folded(), 101u - 64u);
  for (int i = 0; i < 100; ++i) {
    const std::string name = absl::StrCat("s", 100 + i);
    // Ten have two examples; 54 of the others are first by name.
    EXPECT_EQ(names.SeriesOf(name), i < 54 || i >= 90 ? name : "other") << i;
  }
  EXPECT_EQ(names.SeriesOf(std::string(300, 'x')), "other");
  // Examples that do not count do not matter.
  EXPECT_EQ(SourceNames(sources, 3).folded(), 0u);
  EXPECT_EQ(SourceNames(sources, 3).SeriesOf("s199"), "other");
}

TEST(MetricNamesTest, WorkersAddNamesUntilAJobHasEnough) {
  google::protobuf::Map<std::string, double> known;
  for (size_t i = 0; i < kMostSeries - 1; ++i) known[absl::StrCat("k", i)] = 1;
  std::map<std::string, double> reported = {
      {"k5", 1}, {"new-a", 2}, {"new-b", 3}, {std::string(201, 'a'), 4}};
  EXPECT_EQ(DropSurplus(known, &reported), 2u);
  EXPECT_THAT(reported, ElementsAre(Pair("k5", 1), Pair("new-a", 2)));
  known["new-a"] = 2;
  reported = {{"k5", 6}, {"new-a", 7}, {"new-c", 8}};
  EXPECT_EQ(DropSurplus(known, &reported), 1u);
  EXPECT_THAT(reported, ElementsAre(Pair("k5", 6), Pair("new-a", 7)));
}

TEST(MetricNamesTest, BoundsTheScoresOfAResponseAndKeepsTheNodesOwn) {
  std::map<std::string, double> scores = {{"zz", 1}};
  for (int i = 0; i < 40'000; ++i) scores[absl::StrCat("s", i)] = i;
  EXPECT_EQ(DropSurplusScores("zz", &scores), 40'001u - 64u);
  EXPECT_EQ(scores.size(), 64u);
  EXPECT_EQ(scores.at("zz"), 1);
  EXPECT_EQ(DropSurplusScores("zz", &scores), 0u);
}

}  // namespace
}  // namespace baton::controller
