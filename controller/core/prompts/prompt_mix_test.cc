#include "controller/core/prompts/prompt_mix.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;

struct Entry {
  double weight = 1;
  int64_t from = 1;
  int64_t to = 0;  // 0: none
};

v1::DataSpec Data(int batch, const std::vector<Entry>& mix, bool shuffle = true) {
  v1::DataSpec data;
  data.set_train_batch_size(batch);
  data.set_shuffle(shuffle);
  data.set_seed(7);
  for (const Entry& entry : mix) {
    v1::FileMixSpec* file = data.add_train_mix();
    file->set_weight(entry.weight);
    file->set_from_step(entry.from);
    if (entry.to > 0) file->set_to_step(entry.to);
  }
  return data;
}

std::vector<uint64_t> PromptsAt(PromptMix& mix, uint64_t first, uint64_t count) {
  std::vector<uint64_t> prompts;
  for (uint64_t prompt_index = first; prompt_index < first + count; ++prompt_index) {
    prompts.push_back(mix.At(prompt_index));
  }
  return prompts;
}

TEST(PromptMixTest, WithoutAMixTheFilesAreOneList) {
  for (const bool shuffle : {false, true}) {
    PromptMix mix(Data(4, {}, shuffle), {20, 30});
    PromptSource list(50, 7, shuffle);
    EXPECT_EQ(mix.size(), 50u);
    EXPECT_EQ(mix.files(), 0u);
    for (uint64_t prompt_index = 0; prompt_index < 500; ++prompt_index) {
      ASSERT_EQ(mix.At(prompt_index), list.At(prompt_index));
    }
  }
}

TEST(PromptMixTest, DrawsInOrderWithoutShuffleByHand) {
  // The first file has 3 of every 4 prompts: "aaba".
  PromptMix mix(Data(4, {{3}, {1}}, /*shuffle=*/false), {5, 2});
  EXPECT_EQ(mix.size(), 7u);
  EXPECT_THAT(PromptsAt(mix, 0, 12), ElementsAre(0, 1, 5, 2, 3, 4, 6, 0, 1, 2, 5, 3));
}

TEST(PromptMixTest, APromptDependsOnItsIndexAlone) {
  const v1::DataSpec data =
      Data(6, {{3, 1, 20}, {0.7, 5, 60}, {1, 21}, {2.5}});  // phases from 1, 5, 21, 61
  const std::vector<uint64_t> sizes = {11, 30, 1, 7};
  PromptMix forward(data, sizes), backward(data, sizes), jumping(data, sizes);
  const std::vector<uint64_t> expected = PromptsAt(forward, 0, 700);
  for (uint64_t prompt_index = 700; prompt_index-- > 0;) {
    ASSERT_EQ(backward.At(prompt_index), expected[prompt_index]);
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t prompt_index = random() % 700;
    ASSERT_EQ(jumping.At(prompt_index), expected[prompt_index]) << prompt_index;
  }
}

TEST(PromptMixTest, EachStepHasItsShares) {
  PromptMix mix(Data(8, {{1}, {6}, {1}}), {100, 100, 100});
  for (uint64_t step = 0; step < 200; ++step) {
    std::vector<int> counts(3);
    for (const uint64_t prompt : PromptsAt(mix, step * 8, 8)) ++counts[mix.FileOf(prompt)];
    ASSERT_THAT(counts, ElementsAre(1, 6, 1)) << "step " << step;
  }
}

// Compared with an obvious implementation, which always takes the file that is furthest behind its
// share.
TEST(PromptMixTest, AgreesWithTheSlowSharesInAnyWindowOfSteps) {
  const std::vector<double> weights = {0.5, 1.7, 3, 0.05};
  const double total = 5.25;
  PromptMix mix(Data(5, {{0.5}, {1.7}, {3}, {0.05}}), {10, 20, 30, 40});
  std::vector<double> counts(4), slow(4);
  std::vector<std::vector<double>> after, slowly;  // by step
  for (uint64_t prompt_index = 0; prompt_index < 2000; ++prompt_index) {
    if (prompt_index % 5 == 0) {
      after.push_back(counts);
      slowly.push_back(slow);
    }
    ++counts[mix.FileOf(mix.At(prompt_index))];
    size_t behind = 0;
    const auto lag = [&](size_t file) {
      return weights[file] / total * static_cast<double>(prompt_index + 1) - slow[file];
    };
    for (size_t file = 1; file < 4; ++file) behind = lag(file) > lag(behind) ? file : behind;
    ++slow[behind];
  }
  for (size_t begin = 0; begin < after.size(); ++begin) {
    for (size_t end = begin; end < after.size(); ++end) {
      for (size_t file = 0; file < 4; ++file) {
        const double exact = static_cast<double>(5 * (end - begin)) * weights[file] / total;
        ASSERT_LT(std::abs(after[end][file] - after[begin][file] - exact), 2);
        ASSERT_LE(std::abs((after[end][file] - after[begin][file]) -
                           (slowly[end][file] - slowly[begin][file])),
                  2);
      }
    }
  }
}

