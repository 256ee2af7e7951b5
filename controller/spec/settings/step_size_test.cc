#include "controller/spec/settings/step_size.h"

#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/controller/spec.h"

namespace baton::controller {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

v1::JobSpec StepOf(int batch, int n, int prompt, int response) {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_data()->set_train_batch_size(batch);
  spec.mutable_data()->set_gen_batch_size(batch);
  spec.mutable_data()->set_max_prompt_length(prompt);
  spec.mutable_data()->set_max_response_length(response);
  spec.mutable_rollout()->set_n(n);
  spec.mutable_rollout()->mutable_val()->set_n(n);
  spec.mutable_resources()->set_rollout_workers(1);
  spec.mutable_resources()->set_reward_workers(1);
  return spec;
}

std::string Problem(const v1::JobSpec& spec, const StepLimits& limits = {},
                    const v1::Dataflow& dataflow = {}) {
  std::string text;
  for (const auto& violation : CheckStepSize(spec, dataflow, limits))
    text += violation.field() + ": " + violation.description();
  return text;
}

TEST(StepSizeTest, NamesTheProduct) {
  EXPECT_THAT(Problem(StepOf(65536, 1024, 1, 1)),
              HasSubstr("spec.data.train_batch_size x spec.rollout.n = 67,108,864 responses of a "
                        "step, at most 262,144; lower one of them"));
  EXPECT_EQ(Problem(StepOf(32768, 8, 1024, 1024)), "");
  EXPECT_THAT(Problem(StepOf(32769, 8, 1, 1)), HasSubstr("= 262,152 responses"));
  // 32,768 responses of 2^24 + 2^24 tokens.
  EXPECT_THAT(Problem(StepOf(4096, 8, 1 << 24, 1 << 24)),
              AllOf(HasSubstr("spec.data.max_response_length: "),
                    HasSubstr("spec.data.train_batch_size x spec.rollout.n x "
                              "(spec.data.max_prompt_length + spec.data.max_response_length) = "
                              "1,099,511,627,776 tokens of a step, at most 8,589,934,592")));
}

TEST(StepSizeTest, LimitsAreGiven) {
  StepLimits limits;
  limits.responses = 6;
  limits.tokens = 60;
  EXPECT_EQ(Problem(StepOf(2, 3, 4, 6), limits), "");
  EXPECT_THAT(Problem(StepOf(2, 4, 4, 6), limits), HasSubstr("= 8 responses of a step, at most 6"));
  EXPECT_THAT(Problem(StepOf(2, 3, 5, 6), limits), HasSubstr("= 66 tokens of a step, at most 60"));
}

// 100 bytes of a response, and 12 + 6 for its score.
TEST(StepSizeTest, TheRowOfABatchCanBeStored) {
  StepLimits limits;
  limits.responses = limits.tokens = int64_t{1} << 60;
  v1::Dataflow dataflow;
  dataflow.add_score()->set_out("reward");
  EXPECT_THAT(Problem(StepOf(65536, 1024, 1, 1), limits, dataflow),
              HasSubstr("the bytes of a response in the row of its batch = 7,918,845,952 bytes, at "
                        "most 900,000,000 can be stored"));
  EXPECT_EQ(Problem(StepOf(65536, 116, 1, 1), limits, dataflow), "");
  EXPECT_NE(Problem(StepOf(65536, 117, 1, 1), limits, dataflow), "");
}

TEST(StepSizeTest, RoundsAndBaselinesCount) {
  v1::JobSpec spec = StepOf(32, 8, 1, 1);
  spec.mutable_data()->set_gen_batch_size(96);
  spec.mutable_algorithm()->set_dynamic_sampling(true);
  spec.mutable_algorithm()->set_max_num_gen_batches(10);
  StepLimits limits;
  limits.responses = 7680;
  EXPECT_EQ(Problem(spec, limits), "");
  limits.responses = 7679;
  EXPECT_THAT(Problem(spec, limits), HasSubstr("spec.data.gen_batch_size x spec.rollout.n x "
                                               "spec.algorithm.max_num_gen_batches = 7,680"));
  v1::Dataflow dataflow;
  dataflow.add_generate()->set_purpose("baseline");
  EXPECT_THAT(Problem(spec, limits, dataflow), HasSubstr("= 8,640"));
}

TEST(StepSizeTest, BoundsTheSizeOfAnEvaluation) {
  v1::JobSpec spec = StepOf(1, 1024, 1, 1);
  EXPECT_EQ(EvaluationTooLarge(spec, 256, {}), "");
  EXPECT_THAT(EvaluationTooLarge(spec, 257, {}),
              HasSubstr("examples of spec.data.val_files x spec.rollout.val.n = 263,168 responses "
                        "of an evaluation, at most 262,144"));
  spec.mutable_data()->set_val_max_samples(256);
  EXPECT_EQ(EvaluationTooLarge(spec, 1'000'000'000, {}), "");
  spec.mutable_data()->set_max_response_length(1 << 24);
  EXPECT_THAT(EvaluationTooLarge(spec, 1000, {}), HasSubstr("tokens of an evaluation"));
}

// Numbers out of their own bounds are reported by CheckSpec, and do not overflow here.
TEST(StepSizeTest, NoProductOverflows) {
  const int most = 2147483647;
  v1::JobSpec spec = StepOf(most, most, most, most);
  spec.mutable_algorithm()->set_dynamic_sampling(true);
  spec.mutable_algorithm()->set_max_num_gen_batches(most);
  EXPECT_THAT(Problem(spec), HasSubstr("= 9,223,372,036,854,775,807 responses"));
  EXPECT_EQ(Problem(StepOf(-1, -1, -1, -1)), "");
  EXPECT_NE(EvaluationTooLarge(spec, ~uint64_t{0} >> 1, {}), "");
}

TEST(StepSizeTest, WorkersAreCountedTogether) {
  v1::JobSpec spec = StepOf(1, 1, 1, 1);
  spec.mutable_resources()->set_rollout_workers(16385);
  EXPECT_THAT(Problem(spec), HasSubstr("workers, at most 16,384"));
  spec.mutable_resources()->set_rollout_workers(16384);
  EXPECT_EQ(Problem(spec), "");
}

}  // namespace
}  // namespace baton::controller
