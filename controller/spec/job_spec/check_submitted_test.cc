#include "controller/spec/job_spec/check_submitted.h"

#include <string>
#include <vector>

#include "controller/spec/job_spec/check_saved.h"
#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::JobSpec GoodOfFolder() {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_model()->set_path("/models/m");
  spec.mutable_data()->add_train_files("a.jsonl");
  spec.mutable_reward()->add_rules()->set_type("numeric");
  spec.mutable_trainer()->set_total_training_steps(10);
  return spec;
}

std::vector<std::string> RefusalsOf(const v1::JobSpec& spec) {
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_THAT(checked.violations, IsEmpty());
  // A job of an earlier release may have the mistake, and its row must stay readable.
  v1::Job job;
  *job.mutable_effective_spec() = checked.effective;
  *job.mutable_dataflow() = checked.dataflow;
  EXPECT_EQ(ProblemOfSaved(job), "");
  std::vector<std::string> out;
  for (const auto& v : CheckSubmitted(spec, checked.effective, checked.dataflow)) {
    out.push_back(v.field() + ": " + v.description());
  }
  return out;
}

TEST(CheckSubmittedTest, AnEmptyStopStringIsRefused) {
  v1::JobSpec spec = GoodOfFolder();
  spec.mutable_rollout()->add_stop("\n");
  EXPECT_THAT(RefusalsOf(spec), IsEmpty());
  spec.mutable_rollout()->add_stop("");
  EXPECT_THAT(RefusalsOf(spec), ElementsAre("spec.rollout.stop[1]: is empty, which every text ends "
                                            "with; remove it, or give a text"));
}

// A client that is not `baton` may send them. A problem of the job's own model is not repeated for
// the roles that have it too.
TEST(CheckSubmittedTest, PathsOfAHomeAreRefused) {
  v1::JobSpec spec = GoodOfFolder();
  spec.mutable_algorithm()->set_use_kl_loss(true);
  spec.mutable_model()->set_path("~/model");
  spec.mutable_data()->add_train_files("~ann/b.jsonl");
  spec.mutable_data()->add_val_files("data/~/v.jsonl");
  spec.mutable_reward()->set_working_dir("~");
  EXPECT_THAT(RefusalsOf(spec), ElementsAre(HasSubstr("spec.model.path: '~/model' begins with ~"),
                                            HasSubstr("spec.data.train_files[1]: "),
                                            HasSubstr("spec.reward.working_dir: ")));
}

TEST(CheckSubmittedTest, APatternThatNeverMatchesIsRefused) {
  v1::JobSpec spec = GoodOfFolder();
  spec.mutable_reward()->mutable_rules(0)->set_extract("answer: $(\\d+)");
  v1::RewardRule* second = spec.mutable_reward()->add_rules();
  second->set_type("regex");
  second->set_pattern("^ {answer}");
  EXPECT_THAT(
      RefusalsOf(spec),
      ElementsAre(HasSubstr("spec.reward.rules[0].extract: 'answer: $(\\d+)' never matches: it "
                            "wants a character behind the end of the text ($)"),
                  HasSubstr("spec.reward.rules[1].pattern: '^ {answer}' never matches: it wants "
                            "white space at the beginning of the text")));
  second->set_strip(false);
  spec.mutable_reward()->mutable_rules(0)->set_extract("answer: \\$(\\d+)");
  EXPECT_THAT(RefusalsOf(spec), IsEmpty());
}

TEST(CheckSubmittedTest, AModelOfCharactersWritesNoOthers) {
  v1::JobSpec spec = GoodOfFolder();
  spec.mutable_model()->clear_path();
  spec.mutable_model()->mutable_init()->set_characters("0123456789+= ");
  spec.mutable_data()->set_max_response_length(4);
  v1::RewardRule* rule = spec.mutable_reward()->mutable_rules(0);
  rule->set_extract("#(\\d+)");
  EXPECT_THAT(RefusalsOf(spec),
              ElementsAre(HasSubstr("it wants '#', which is not among model.init.characters")));
  rule->set_extract("=(\\d{4})");
  EXPECT_THAT(RefusalsOf(spec), ElementsAre(HasSubstr("it wants 5 characters at least, and a "
                                                      "response has at most 4")));
  rule->set_extract("=(\\d{3})");
  EXPECT_THAT(RefusalsOf(spec), IsEmpty());
}

}  // namespace
}  // namespace baton::controller
