#include "sdk/client/spec_yaml.h"

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr char kGood[] = R"(
kind: rl
model: {path: job:sft}
data:
  train_files: [a.jsonl, b.jsonl]
  train_batch_size: 32
rollout:
  temperature: 0.7
  stop: "\n"
reward:
  rules:
    - {type: numeric, extract: '#(\d+)'}
actor: {lr: 3e-4}
trainer: {total_training_steps: 1e3, val_before_train: false}
labels: {team: maths}
)";

TEST(SpecYamlTest, ReadsEveryKindOfField) {
  const ParsedSpec parsed = ParseSpecYaml(kGood, {});
  EXPECT_EQ(FormatProblems("f", parsed.problems), "");
  EXPECT_EQ(parsed.spec.kind(), v1::JOB_KIND_RL);
  EXPECT_EQ(parsed.spec.data().train_files_size(), 2);
  EXPECT_EQ(parsed.spec.data().train_batch_size(), 32);
  EXPECT_DOUBLE_EQ(parsed.spec.rollout().temperature(), 0.7);
  EXPECT_EQ(parsed.spec.rollout().stop(0), "\n");
  EXPECT_EQ(parsed.spec.reward().rules(0).extract(), "#(\\d+)");
  EXPECT_DOUBLE_EQ(parsed.spec.actor().lr(), 3e-4);
  EXPECT_EQ(parsed.spec.trainer().total_training_steps(), 1000);
  EXPECT_TRUE(parsed.spec.trainer().has_val_before_train());
  EXPECT_EQ(parsed.spec.labels().at("team"), "maths");
}

TEST(SpecYamlTest, ReportsEveryProblemAtOnceWithItsPlace) {
  const ParsedSpec parsed = ParseSpecYaml(
      "kind: lr\n"
      "rollout:\n"
      "  temprature: 1\n"
      "  n: many\n"
      "  top_k: 99999999999\n"
      "data: 7\n"
      "actor:\n"
      "  lr: 1\n"
      "  lr: 2\n",
      {});
  EXPECT_EQ(FormatProblems("job.yaml", parsed.problems),
            "job.yaml:1:7: kind: 'lr' is not one of: rl, sft, reward_model\n"
            "job.yaml:3:3: rollout.temprature: unknown key; did you mean 'temperature'?\n"
            "job.yaml:4:6: rollout.n: 'many' is not an integer\n"
            "job.yaml:5:10: rollout.top_k: 99999999999 does not fit into 32 bits\n"
            "job.yaml:6:7: data: needs keys, not a value; files of prompts are data.train_files\n"
            "job.yaml:9:3: actor.lr: is given twice\n");
}

TEST(SpecYamlTest, ASettingInTheWrongSectionIsToldItsOwn) {
  const ParsedSpec parsed = ParseSpecYaml(
      "kind: rl\n"
      "total_training_steps: 5\n"
      "actor: {save_freq: 3, n: 8}\n"
      "keep_bset: val/accuracy\n"
      "frobnicate: 1\n",
      {"trainer.temperature=1"});
  EXPECT_EQ(parsed.problems[0].meant, "trainer.total_training_steps");
  const std::string text = FormatProblems("f", parsed.problems);
  EXPECT_THAT(text, HasSubstr("f:2:1: total_training_steps: unknown key; did you mean "
                              "'trainer.total_training_steps'?\n"));
  EXPECT_THAT(text, HasSubstr("actor.save_freq: unknown key; did you mean 'trainer.save_freq'?\n"));
  EXPECT_THAT(text,
              HasSubstr("actor.n: unknown key; did you mean 'rollout.n' or 'rollout.val.n'?\n"));
  EXPECT_THAT(text, HasSubstr("keep_bset: unknown key; did you mean 'trainer.keep_best'?\n"));
  EXPECT_THAT(text, HasSubstr("frobnicate: unknown key; valid here: kind, model, "));
  EXPECT_THAT(text, HasSubstr("--set trainer.temperature=1: unknown key; here it is "
                              "rollout.temperature"));
}

