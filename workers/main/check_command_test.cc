#include "workers/main/check_command.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/test_folder.h"
#include "tests/support/workers/policy.h"
#include "workers/engine/model/hf_directory.h"
#include "workers/main/check_limits.h"
#include "workers/policy/policy_source.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::StartsWith;

namespace fs = std::filesystem;

// In a process of its own, as the limits stay.
TEST(CheckLimitsTest, TheProcessIsBounded) {
  const auto limit_of = [](int resource) {
    rlimit limit = {};
    ::getrlimit(resource, &limit);
    return limit.rlim_cur;
  };
  const auto check = [&] {
    LimitCheckProcess(7);
    int score = 0, at_death = 0;
    std::ifstream("/proc/self/oom_score_adj") >> score;
    ::prctl(PR_GET_PDEATHSIG, &at_death);
    const bool bounded = (!kCheckBoundsMemory || limit_of(RLIMIT_AS) <= kCheckAddressBytes) &&
                         limit_of(RLIMIT_CPU) == 7 && limit_of(RLIMIT_FSIZE) <= kCheckFileBytes &&
                         limit_of(RLIMIT_CORE) == 0;
    ::_exit(bounded && score == 1000 && at_death == SIGKILL ? 0 : 1);
  };
  EXPECT_EXIT(check(), ::testing::ExitedWithCode(0), "");
}

class CheckCommandTest : public ::testing::Test {
 protected:
  CheckCommandTest() {
    spec_.set_kind(v1::JOB_KIND_RL);
    *spec_.mutable_model() = policy::TinySpec().model();  // characters "0123456789+="
    spec_.mutable_data()->set_max_prompt_length(4);
    spec_.mutable_data()->set_max_response_length(4);
  }
  // A file of the job's training data.
  std::string Add(const std::string& name, const std::string& text) {
    folder_.Write(name, text);
    spec_.mutable_data()->add_train_files(Path(name));
    return Path(name);
  }
  std::string Path(const std::string& name) const { return folder_.path(name); }
  v1::ValidateJobResponse Check(uint64_t filtered_bytes = 1 << 20) {
    return CheckJob(spec_, Path("filtered"), filtered_bytes).value();
  }
  std::vector<std::pair<std::string, std::string>> Problems() {
    std::vector<std::pair<std::string, std::string>> out;
    const v1::ValidateJobResponse checked = Check();
    for (const v1::FieldViolation& violation : checked.violations()) {
      out.emplace_back(violation.field(), violation.description());
    }
    return out;
  }
  // A folder with a model that can be loaded.
  std::string SaveModel(const std::string& name, bool tied = true) {
    v1::JobSpec spec = policy::TinySpec();
    spec.mutable_model()->mutable_init()->set_tie_word_embeddings(tied);
    const auto source = policy::PolicySource::Open(spec.model(), "").value();
    const auto model = source->LoadModel(torch::kFloat32, torch::kCPU, 3).value();
    engine::SaveOptions save;
    save.companions = source->companions();
    EXPECT_TRUE(engine::SaveModel(*model, Path(name), save).ok());
    return Path(name);
  }

  TestFolder folder_;
  v1::JobSpec spec_;
};

constexpr char kThree[] =
    "{\"prompt\": \"1+2=\"}\n\n{\"prompt\": \"11+22=\"}\n{\"prompt\": \"3+3+3=\"}\n";

TEST_F(CheckCommandTest, PromptsThatAreTooLongAreNamedWithFileAndLine) {
  const std::string a = Add("a.jsonl", kThree);
  const std::string b = Add("b.jsonl", "{\"prompt\": \"12345\"}\n");
  EXPECT_THAT(
      Problems(),
      ElementsAre(Pair("spec.data.train_files",
                       AllOf(HasSubstr("3 of 4 prompts have more than data.max_prompt_length = 4"),
                             HasSubstr("the longest 6"), HasSubstr("filter_overlong_prompts"))),
                  Pair("spec.data.train_files",
                       absl::StrCat(a, ":3: the prompt has 6 tokens, more than 4")),
                  Pair("spec.data.train_files",
                       absl::StrCat(a, ":4: the prompt has 6 tokens, more than 4")),
                  Pair("spec.data.train_files",
                       absl::StrCat(b, ":1: the prompt has 5 tokens, more than 4"))));
  spec_.mutable_data()->set_max_prompt_length(6);
  EXPECT_THAT(Problems(), IsEmpty());
}

