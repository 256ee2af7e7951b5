#include "controller/spec/dataflow/check_dataflow.h"

#include <functional>
#include <string>

#include "controller/spec/dataflow/score_graph.h"
#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/support/controller/spec.h"

namespace baton::controller {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// Two rewards, one of which reads the output of another node, a critic and a reference.
constexpr char kGraph[] = R"(
  score { node: "reason" role: "parser" method: "split" out: "steps" }
  score { node: "quality" role: "reward" method: "compute_reward" inputs: "steps" out: "quality" }
  score { node: "style" role: "reward_model" method: "compute_reward" out: "style" }
  score { node: "ref" role: "reference" method: "compute_log_prob" out: "ref_log_prob" }
  score { node: "values" role: "critic" method: "compute_values" out: "values" }
  advantage { estimator: "gae" rewards { key: "quality" value: 1 } rewards { key: "style" value: 0.5 } }
  update { role: "actor" method: "update" loss: "ppo_clip" }
  update { role: "critic" method: "update" loss: "value" }
)";

v1::JobSpec SpecWith(const std::string& graph) {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_model()->set_path("/model");
  spec.mutable_data()->add_train_files("a.jsonl");
  spec.mutable_trainer()->set_total_training_steps(10);
  spec.mutable_reward_model()->mutable_model()->set_path("/rm");
  spec.mutable_reward()->add_rules()->set_type("exact_match");
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(graph, spec.mutable_dataflow()));
  return spec;
}

TEST(CheckDataflowTest, TakesACustomGraphAsItIs) {
  const v1::JobSpec spec = SpecWith(kGraph);
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_THAT(Problems(spec), IsEmpty());
  EXPECT_EQ(checked.dataflow.score_size(), 5);
  EXPECT_EQ(checked.dataflow.generate(0).purpose(), "train");
  EXPECT_EQ(checked.effective.critic().model().path(), "/model");
  EXPECT_EQ(checked.effective.reference().model().path(), "/model");
  EXPECT_THAT(ForeignRoles(checked.dataflow), ElementsAre("parser"));
  EXPECT_EQ(FieldOfOffer(checked.effective, checked.dataflow, "parser", {"split", ""}),
            "spec.dataflow.score[0].method");
}

TEST(CheckDataflowTest, ChatSettingsAreNeededByASettingOrByLines) {
  const auto field = [](const v1::JobSpec& spec) {
    return FieldOfOffer(spec, {}, "rollout", {"", "chat_settings"});
  };
  v1::JobSpec spec, judged, dated;
  EXPECT_EQ(field(spec), "spec.data");
  spec.mutable_reward()->set_with_prompt_suffix(true);
  EXPECT_EQ(field(spec), "spec.reward.with_prompt_suffix");
  judged.mutable_judge()->mutable_model()->mutable_chat_template_kwargs();
  EXPECT_EQ(field(judged), "spec.judge.model.chat_template_kwargs");
  dated.mutable_model()->set_chat_template_date("2026-02-03");
  EXPECT_EQ(field(dated), "spec.model.chat_template_date");
}

// The controller completes the options of a loss from the spec. These options are checked like
// those in the graph: otherwise the first update would fail.
TEST(CheckDataflowTest, ChecksWhatTheSpecAddsToAGraph) {
  v1::JobSpec spec = SpecWith(R"(
    score { node: "rules" role: "reward" method: "compute_reward" out: "reward" }
    advantage { estimator: "grpo" }
    update { role: "actor" method: "update" loss: "ppo_clip" }
  )");
  spec.clear_reward_model();
  EXPECT_THAT(Problems(spec), IsEmpty());
  spec.mutable_algorithm()->set_use_kl_loss(true);
  EXPECT_THAT(Problems(spec), ::testing::Not(IsEmpty())) << "no node makes ref_log_prob";
  spec.mutable_algorithm()->clear_use_kl_loss();
  spec.mutable_algorithm()->set_clip_ratio_c(0.5);
  EXPECT_THAT(Problems(spec), ::testing::Not(IsEmpty())) << "dual clip needs more than 1";
}