TEST(SpecYamlTest, SetsOverrideAndAdd) {
  const ParsedSpec parsed =
      ParseSpecYaml(kGood, {"trainer.total_training_steps=7", "reward.rules[0].type=regex",
                            "data.seed=5", "data.val_files=[v.jsonl]"});
  EXPECT_EQ(FormatProblems("f", parsed.problems), "");
  EXPECT_EQ(parsed.spec.trainer().total_training_steps(), 7);
  EXPECT_EQ(parsed.spec.reward().rules(0).type(), "regex");
  EXPECT_EQ(parsed.spec.data().seed(), 5);
  EXPECT_EQ(parsed.spec.data().val_files(0), "v.jsonl");
}

TEST(SpecYamlTest, AcceptsAModeInPlaceOfItsMap) {
  for (const auto& [yaml, sets] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"rollout: {speculation: off}", {}},
           {"rollout: {speculation: auto}", {"rollout.speculation=off"}}}) {
    const ParsedSpec parsed = ParseSpecYaml(yaml, sets);
    EXPECT_EQ(FormatProblems("f", parsed.problems), "") << yaml;
    EXPECT_EQ(parsed.spec.rollout().speculation().mode(), "off") << yaml;
  }
  // Only where the mode is what a map is about.
  EXPECT_FALSE(ParseSpecYaml("algorithm: async", {}).problems.empty());
  EXPECT_FALSE(ParseSpecYaml("rollout: {speculation: [off]}", {}).problems.empty());
  EXPECT_FALSE(ParseSpecYaml("off", {}).problems.empty());
}

TEST(SpecYamlTest, ABadSetIsAProblemNotACrash) {
  for (const char* set : {"", "=", "a", "reward.rules[9].type=x", "reward.rules[x]=1", "[=1",
                          "kind[0]=rl", "trainer.total_training_steps={"}) {
    EXPECT_FALSE(ParseSpecYaml(kGood, {set}).problems.empty()) << set;
  }
}

// The problem names the --set, whether the file has the key, its section or neither.
TEST(SpecYamlTest, BlamesTheSetOptionForItsMistakes) {
  const ParsedSpec parsed =
      ParseSpecYaml("kind: rl\nrollout:\n  n: 4\n  top_k: x\n",
                    {"rollout.n=many", "rolout.n=1", "actor={lr: fast, beta3: 1}", "data.seed",
                     "kind.a=1", "trainer.total_training_steps={"});
  EXPECT_EQ(FormatProblems("job.yaml", parsed.problems),
            "--set data.seed: write it as path=value\n"
            "--set kind.a=1: the spec has a value at kind, which has no parts\n"
            "--set trainer.total_training_steps={: the value is not valid YAML: a map without its "
            "closing }\n"
            "--set rollout.n=many: 'many' is not an integer\n"
            "job.yaml:4:10: rollout.top_k: 'x' is not an integer\n"
            "--set rolout.n=1: rolout: unknown key; did you mean 'rollout'?\n"
            "--set actor={lr: fast, beta3: 1}: actor.lr: 'fast' is not a number\n"
            "--set actor={lr: fast, beta3: 1}: actor.beta3: unknown key; did you mean 'beta1'?\n");
}

TEST(SpecYamlTest, AViolationOfASetsValueIsBlamedOnTheLastSet) {
  const ParsedSpec parsed = ParseSpecYaml(
      "rollout:\n  n: 4\n", {"rollout={temperature: 2}", "rollout.n=-1", "actor.lr=2"});
  v1::FieldViolation n, temperature, whole, seed;
  n.set_field("spec.rollout.n");
  temperature.set_field("spec.rollout.temperature");
  whole.set_field("spec.actor");
  seed.set_field("spec.data.seed");
  const auto located = LocateViolations(parsed, {n, temperature, whole, seed});
  EXPECT_EQ(located[0].set, "rollout.n=-1");
  EXPECT_EQ(located[1].set, "rollout={temperature: 2}");
  EXPECT_EQ(located[2].set, "");  // the section is whole; its author knows both parts
  EXPECT_EQ(located[2].line, 0);
  EXPECT_EQ(located[3].set, "");
}

