// The reward of a job, tried on lines of a data set: what is shown of each response.
#include "workers/main/reward_test_command.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/test_folder.h"
#include "tests/support/workers/policy.h"
#include "workers/engine/model/hf_directory.h"
#include "workers/policy/policy_source.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RewardTestCommandTest : public ::testing::Test {
 protected:
  RewardTestCommandTest() { options_.commands = {reward::CommandSandbox::None(), ""}; }

  void Data(const std::string& lines) {
    options_.data = folder_.path("data.jsonl");
    std::ofstream(options_.data) << lines;
  }
  v1::RewardRule* AddRule(const std::string& type) {
    v1::RewardRule* rule = options_.spec.mutable_reward()->add_rules();
    rule->set_type(type);
    return rule;
  }
  void Script(const std::string& text) {
    folder_.Write("reward.py", text);
    options_.spec.mutable_reward()->set_command("python3 reward.py");
    options_.spec.mutable_reward()->set_working_dir(folder_.path());
  }
  /// A tiny model with random weights, and with a chat template where one is given.
  std::string SaveModel(const std::string& chat_template = "") {
    v1::JobSpec spec = policy::TinySpec();
    if (!chat_template.empty()) {
      spec.mutable_model()->mutable_init()->set_characters(
          "0123456789+=: \n<>/abcdefghijklmnopqrstuvwxyz");
    }
    const auto source = policy::PolicySource::Open(spec.model(), "").value();
    const auto model = source->LoadModel(torch::kFloat32, torch::kCPU, 3).value();
    engine::SaveOptions save;
    save.companions = source->companions();
    if (!chat_template.empty()) save.companions["chat_template.jinja"] = chat_template;
    EXPECT_TRUE(engine::SaveModel(*model, folder_.path("model"), save).ok());
    return folder_.path("model");
  }
  bool Run() {
    out_.clear();
    err_.clear();
    const auto good =
        TestReward(options_, {[this](absl::string_view text) { absl::StrAppend(&out_, text); },
                              [this](absl::string_view text) { absl::StrAppend(&err_, text); }});
    EXPECT_TRUE(good.ok()) << good.status();
    return good.value_or(false);
  }
  /// The lines of -o json.
  std::vector<nlohmann::json> Rows() const {
    std::vector<nlohmann::json> rows;
    for (const auto line : absl::StrSplit(out_, '\n', absl::SkipEmpty())) {
      rows.push_back(nlohmann::json::parse(line));
    }
    return rows;
  }

  TestFolder folder_;
  RewardTestOptions options_;
  std::string out_, err_;
};

TEST_F(RewardTestCommandTest, ScoresGivenResponsesByRules) {
  Data(
      "{\"prompt\": \"1+2=\", \"answer\": \"3\", \"response\": \"3\"}\n"
      "{\"prompt\": \"2+2=\", \"answer\": \"4\", \"responses\": [\"4\", \"five: 5\"]}\n"
      "{\"prompt\": \"3+2=\", \"answer\": \"5\"}\n"
      "{\"prompt\": \"not looked at\", \"answer\": \"x\"}\n");
  AddRule("numeric");
  options_.lines = 3;
  EXPECT_TRUE(Run());
  EXPECT_THAT(out_, AllOf(HasSubstr("data.jsonl:1\n  prompt    1+2=\n  response  3  [the line's "
                                    "`response`]\n  answer    3\n  reward    1\n"),
                          HasSubstr("response  five: 5  [of the line's `responses`]"),
                          HasSubstr("[the line's answer, since it has no `response`]"),
                          HasSubstr("4 responses: 4 with a reward (mean 0.75, from 0 to 1), 0 "
                                    "failed"),
                          HasSubstr("time      0.0"), Not(HasSubstr("not looked at"))));
  options_.json = true;
  EXPECT_TRUE(Run());
  const auto rows = Rows();
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[2]["reward"], 0);
  EXPECT_EQ(rows[2]["response"], "five: 5");
  EXPECT_EQ(rows[2]["scores"]["accuracy"], 0);
}

TEST_F(RewardTestCommandTest, ReadsLinesAsTheJobDoes) {
  Data("{\"question\": \"2+2?\", \"gold\": \"4\", \"response\": \"4\"}\n");
  AddRule("exact_match");
  options_.spec.mutable_data()->set_prompt_key("question");
  options_.spec.mutable_data()->set_answer_key("gold");
  EXPECT_TRUE(Run());
  EXPECT_THAT(out_, HasSubstr("  prompt    2+2?\n  response  4  [the line's `response`]\n"
                              "  answer    4\n  reward    1\n"));
}

