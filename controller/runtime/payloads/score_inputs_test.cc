#include "controller/runtime/payloads/score_inputs.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;

const std::map<std::string, double> kNodeScores = {{"reward", 1}};

v1::Trajectory Payload() {
  v1::Trajectory payload;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    trajectory_id: "t-1" group_id: "group-0" purpose: PURPOSE_TRAIN prompt_id: 3 sample_index: 2
    policy_version: 5 finish_reason: "stop"
    segments { kind: KIND_PROMPT end: 1 } segments { kind: KIND_MODEL begin: 1 end: 3 }
    columns { name: "prompt_tokens" data: "aaaa" } columns { name: "tokens" data: "aaaabbbb" }
    columns { name: "rollout_log_prob" data: "ccccdddd" }
    columns { name: "sampling_log_prob" data: "ccccdddd" }
    columns { name: "ref_log_prob" data: "eeeeffff" } columns { name: "steps" data: "gggghhhh" }
    prompt_text: "1+1=" rendered_prompt: "user: 1+1=" messages { content: "1+1=" }
    tools_json: "[]" response_text: "2" answer: "2" source: "sums"
    chat_template_kwargs_json: "{}" prompt_suffix: "<think>" unanswered: true)",
                                                            &payload));
  return payload;
}

v1::ScoreNode Node(const std::string& text) {
  v1::ScoreNode node;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &node));
  return node;
}

std::vector<std::string> ColumnsOf(const std::string& node) {
  std::vector<std::string> names;
  const v1::Trajectory inputs = ScoreInputs(Payload(), kNodeScores, Node(node));
  for (const v1::Column& column : inputs.columns()) {
    names.push_back(column.name());
    EXPECT_GE(column.data().size(), 4u);
  }
  return names;
}

TEST(ScoreInputsTest, ColumnsAreThoseThatTheNodeNames) {
  EXPECT_THAT(ColumnsOf(R"(role: "mine" method: "look")"),
              ElementsAre("prompt_tokens", "tokens", "rollout_log_prob"));
  EXPECT_THAT(ColumnsOf(R"(role: "mine" method: "look" inputs: "steps" inputs: "reward")"),
              ElementsAre("prompt_tokens", "tokens", "rollout_log_prob", "steps"));
  EXPECT_THAT(ColumnsOf(R"(role: "reference" method: "compute_log_prob")"),
              ElementsAre("prompt_tokens", "tokens"));
  EXPECT_THAT(ColumnsOf(R"(role: "critic" method: "compute_values" inputs: "ref_log_prob")"),
              ElementsAre("prompt_tokens", "tokens", "ref_log_prob"));
}

TEST(ScoreInputsTest, MethodsThatReadTokensGetNoTexts) {
  for (const char* node : {R"(role: "actor" method: "compute_log_prob")",
                           R"(role: "cost_critic" method: "compute_values")"}) {
    const v1::Trajectory inputs = ScoreInputs(Payload(), kNodeScores, Node(node));
    EXPECT_EQ(inputs.trajectory_id(), "t-1");
    EXPECT_EQ(inputs.segments_size(), 2);
    EXPECT_EQ(inputs.response_text() + inputs.prompt_text() + inputs.rendered_prompt(), "");
    EXPECT_EQ(inputs.messages_size(), 0);
    EXPECT_EQ(inputs.scores_size(), 0);
  }
}

// Every field that a payload has, so that a new one is not forgotten here.
TEST(ScoreInputsTest, AMethodOfAUsersOwnGetsAllOfTheRest) {
  v1::Trajectory expected = Payload();
  const google::protobuf::Reflection& fields = *expected.GetReflection();
  // Outputs of other nodes, fields that are set only once the step has ended, and responses that a
  // data set gives.
  const std::set<std::string> absent = {
      "scores", "error", "step", "infra_failed", "response_messages", "rejected_message"};
  for (int i = 0; i < expected.GetDescriptor()->field_count(); ++i) {
    const auto* field = expected.GetDescriptor()->field(i);
    const bool set = field->is_repeated() ? fields.FieldSize(expected, field) > 0
                                          : fields.HasField(expected, field);
    EXPECT_EQ(set, absent.count(std::string(field->name())) == 0) << field->name();
  }
  expected.mutable_columns()->DeleteSubrange(3, 3);
  (*expected.mutable_scores())["reward"] = 1;
  const v1::Trajectory inputs =
      ScoreInputs(Payload(), kNodeScores, Node(R"(role: "judge" method: "compute_reward")"));
  EXPECT_EQ(inputs.DebugString(), expected.DebugString());
}

}  // namespace
}  // namespace baton::controller