TEST_F(CheckCommandTest, LinesWithoutTimeAreCountedUnlessTheyAreFiltered) {
  Add("a.jsonl", kThree);
  const auto check = [&] {
    return CheckJob(spec_, Path("filtered"), 1 << 20, absl::ZeroDuration());
  };
  const auto late = check().value();
  EXPECT_THAT(late.violations(), IsEmpty());
  ASSERT_THAT(late.data_files(), SizeIs(1));
  EXPECT_EQ(late.data_files(0).list(), "train_files");
  EXPECT_EQ(late.data_files(0).unchecked_lines(), 3u);
  EXPECT_THAT(late.effective_spec().data().train_files(), ElementsAre(Path("a.jsonl")));
  spec_.mutable_data()->set_filter_overlong_prompts(true);
  const auto filtered = check().value();
  ASSERT_THAT(filtered.data_files(), SizeIs(1));
  EXPECT_EQ(filtered.data_files(0).unchecked_lines(), 0u);
  EXPECT_EQ(filtered.data_files(0).overlong_prompts(), 2u);
}

// A template that takes the time of the check would take that of the workers.
TEST_F(CheckCommandTest, ATemplateThatTakesTheTimeIsNamed) {
  const std::string dir = SaveModel("model");
  folder_.Write("model/chat_template.jinja",
                "{% for i in range(100) %}{% for j in range(3000) %}{% endfor %}{% endfor %}"
                "{{ messages[0].content }}");
  spec_.mutable_model()->Clear();
  spec_.mutable_model()->set_path(dir);
  spec_.mutable_model()->set_chat_template("auto");
  std::string lines;
  for (int i = 0; i < 20000; ++i)
    lines += "{\"prompt\": [{\"role\": \"user\", \"content\": \"1=\"}]}\n";
  Add("a.jsonl", lines);
  const auto checked = CheckJob(spec_, Path("filtered"), 1 << 20, absl::Milliseconds(500)).value();
  ASSERT_THAT(checked.violations(), SizeIs(1));
  EXPECT_EQ(checked.violations(0).field(), "spec.model.chat_template");
  EXPECT_THAT(checked.violations(0).description(), HasSubstr("the template takes"));
}

TEST_F(CheckCommandTest, NamesThreeOfManyOverlongPrompts) {
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += "{\"prompt\": \"11+22=\"}\n";
  const std::string file = Add("a.jsonl", lines);
  const auto problems = Problems();
  ASSERT_THAT(problems, SizeIs(5));
  EXPECT_THAT(problems[0].second, HasSubstr("20 of 20 prompts have more than"));
  EXPECT_EQ(problems[1].second, absl::StrCat(file, ":1: the prompt has 6 tokens, more than 4"));
  EXPECT_EQ(problems[3].second, absl::StrCat(file, ":3: the prompt has 6 tokens, more than 4"));
  EXPECT_EQ(problems[4].second, "… and 17 more that are too long");
}

TEST_F(CheckCommandTest, FiltersOverlongPromptsAndCountsThem) {
  Add("a.jsonl", kThree);
  const std::string whole = Add("b.jsonl", "{\"prompt\": \"1=\"}\n");
  Add("c.jsonl", "{\"prompt\": \"12345\"}\n");  // nothing of it is left
  spec_.mutable_data()->set_filter_overlong_prompts(true);
  const v1::ValidateJobResponse checked = Check();
  EXPECT_THAT(checked.violations(), IsEmpty());
  ASSERT_THAT(checked.data_files(), SizeIs(1));
  EXPECT_EQ(checked.data_files(0).list(), "train_files");
  EXPECT_EQ(checked.data_files(0).overlong_prompts(), 3u);
  const auto& files = checked.effective_spec().data().train_files();
  ASSERT_THAT(files, SizeIs(2));
  EXPECT_EQ(fs::path(files[0]).filename(), "a.jsonl");
  EXPECT_EQ(folder_.Read(fs::path(files[0]).lexically_relative(folder_.path()).string()),
            "{\"prompt\": \"1+2=\"}\n");
  EXPECT_EQ(files[1], whole);
}

