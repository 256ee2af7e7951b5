#include "controller/runtime/batch_builder.h"

#include <map>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

DataSet ThreeTexts() {
  DataSet texts;
  for (const char* response : {"one", "two", "three"}) {
    Example& example = texts.examples.emplace_back();
    example.prompt = "count: ";
    example.response = response;
  }
  return texts;
}

v1::DataSpec TwoAStep() {
  v1::DataSpec data;
  data.set_seed(7);
  data.set_shuffle(true);
  data.set_pretrain_batch_size(2);
  return data;
}

TEST(AddPretraining, TakesEveryTextOnceAnEpochAfterWhatIsThere) {
  std::map<std::string, int> seen;
  for (int64_t step = 1; step <= 3; ++step) {
    std::vector<v1::Trajectory> batch(1);
    AddPretraining(TwoAStep(), ThreeTexts(), step, &batch);
    ASSERT_EQ(batch.size(), 3u);
    EXPECT_EQ(batch[0].response_text(), "");
    for (size_t i = 1; i < 3; ++i) {
      EXPECT_EQ(batch[i].prompt_text(), "count: ");
      EXPECT_EQ(batch[i].step(), static_cast<uint64_t>(step));
      EXPECT_EQ(batch[i].columns_size(), 0) << "what has no tokens is text";
      ++seen[batch[i].response_text()];
    }
  }
  EXPECT_EQ(seen, (std::map<std::string, int>{{"one", 2}, {"two", 2}, {"three", 2}}));
}

TEST(AddPretraining, ABatchThatIsBuiltAgainHasTheSame) {
  std::vector<v1::Trajectory> first, again;
  AddPretraining(TwoAStep(), ThreeTexts(), 5, &first);
  AddPretraining(TwoAStep(), ThreeTexts(), 5, &again);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(first[i].DebugString(), again[i].DebugString());
  AddPretraining(TwoAStep(), DataSet(), 5, &again);
  EXPECT_EQ(again.size(), 2u);
}

}  // namespace
}  // namespace baton::controller
