#include "controller/spec/job_spec/same_prompts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::JobSpec OverFiles() {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_data()->add_train_files("train.jsonl");
  spec.mutable_data()->add_val_files("val.jsonl");
  return spec;
}

TEST(SamePromptsTest, NamesTheSettingThatMakesThePromptsDiffer) {
  const v1::JobSpec job = OverFiles();
  EXPECT_THAT(WhyOtherPrompts(job, job), IsEmpty());
  v1::JobSpec other = job;
  other.mutable_data()->set_seed(7);
  other.mutable_data()->set_train_batch_size(3);
  other.mutable_data()->set_answer_key("solution");
  EXPECT_THAT(WhyOtherPrompts(job, other), IsEmpty()) << "the prompts are the same";
  other = job;
  other.mutable_data()->add_train_files("more.jsonl");
  EXPECT_THAT(WhyOtherPrompts(job, other), HasSubstr("train_files are train.jsonl, more.jsonl"));
  EXPECT_THAT(WhyOtherPrompts(other, job), HasSubstr("train_files are train.jsonl, and here"));
  other = job;
  other.mutable_data()->set_val_files(0, "other.jsonl");
  EXPECT_THAT(WhyOtherPrompts(job, other), HasSubstr("val_files"));
  other = job;
  other.mutable_data()->set_prompt_key("question");
  EXPECT_THAT(WhyOtherPrompts(job, other), HasSubstr("prompt_key is 'question'"));
  other = job;
  other.set_kind(v1::JOB_KIND_SFT);
  EXPECT_THAT(WhyOtherPrompts(job, other), HasSubstr("kind rl"));
}

}  // namespace
}  // namespace baton::controller