TEST(PromptMixTest, EachFileHasEpochsOfItsOwn) {
  const std::vector<uint64_t> sizes = {7, 23, 4};
  PromptMix mix(Data(6, {{2, 1, 9}, {1, 3}, {1}}), sizes);
  std::map<uint64_t, int> times;
  std::vector<std::vector<uint64_t>> epochs(3);
  for (uint64_t step = 0; step < 300; ++step) {
    for (const uint64_t prompt : PromptsAt(mix, step * 6, 6)) {
      ++times[prompt];
      epochs[mix.FileOf(prompt)].push_back(prompt);
    }
    uint64_t first = 0;
    for (size_t file = 0; file < sizes.size(); first += sizes[file++]) {
      const auto drawn = static_cast<int>(epochs[file].size());
      for (uint64_t prompt = first; prompt < first + sizes[file]; ++prompt) {
        const int whole = drawn / static_cast<int>(sizes[file]);
        ASSERT_GE(times[prompt], whole) << "step " << step << ", file " << file;
        ASSERT_LE(times[prompt], whole + 1) << "step " << step << ", file " << file;
      }
    }
  }
  // The orders of two epochs differ, and so do those of files of one size.
  const auto begin = epochs[1].begin();
  EXPECT_FALSE(std::equal(begin, begin + 23, begin + 23));
  PromptMix equal(Data(2, {{1}, {1}}), {50, 50});
  std::vector<std::vector<uint64_t>> orders(2);
  for (const uint64_t prompt : PromptsAt(equal, 0, 100)) {
    orders[equal.FileOf(prompt)].push_back(prompt % 50);
  }
  EXPECT_NE(orders[0], orders[1]);
}

TEST(PromptMixTest, FilesComeAndGoAtTheirSteps) {
  PromptMix mix(Data(4, {{1, 1, 3}, {1, 3, 5}, {1, 5}}, /*shuffle=*/false), {10, 10, 10});
  std::vector<std::set<size_t>> of_steps;
  for (uint64_t step = 0; step < 7; ++step) {
    std::set<size_t> files;
    for (const uint64_t prompt : PromptsAt(mix, step * 4, 4)) files.insert(mix.FileOf(prompt));
    of_steps.push_back(files);
  }
  EXPECT_THAT(of_steps,
              ElementsAre(ElementsAre(0), ElementsAre(0), ElementsAre(0, 1), ElementsAre(1),
                          ElementsAre(1, 2), ElementsAre(2), ElementsAre(2)));
  EXPECT_THAT(PromptsAt(mix, 8, 8), ElementsAre(8, 10, 9, 11, 12, 13, 14, 15))
      << "a file goes on where it was";
}

TEST(PromptMixTest, AfterTheLastStepTheLastFilesGoOn) {
  const std::vector<Entry> ended = {{1, 1, 2}, {3, 2, 4}, {1, 1, 4}},
                           open = {{1, 1, 2}, {3, 2}, {1}};
  PromptMix mix(Data(3, ended), {5, 6, 7}), same(Data(3, open), {5, 6, 7});
  EXPECT_EQ(PromptsAt(mix, 0, 600), PromptsAt(same, 0, 600));
  // Steps without a file, which no spec has, use the files of the steps before them, or else after
  // them.
  PromptMix gap(Data(2, {{1, 3, 4}, {1, 7}}, /*shuffle=*/false), {100, 100});
  EXPECT_THAT(PromptsAt(gap, 0, 14), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 100, 101));
}

TEST(PromptMixTest, AStepsPromptsAreInRandomOrder) {
  PromptMix mix(Data(4, {{1}, {1}, {2}}), {1000, 1000, 1000});
  std::vector<int> first(3);
  for (uint64_t step = 0; step < 1000; ++step) ++first[mix.FileOf(mix.At(step * 4))];
  EXPECT_NEAR(first[0], 250, 60);
  EXPECT_NEAR(first[1], 250, 60);
  EXPECT_NEAR(first[2], 500, 70);
}

TEST(PromptMixTest, BillionsOfPromptIndicesTakeNoTime) {
  const v1::DataSpec data =
      Data(512, {{1, 1, 1'000'000'000}, {0.001, 999'999}, {7.7, 1'500'000'000}});
  const std::vector<uint64_t> sizes = {1000, 17, 400};
  PromptMix one(data, sizes), other(data, sizes);
  for (const uint64_t first : {uint64_t{1'000'000'000'000}, uint64_t{511'999'999'900},
                               uint64_t{512} * 999'998, uint64_t{3}}) {
    const std::vector<uint64_t> prompts = PromptsAt(one, first, 1000);
    for (uint64_t i = 0; i < 1000; i += 37) {
      ASSERT_EQ(other.At(first + i), prompts[i]);
      ASSERT_LT(prompts[i], 1417u);
    }
  }
}

TEST(PromptMixTest, APromptIsInItsFile) {
  const PromptMix mix(Data(2, {{1}, {1}, {1}}), {2, 1, 3});
  std::vector<size_t> files;
  for (uint64_t prompt = 0; prompt < mix.size(); ++prompt) files.push_back(mix.FileOf(prompt));
  EXPECT_THAT(files, ElementsAre(0, 0, 1, 2, 2, 2));
}

}  // namespace
}  // namespace baton::controller