// verl's parquet files, and rules that judge each a source of their own.
TEST_F(RewardTestCommandTest, ReadsEveryKeyThatTheSpecNames) {
  const auto line = [](const char* source, const char* answer, const char* response) {
    return absl::StrCat("{\"prompt\": \"q\", \"data_source\": \"", source,
                        "\", \"reward_model\": {\"ground_truth\": ", answer,
                        "}, \"extra_info\": {\"index\": 0.10}, \"response\": \"", response,
                        "\"}\n");
  };
  Data(line("math", "1.10", "1.1") + line("text", "1.10", "1.1") + line("text", "1.10", "1.10"));
  v1::DataSpec* data = options_.spec.mutable_data();
  data->set_answer_key("reward_model.ground_truth");
  data->set_source_key("data_source");
  data->set_extra_key("extra_info");
  AddRule("numeric")->mutable_when()->add_source("math");
  AddRule("exact_match")->mutable_when()->add_source("text");
  options_.json = true;
  EXPECT_TRUE(Run());
  const auto rows = Rows();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["answer"], "1.10");
  EXPECT_EQ(rows[0]["reward"], 1);
  EXPECT_FALSE(rows[0]["scores"].contains("exact_match"));
  EXPECT_EQ(rows[1]["reward"], 0);
  EXPECT_EQ(rows[2]["reward"], 1);
  EXPECT_FALSE(rows[2]["scores"].contains("numeric"));
}

// If such lines were taken, an empty response would get the reward of a right one.
TEST_F(RewardTestCommandTest, RefusesLinesWithoutTheAnswerThatARuleReads) {
  Data("{\"prompt\": \"2+2=\", \"solution\": \"4\"}\n");
  AddRule("exact_match");
  EXPECT_THAT(
      std::string(TestReward(options_, {}).status().message()),
      AllOf(HasSubstr("data.jsonl: none of 1 line has `answer`, and spec.reward.rules[0]"),
            HasSubstr("`prompt`, `solution`"), HasSubstr("set spec.data.answer_key: solution")));
  Data("{\"prompt\": \"2+2=\", \"solution\": \"4\"}\n{\"prompt\": \"1\", \"answer\": \"\"}\n");
  EXPECT_TRUE(Run());
  EXPECT_THAT(out_, AllOf(HasSubstr("answer    (none)\n  reward    0\n"),
                          HasSubstr("note      exact_match: the line has no answer")));
  Data("{\"prompt\": \"2+2=\", \"solution\": \"4\"}\n");
  options_.spec.mutable_reward()->clear_rules();
  Script(
      "import json, sys\n"
      "for line in sys.stdin:\n"
      "    print(json.dumps({'id': json.loads(line)['id'], 'reward': 1}), flush=True)\n");
  EXPECT_TRUE(Run()) << "who knows whether it reads answers";
  EXPECT_THAT(out_, HasSubstr("[nothing, since the line has no `response` and no answer]"));
}

TEST_F(RewardTestCommandTest, WarnsIfAllRewardsAreEqual) {
  AddRule("exact_match")->set_extract("####(.*)");  // none of the lines made up has that
  EXPECT_TRUE(Run());
  EXPECT_THAT(out_, HasSubstr("All rewards are equal"));
}

TEST_F(RewardTestCommandTest, EqualRewardsOfTheAnswersThemselvesAreNoMistake) {
  AddRule("exact_match");
  Data("{\"prompt\": \"1+1=\", \"answer\": 2}\n{\"prompt\": \"1+2=\", \"answer\": 3}\n");
  EXPECT_TRUE(Run());
  EXPECT_THAT(out_, HasSubstr("Each line's answer was taken for the response, and all rewards are "
                              "equal. See what wrong responses get"));
}

TEST_F(RewardTestCommandTest, ShowsWhatACommandDidWrong) {
  Script(
      "import json, sys\n"
      "for line in sys.stdin:\n"
      "    r = json.loads(line)\n"
      "    if r['response'] == 'bad':\n"
      "        raise ValueError('no number in bad')\n"
      "    print(json.dumps({'id': r['id'], 'reward': 1}), flush=True)\n");
  Data("{\"prompt\": \"a\", \"response\": \"good\"}\n{\"prompt\": \"b\", \"response\": \"bad\"}\n");
  EXPECT_FALSE(Run());
  EXPECT_THAT(out_, AllOf(HasSubstr("ERROR     command: your command exited with code 1"),
                          HasSubstr("ValueError: no number in bad\n"),
                          HasSubstr("            Traceback (most recent call last):"),
                          HasSubstr("A job would fail: 1 of 2 failed, and reward.max_error_rate is "
                                    "0.1.")));
  EXPECT_THAT(err_, AllOf(HasSubstr("stderr: ValueError: no number in bad"),
                          HasSubstr("baton: your command exited with code 1")));
  options_.spec.mutable_reward()->set_max_error_rate(0.5);
  EXPECT_TRUE(Run());
  EXPECT_THAT(out_, HasSubstr("A job would go on: 1 of 2 failed"));
}

TEST_F(RewardTestCommandTest, ACommandThatCannotBeImportedIsGivenUpWithItsFirstError) {
  Script("import no_such_module\n");
  options_.json = true;
  EXPECT_FALSE(Run());
  EXPECT_THAT(err_, HasSubstr("No module named 'no_such_module'"));
  EXPECT_THAT(Rows().front()["error"].get<std::string>(),
              HasSubstr("No module named 'no_such_module'"));
}

