// The rollout role on a tiny model, driven by an in-process controller.
#include "workers/rollout/rollout_role.h"

#include "gmock/gmock.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/workers/rollout_role.h"
#include "workers/engine/model/hf_directory.h"

namespace baton::rollout {
namespace {

using ::testing::HasSubstr;

TEST_F(RolloutRoleTest, SamplesFromTheVersionItWasTold) {
  Assign();
  EXPECT_EQ(ErrorReason(FromProto(Run(MakeGenerate(0)).status())), "WRONG_VERSION");
  Publish(0, 1);
  const v1::TaskResult loaded = Load(0);
  EXPECT_EQ(loaded.status().code(), 0) << loaded.status().message();
  const v1::TaskResult result = Run(MakeGenerate(0));
  ASSERT_EQ(result.status().code(), 0) << result.status().message();
  ASSERT_EQ(result.columns_size(), 3);
  EXPECT_EQ(result.columns(0).name(), "prompt_tokens");
  EXPECT_FALSE(result.columns(0).per_token());
  EXPECT_EQ(Tokens(result, 0), source_->EncodePrompt(tokenizer::RenderedText("1+2="), 0).value());
  EXPECT_EQ(result.columns(1).name(), "tokens");
  EXPECT_EQ(result.columns(2).name(), "rollout_log_prob");
  EXPECT_EQ(result.columns(1).data().size(), result.columns(2).data().size());
  EXPECT_EQ(result.prompt_text(), "1+2=");
  EXPECT_EQ(result.response_text(), source_->tokenizer().Decode(Tokens(result, 1)));
  EXPECT_EQ(ErrorReason(FromProto(Run(MakeGenerate(1)).status())), "WRONG_VERSION");
}

TEST_F(RolloutRoleTest, TheDrawBelongsToTheTrajectory) {
  Assign();
  Publish(0, 1);
  Load(0);
  const v1::TaskResult alone = Run(MakeGenerate(0, 3));
  std::vector<v1::Task> together;  // The same request, now among seven others.
  for (uint32_t sample = 0; sample < 8; ++sample) together.push_back(MakeGenerate(0, sample));
  for (const v1::Task& task : together) controller_.SendTask(task);
  std::set<std::string> texts;
  for (const v1::Task& task : together) {
    const auto result = controller_.WaitForResult(task.task_token());
    ASSERT_TRUE(result.has_value());
    texts.insert(result->response_text());
    if (task.generate().sample_index() != 3) continue;
    EXPECT_EQ(Tokens(*result, 1), Tokens(alone, 1));
    EXPECT_EQ(result->columns(2).data(), alone.columns(2).data());
  }
  EXPECT_GT(texts.size(), 4u);
}

TEST_F(RolloutRoleTest, ResumesWhereAnotherLeftOff) {
  Assign();
  Publish(0, 1);
  Load(0);
  const v1::TaskResult whole = Run(MakeGenerate(0, 1));
  const std::vector<int32_t> tokens = Tokens(whole, 1);
  ASSERT_GE(tokens.size(), 2u);
  v1::Task task = MakeGenerate(0, 1);
  task.mutable_generate()->add_resume_tokens(tokens[0]);
  task.mutable_generate()->add_resume_log_probs(-0.5f);
  const v1::TaskResult resumed = Run(task);
  ASSERT_EQ(resumed.status().code(), 0) << resumed.status().message();
  EXPECT_EQ(Tokens(resumed, 1), tokens);
  EXPECT_EQ(resumed.columns(2).data().substr(4), whole.columns(2).data().substr(4));
}

// Tokens of older weights, all right or wrong from some token on, before or after a resumed part:
// the answer is the same, and says how much of the draft was right.
TEST_F(RolloutRoleTest, ADraftChangesNothingButIsCounted) {
  Assign();
  Publish(0, 1);
  Load(0);
  const v1::TaskResult whole = Run(MakeGenerate(0, 1));
  const std::vector<int32_t> tokens = Tokens(whole, 1);
  ASSERT_GE(tokens.size(), 4u);
  EXPECT_FALSE(whole.metrics().contains("draft_accepted"));
  EXPECT_EQ(whole.metrics().at("step_rows"), 1) << "it ran alone";
  EXPECT_GT(whole.metrics().at("step_seconds"), 0);
  for (const size_t resumed : {0, 1}) {
    for (size_t right = resumed; right <= tokens.size(); ++right) {
      v1::Task task = MakeGenerate(0, 1);
      if (resumed > 0) {
        task.mutable_generate()->add_resume_tokens(tokens[0]);
        task.mutable_generate()->add_resume_log_probs(-0.5f);
      }
      for (size_t i = resumed; i < right; ++i) task.mutable_generate()->add_draft_tokens(tokens[i]);
      const int32_t next = right < tokens.size() ? tokens[right] : 0;
      task.mutable_generate()->add_draft_tokens(next == 0 ? 1 : 0);
      const v1::TaskResult result = Run(task);
      ASSERT_EQ(result.status().code(), 0) << result.status().message();
      EXPECT_EQ(Tokens(result, 1), tokens);
      EXPECT_EQ(result.columns(2).data().substr(4 * resumed),
                whole.columns(2).data().substr(4 * resumed));
      EXPECT_EQ(result.finish_reason(), whole.finish_reason());
      ASSERT_TRUE(result.metrics().contains("draft_accepted"));
      EXPECT_EQ(result.metrics().at("draft_accepted"), static_cast<double>(right - resumed));
    }
  }
  v1::Task task = MakeGenerate(0, 1);
  task.mutable_generate()->add_draft_tokens(-1);  // no token at all ends a draft
  EXPECT_EQ(Tokens(Run(task), 1), tokens);
}

TEST_F(RolloutRoleTest, ABadRowFailsItsOwnTaskAlone) {
  v1::JobSpec spec = policy::TinySpec();
  spec.mutable_model()->mutable_init()->set_tie_word_embeddings(false);
  Assign(spec);
  const auto source = policy::PolicySource::Open(spec.model(), "").value();
  const int32_t bad = source->EncodePrompt(tokenizer::RenderedText("9"), 0).value().back();
  const auto model = source->LoadModel(torch::kFloat32, torch::kCPU, 1).value();
  {
    const torch::NoGradGuard no_grad;
    for (auto& [name, weight] : model->parameters()) {
      if (name == "model.embed_tokens.weight") torch::Tensor(weight)[bad].fill_(std::nan(""));
    }
  }
  const auto image = engine::testing::ModelImage(*model).value();
  ASSERT_TRUE(
      policy::PublishImage(*relay_, {"projects/default/jobs/test", 0, true, ""}, image).ok());
  ASSERT_EQ(Load(0).status().code(), 0);
  std::vector<v1::Task> tasks;
  for (uint32_t sample = 0; sample < 8; ++sample) {
    v1::Task task = MakeGenerate(0, sample);
    task.mutable_generate()->set_max_new_tokens(1);
    if (sample == 3) task.mutable_generate()->set_prompt("9+2=");
    tasks.push_back(task);
  }
  for (const v1::Task& task : tasks) controller_.SendTask(task);
  for (const v1::Task& task : tasks) {
    const auto result = controller_.WaitForResult(task.task_token());
    ASSERT_TRUE(result.has_value());
    const absl::Status status = FromProto(result->status());
    if (task.generate().sample_index() != 3) {
      EXPECT_TRUE(status.ok()) << status;
      continue;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);  // to be asked of another rollout
    EXPECT_THAT(std::string(status.message()), HasSubstr("response token 0: cannot sample"));
  }
}

TEST_F(RolloutRoleTest, ANewVersionChangesWhatItSays) {
  Assign();
  Publish(0, 1);
  Load(0);
  std::vector<std::string> before, after;
  for (uint32_t i = 0; i < 4; ++i) before.push_back(Run(MakeGenerate(0, i)).response_text());
  Publish(1, 2);
  EXPECT_EQ(Load(1).status().code(), 0);
  for (uint32_t i = 0; i < 4; ++i) after.push_back(Run(MakeGenerate(1, i)).response_text());
  EXPECT_NE(before, after);
  EXPECT_NE(Load(7).status().code(), 0);  // Never published; the held version stays usable.
  EXPECT_EQ(Run(MakeGenerate(1)).status().code(), 0);
}

// Rules, commands and judges see what a template opened of a response ("<think>").
TEST_F(RolloutRoleTest, ResultsSayWhatTheChatTemplateBeganOfTheResponse) {
  const TestFolder folder;
  engine::SaveOptions save;
  save.companions = source_->companions();
  save.companions["chat_template.jinja"] =
      "{% for m in messages %}{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}{{ opening | default('==') }}{% endif %}";
  const auto model = source_->LoadModel(torch::kFloat32, torch::kCPU, 1).value();
  ASSERT_TRUE(engine::SaveModel(*model, folder.path("model"), save).ok());
  v1::JobSpec spec = policy::TinySpec();
  spec.mutable_model()->Clear();
  spec.mutable_model()->set_path(folder.path("model"));
  Assign(spec);
  Publish(0, 1);
  Load(0);
  v1::Task task = MakeGenerate(0);
  task.mutable_generate()->clear_prompt();
  v1::ChatMessage* message = task.mutable_generate()->add_messages();
  message->set_role("user");
  message->set_content("1+2");
  const v1::TaskResult result = Run(task);
  ASSERT_EQ(result.status().code(), 0) << result.status().message();
  EXPECT_EQ(result.prompt_text(), "1+2==");
  EXPECT_EQ(result.prompt_suffix(), "==");
  task.set_task_token("another");
  task.mutable_generate()->set_chat_template_kwargs_json(R"({"opening": "="})");
  const v1::TaskResult other = Run(task);
  EXPECT_EQ(other.prompt_text(), "1+2=") << "the line's own settings";
  EXPECT_EQ(other.prompt_suffix(), "=");
  EXPECT_EQ(Run(MakeGenerate(0)).prompt_suffix(), "") << "a text has no template";
}

TEST_F(RolloutRoleTest, RefusesWhatItCannotDo) {
  Assign();
  Publish(0, 1);
  Load(0);
  v1::Task task = MakeGenerate(0);
  task.mutable_generate()->set_prompt("12345678901234567");
  EXPECT_THAT(Run(task).status().message(), HasSubstr("max_prompt_length"));
  task = MakeGenerate(0);
  task.mutable_generate()->set_prompt("x");
  EXPECT_NE(Run(task).status().code(), 0);
  task = MakeGenerate(0);
  task.mutable_generate()->add_resume_tokens(3);
  EXPECT_THAT(Run(task).status().message(), HasSubstr("resume_log_probs"));
  v1::Task broken = Make("assign_role");
  broken.mutable_assign_role()->mutable_spec()->mutable_model()->set_path("/no/such/model");
  EXPECT_THAT(Run(broken).status().message(), HasSubstr("/no/such/model"));
}

TEST_F(RolloutRoleTest, AReleaseEndsWhatRuns) {
  Assign();
  Publish(0, 1);
  Load(0);
  std::vector<v1::Task> tasks;
  for (uint32_t sample = 0; sample < 64; ++sample) tasks.push_back(MakeGenerate(0, sample));
  for (const v1::Task& task : tasks) controller_.SendTask(task);
  EXPECT_EQ(Run(Make("release_role")).status().code(), 0);
  for (const v1::Task& task : tasks) {
    EXPECT_TRUE(controller_.WaitForResult(task.task_token()).has_value());
  }
}

TEST_F(RolloutRoleTest, TruncatedSamplingHasLogProbsOfItsOwn) {
  Assign();
  Publish(0, 1);
  Load(0);
  v1::Task task = MakeGenerate(0, 1);
  task.mutable_generate()->set_top_k(3);
  const v1::TaskResult whole = Run(task);
  ASSERT_EQ(whole.columns_size(), 4);
  EXPECT_EQ(whole.columns(2).name(), "rollout_log_prob");
  EXPECT_EQ(whole.columns(3).name(), "sampling_log_prob");
  EXPECT_EQ(whole.columns(2).data().size(), whole.columns(3).data().size());
  EXPECT_NE(whole.columns(2).data(), whole.columns(3).data());

  const std::vector<int32_t> tokens = Tokens(whole, 1);
  ASSERT_GE(tokens.size(), 2u);
  task.set_task_token("resumed");
  task.mutable_generate()->add_resume_tokens(tokens[0]);
  task.mutable_generate()->add_resume_log_probs(-0.5f);
  task.mutable_generate()->add_resume_sampling_log_probs(-0.25f);
  const v1::TaskResult resumed = Run(task);
  ASSERT_EQ(resumed.columns_size(), 4);
  EXPECT_EQ(Tokens(resumed, 1), tokens);
  const float first = -0.25f;
  EXPECT_EQ(resumed.columns(3).data(),
            std::string(reinterpret_cast<const char*>(&first), sizeof(first)) +
                whole.columns(3).data().substr(4));
  task.set_task_token("wrong");
  task.mutable_generate()->add_resume_sampling_log_probs(-0.25f);
  EXPECT_THAT(Run(task).status().message(), HasSubstr("resume_sampling_log_probs"));
}

}  // namespace
}  // namespace baton::rollout
