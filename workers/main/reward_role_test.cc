#include "workers/main/reward_role.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/sdk/worker.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

v1::RewardRule Numeric(double weight) {
  v1::RewardRule rule;
  rule.set_type("numeric");
  rule.set_extract("#(\\d+)");
  rule.set_weight(weight);
  return rule;
}

class RewardRoleTest : public ::testing::Test {
 protected:
  RewardRoleTest() : worker_(controller_) {
    EXPECT_TRUE(role_.Register(*worker_.operator->()).ok());
    worker_.Start();
  }
  v1::TaskResult Assign(const v1::RewardSpec& reward) {
    v1::Task task = MakeTask(std::to_string(++tokens_), "reward", "assign_role");
    *task.mutable_assign_role()->mutable_spec()->mutable_reward() = reward;
    return controller_.RunTask(task).value_or(v1::TaskResult());
  }
  v1::TaskResult Judge(const std::string& response, const std::string& answer) {
    v1::Task task = MakeTask(std::to_string(++tokens_), "reward", "compute_reward");
    v1::Trajectory* trajectory = task.mutable_score()->mutable_trajectory();
    trajectory->set_prompt_text("47+85:");
    trajectory->set_response_text(response);
    trajectory->set_answer(answer);
    return controller_.RunTask(task).value_or(v1::TaskResult());
  }

  FakeController controller_;
  RewardRole role_{{reward::CommandSandbox::None(), ""}};
  RunningWorker worker_;
  int tokens_ = 0;
};

TEST_F(RewardRoleTest, AddsUpWeightedRules) {
  v1::RewardSpec reward;
  *reward.add_rules() = Numeric(2);
  v1::RewardRule* regex = reward.add_rules();
  regex->set_type("regex");
  regex->set_pattern("^7\\+5");
  regex->set_weight(0.5);
  ASSERT_EQ(Assign(reward).status().code(), 0);
  const v1::TaskResult right = Judge("7+5+0=12 4+8+1=13 #132", "132");
  EXPECT_EQ(right.metrics().at("reward"), 2.5);
  EXPECT_EQ(right.metrics().at("accuracy"), 1);
  EXPECT_EQ(right.metrics().at("numeric"), 1);
  const v1::TaskResult wrong = Judge("7+5+0=12 #133", "132");
  EXPECT_EQ(wrong.metrics().at("reward"), 0.5);
  EXPECT_EQ(wrong.metrics().at("accuracy"), 0);
}

// A thought that the chat template opened ends in the response.
TEST_F(RewardRoleTest, AResponseIsJudgedWithWhatThePromptBeganOfItIfAsked) {
  v1::RewardSpec reward;
  v1::RewardRule* regex = reward.add_rules();
  regex->set_type("regex");
  regex->set_pattern("^<think>[^<]*</think>4$");
  v1::Task task = MakeTask("", "reward", "compute_reward");
  task.mutable_score()->mutable_trajectory()->set_response_text("2 and 2</think>4");
  task.mutable_score()->mutable_trajectory()->set_prompt_suffix("<think>");
  for (const bool asked : {false, true}) {
    reward.set_with_prompt_suffix(asked);
    ASSERT_EQ(Assign(reward).status().code(), 0);
    task.set_task_token(std::to_string(++tokens_));
    const v1::TaskResult result = controller_.RunTask(task).value_or(v1::TaskResult());
    EXPECT_EQ(result.metrics().at("reward"), asked ? 1 : 0);
  }
}

// A rule that has no say in a response gives it no accuracy.
TEST_F(RewardRoleTest, RulesKnowTheSourceOfALineAndWhetherItHasAnAnswer) {
  v1::RewardSpec reward;
  *reward.add_rules() = Numeric(1);
  reward.mutable_rules(0)->mutable_when()->add_source("math");
  ASSERT_EQ(Assign(reward).status().code(), 0);
  v1::Task task = MakeTask("", "reward", "compute_reward");
  v1::Trajectory* trajectory = task.mutable_score()->mutable_trajectory();
  trajectory->set_response_text("#132");
  trajectory->set_answer("132");
  const auto judged = [&](const std::string& source, bool unanswered) {
    trajectory->set_source(source);
    trajectory->set_unanswered(unanswered);
    task.set_task_token(std::to_string(++tokens_));
    const v1::TaskResult result = controller_.RunTask(task).value_or(v1::TaskResult());
    EXPECT_EQ(result.error(), "");
    return result.metrics().count("accuracy") > 0;
  };
  EXPECT_TRUE(judged("math", false));
  EXPECT_FALSE(judged("text", false));
  EXPECT_FALSE(judged("math", true));
}