TEST(CheckDataflowTest, BatonsOwnRewardMethodNeedsRulesOrACommand) {
  v1::JobSpec spec = SpecWith(kGraph);
  spec.clear_reward();
  EXPECT_THAT(Problems(spec), ElementsAre(Pair("spec.dataflow.score[1].method",
                                               HasSubstr("name the method of a worker"))));
  spec.mutable_reward()->set_command("python3 reward.py");
  EXPECT_THAT(Problems(spec), IsEmpty());

  v1::JobSpec plain = ExampleSpec("grpo");
  plain.clear_dataflow();
  plain.clear_reward();
  plain.mutable_reward()->set_method("compute_reward");
  EXPECT_THAT(Problems(plain),
              Contains(Pair("spec.reward.method", HasSubstr("under another name"))));
  plain.mutable_reward_model()->mutable_model()->set_path("/rm");  // as an effective spec has it
  EXPECT_THAT(Problems(plain), IsEmpty());
}

TEST(CheckDataflowTest, EveryMistakeIsNamedWithItsPathAndARemedy) {
  const struct {
    const char* from;
    const char* to;
    const char* field;
    const char* text;
  } cases[] = {
      {"inputs: \"steps\"", "inputs: \"stpes\"", "spec.dataflow.score[1].inputs[0]",
       "no node produces 'stpes'; there are: prompt_tokens, tokens, rollout_log_prob, quality, "},
      {"out: \"steps\"", "inputs: \"quality\" out: \"steps\"", "spec.dataflow.score",
       "a cycle: reason needs quality needs reason; remove one of these inputs"},
      {"out: \"steps\"", "inputs: \"steps\" out: \"steps\"", "spec.dataflow.score",
       "a cycle: reason needs reason"},
      {"role: \"parser\"", "role: \"rollout\"", "spec.dataflow.score[0].role",
       "'rollout' is not a role that scores; one of: actor, cost, cost_critic, critic, "},
      {"role: \"parser\"", "role: \"actor\"", "spec.dataflow.score[0].method",
       "'split' is not a method by which the actor scores; it has: compute_log_prob"},
      {"update { role: \"critic\" method: \"update\" loss: \"value\" }", "",
       "spec.dataflow.score[4].role",
       "'critic' scores, but no update trains it; add {role: critic"},
      {"update { role: \"critic\"", "update { role: \"cost_critic\"", "spec.dataflow.update",
       "the cost critic learns, and no node asks for its values; add the score node {role: "
       "cost_critic, method: compute_values, out: cost_values}"},
      {"update { role: \"critic\"", "update { role: \"cost_critic\"",
       "spec.dataflow.advantage.options.cost_estimator", "no cost_returns for the cost critic"},
      {"role: \"parser\"", "", "spec.dataflow.score[0].role", "is missing"},
      {"method: \"split\"", "", "spec.dataflow.score[0].method", "is missing"},
      {"node: \"reason\"", "node: \"style\"", "spec.dataflow.score[2].node", "there twice"},
      {"out: \"style\"", "out: \"quality\"", "spec.dataflow.score[2].out",
       "'quality' is made by node 'quality' already"},
      {"out: \"style\"", "out: \"tokens\"", "spec.dataflow.score[2].out", "made by generation"},
      {"out: \"style\"", "out: \"advantages\"", "spec.dataflow.score[2].out",
       "made by the advantage node; call it 'advantage'"},
      {"out: \"style\"", "over: \"batch\" out: \"style\"", "spec.dataflow.score[2].over",
       "'batch' is not one of: response, group"},
      {"estimator: \"gae\"", "estimator: \"given\"", "spec.dataflow.advantage",
       "needs 'advantage', which no score node makes"},
      {"key: \"style\"", "key: \"stile\"", "spec.dataflow.advantage.rewards",
       "no node makes 'stile'; add a score node"},
      {"estimator: \"gae\"", "estimator: \"gea\"", "spec.dataflow.advantage.estimator", "gae"},
      {"estimator: \"gae\"",
       "estimator: \"gae\" options { fields { key: \"lma\" value { number_value: 1 } } }",
       "spec.dataflow.advantage.options.lma", "lam"},
      {"estimator: \"gae\"", "estimator: \"remax\"", "spec.dataflow.advantage",
       "needs the reward of a greedy response; add {purpose: baseline}"},
      {"out: \"values\"", "out: \"worth\"", "spec.dataflow.advantage",
       "needs 'values', which no score node makes"},
      {"estimator: \"gae\"", "estimator: \"rloo\"", "spec.dataflow.advantage",
       "makes no returns for the critic"},
      {"loss: \"ppo_clip\"", "loss: \"ppo\"", "spec.dataflow.update[0].loss",
       "'ppo' is not one of: cispo, gspo, ppo_clip, reinforce"},
      {"loss: \"ppo_clip\"",
       "loss: \"ppo_clip\" options { fields { key: \"rollout_is\" value { string_value: \"token\" "
       "} } }",
       "spec.dataflow.update[0].options.rollout_is",
       "needs 'old_log_prob', which no score node makes; add {role: actor"},
      {"loss: \"ppo_clip\"",
       "loss: \"ppo_clip\" options { fields { key: \"clip_ratio\" value { number_value: 1 } } }",
       "spec.dataflow.update[0].options.clip_ratio", "clip_ratio_high"},
      {"update { role: \"critic\"", "update { role: \"reference\"", "spec.dataflow.update[1].role",
       "'reference' is not one of: actor, critic, cost_critic"},
      {"update { role: \"critic\"", "update { role: \"actor\"", "spec.dataflow.update[1].role",
       "'actor' is updated twice"},
      {"update { role: \"actor\"", "update { role: \"critic\"", "spec.dataflow.update",
       "has no node of role actor"},
      {"score { node: \"reason\"", "generate { purpose: \"evil\" } score { node: \"reason\"",
       "spec.dataflow.generate[0].purpose", "'evil' is not one of: train, baseline"},
      {"score { node: \"reason\"", "generate { purpose: \"baseline\" } score { node: \"reason\"",
       "spec.dataflow.generate", "has no node of purpose 'train'"},
  };
  for (const auto& c : cases) {
    std::string graph = kGraph;
    const size_t at = graph.find(c.from);
    ASSERT_NE(at, std::string::npos) << c.from;
    graph.replace(at, std::string(c.from).size(), c.to);
    EXPECT_THAT(Problems(SpecWith(graph)), Contains(Pair(c.field, HasSubstr(c.text)))) << c.to;
  }
}

