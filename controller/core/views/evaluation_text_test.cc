#include "controller/core/views/evaluation_text.h"

#include <string>

#include "gtest/gtest.h"

namespace baton::controller {
namespace {

TEST(EvaluationTextTest, HasTheNumbersInTheOrderOfTheirNames) {
  google::protobuf::Map<std::string, double> metrics;
  EXPECT_EQ(EvaluationText(metrics), "");
  metrics["timing_s/testing"] = 3;
  EXPECT_EQ(EvaluationText(metrics), "");
  metrics["val/reward"] = 0.94;
  metrics["val/accuracy"] = 0.937512;
  metrics["val-core/all/mean@4"] = 0.937512;
  metrics["val-core/all/best@4"] = 1;
  EXPECT_EQ(EvaluationText(metrics), "accuracy 0.9375, reward 0.94");  // one source says no more
}

TEST(EvaluationTextTest, NamesAFewSources) {
  google::protobuf::Map<std::string, double> metrics;
  metrics["val/accuracy"] = 0.925;
  metrics["val-core/maths/mean@1"] = 0.95;
  metrics["val-core/a/b/mean@1"] = 0.9;
  metrics["val-core/maths/best@1"] = 0.95;
  metrics["val-core/sources_in_other"] = 3;
  EXPECT_EQ(EvaluationText(metrics), "accuracy 0.925; a/b 0.9, maths 0.95");
  for (int i = 0; i < 7; ++i) metrics["val-core/" + std::to_string(i) + "/mean@1"] = 0;
  EXPECT_EQ(EvaluationText(metrics), "accuracy 0.925");  // nine
}

}  // namespace
}  // namespace baton::controller