// A tab is called a tab, and hides nothing else.
TEST(SpecYamlTest, ReportsTabsInTheIndentation) {
  ParsedSpec parsed = ParseSpecYaml("kind: rl\nrollout:\n\tn: many\n\t# text\n\ttop_k: 3\n", {});
  EXPECT_EQ(FormatProblems("job.yaml", parsed.problems),
            "job.yaml:3:1: a tab in the indentation; YAML allows only spaces there (2 lines of the "
            "file have one)\n"
            "job.yaml:3:6: rollout.n: 'many' is not an integer\n");
  EXPECT_TRUE(parsed.read);
  EXPECT_EQ(parsed.spec.rollout().top_k(), 3);
  parsed = ParseSpecYaml("rollout:\n    n: 4\n\ttop_k: many\n", {});  // a tab for four
  EXPECT_EQ(FormatProblems("f", parsed.problems),
            "f:3:1: a tab in the indentation; YAML allows only spaces there\n"
            "f:3:12: rollout.top_k: 'many' is not an integer\n");
  // A tab where YAML allows one is no problem.
  EXPECT_TRUE(ParseSpecYaml("kind:\trl\ndata: {seed: 1,\n\tshuffle: true}\n", {}).problems.empty());
}

// A field that cannot be read does not count as missing when the rest is checked.
TEST(SpecYamlTest, AWrongTypeLeavesSomethingInItsPlace) {
  const ParsedSpec parsed = ParseSpecYaml(
      "model: {path: [a]}\nreward: {rules: 5, command: {a: b}}\ncritic: 7\nmodle: 1\n", {});
  ASSERT_EQ(parsed.problems.size(), 5u);
  EXPECT_EQ(parsed.spec.model().path(), "?");
  EXPECT_EQ(parsed.spec.reward().rules_size(), 1);
  EXPECT_EQ(parsed.spec.reward().command(), "?");
  EXPECT_TRUE(parsed.spec.has_critic());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(parsed.problems[static_cast<size_t>(i)].unreadable) << i;
  EXPECT_EQ(parsed.problems[4].meant, "model");
  EXPECT_FALSE(parsed.problems[4].unreadable);
  EXPECT_FALSE(ParseSpecYaml("a: [", {}).read);
  EXPECT_FALSE(ParseSpecYaml("text", {}).read);
  EXPECT_TRUE(ParseSpecYaml("", {}).read);
}

TEST(SpecYamlTest, CommonMistakesOfYamlAreNamed) {
  const auto problem = [](const char* yaml) {
    return FormatProblems("f", ParseSpecYaml(yaml, {}).problems);
  };
  EXPECT_THAT(problem("judge: {template: x}\nmodel: a: b\n"),
              HasSubstr("f:2:9: not valid YAML: a colon"));
  EXPECT_THAT(problem("data: [1,\nkind: rl\n"), HasSubstr("a list without its closing ]"));
  EXPECT_THAT(problem("labels: {a: @b}\n"), HasSubstr("put the text in quotes"));
}

TEST(SpecYamlTest, BrokenYamlSaysWhere) {
  const ParsedSpec parsed = ParseSpecYaml("kind: rl\ndata: [\n", {});
  ASSERT_EQ(parsed.problems.size(), 1u);
  EXPECT_GE(parsed.problems[0].line, 2);
  EXPECT_THAT(parsed.problems[0].message, HasSubstr("not valid YAML"));
}