TEST(CheckDataflowTest, AllMistakesAreReportedAtOnce) {
  std::string graph = kGraph;
  graph.replace(graph.find("inputs: \"steps\""), 15, "inputs: \"a\" inputs: \"b\"");
  graph.replace(graph.find("loss: \"value\""), 13, "loss: \"mse\"");
  graph.replace(graph.find("estimator: \"gae\""), 16, "estimator: \"x\"");
  v1::JobSpec spec = SpecWith(graph);
  spec.mutable_actor()->set_lr(-1);  // the critic's is the same, and is not reported
  const auto problems = Problems(spec);
  EXPECT_EQ(problems.size(), 5u) << ::testing::PrintToString(problems);
}

TEST(CheckDataflowTest, NamesTheSpecFieldsForMistakesInAPresetsGraph) {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_model()->set_path("/model");
  spec.mutable_data()->add_train_files("a.jsonl");
  spec.mutable_trainer()->set_total_training_steps(10);
  spec.mutable_reward()->add_rules()->set_type("numeric");
  spec.mutable_algorithm()->set_preset("safe_rlhf");
  spec.mutable_critic()->set_cliprange_value(-1);
  spec.mutable_data()->set_gen_batch_size(64);
  (*spec.mutable_resources()->mutable_role_workers())["judge"] = 2;
  (*spec.mutable_algorithm()->mutable_advantage()->mutable_fields())["cost_limt"].set_number_value(
      1);
  EXPECT_THAT(Problems(spec),
              AllOf(Contains(Pair("spec.cost_model.model.path", HasSubstr("is missing"))),
                    Contains(Pair("spec.critic.cliprange_value", HasSubstr("-1"))),
                    Contains(Pair("spec.data.gen_batch_size", HasSubstr("dynamic_sampling"))),
                    Contains(Pair("spec.resources.role_workers.judge", HasSubstr("no role judge"))),
                    Contains(Pair("spec.algorithm.advantage.cost_limt", HasSubstr("cost_limit")))));
  spec.mutable_algorithm()->set_preset("rloo");
  spec.mutable_algorithm()->clear_advantage();
  spec.mutable_rollout()->set_n(1);
  EXPECT_THAT(Problems(spec),
              AllOf(Contains(Pair("spec.critic", HasSubstr("preset rloo has no role critic"))),
                    Contains(Pair("spec.rollout.n", HasSubstr("at least 2")))));
}