// A response of 5 tokens and an end where 4 fit; one of 3 and its end fits.
TEST_F(CheckCommandTest, DemonstrationsThatAreCutAreCountedOrLeftOut) {
  spec_.set_kind(v1::JOB_KIND_SFT);
  const std::string good = "{\"prompt\": \"1=\", \"response\": \"123\"}\n";
  const std::string file = Add("a.jsonl", "{\"prompt\": \"1=\", \"response\": \"12345\"}\n" + good);
  const v1::ValidateJobResponse counted = Check();
  EXPECT_THAT(counted.violations(), IsEmpty());
  ASSERT_THAT(counted.data_files(), SizeIs(1));
  EXPECT_EQ(counted.data_files(0).cut_responses(), 1u);
  EXPECT_EQ(counted.data_files(0).overlong_responses(), 0u);
  EXPECT_THAT(counted.effective_spec().data().train_files(), ElementsAre(file));

  spec_.mutable_data()->set_filter_overlong_responses(true);
  const v1::ValidateJobResponse filtered = Check();
  EXPECT_THAT(filtered.violations(), IsEmpty());
  EXPECT_EQ(filtered.data_files(0).cut_responses(), 0u);
  EXPECT_EQ(filtered.data_files(0).overlong_responses(), 1u);
  const fs::path left = filtered.effective_spec().data().train_files(0);
  EXPECT_EQ(folder_.Read(left.lexically_relative(folder_.path()).string()), good);
}

TEST_F(CheckCommandTest, AFilterThatLeavesNoResponseIsAMistake) {
  spec_.set_kind(v1::JOB_KIND_SFT);
  Add("a.jsonl", "{\"prompt\": \"1=\", \"response\": \"12345\"}\n");
  spec_.mutable_data()->set_filter_overlong_responses(true);
  EXPECT_THAT(Problems(), ElementsAre(Pair("spec.data.train_files",
                                           HasSubstr("no line is left: 1 responses have more"))));
}

TEST_F(CheckCommandTest, AFilterThatLeavesNothingIsAMistake) {
  Add("a.jsonl", "{\"prompt\": \"12345\"}\n");
  spec_.mutable_data()->set_filter_overlong_prompts(true);
  EXPECT_THAT(Problems(), ElementsAre(Pair("spec.data.train_files",
                                           AllOf(HasSubstr("all 1 prompts"), HasSubstr("5")))));
}

TEST_F(CheckCommandTest, AFilterMustLeaveAPromptInEachFileOfAMix) {
  Add("a.jsonl", "{\"prompt\": \"1=\"}\n");
  const std::string b = Add("b.jsonl", "{\"prompt\": \"12345\"}\n");
  spec_.mutable_data()->set_filter_overlong_prompts(true);
  EXPECT_THAT(Problems(), IsEmpty());
  for (int i = 0; i < 2; ++i) spec_.mutable_data()->add_train_mix();
  EXPECT_THAT(Problems(), ElementsAre(Pair("spec.data.train_mix[1]",
                                           AllOf(HasSubstr(b), HasSubstr("raise it")))));
}

TEST_F(CheckCommandTest, ACharacterWithoutATokenIsNamed) {
  const std::string file = Add("a.jsonl", "{\"prompt\": \"1\"}\n{\"prompt\": \"1-1\"}\n");
  EXPECT_THAT(Problems(), ElementsAre(Pair("spec.data.train_files",
                                           AllOf(HasSubstr(file + ":2: "), HasSubstr("-")))));
}

TEST_F(CheckCommandTest, ResponsesThatAreTrainedOnAreLookedAt) {
  spec_.set_kind(v1::JOB_KIND_SFT);
  const std::string file = Add("a.jsonl", "{\"prompt\": \"1\", \"response\": \"a\"}\n");
  EXPECT_THAT(Problems(), ElementsAre(Pair("spec.data.train_files", HasSubstr(file + ":1: "))));
  spec_.set_kind(v1::JOB_KIND_RL);
  EXPECT_THAT(Problems(), IsEmpty());
}

