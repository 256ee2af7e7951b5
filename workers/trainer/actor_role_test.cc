// The actor role on a tiny model, driven by an in-process controller.
#include "workers/trainer/actor_role.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "relay/weights/safetensors_reader.h"
#include "sdk/common/messages/columns.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/workers/actor_role.h"
#include "workers/engine/model/hf_directory.h"
#include "workers/engine/model/weights_io.h"
#include "workers/policy/trajectory_columns.h"

namespace baton::trainer {
namespace {

constexpr char kJob[] = "projects/default/jobs/test";

std::string ReadAll(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<v1::Trajectory> Demonstrations() {
  std::vector<v1::Trajectory> batch;
  for (const auto& [prompt, response] :
       {std::pair{"1+2=", "3"}, {"2+2=", "4"}, {"4+5=", "9"}, {"7+0=", "7"}}) {
    v1::Trajectory trajectory;
    trajectory.set_prompt_text(prompt);
    trajectory.set_response_text(response);
    batch.push_back(trajectory);
  }
  return batch;
}

class ActorRoleTest : public ActorTest {
 protected:
  ActorRoleTest() { controller_.SetBatch("sft", Demonstrations()); }

  v1::TaskResult Update(int64_t step, const std::string& loss = "sft",
                        const std::string& batch = "sft") {
    return Run(MakeUpdate(step, loss, batch));
  }
  v1::TaskResult Publish(uint64_t version) {
    v1::Task task = Make("publish");
    task.mutable_publish()->set_policy_version(version);
    return Run(task);
  }
  std::string Weights(const std::string& name) {
    return ReadAll(folder_.path(name + "/actor/model.safetensors"));
  }
};

TEST_F(ActorRoleTest, LearnsDemonstrations) {
  const v1::TaskResult assigned = Assign();
  ASSERT_EQ(assigned.status().code(), 0) << assigned.status().message();
  const v1::TaskResult first = Update(1);
  ASSERT_EQ(first.status().code(), 0) << first.status().message();
  // Weights are near zero, so every one of the 16 tokens is about as likely: ln 16.
  EXPECT_NEAR(first.metrics().at("train/loss"), 2.77, 0.1);
  EXPECT_EQ(first.metrics().at("perf/total_num_tokens"), 24);  // 4 × (4 + 2)
  EXPECT_GT(first.metrics().at("timing_s/update_actor"), 0);
  double loss = 0;
  for (int64_t step = 2; step <= 60; ++step) loss = Update(step).metrics().at("train/loss");
  EXPECT_LT(loss, 0.2);
}

TEST_F(ActorRoleTest, HeldOutExamplesAreJudgedAfterTheUpdateAndNotTrainedWith) {
  auto batch = Demonstrations();
  for (v1::Trajectory judged : Demonstrations()) {
    judged.set_purpose(v1::PURPOSE_EVAL);
    batch.insert(batch.begin(), judged);  // wherever they stand
  }
  controller_.SetBatch("judged", batch);
  Assign();
  const v1::TaskResult plain = Update(1);
  EXPECT_EQ(plain.metrics().count("val/loss"), 0u);
  Save(1, "plain");
  Assign();
  const v1::TaskResult first = Update(1, "sft", "judged");
  ASSERT_EQ(first.status().code(), 0) << first.status().message();
  Save(1, "judged");
  EXPECT_EQ(Weights("judged"), Weights("plain"));
  EXPECT_EQ(first.metrics().at("train/loss"), plain.metrics().at("train/loss"));
  EXPECT_EQ(first.metrics().at("perf/total_num_tokens"), 24);
  EXPECT_LT(first.metrics().at("val/loss"), first.metrics().at("train/loss"));  // of after it
  v1::TaskResult last;
  for (int64_t step = 2; step <= 60; ++step) last = Update(step, "sft", "judged");
  EXPECT_LT(last.metrics().at("val/loss"), 0.2);
  EXPECT_EQ(last.metrics().at("val/token_accuracy"), 1);
}

TEST_F(ActorRoleTest, TellsTheControllerHowFarAnUpdateIs) {
  controller_.SetBatch("long", [] {
    std::vector<v1::Trajectory> batch;  // many times the interval between two messages
    for (int i = 0; i < 4000; ++i) batch.push_back(Demonstrations()[i % 4]);
    return batch;
  }());
  spec_.mutable_actor()->set_ppo_mini_batch_size(1);
  Assign();
  ASSERT_EQ(Update(1, "sft", "long").status().code(), 0);
  uint32_t last = 0;
  for (const v1::WorkerMessage& message : controller_.messages()) {
    if (!message.has_progress()) continue;
    EXPECT_EQ(message.progress().total(), 4000u);
    EXPECT_GT(message.progress().done(), last);
    EXPECT_EQ(message.progress().tokens_size(), 0);
    last = message.progress().done();
  }
  EXPECT_GT(last, 0u);
  EXPECT_LE(last, 4000u);
}

TEST_F(ActorRoleTest, AnUpdateIsAppliedOnce) {
  Assign();
  const v1::TaskResult once = Update(1);
  Save(1, "a");
  const v1::TaskResult again = Update(1);
  EXPECT_EQ(again.metrics().at("train/loss"), once.metrics().at("train/loss"));
  Save(1, "b");
  EXPECT_EQ(Weights("a"), Weights("b"));
  EXPECT_EQ(ErrorReason(FromProto(Update(3).status())), "WRONG_STEP");
  EXPECT_EQ(ErrorReason(FromProto(Save(3, "c").status())), "WRONG_STEP");
}

TEST_F(ActorRoleTest, AStepWithoutAnUpdateIsPassedOver) {
  Assign();
  Update(1);
  // Step 2 dropped all its groups: the version stays 1.
  std::filesystem::create_directory(folder_.path("two"));
  v1::Task save = Make("save_checkpoint");
  save.mutable_save_checkpoint()->set_step(2);
  save.mutable_save_checkpoint()->set_directory(folder_.path("two"));
  save.mutable_save_checkpoint()->set_policy_version(2);
  EXPECT_EQ(ErrorReason(FromProto(Run(save).status())), "WRONG_STEP");
  save.mutable_save_checkpoint()->set_policy_version(1);
  save.set_task_token(std::to_string(++tokens_));
  const v1::TaskResult saved = Run(save);
  EXPECT_EQ(saved.status().code(), 0) << saved.status().message();
  v1::Task update = Make("update");
  update.mutable_update()->set_step(3);
  update.mutable_update()->set_from_step(2);
  update.mutable_update()->set_batch_id("sft");
  update.mutable_update()->set_loss("sft");
  update.mutable_update()->set_policy_version(2);
  const v1::TaskResult updated = Run(update);
  EXPECT_EQ(updated.status().code(), 0) << updated.status().message();
  Restart();
  EXPECT_EQ(Assign(folder_.path("two"), 2).status().code(), 0);
}

TEST_F(ActorRoleTest, ACheckpointContinuesBitForBit) {
  Assign();
  Update(1);
  const v1::TaskResult saved = Save(1, "one");
  ASSERT_EQ(saved.status().code(), 0) << saved.status().message();
  std::vector<std::string> files;
  for (const v1::FileHash& file : saved.files()) files.push_back(file.path());
  EXPECT_THAT(files, ::testing::IsSupersetOf({"actor/config.json", "actor/model.safetensors",
                                              "actor/tokenizer.json", "optimizer.safetensors",
                                              "trainer.json"}));
  Update(2);
  Save(2, "straight");
  Restart();
  ASSERT_EQ(Assign(folder_.path("one"), 1).status().code(), 0);
  EXPECT_EQ(Update(2).status().code(), 0);
  Save(2, "resumed");
  EXPECT_EQ(Weights("resumed"), Weights("straight"));
  EXPECT_EQ(ReadAll(folder_.path("resumed/optimizer.safetensors")),
            ReadAll(folder_.path("straight/optimizer.safetensors")));
  EXPECT_NE(Assign(folder_.path("one"), 5).status().code(), 0);  // Another step.
}

TEST_F(ActorRoleTest, PublishesWhatItHolds) {
  Assign();
  ASSERT_EQ(Publish(0).status().code(), 0);
  Update(1);
  const v1::TaskResult published = Publish(1);
  ASSERT_EQ(published.status().code(), 0) << published.status().message();
  EXPECT_EQ(Publish(1).status().code(), 0);  // Again.
  EXPECT_EQ(ErrorReason(FromProto(Publish(2).status())), "WRONG_VERSION");
  const auto source = policy::PolicySource::Open(policy::TinySpec().model(), "").value();
  const auto model = source->LoadModel(torch::kFloat32, torch::kCPU, 99).value();
  ASSERT_TRUE(relay_
                  ->Load({kJob, 1}, policy::Never(),
                         [&](absl::Span<const uint8_t> bytes) {
                           return engine::LoadModelFrom(bytes, *model);
                         })
                  .ok());
  Save(1, "c");
  const auto saved =
      engine::LoadModel(folder_.path("c/actor"), torch::kFloat32, torch::kCPU).value();
  for (size_t i = 0; i < model->parameters().size(); ++i) {
    EXPECT_TRUE(torch::equal(model->parameters()[i].second, saved->parameters()[i].second));
  }
}

// An optimizer would take three times the memory of the weights, and a schedule that falls would
// need a last step.
TEST_F(ActorRoleTest, PublishesForAnEvaluationWithoutAnOptimizer) {
  spec_.mutable_trainer()->set_val_only(true);
  spec_.mutable_trainer()->clear_total_training_steps();
  spec_.mutable_actor()->set_lr_schedule("cosine");
  ASSERT_EQ(Assign().status().code(), 0);
  EXPECT_EQ(Publish(0).status().code(), 0);
  EXPECT_THAT(Update(1).status().message(), ::testing::HasSubstr("without an optimizer"));
}

TEST_F(ActorRoleTest, RepublishesVersionsAfterAnAssignment) {
  Assign();
  Publish(0);
  Save(0, "zero");
  Update(1);
  Publish(1);
  Restart();
  Assign(folder_.path("zero"), 0);
  EXPECT_EQ(Publish(0).status().code(), 0);
  Update(1);
  EXPECT_EQ(Publish(1).status().code(), 0);
}

TEST_F(ActorRoleTest, PolicyGradientRaisesWhatWasGood) {
  Assign();
  v1::Trajectory good;
  *good.add_columns() = MakeColumn("prompt_tokens", false, std::vector<int32_t>{3, 13});
  *good.add_columns() = MakeColumn("tokens", true, std::vector<int32_t>{5, 1});
  v1::Task score = Make("compute_log_prob");
  *score.mutable_score()->mutable_trajectory() = good;
  const auto log_prob = [&] {
    score.set_task_token(std::to_string(++tokens_));
    v1::Trajectory scored;
    *scored.mutable_columns() = Run(score).columns();
    return policy::ReadFloat(scored, "old_log_prob").value();
  };
  const std::vector<float> before = log_prob();
  ASSERT_EQ(before.size(), 2u);
  v1::Trajectory bad = good;
  *bad.mutable_columns(1) = MakeColumn("tokens", true, std::vector<int32_t>{6, 1});
  for (v1::Trajectory* trajectory : {&good, &bad}) {
    *trajectory->add_columns() = MakeColumn("rollout_log_prob", true, before);
    *trajectory->add_columns() =
        MakeColumn("advantages", false, std::vector<float>{trajectory == &good ? 1.f : -1.f});
  }
  controller_.SetBatch("rl", {good, bad});
  const v1::TaskResult updated = Update(1, "ppo_clip", "rl");
  ASSERT_EQ(updated.status().code(), 0) << updated.status().message();
  EXPECT_TRUE(updated.metrics().contains("actor/pg_loss"));
  EXPECT_GT(log_prob()[0], before[0]);
}

// Requests go together in micro-batches; an update that comes after them waits, so that all are
// answered by the weights that they were asked of.
TEST_F(ActorRoleTest, AnswersManyAtOnceAsOneByOneAndBeforeItLearns) {
  Assign();
  std::vector<v1::Task> tasks;
  for (int32_t i = 0; i < 40; ++i) {
    std::vector<int32_t> tokens;
    for (int32_t t = 0; t < 1 + i % 7; ++t) tokens.push_back((i * 3 + t * 5) % 14);
    v1::Task task = Make("compute_log_prob");
    v1::Trajectory& trajectory = *task.mutable_score()->mutable_trajectory();
    *trajectory.add_columns() =
        MakeColumn("prompt_tokens", false, std::vector<int32_t>{i % 10, 13});
    *trajectory.add_columns() = MakeColumn("tokens", true, tokens);
    tasks.push_back(task);
  }
  const auto answer = [&](const v1::Task& task) {
    v1::Trajectory scored;
    *scored.mutable_columns() =
        controller_.WaitForResult(task.task_token()).value_or(v1::TaskResult()).columns();
    return policy::ReadFloat(scored, "old_log_prob").value_or(std::vector<float>());
  };
  std::vector<std::vector<float>> alone;
  for (v1::Task& task : tasks) {
    controller_.SendTask(task);
    alone.push_back(answer(task));
    task.set_task_token(std::to_string(++tokens_));
  }
  for (const v1::Task& task : tasks) controller_.SendTask(task);
  ASSERT_EQ(Update(1).status().code(), 0);
  for (size_t i = 0; i < tasks.size(); ++i) {
    const std::vector<float> together = answer(tasks[i]);
    ASSERT_EQ(together.size(), alone[i].size()) << i;
    ASSERT_EQ(together.size(), 1 + i % 7);
    for (size_t t = 0; t < together.size(); ++t) EXPECT_NEAR(together[t], alone[i][t], 1e-6) << i;
  }
  // And what is asked now is answered by what it has learned.
  tasks[1].set_task_token(std::to_string(++tokens_));
  controller_.SendTask(tasks[1]);
  EXPECT_GT(std::abs(answer(tasks[1])[0] - alone[1][0]), 1e-4);
}

// The rollout's log-probs are wrong by far; between two passes of the actor the ratio is still 1,
// for the actor has not learned in between.
TEST_F(ActorRoleTest, ComputedAgainALogProbOfTheRolloutThatIsWrongDoesNotMatter) {
  Assign();
  v1::Trajectory response;
  *response.add_columns() = MakeColumn("prompt_tokens", false, std::vector<int32_t>{3, 13});
  *response.add_columns() = MakeColumn("tokens", true, std::vector<int32_t>{5, 6, 1});
  v1::Task score = Make("compute_log_prob");
  *score.mutable_score()->mutable_trajectory() = response;
  const v1::TaskResult scored = Run(score);
  ASSERT_EQ(scored.columns_size(), 1) << scored.status().message();
  EXPECT_EQ(scored.columns(0).name(), "old_log_prob");
  *response.add_columns() = MakeColumn("rollout_log_prob", true, std::vector<float>{-1, -6, -0.1F});
  *response.add_columns() = MakeColumn("advantages", false, std::vector<float>{1});
  controller_.SetBatch("sampled", {response});
  *response.add_columns() = scored.columns(0);
  controller_.SetBatch("recomputed", {response});
  const v1::TaskResult recomputed = Update(1, "ppo_clip", "recomputed");
  ASSERT_EQ(recomputed.status().code(), 0) << recomputed.status().message();
  EXPECT_NEAR(recomputed.metrics().at("actor/ppo_kl"), 0, 1e-6);
  EXPECT_EQ(recomputed.metrics().at("actor/pg_clipfrac"), 0);
  EXPECT_NEAR(recomputed.metrics().at("actor/pg_loss"), -1, 1e-6);  // -A, ratio 1
  Restart();
  Assign();
  const v1::TaskResult sampled = Update(1, "ppo_clip", "sampled");
  ASSERT_EQ(sampled.status().code(), 0) << sampled.status().message();
  EXPECT_GT(sampled.metrics().at("actor/pg_clipfrac"), 0);
  EXPECT_GT(std::abs(sampled.metrics().at("actor/pg_loss") + 1), 0.1);
}

// Retention removes the checkpoint that a restarted actor began from; it saves all the same.
TEST_F(ActorRoleTest, SavesWhenTheCheckpointItBeganFromIsGone) {
  Assign();
  Save(0, "c");
  Restart();
  ASSERT_EQ(Assign(folder_.path("c"), 0).status().code(), 0);
  std::filesystem::remove_all(folder_.path("c"));
  const v1::TaskResult saved = Save(0, "d");
  EXPECT_EQ(saved.status().code(), 0) << saved.status().message();
  EXPECT_TRUE(std::filesystem::exists(folder_.path("d/actor/tokenizer.json")));
  Restart();
  EXPECT_EQ(Assign(folder_.path("d"), 0).status().code(), 0);
}

TEST_F(ActorRoleTest, ExportsWithoutHoldingTheRole) {
  Assign();
  Save(0, "c");
  Run(Make("release_role"));
  v1::Task task = Make("export");
  task.mutable_export_()->set_checkpoint(folder_.path("c"));
  task.mutable_export_()->set_directory(folder_.path("exported/model/"));
  const v1::TaskResult result = Run(task);
  EXPECT_EQ(result.status().code(), 0) << result.status().message();
  EXPECT_TRUE(engine::LoadModel(folder_.path("exported/model"), torch::kFloat32, torch::kCPU).ok());
  EXPECT_TRUE(std::filesystem::exists(folder_.path("exported/model/tokenizer.json")));
  EXPECT_TRUE(std::filesystem::exists(folder_.path("exported/model/generation_config.json")));
  task.set_task_token("again");
  EXPECT_EQ(Run(task).status().code(), static_cast<int>(absl::StatusCode::kAlreadyExists));
  // Files beside the export may be another's, and nothing is added to a checkpoint.
  std::filesystem::create_directories(folder_.path("other.partial/kept"));
  task.set_task_token("beside");
  task.mutable_export_()->set_directory(folder_.path("other"));
  EXPECT_EQ(Run(task).status().code(), 0);
  EXPECT_TRUE(std::filesystem::exists(folder_.path("other.partial/kept")));
  task.set_task_token("inside");
  task.mutable_export_()->set_directory(folder_.path("c/actor/new"));
  EXPECT_EQ(Run(task).status().code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("c/actor/new")));
  EXPECT_EQ(ErrorReason(FromProto(Update(1).status())), "ROLE_NOT_HELD");
}

// A model of bfloat16 is trained in float32 and given back so, for bfloat16 would round most of
// what was learned away; in another type where that is asked for, and then told how much that
// keeps.
TEST_F(ActorRoleTest, ExportsInFloat32UnlessAskedOtherwise) {
  Assign();
  Save(0, "c");
  ASSERT_TRUE(
      engine::ConvertModel(folder_.path("c/actor"), "bfloat16", folder_.path("model")).ok());
  Restart();
  v1::Task begin = Make("assign_role");
  *begin.mutable_assign_role()->mutable_spec() = policy::TinySpec();
  begin.mutable_assign_role()->mutable_spec()->mutable_model()->clear_init();
  begin.mutable_assign_role()->mutable_spec()->mutable_model()->set_path(folder_.path("model"));
  begin.mutable_assign_role()->mutable_spec()->mutable_actor()->set_lr(1e-5);  // as for real models
  const v1::TaskResult begun = Run(begin);
  ASSERT_EQ(begun.status().code(), 0) << begun.status().message();
  ASSERT_EQ(Update(1).status().code(), 0);
  Save(1, "d");
  Restart();
  begin.set_task_token("from d");
  begin.mutable_assign_role()->set_checkpoint(folder_.path("d"));
  begin.mutable_assign_role()->set_step(1);
  begin.mutable_assign_role()->set_policy_version(1);
  const v1::TaskResult restored = Run(begin);
  ASSERT_EQ(restored.status().code(), 0) << restored.status().message();
  Save(1, "e");
  const auto trained = relay::SafetensorsFile::Open(folder_.path("e/actor/model.safetensors"));
  ASSERT_TRUE(trained.ok()) << trained.status();
  const auto base_file = relay::SafetensorsFile::Open(folder_.path("model/model.safetensors"));
  ASSERT_TRUE(base_file.ok()) << base_file.status();
  for (const std::string dtype : {"", "bfloat16", "float16", "float32"}) {
    const std::string target = folder_.path("exported-" + dtype);
    v1::Task task = Make("export");
    task.mutable_export_()->set_checkpoint(folder_.path("e"));
    task.mutable_export_()->set_directory(target);
    task.mutable_export_()->set_dtype(dtype);
    task.mutable_export_()->set_base_model(folder_.path("model"));
    const v1::TaskResult result = Run(task);
    ASSERT_EQ(result.status().code(), 0) << dtype << ": " << result.status().message();
    const std::string expected = dtype.empty() ? "float32" : dtype;
    const auto torch_type = *engine::TorchDtypeFromName(expected);
    const auto config = engine::LoadModelConfig(target);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->torch_dtype, expected);
    EXPECT_THAT(ReadAll(target + "/config.json"), ::testing::Not(::testing::HasSubstr("baton")));
    EXPECT_TRUE(std::filesystem::exists(target + "/tokenizer.json"));
    const auto file = relay::SafetensorsFile::Open(target + "/model.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_EQ((*file)->view().entries().size(), (*trained)->view().entries().size());
    int64_t changed = 0, kept = 0;
    for (const relay::TensorEntry& entry : (*trained)->view().entries()) {
      const relay::TensorEntry* other = (*file)->view().Find(entry.name);
      ASSERT_NE(other, nullptr) << entry.name;
      const torch::Tensor from = *engine::BorrowTensor((*trained)->view(), entry);
      const torch::Tensor to = *engine::BorrowTensor((*file)->view(), *other);
      EXPECT_EQ(from.scalar_type(), torch::kFloat32) << "it is trained in float32";
      EXPECT_EQ(to.scalar_type(), torch_type) << entry.name;
      EXPECT_TRUE(torch::equal(from.to(torch_type), to)) << entry.name;
      const torch::Tensor base =
          engine::BorrowTensor((*base_file)->view(), *(*base_file)->view().Find(entry.name))
              ->to(torch::kFloat32);
      changed += (from != base).sum().item<int64_t>();
      kept +=
          (to.to(torch::kFloat32) != base.to(torch_type).to(torch::kFloat32)).sum().item<int64_t>();
    }
    if (expected == "float32") {
      EXPECT_EQ(result.metrics().count("kept_weights"), 0u) << "all of it is kept";
      continue;
    }
    EXPECT_GT(changed, 0);
    EXPECT_LT(kept, changed) << dtype;
    EXPECT_EQ(result.metrics().at("changed_weights"), static_cast<double>(changed));
    EXPECT_EQ(result.metrics().at("kept_weights"), static_cast<double>(kept));
  }
  // The numbers are unknown if the first model is gone; the export is there.
  v1::Task task = Make("export");
  task.mutable_export_()->set_checkpoint(folder_.path("e"));
  task.mutable_export_()->set_directory(folder_.path("exported-without-base"));
  task.mutable_export_()->set_dtype("bfloat16");
  task.mutable_export_()->set_base_model(folder_.path("nowhere"));
  const v1::TaskResult result = Run(task);
  EXPECT_EQ(result.status().code(), 0) << result.status().message();
  EXPECT_EQ(result.metrics().count("kept_weights"), 0u);
}

}  // namespace
}  // namespace baton::trainer
