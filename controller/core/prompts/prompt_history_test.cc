#include "controller/core/prompts/prompt_history.h"

#include <map>

#include "controller/core/trajectories/experience_buffer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/controller/parts.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TrajectoryInfo Said(uint64_t serial, uint64_t prompt, v1::Purpose purpose = v1::PURPOSE_TRAIN) {
  TrajectoryInfo info;
  info.id = TrajectoryId(purpose, serial, 0, 1);
  info.serial = serial;
  info.purpose = purpose;
  info.prompt_id = prompt;
  info.policy_version = serial / 2;
  info.tokens = 3;
  info.location = {1, serial * 100, 50};
  return info;
}

std::vector<uint64_t> SerialsOf(const PromptHistory& history, const TrajectoryInfo& prompt,
                                size_t most = 100) {
  std::vector<uint64_t> serials;
  for (const PastResponse& response : history.Of(PromptKey(prompt), most)) {
    serials.push_back(response.serial);
  }
  return serials;
}

TEST(PromptHistoryTest, TheNewestComesFirstAndPromptsStayApart) {
  PromptHistory history;
  for (uint64_t serial = 1; serial <= 9; ++serial) history.Note(Said(serial, serial % 3));
  EXPECT_THAT(SerialsOf(history, Said(0, 0)), ElementsAre(9, 6, 3));
  EXPECT_THAT(SerialsOf(history, Said(0, 1)), ElementsAre(7, 4, 1));
  EXPECT_THAT(SerialsOf(history, Said(0, 1), 2), ElementsAre(7, 4));
  EXPECT_THAT(SerialsOf(history, Said(0, 3)), IsEmpty());
  const PastResponse response = history.Of(PromptKey(Said(0, 2)), 1).at(0);
  EXPECT_EQ(response.id, Said(8, 2).id);
  EXPECT_EQ(response.policy_version, 4u);
  EXPECT_EQ(response.tokens, 3u);
  EXPECT_EQ(response.location.offset, 800u);
}

// Greedy baselines ask the training data, evaluations have data of their own.
TEST(PromptHistoryTest, PurposesOfOneDataSetShareTheirPrompts) {
  PromptHistory history;
  history.Note(Said(1, 5, v1::PURPOSE_TRAIN));
  history.Note(Said(2, 5, v1::PURPOSE_EVAL));
  history.Note(Said(3, 5, v1::PURPOSE_BASELINE));
  EXPECT_THAT(SerialsOf(history, Said(0, 5)), ElementsAre(3, 1));
  EXPECT_THAT(SerialsOf(history, Said(0, 5, v1::PURPOSE_EVAL)), ElementsAre(2));
}

TEST(PromptHistoryTest, IgnoresResponsesWithoutPayloadOrTokens) {
  PromptHistory history;
  TrajectoryInfo empty = Said(1, 5), nowhere = Said(2, 5);
  empty.tokens = 0;
  nowhere.location = {};
  history.Note(empty);
  history.Note(nowhere);
  EXPECT_THAT(SerialsOf(history, empty), IsEmpty());
  EXPECT_EQ(history.first_serial(), 0u);
}

// Against a slow definition: all rows, and a search through them.
TEST(PromptHistoryTest, RetiresRowsInOrder) {
  for (uint64_t stride = 1; stride < 8; ++stride) {
    PromptHistory history;
    std::map<uint64_t, uint64_t> kept;  // prompt, by serial
    for (uint64_t serial = 1; serial < 200; ++serial) {
      const uint64_t prompt = serial * stride % 11 * (serial % 5);
      history.Note(Said(serial, prompt));
      kept[serial] = prompt;
      if (serial % 7 == 0) {
        const uint64_t first = serial < 20 ? 0 : serial - 20;
        history.Retire(first);
        kept.erase(kept.begin(), kept.lower_bound(first));
      }
      for (uint64_t asked = 0; asked < 11; ++asked) {
        std::vector<uint64_t> expected;
        for (auto it = kept.rbegin(); it != kept.rend(); ++it) {
          if (it->second == asked) expected.push_back(it->first);
        }
        ASSERT_EQ(SerialsOf(history, Said(0, asked)), expected) << serial;
      }
      ASSERT_EQ(history.rows(), kept.size());
      ASSERT_EQ(history.first_serial(), kept.begin()->first);
    }
    history.Retire(1000);
    EXPECT_EQ(history.rows(), 0u);
    EXPECT_THAT(SerialsOf(history, Said(0, 0)), IsEmpty());
  }
}

TEST(PromptHistoryTest, BufferKeepsItsRowsInTheHistoryUntilTheirStepRetires) {
  EffectSink out = SinkAt(absl::FromUnixSeconds(1000));
  ExperienceBuffer buffer;
  buffer.NoteFound(7, ToRow(Said(7, 4), 1, 1), /*current=*/false);
  EXPECT_THAT(SerialsOf(buffer.history(), Said(0, 4)), ElementsAre(7));
  for (int64_t step = 0; step < 3; ++step) {
    buffer.BeginStep(/*most=*/2, /*keeps_all=*/false, ExperienceBuffer::kNoSerial, out);
    TrajectoryInfo put = Said(0, 4);
    buffer.PutNew(put, out);
    out.StepDone();
  }
  // Step 1 began behind serial 7 and put serial 8; steps 2 and 3 are kept.
  EXPECT_THAT(SerialsOf(buffer.history(), Said(0, 4)), ElementsAre(10, 9));
  buffer.ForgetHistory();
  EXPECT_THAT(SerialsOf(buffer.history(), Said(0, 4)), IsEmpty());
}

}  // namespace
}  // namespace baton::controller