// As with thinking models: 9 opens a thought, which the template leaves out of what was said.
TEST_F(CheckCommandTest, PromptsThatAreCutBackAreCounted) {
  spec_.set_kind(v1::JOB_KIND_SFT);
  spec_.mutable_model()->clear_init();
  spec_.mutable_model()->set_path(SaveModel("thinks"));
  folder_.Write("thinks/chat_template.jinja",
                "{% for m in messages %}{{ 2 if m.role == 'assistant' else 3 }}"
                "{{ m.content.split('9')[-1] }}1{% endfor %}"
                "{% if add_generation_prompt %}29{% endif %}");
  spec_.mutable_data()->set_max_prompt_length(8);
  const std::string line =
      R"({"messages": [{"role": "user", "content": "4"}, {"role": "assistant", "content": "5"}]})";
  const std::string file =
      Add("a.jsonl", line + "\n" + R"({"prompt": "4", "response": "5"})" + "\n" + line + "\n");
  const v1::ValidateJobResponse checked = Check();
  EXPECT_THAT(checked.violations(), IsEmpty());
  ASSERT_THAT(checked.data_files(), SizeIs(1));
  EXPECT_EQ(checked.data_files(0).list(), "train_files");
  EXPECT_EQ(checked.data_files(0).prompts_cut_back(), 2u) << "a text has no template";
  EXPECT_EQ(checked.data_files(0).overlong_prompts(), 0u);
  EXPECT_THAT(checked.effective_spec().data().train_files(), ElementsAre(file));
}

TEST_F(CheckCommandTest, TheTemplatesSettingsAreCheckedAndItsDayIsWrittenDown) {
  spec_.mutable_model()->clear_init();
  spec_.mutable_model()->set_path(SaveModel("settings"));
  folder_.Write("settings/chat_template.jinja",
                "{% for m in messages %}{{ m.content }}{% endfor %}"
                "{% if enable_thinking is false %}=={% endif %}{{ strftime_now('%d') }}");
  Add("a.jsonl",
      R"({"prompt": [{"role": "user", "content": "1"}], "documents": [{"text": "x"}]})"
      "\n"
      R"({"prompt": [{"role": "user", "content": "1", "reasoning": "2"}], "chat_template_kwargs":)"
      R"( {"enable_thinking": false}})"
      "\n"
      R"({"prompt": "1", "chat_template_kwargs": {"enable_thinking": false}})"
      "\n");
  spec_.mutable_data()->set_max_prompt_length(8);
  const v1::ValidateJobResponse checked = Check();
  EXPECT_THAT(checked.violations(), IsEmpty());
  EXPECT_THAT(checked.effective_spec().model().chat_template_date(),
              ::testing::MatchesRegex("20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]"));
  ASSERT_THAT(checked.data_files(), SizeIs(1));
  EXPECT_EQ(checked.data_files(0).lines_with_unread_keys(), 3u);
  EXPECT_EQ(checked.data_files(0).unread_keys(), "`documents`, `enable_thinking`, `reasoning`");
  // A day that is given stays, and a setting that nothing reads is refused.
  spec_.mutable_model()->set_chat_template_date("2026-02-03");
  EXPECT_EQ(Check().effective_spec().model().chat_template_date(), "2026-02-03");
  auto& kwargs = *spec_.mutable_model()->mutable_chat_template_kwargs()->mutable_fields();
  kwargs["enable_thinking"].set_bool_value(false);
  EXPECT_THAT(Problems(), IsEmpty());
  kwargs["enable_thinkin_"].set_bool_value(false);
  EXPECT_THAT(Problems(), ElementsAre(Pair("spec.model.chat_template_kwargs",
                                           HasSubstr("`enable_thinkin_` is nowhere in"))));
}