TEST(CheckDataflowTest, EveryCorrectionThatLacksItsLogProbsIsNamed) {
  v1::JobSpec spec = SpecWith(kGraph);
  spec.clear_dataflow();
  spec.mutable_reward()->add_rules()->set_type("numeric");
  spec.mutable_algorithm()->set_preset("grpo");
  auto& loss = *spec.mutable_algorithm()->mutable_loss()->mutable_fields();
  loss["rollout_is"].set_string_value("token");
  loss["rollout_rs"].set_string_value("geometric");
  loss["rollout_rs_threshold"].set_number_value(1.01);
  loss["rollout_token_veto_threshold"].set_number_value(1e-4);
  const auto lacks = HasSubstr("set algorithm.recompute_log_prob: true");
  EXPECT_THAT(Problems(spec), UnorderedElementsAre(
                                  Pair("spec.algorithm.loss.rollout_is", lacks),
                                  Pair("spec.algorithm.loss.rollout_rs", lacks),
                                  Pair("spec.algorithm.loss.rollout_token_veto_threshold", lacks)));
  spec.mutable_algorithm()->set_recompute_log_prob(true);
  EXPECT_THAT(Problems(spec), IsEmpty());
  loss["rollout_rs_threshold_lower"].set_number_value(3);
  loss.erase("rollout_is");
  loss["rollout_is_threshold"].set_number_value(3);
  EXPECT_THAT(Problems(spec),
              UnorderedElementsAre(
                  Pair("spec.algorithm.loss.rollout_rs_threshold_lower", HasSubstr("not below")),
                  Pair("spec.algorithm.loss.rollout_is_threshold", HasSubstr("has no effect"))));
}

// Fields that ask for a critic of costs or for log-probs computed again, where they cannot be.
TEST(CheckDataflowTest, NamesMissingNodesAndRolesWithARemedy) {
  v1::JobSpec spec = SpecWith(kGraph);
  spec.mutable_algorithm()->set_recompute_log_prob(true);
  spec.mutable_algorithm()->set_cost_critic(true);
  EXPECT_THAT(Problems(spec),
              AllOf(Contains(Pair("spec.algorithm.recompute_log_prob",
                                  HasSubstr("add {node: old_log_prob, role: actor"))),
                    Contains(Pair("spec.algorithm.cost_critic",
                                  HasSubstr("add {node: cost_values, role: cost_critic")))));
  spec.clear_dataflow();
  spec.mutable_reward()->add_rules()->set_type("numeric");
  spec.mutable_algorithm()->set_preset("ppo");
  spec.mutable_cost_critic();
  EXPECT_THAT(Problems(spec),
              AllOf(Contains(Pair("spec.algorithm.cost_critic",
                                  HasSubstr("preset ppo has no costs; use preset safe_rlhf"))),
                    Contains(Pair("spec.cost_critic", HasSubstr("has no role cost_critic")))));
  spec.mutable_algorithm()->set_preset("safe_rlhf");
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.cost_model.model.path", HasSubstr("is missing"))));
  spec.mutable_cost_model()->mutable_model()->set_path("/cost");
  EXPECT_THAT(Problems(spec), IsEmpty());
  spec.mutable_cost_critic();
  spec.mutable_algorithm()->set_cost_critic(false);
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.cost_critic", HasSubstr("set algorithm.cost_critic: true"))));
  spec.clear_cost_critic();
  auto& advantage = *spec.mutable_algorithm()->mutable_advantage()->mutable_fields();
  advantage["cost_estimator"].set_string_value("gae");
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.algorithm", HasSubstr("set algorithm.cost_critic: true"))));
  spec.mutable_algorithm()->set_cost_critic(true);
  advantage["cost_estimator"].set_string_value("reinforce_plus_plus");
  EXPECT_THAT(Problems(spec), ElementsAre(Pair("spec.algorithm.advantage.cost_estimator",
                                               HasSubstr("or algorithm.cost_critic: false"))));
}

TEST(ScoreGraphTest, KnowsWhatEachNodeNeedsAndWhatARewardIsMadeOf) {
  v1::Dataflow dataflow;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kGraph, &dataflow));
  const ScoreGraph graph(dataflow);
  EXPECT_EQ(graph.size(), 5);
  EXPECT_EQ(graph.needs(0), 0u);
  EXPECT_EQ(graph.needs(1), 0b1u);
  EXPECT_EQ(graph.Wanted(v1::PURPOSE_TRAIN), 0b11111u);
  EXPECT_EQ(graph.Wanted(v1::PURPOSE_EVAL), 0b111u);
  EXPECT_EQ(graph.Wanted(v1::PURPOSE_BASELINE), 0b111u);
  EXPECT_TRUE(graph.IsReward(1));
  EXPECT_FALSE(graph.IsReward(0));
  EXPECT_EQ(graph.Reward({{"quality", 3}, {"style", -2}, {"other", 100}}), 2);
  EXPECT_EQ(graph.Reward({{"style", 4}}), 2);
  EXPECT_THAT(graph.roles(),
              ElementsAre("critic", "parser", "reference", "reward", "reward_model"));
}

}  // namespace
}  // namespace baton::controller