TEST_F(RewardTestCommandTest, SamplesFromAModelAndAsksAJudge) {
  options_.model = SaveModel();
  Data("{\"prompt\": \"1+2=\", \"answer\": \"3\"}\n{\"prompt\": \"2+2=\", \"answer\": \"4\"}\n");
  options_.samples = 2;
  options_.json = true;
  options_.spec.mutable_data()->set_max_response_length(5);
  v1::JudgeSpec* judge = options_.spec.mutable_judge();
  judge->mutable_model()->set_path(options_.model);
  judge->set_template_("1+2={response}");
  judge->set_verdict("yes");
  (*judge->mutable_verdicts())["yes"] = 1;
  judge->set_neutral(0.25);
  EXPECT_TRUE(Run());
  const auto rows = Rows();
  ASSERT_EQ(rows.size(), 4u);  // 2 lines, 2 samples
  for (const auto& row : rows) {
    EXPECT_LE(row["response"].get<std::string>().size(), 5u);
    EXPECT_EQ(row["reward"], 0.25);  // it cannot write a letter
    EXPECT_EQ(row["scores"]["unreadable"], 1);
  }
}

constexpr char kThinkingTemplate[] =
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt "
    "%}assistant: {% if enable_thinking is not false %}<think>\n{% endif %}{% endif %}";

// As in the job, where the response begins inside the thought.
TEST_F(RewardTestCommandTest, ScoresWithWhatTheChatTemplateBeganTheResponseWith) {
  options_.spec.mutable_model()->set_path(SaveModel(kThinkingTemplate));
  options_.json = true;
  AddRule("regex")->set_pattern("^<think>\n2\\+2</think>");
  const std::string said = R"("prompt": [{"role": "user", "content": "2+2="}],)"
                           R"( "response": "2+2</think>4"})";
  Data("{" + said + "\n{\"chat_template_kwargs\": {\"enable_thinking\": false}, " + said + "\n");
  EXPECT_TRUE(Run());
  EXPECT_EQ(Rows()[0]["reward"], 0);
  EXPECT_EQ(Rows()[0]["response"], "2+2</think>4");
  options_.spec.mutable_reward()->set_with_prompt_suffix(true);
  EXPECT_TRUE(Run());
  EXPECT_EQ(Rows()[0]["reward"], 1);
  EXPECT_EQ(Rows()[0]["response"], "<think>\n2+2</think>4");
  EXPECT_EQ(Rows()[0]["prompt_suffix"], "<think>\n");
  EXPECT_EQ(Rows()[1]["reward"], 0) << "the line's own variable";
  (*options_.spec.mutable_model()
        ->mutable_chat_template_kwargs()
        ->mutable_fields())["enable_thinking"]
      .set_bool_value(false);
  EXPECT_TRUE(Run());
  EXPECT_EQ(Rows()[0]["reward"], 0) << "the job's variable";
}

TEST_F(RewardTestCommandTest, ACommandGetsWhatTheChatTemplateBeganTheResponseWith) {
  options_.spec.mutable_model()->set_path(SaveModel(kThinkingTemplate));
  Script(
      "import json, sys\n"
      "for line in sys.stdin:\n"
      "    r = json.loads(line)\n"
      "    print(json.dumps({'id': r['id'], 'reward': len(r['prompt_suffix'])}), flush=True)\n");
  Data("{\"prompt\": [{\"role\": \"user\", \"content\": \"2+2=\"}], \"response\": \"4\"}\n");
  EXPECT_TRUE(Run());
  EXPECT_THAT(out_, AllOf(HasSubstr("suffix    <think>\\n"), HasSubstr("reward    8\n")));
  options_.spec.mutable_model()->set_path(folder_.path("absent"));
  EXPECT_TRUE(Run());
  EXPECT_THAT(out_, HasSubstr("reward    0\n"));
  EXPECT_THAT(err_, HasSubstr("the command gets an empty prompt_suffix here, because"));
  options_.spec.mutable_reward()->set_with_prompt_suffix(true);
  EXPECT_THAT(
      std::string(TestReward(options_, {}).status().message()),
      AllOf(HasSubstr("data.jsonl:1: "), HasSubstr("give the model's folder with --model")));
}

TEST_F(RewardTestCommandTest, NamesWhatCannotBeTested) {
  const auto message = [this] {
    return std::string(TestReward(options_, {[](auto) {}, [](auto) {}}).status().message());
  };
  EXPECT_THAT(message(), HasSubstr("there is nothing to test"));
  options_.samples = 1;
  EXPECT_THAT(message(), HasSubstr("--model"));
  options_.samples = 0;
  AddRule("vibes");
  EXPECT_THAT(message(), HasSubstr("spec.reward.rules[0]"));
  Data("{\"prompt\": 3}\n");
  EXPECT_THAT(message(), HasSubstr("data.jsonl:1: "));
}

}  // namespace
}  // namespace baton