// A class of transformers that puts a space before each text.
TEST_F(CheckCommandTest, ATokenizerThatTransformersRebuildsIsWarnedOf) {
  spec_.mutable_model()->clear_init();
  spec_.mutable_model()->set_path(SaveModel("renamed"));
  Add("a.jsonl", "{\"prompt\": \"1\"}\n");
  EXPECT_THAT(Check().data_files(), IsEmpty());
  folder_.Write(
      "renamed/tokenizer_config.json",
      R"({"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": true, "eos_token": "<eos>",
                    "pad_token": "<pad>"})");
  const v1::ValidateJobResponse checked = Check();
  ASSERT_THAT(checked.data_files(), SizeIs(1));
  EXPECT_EQ(checked.data_files(0).list(), "train_files");
  EXPECT_THAT(checked.data_files(0).model_warnings(),
              ElementsAre(AllOf(StartsWith("model.path: "),
                                HasSubstr("loads this folder's tokenizer as GPT2Tokenizer"))));
}

// The file of a model that config.json calls tied has a head of its own.
TEST_F(CheckCommandTest, AFolderThatSaysTwoThingsIsWarnedOfOnce) {
  spec_.mutable_model()->clear_init();
  spec_.mutable_model()->set_path(SaveModel("two", /*tied=*/false));
  auto config = nlohmann::json::parse(folder_.Read("two/config.json"));
  config["tie_word_embeddings"] = true;
  config["dtype"] = "bfloat16";
  config["torch_dtype"] = "float32";
  folder_.Write("two/config.json", config.dump());
  Add("a.jsonl", "{\"prompt\": \"1\"}\n");
  spec_.mutable_data()->add_val_files(Path("a.jsonl"));
  *spec_.mutable_critic()->mutable_model() = spec_.model();  // the same folder
  const v1::ValidateJobResponse checked = Check();
  EXPECT_THAT(checked.violations(), IsEmpty());
  ASSERT_THAT(checked.data_files(), SizeIs(1));
  EXPECT_THAT(checked.data_files(0).model_warnings(),
              ElementsAre(HasSubstr("model.path: config.json says dtype: \"bfloat16\""),
                          AllOf(StartsWith("model.path: "), HasSubstr("another lm_head.weight"))));
  // Another folder has warnings of its own, after the setting that names it.
  SaveModel("critic", /*tied=*/false);
  folder_.Write("critic/config.json", config.dump());
  spec_.mutable_critic()->mutable_model()->set_path(Path("critic"));
  EXPECT_THAT(Check().data_files(0).model_warnings(),
              ElementsAre(StartsWith("model.path: "), StartsWith("model.path: "),
                          StartsWith("critic.model.path: "), StartsWith("critic.model.path: ")));
}

TEST_F(CheckCommandTest, PairsThatAreEqualOnceTheyAreCutAreNamed) {
  spec_.set_kind(v1::JOB_KIND_REWARD_MODEL);
  const std::string file =
      Add("a.jsonl",
          "{\"prompt\": \"1\", \"chosen\": \"11111\", \"rejected\": \"11112\"}\n"
          "{\"prompt\": \"1\", \"chosen\": \"11\", \"rejected\": \"12\"}\n");
  EXPECT_THAT(
      Problems(),
      ElementsAre(Pair("spec.data.train_files",
                       AllOf(HasSubstr(file + ":1: "), HasSubstr("max_response_length = 4")))));
}

TEST_F(CheckCommandTest, ValidationAndPretrainingDataAreLookedAtToo) {
  Add("a.jsonl", "{\"prompt\": \"1\"}\n");
  folder_.Write("v.jsonl", "{\"prompt\": \"12345\"}\n");
  spec_.mutable_data()->add_val_files(Path("v.jsonl"));
  folder_.Write("p.jsonl", "{\"prompt\": \"1\", \"response\": \"x\"}\n");
  spec_.mutable_data()->add_pretrain_files(Path("p.jsonl"));
  EXPECT_THAT(Problems(), ElementsAre(Pair("spec.data.val_files", HasSubstr("1 of 1 prompts")),
                                      Pair("spec.data.val_files", HasSubstr("v.jsonl:1: ")),
                                      Pair("spec.data.pretrain_files", HasSubstr("p.jsonl:1: "))));
}

