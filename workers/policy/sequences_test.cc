#include "workers/policy/sequences.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/messages/columns.h"
#include "tests/support/workers/model_folder.h"
#include "tests/support/workers/policy.h"
#include "workers/policy/trajectory_columns.h"

namespace baton::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::Trajectory Sampled() {
  v1::Trajectory trajectory;
  trajectory.set_trajectory_id("t-9");
  *trajectory.add_columns() = MakeColumn("prompt_tokens", false, std::vector<int32_t>{3, 12});
  *trajectory.add_columns() = MakeColumn("tokens", true, std::vector<int32_t>{5, 6, 1});
  *trajectory.add_columns() = MakeColumn("rollout_log_prob", true, std::vector<float>{-1, -2, -3});
  *trajectory.add_columns() = MakeColumn("advantages", false, std::vector<float>{0.5});
  return trajectory;
}

TEST(TrainBatch, TakesColumnsAsTheyAre) {
  const auto sequence = FromColumns(Sampled()).value();
  EXPECT_THAT(sequence.tokens, ElementsAre(3, 12, 5, 6, 1));
  EXPECT_EQ(sequence.prompt_length, 2);
  EXPECT_THAT(sequence.behaviour_log_probs, ElementsAre(-1, -2, -3));
  EXPECT_THAT(sequence.advantages, ElementsAre(0.5));
  EXPECT_THAT(sequence.ref_log_probs, IsEmpty());
  EXPECT_THAT(sequence.loss_mask, IsEmpty());
}

TEST(TrainBatch, AccuracyOrElseTheRewardSaysWhatIsPositive) {
  v1::Trajectory trajectory = Sampled();
  EXPECT_FALSE(FromColumns(trajectory).value().positive);
  (*trajectory.mutable_scores())["reward"] = 0.5;
  EXPECT_TRUE(FromColumns(trajectory).value().positive);
  (*trajectory.mutable_scores())["accuracy"] = 0;
  EXPECT_FALSE(FromColumns(trajectory).value().positive);
}

TEST(TrainBatch, RecomputedLogProbsAreTheOldOnes) {
  v1::Trajectory trajectory = Sampled();
  EXPECT_THAT(FromColumns(trajectory).value().old_log_probs, IsEmpty());
  *trajectory.add_columns() = MakeColumn("old_log_prob", true, std::vector<float>{-4, -5, -6});
  EXPECT_THAT(FromColumns(trajectory).value().old_log_probs, ElementsAre(-4, -5, -6));
}

// The ratio divides by the full softmax; the behaviour is what was sampled from.
TEST(TrainBatch, TruncatedSamplingIsTheBehaviourAndNotTheOldPolicy) {
  v1::Trajectory trajectory = Sampled();
  *trajectory.add_columns() =
      MakeColumn("sampling_log_prob", true, std::vector<float>{-0.5, -1.5, -2.5});
  auto sequence = FromColumns(trajectory).value();
  EXPECT_THAT(sequence.behaviour_log_probs, ElementsAre(-0.5, -1.5, -2.5));
  EXPECT_THAT(sequence.old_log_probs, ElementsAre(-1, -2, -3));
  *trajectory.add_columns() = MakeColumn("old_log_prob", true, std::vector<float>{-4, -5, -6});
  sequence = FromColumns(trajectory).value();
  EXPECT_THAT(sequence.behaviour_log_probs, ElementsAre(-0.5, -1.5, -2.5));
  EXPECT_THAT(sequence.old_log_probs, ElementsAre(-4, -5, -6));
}

TEST(TrainBatch, MasksWhatTheEnvironmentSaid) {
  v1::Trajectory trajectory = Sampled();
  v1::Segment* segment = trajectory.add_segments();
  segment->set_kind(v1::Segment::KIND_ENVIRONMENT);
  segment->set_begin(3);
  segment->set_end(4);
  EXPECT_THAT(FromColumns(trajectory).value().loss_mask, ElementsAre(1, 0, 1));
}

TEST(TrainBatch, AHeaderHasTheLengthsMaskAndSignOfItsTrajectory) {
  v1::Trajectory whole = Sampled(), header;
  const auto add = [&](v1::Segment::Kind kind, uint32_t begin, uint32_t end) {
    v1::Segment* segment = whole.add_segments();
    segment->set_kind(kind);
    segment->set_begin(begin);
    segment->set_end(end);
  };
  add(v1::Segment::KIND_PROMPT, 0, 2);
  add(v1::Segment::KIND_MODEL, 2, 3);
  add(v1::Segment::KIND_ENVIRONMENT, 3, 4);
  add(v1::Segment::KIND_MODEL, 4, 5);
  (*whole.mutable_scores())["reward"] = 1;
  header = whole;
  header.clear_columns();
  const auto expected = FromColumns(whole).value();
  const auto batch = MakeTrainBatch({whole, header}, v1::DataSpec(),
                                    *PolicySource::Open(TinySpec().model(), "").value())
                         .value();
  EXPECT_FALSE(batch[0].remote());
  EXPECT_TRUE(batch[1].remote());
  EXPECT_THAT(batch[1].tokens, IsEmpty());
  for (const auto& sequence : batch) {
    EXPECT_EQ(sequence.length(), 5);
    EXPECT_EQ(sequence.prompt_length, expected.prompt_length);
    EXPECT_EQ(sequence.loss_mask, expected.loss_mask);
    EXPECT_TRUE(sequence.positive);
    EXPECT_FALSE(sequence.pretraining);
  }
  EXPECT_EQ(batch[0].row, 0);
  EXPECT_EQ(batch[1].row, 1);
}