TEST(SpecYamlTest, ViolationsFindTheirLine) {
  const ParsedSpec parsed = ParseSpecYaml(kGood, {});
  v1::FieldViolation known, absent;
  known.set_field("spec.rollout.temperature");
  known.set_description("bad");
  absent.set_field("spec.rollout.n");
  absent.set_description("bad");
  const auto located = LocateViolations(parsed, {known, absent});
  EXPECT_EQ(located[0].line, 8);
  EXPECT_EQ(located[1].line, 7);  // of `rollout`, which would hold it
}

TEST(SpecYamlTest, ReadsBackWhatItWrites) {
  const v1::JobSpec spec = ParseSpecYaml(kGood, {}).spec;
  const ParsedSpec again = ParseSpecYaml(SpecToYaml(spec), {});
  EXPECT_EQ(FormatProblems("f", again.problems), "");
  EXPECT_EQ(again.spec.SerializeAsString(), spec.SerializeAsString());
}

// Maps of numbers and free options, whose texts may look like something else.
TEST(SpecYamlTest, WritesAndReadsADataflow) {
  constexpr char kGraph[] = R"(
kind: rl
resources: {role_workers: {critic: 1, judge: 3}}
judge: {verdicts: {"yes": 1, "no": -0.5}}
algorithm: {advantage: {lam: 0.95, use_kl_in_reward: true}}
dataflow:
  score:
    - {node: a, role: r, method: m, inputs: [b, c], out: x,
       options: {number: 2.5, text: word, quoted: "3", flag: "true", yes: true, list: [1, "1"],
                 inner: {deep: "x: y"}}}
  advantage: {estimator: gae, rewards: {x: 1, y: 0.25}}
)";
  const ParsedSpec parsed = ParseSpecYaml(kGraph, {});
  EXPECT_EQ(FormatProblems("f", parsed.problems), "");
  const auto& options = parsed.spec.dataflow().score(0).options().fields();
  EXPECT_EQ(options.at("number").number_value(), 2.5);
  EXPECT_EQ(options.at("quoted").string_value(), "3");
  EXPECT_EQ(options.at("flag").string_value(), "true");
  EXPECT_TRUE(options.at("yes").bool_value());
  EXPECT_EQ(parsed.spec.resources().role_workers().at("judge"), 3);
  EXPECT_EQ(parsed.spec.judge().verdicts().at("no"), -0.5);
  const std::string text = SpecToYaml(parsed.spec);
  const ParsedSpec again = ParseSpecYaml(text, {});
  EXPECT_EQ(FormatProblems("f", again.problems), "") << text;
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(again.spec, parsed.spec)) << text;
}

TEST(SpecYamlTest, TextThatIsNotUtf8IsRefusedWithItsLine) {
  const ParsedSpec parsed = ParseSpecYaml("kind: rl\nmodel: {path: \"m\xf0\"}\n", {});
  EXPECT_EQ(FormatProblems("job.yaml", parsed.problems),
            "job.yaml:2: a byte that is not UTF-8; save the file in that encoding\n");
  EXPECT_THAT(FormatProblems("job.yaml", ParseSpecYaml("kind: rl\n", {"model.path=\xff"}).problems),
              HasSubstr("--set: a byte that is not UTF-8"));
}

TEST(SpecYamlTest, WritesEveryDigitOfANumber) {
  v1::JobSpec spec;
  spec.mutable_actor()->set_lr(1.23456789012345e-5);  // 15 digits: each of them counts
  spec.mutable_rollout()->set_temperature(0.7);
  const std::string yaml = SpecToYaml(spec);
  EXPECT_THAT(yaml, HasSubstr("temperature: 0.7\n"));  // and none that is not needed
  const ParsedSpec again = ParseSpecYaml(yaml, {});
  EXPECT_EQ(FormatProblems("f", again.problems), "");
  EXPECT_EQ(again.spec.actor().lr(), 1.23456789012345e-5);
}

}  // namespace
}  // namespace baton