TEST_F(CheckCommandTest, AModelFolderThatIsNotWholeIsNamed) {
  spec_.mutable_model()->Clear();
  spec_.mutable_model()->set_path(SaveModel("model"));
  EXPECT_THAT(Problems(), IsEmpty());
  const auto without = [&](const char* file) {
    fs::copy(Path("model"), Path("broken"));
    fs::remove(Path("broken") + "/" + file);
    spec_.mutable_model()->set_path(Path("broken"));
    auto problems = Problems();
    fs::remove_all(Path("broken"));
    return problems;
  };
  EXPECT_THAT(without("tokenizer.json"),
              ElementsAre(Pair("spec.model.path", HasSubstr("tokenizer.json"))));
  EXPECT_THAT(without("model.safetensors"),
              ElementsAre(Pair("spec.model.path", HasSubstr("model.safetensors"))));
}

TEST_F(CheckCommandTest, RefusesFilteredDataAboveTheProjectsRoom) {
  const std::string line = "{\"prompt\": \"1+2=\"}\n";
  Add("a.jsonl", line + "{\"prompt\": \"1+2+3=\"}\n" + line);
  Add("b.jsonl", "{\"prompt\": \"1+2+3=\"}\n" + line);
  spec_.mutable_data()->set_filter_overlong_prompts(true);
  EXPECT_THAT(Check(3 * line.size()).violations(), IsEmpty());
  const v1::ValidateJobResponse checked = Check(3 * line.size() - 1);
  ASSERT_THAT(checked.violations(), SizeIs(1));
  EXPECT_EQ(checked.violations(0).field(), "spec.data.train_files");
  EXPECT_THAT(checked.violations(0).description(), HasSubstr("room that the project has"));
}

TEST_F(CheckCommandTest, AFamilyThatTheEngineDoesNotKnowIsNamed) {
  spec_.mutable_model()->Clear();
  spec_.mutable_model()->set_path(SaveModel("model"));
  std::string config = folder_.Read("model/config.json");
  config.replace(config.find("\"llama\""), 7, "\"mamba\"");
  folder_.Write("model/config.json", config);
  EXPECT_THAT(Problems(), ElementsAre(Pair("spec.model.path", HasSubstr("mamba"))));
}

TEST_F(CheckCommandTest, ATemplateThatTheTokenizerHasNoTokensForIsNamed) {
  spec_.mutable_model()->set_chat_template("chatml");
  EXPECT_THAT(Problems(), ElementsAre(Pair("spec.model.chat_template", HasSubstr("<|im_start|>"))));
}

// Tokens were added to the tokenizer, and the model was not given rows for them.
TEST_F(CheckCommandTest, ATokenWithoutAnEmbeddingIsNamed) {
  spec_.mutable_model()->Clear();
  spec_.mutable_model()->set_path(SaveModel("model"));
  auto tokenizer = nlohmann::json::parse(folder_.Read("model/tokenizer.json"));
  const auto config = nlohmann::json::parse(folder_.Read("model/config.json"));
  const int64_t rows = config["vocab_size"].get<int64_t>();
  tokenizer["added_tokens"].push_back({{"id", rows},
                                       {"content", "<|tool|>"},
                                       {"single_word", false},
                                       {"lstrip", false},
                                       {"rstrip", false},
                                       {"normalized", false},
                                       {"special", true}});
  folder_.Write("model/tokenizer.json", tokenizer.dump());
  folder_.Write("model/chat_template.jinja",
                "{% for m in messages %}{{ m.content }}<|tool|>{% endfor %}");
  const std::string file =
      Add("a.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"1+2\"}]}\n");
  EXPECT_THAT(Problems(),
              ElementsAre(Pair("spec.data.train_files",
                               AllOf(HasSubstr(file + ":1: "),
                                     HasSubstr(absl::StrCat("token ", rows, " ('<|tool|>')")),
                                     HasSubstr(absl::StrCat("embeddings of ", rows, " tokens"))))));
}