TEST(TrainBatch, TokenizesDemonstrations) {
  const auto spec = TinySpec();
  const auto source = PolicySource::Open(spec.model(), "").value();
  v1::Trajectory trajectory;
  trajectory.set_prompt_text("1+2=");
  trajectory.set_response_text("3");
  const auto batch = MakeTrainBatch({trajectory, Sampled()}, spec.data(), *source).value();
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_THAT(batch[0].tokens, ElementsAre(3, 12, 4, 13, 5, 1));  // … 3 <eos>
  EXPECT_EQ(batch[0].prompt_length, 4);
  EXPECT_THAT(batch[0].behaviour_log_probs, IsEmpty());
  EXPECT_TRUE(batch[0].pretraining);
  EXPECT_FALSE(batch[1].pretraining);
  EXPECT_THAT(batch[1].tokens, ElementsAre(3, 12, 5, 6, 1));
}

// data.loss_on: all_assistant. Of the others' turns, and of those of weight 0, nothing is learned.
TEST(TrainBatch, LearnsEachTurnOfTheAssistantThatCounts) {
  const TestFolder folder;
  WriteModel(folder.path());
  v1::ModelSpec model;
  model.set_path(folder.path());
  model.set_chat_template("chatml");
  const auto source = PolicySource::Open(model, "").value();
  v1::Trajectory trajectory;
  const auto say = [](auto* turns, const char* role, const char* text, bool untrained = false) {
    v1::ChatMessage* turn = turns->Add();
    turn->set_role(role);
    turn->set_content(text);
    turn->set_untrained(untrained);
  };
  say(trajectory.mutable_messages(), "user", "a");
  say(trajectory.mutable_response_messages(), "assistant", "b");
  say(trajectory.mutable_response_messages(), "user", "c");
  say(trajectory.mutable_response_messages(), "assistant", "d", /*untrained=*/true);
  say(trajectory.mutable_response_messages(), "user", "e");
  say(trajectory.mutable_response_messages(), "assistant", "f");
  const auto batch = MakeTrainBatch({trajectory}, v1::DataSpec(), *source).value();
  std::vector<int32_t> tokens;
  std::vector<uint8_t> mask;
  const auto add = [&](const std::string& text, uint8_t learned) {
    const auto ids = source->tokenizer().Encode(text).value();
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    mask.resize(tokens.size(), learned);
  };
  add("<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n", 0);
  const size_t prompt = tokens.size();
  add("b<|im_end|>", 1);
  add("\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\nd<|im_end|>\n"
      "<|im_start|>user\ne<|im_end|>\n<|im_start|>assistant\n",
      0);
  add("f<|im_end|>", 1);
  ASSERT_EQ(batch.size(), 1u);
  EXPECT_EQ(batch[0].tokens, tokens);
  EXPECT_EQ(batch[0].prompt_length, static_cast<int64_t>(prompt));
  EXPECT_EQ(batch[0].loss_mask, std::vector<uint8_t>(mask.begin() + prompt, mask.end()));
}

// As rollouts render a prompt (rollout_role_test.cc).
TEST(TrainBatch, ADemonstrationIsRenderedWithTheToolsAndSettingsOfItsLine) {
  const TestFolder folder;
  WriteModel(folder.path());
  folder.Write("chat_template.jinja",
               "{{ mood }}{{ tools[0].name if tools }}"
               "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
               "{% if add_generation_prompt %}<|im_start|>{% endif %}");
  v1::ModelSpec model;
  model.set_path(folder.path());
  const auto source = PolicySource::Open(model, "").value();
  v1::Trajectory trajectory;
  v1::ChatMessage* turn = trajectory.add_messages();
  turn->set_role("user");
  turn->set_content("a");
  trajectory.set_response_text("b");
  const auto tokens = [&] {
    return MakeTrainBatch({trajectory}, v1::DataSpec(), *source).value()[0].tokens;
  };
  const auto encode = [&](const std::string& text) {
    return source->tokenizer().Encode(text).value();
  };
  const std::string said = "<|im_start|>a<|im_end|><|im_start|>b<|im_end|>";
  EXPECT_EQ(tokens(), encode(said));
  trajectory.set_tools_json(R"([{"name": "relay"}])");
  EXPECT_EQ(tokens(), encode("relay" + said));
  trajectory.set_chat_template_kwargs_json(R"({"mood": "the "})");
  EXPECT_EQ(tokens(), encode("the relay" + said));
}

TEST(TrainBatch, NamesTheTrajectoryThatIsWrong) {
  const auto spec = TinySpec();
  const auto source = PolicySource::Open(spec.model(), "").value();
  v1::Trajectory trajectory;
  trajectory.set_trajectory_id("t-3");
  trajectory.set_prompt_text("a letter");
  const auto batch = MakeTrainBatch({trajectory}, spec.data(), *source);
  EXPECT_THAT(std::string(batch.status().message()), HasSubstr("t-3"));
}

}  // namespace
}  // namespace baton::policy