TEST_F(RewardRoleTest, NamesTheRewardAfterTheNodesOutput) {
  v1::RewardSpec reward;
  *reward.add_rules() = Numeric(1);
  ASSERT_EQ(Assign(reward).status().code(), 0);
  v1::Task task = MakeTask(std::to_string(++tokens_), "reward", "compute_reward");
  task.mutable_score()->mutable_trajectory()->set_response_text("#132");
  task.mutable_score()->mutable_trajectory()->set_answer("132");
  (*task.mutable_score()->mutable_options()->mutable_fields())["out"].set_string_value("rules");
  const v1::TaskResult result = controller_.RunTask(task).value_or(v1::TaskResult());
  EXPECT_EQ(result.metrics().at("rules"), 1);
  EXPECT_EQ(result.metrics().count("reward"), 0u);
}

TEST_F(RewardRoleTest, AsksACommand) {
  v1::RewardSpec reward;
  reward.set_command(
      "python3 -c 'import json, sys\n"
      "for line in sys.stdin:\n"
      "  request = json.loads(line)\n"
      "  good = request[\"response\"] == request[\"answer\"]\n"
      "  print(json.dumps({\"id\": request[\"id\"], \"reward\": 1 if good else 0.25}))'");
  ASSERT_EQ(Assign(reward).status().code(), 0);
  EXPECT_EQ(Judge("132", "132").metrics().at("reward"), 1);
  EXPECT_EQ(Judge("133", "132").metrics().at("reward"), 0.25);
}

TEST_F(RewardRoleTest, AResponseThatCannotBeJudgedIsWorthTheErrorReward) {
  v1::RewardSpec reward;
  *reward.add_rules() = Numeric(1);
  reward.set_error_reward(-1);
  ASSERT_EQ(Assign(reward).status().code(), 0);
  const v1::TaskResult result = Judge("#132", "not a number");
  EXPECT_EQ(result.status().code(), 0);
  EXPECT_EQ(result.metrics().at("reward"), -1);
  EXPECT_THAT(result.error(), HasSubstr("numeric"));
}

TEST_F(RewardRoleTest, ACommandThatEndsGivesNoReward) {
  v1::RewardSpec reward;
  reward.set_command("read line; exit 3");
  ASSERT_EQ(Assign(reward).status().code(), 0);
  v1::TaskResult result = Judge("132", "132");
  EXPECT_EQ(result.status().code(), 0);
  EXPECT_TRUE(result.infra_failed());
  EXPECT_THAT(result.error(), HasSubstr("exited with code 3"));
  EXPECT_TRUE(result.metrics().empty());
  reward.set_error_reward(-1);  // who asks for it
  ASSERT_EQ(Assign(reward).status().code(), 0);
  result = Judge("132", "132");
  EXPECT_TRUE(result.infra_failed());
  EXPECT_EQ(result.metrics().at("reward"), -1);
}

TEST_F(RewardRoleTest, AnAnswerThatNoRuleCanReadIsNoFaultOfTheInfrastructure) {
  v1::RewardSpec reward;
  *reward.add_rules() = Numeric(1);
  ASSERT_EQ(Assign(reward).status().code(), 0);
  const v1::TaskResult result = Judge("#132", "not a number");
  EXPECT_FALSE(result.infra_failed());
  EXPECT_EQ(result.metrics().at("reward"), 0);
}

TEST_F(RewardRoleTest, ABadRuleIsNamed) {
  v1::RewardSpec reward;
  *reward.add_rules() = Numeric(1);
  reward.add_rules()->set_type("vibes");
  EXPECT_THAT(Assign(reward).status().message(), HasSubstr("spec.reward.rules[1]"));
  EXPECT_NE(Assign(v1::RewardSpec()).status().code(), 0);
}

TEST(MakeReward, RunsNoCommandWithoutPermission) {
  v1::RewardSpec reward;
  reward.set_command("true");
  const absl::Status refused = MakeReward(reward).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("--allow-commands"));
  EXPECT_THAT(MakeReward(reward, {nullptr, "bwrap does not work here"}).status().message(),
              HasSubstr("spec.reward.command: bwrap does not work here"));
}

TEST(MakeReward, GivesPartsOfOneTypeDifferentNames) {
  v1::RewardSpec reward;
  *reward.add_rules() = Numeric(1);
  *reward.add_rules() = Numeric(3);
  const auto function = MakeReward(reward).value();
  reward::RewardInput input;
  input.response = "#4";
  input.answer = "4";
  const auto result = function->Score(input).value();
  EXPECT_EQ(result.reward, 4);
  EXPECT_EQ(result.scores.at("numeric_2"), 1);
}

}  // namespace
}  // namespace baton