TEST_F(CheckCommandTest, AStopStringThatNoResponseCanContainIsNamed) {
  spec_.mutable_rollout()->add_stop("=1");     // of the model's characters "0123456789+=: "
  spec_.mutable_rollout()->add_stop("1\n");    // no token writes a line's end
  spec_.mutable_rollout()->add_stop("11111");  // five characters, and responses have four tokens
  spec_.mutable_data()->set_max_response_length(4);
  *spec_.mutable_model() = policy::TinySpec().model();
  // The longest token is a special one, so the bound on bytes is generous.
  EXPECT_THAT(Problems(),
              ElementsAre(Pair("spec.rollout.stop[1]", HasSubstr("no token of the model writes"))));
  spec_.mutable_rollout()->set_stop(1, std::string(1000, '1'));
  EXPECT_THAT(Problems(),
              ElementsAre(Pair("spec.rollout.stop[1]",
                               AllOf(HasSubstr("has 1000 bytes"),
                                     HasSubstr("data.max_response_length = 4 tokens")))));
}

TEST_F(CheckCommandTest, AQuestionThatTheJudgeCannotReadIsNamed) {
  spec_.mutable_judge()->set_template_("1+{prompt}=");
  spec_.mutable_judge()->set_verdict("(\\d)");
  *spec_.mutable_judge()->mutable_model() = spec_.model();
  EXPECT_THAT(Problems(), IsEmpty());
  spec_.mutable_judge()->set_template_("{prompt}{response}");
  EXPECT_THAT(Problems(), IsEmpty()) << "nothing of the question is the spec's own";
  spec_.mutable_judge()->set_template_("Is {response} right?");
  EXPECT_THAT(Problems(), ElementsAre(Pair("spec.judge.model.chat_template", HasSubstr("'I'"))));
}

TEST_F(CheckCommandTest, ChecksEachModelOfASpecAndReportsAProblemOnce) {
  v1::ModelSpec missing;
  missing.set_path("/no/such/model");
  *spec_.mutable_reference()->mutable_model() = missing;
  *spec_.mutable_critic()->mutable_model() = missing;
  spec_.mutable_reward_model()->mutable_model()->set_path(SaveModel("model"));
  EXPECT_THAT(Problems(),
              ElementsAre(Pair("spec.critic.model.path", HasSubstr("/no/such/model")),
                          Pair("spec.reward_model.model.path", HasSubstr("score.weight"))));
}

TEST_F(CheckCommandTest, TheKvCacheHoldsTheLongestPromptAndItsResponse) {
  Add("a.jsonl", "{\"prompt\": \"1+2=\"}\n");
  spec_.mutable_data()->set_max_response_length(17);
  // Two blocks of 16 tokens: keys and values, 2 layers, 2 heads of 8 channels, 4 bytes each.
  const int64_t bytes = 2 * 16 * (2 * 2 * 2 * 8 * 4);
  spec_.mutable_rollout()->set_kv_cache_bytes(bytes);
  EXPECT_THAT(Problems(), IsEmpty());
  spec_.mutable_rollout()->set_kv_cache_bytes(bytes - 1);
  EXPECT_THAT(Problems(), ElementsAre(Pair("spec.rollout.kv_cache_bytes",
                                           AllOf(HasSubstr("longest prompt (4 tokens)"),
                                                 HasSubstr(absl::StrCat("take ", bytes))))));
}

// Else the job fails at its first step.
TEST_F(CheckCommandTest, AnswersThatTheRuleNumericCannotReadAreRefused) {
  spec_.mutable_reward()->add_rules()->set_type("numeric");
  Add("a.jsonl", "{\"prompt\": \"1+\", \"answer\": \"so 1+1=2\\n#### 2 or 3\"}\n");
  const v1::ValidateJobResponse refused = Check();
  ASSERT_THAT(refused.violations(), SizeIs(1));
  EXPECT_EQ(refused.violations(0).field(), "spec.reward.rules[0]");
  EXPECT_THAT(
      refused.violations(0).description(),
      AllOf(HasSubstr("1 of 1 answers are not one number"), HasSubstr("a.jsonl:1: 'so 1+1")));
  spec_.mutable_reward()->mutable_rules(0)->mutable_when()->add_source("math");
  EXPECT_THAT(Check().violations(), IsEmpty());
}

}  // namespace
}  // namespace baton
