#include "workers/engine/training/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/engine/trainer.h"
#include "workers/engine/model/attention.h"

namespace baton::engine {
namespace {

using ::testing::AllOf;
using testing::Gradients;
using ::testing::HasSubstr;
using testing::MakeModel;
using testing::MakeTrainer;
using testing::Measuring;
using testing::RandomBatch;
using testing::SameBytes;
using testing::SetWeights;
using testing::TinyConfig;
using testing::Weights;

using Metrics = std::map<std::string, double>;
/// What an update told of its progress: micro-batches done, and all of them.
using Done = std::vector<std::pair<int64_t, int64_t>>;

LossSpec Ppo() {
  LossSpec spec;
  spec.kind = LossSpec::kPpoClip;
  spec.clip_ratio_high = 0.28;
  spec.use_kl_loss = true;
  spec.entropy_coeff = 0.01;
  return spec;
}

OptimizerSpec Learning(double lr = 0.01) {
  OptimizerSpec spec;
  spec.lr = lr;
  return spec;
}

Metrics Update(Trainer& trainer, const std::vector<TrainSequence>& batch, const LossSpec& loss,
               const UpdateOptions& options = {}) {
  auto metrics = trainer.Update(batch, loss, options);
  EXPECT_TRUE(metrics.ok()) << metrics.status();
  return metrics.ok() ? *metrics : Metrics();
}

TEST(TrainerTest, MicroBatchesDoNotChangeTheGradient) {
  for (const char* mode :
       {"token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"}) {
    LossSpec loss = Ppo();
    loss.loss_agg_mode = mode;
    const std::vector<TrainSequence> batch = RandomBatch(1, 12, 11);
    auto model = MakeModel(TinyConfig(), torch::kFloat32);
    auto trainer = MakeTrainer(*model, Measuring());
    const Metrics whole = Update(*trainer, batch, loss);
    const auto expected = Gradients(*model);
    for (int64_t budget : {10, 17, 40}) {
      const Metrics split = Update(*trainer, batch, loss, {1, 0, budget});
      for (const auto& [name, value] : whole) {
        EXPECT_NEAR(split.at(name), value, 1e-5) << name << " with a budget of " << budget;
      }
      const auto gradients = Gradients(*model);
      for (size_t i = 0; i < gradients.size(); ++i) {
        // Sums in another order: float32's rounding of the gradient's own size.
        const double size = expected[i].second.abs().max().item<double>();
        EXPECT_LT((gradients[i].second - expected[i].second).abs().max().item<double>(),
                  1e-6 * (1 + size))
            << gradients[i].first << " with a budget of " << budget;
      }
    }
  }
}

TEST(TrainerTest, MiniBatchesAreStepsOnSlicesInOrder) {
  const std::vector<TrainSequence> batch = RandomBatch(2, 10, 11);
  auto model = MakeModel(TinyConfig(), torch::kFloat32);
  auto other = MakeModel(TinyConfig(), torch::kFloat32);
  auto whole = MakeTrainer(*model, Learning());
  auto parts = MakeTrainer(*other, Learning());
  const Metrics metrics = Update(*whole, batch, Ppo(), {2, 4, 0});
  EXPECT_EQ(metrics.at("actor/optimizer_steps"), 6);
  EXPECT_EQ(whole->optimizer_steps(), 6);
  double grad_norm = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (size_t begin : {0, 4, 8}) {
      const auto end = batch.begin() + std::min(begin + 4, batch.size());
      grad_norm += Update(*parts, {batch.begin() + begin, end}, Ppo()).at("actor/grad_norm");
    }
  }
  EXPECT_TRUE(SameBytes(Weights(*model), Weights(*other)));
  EXPECT_NEAR(metrics.at("actor/grad_norm"), grad_norm / 6, 1e-9);
}

TEST(TrainerTest, SameInputsGiveTheSameBytes) {
  const std::vector<TrainSequence> batch = RandomBatch(3, 16, 11);
  std::vector<std::vector<torch::Tensor>> results;
  for (int run = 0; run < 2; ++run) {
    auto model = MakeModel(TinyConfig(), torch::kFloat32);
    auto trainer = MakeTrainer(*model, Learning());
    for (int step = 0; step < 3; ++step) Update(*trainer, batch, Ppo(), {1, 5, 30});
    results.push_back(Weights(*model));
  }
  EXPECT_TRUE(SameBytes(results[0], results[1]));
}

TEST(TrainerTest, ResumesBitwiseFromWeightsAndOptimizer) {
  OptimizerSpec spec = Learning();
  spec.lr_schedule = "cosine";
  spec.lr_warmup_steps = 2;
  spec.total_steps = 8;
  const LossSpec sft;
  auto model = MakeModel(TinyConfig(), torch::kFloat32);
  auto trainer = MakeTrainer(*model, spec);
  UpdateOptions options;
  for (options.step = 0; options.step < 3; ++options.step) {
    Update(*trainer, RandomBatch(static_cast<uint32_t>(options.step), 8, 11), sft, options);
  }
  const std::string path = ::testing::TempDir() + "trainer_resume.safetensors";
  ASSERT_TRUE(trainer->SaveOptimizer(path).ok());
  auto second_model = MakeModel(TinyConfig(), torch::kFloat32, 99);
  SetWeights(*second_model, Weights(*model));
  auto second = MakeTrainer(*second_model, spec);
  ASSERT_TRUE(second->LoadOptimizer(path).ok());
  EXPECT_EQ(second->optimizer_steps(), 3);
  for (; options.step < 6; ++options.step) {
    const auto seed = static_cast<uint32_t>(options.step);
    const Metrics a = Update(*trainer, RandomBatch(seed, 8, 11), sft, options);
    const Metrics b = Update(*second, RandomBatch(seed, 8, 11), sft, options);
    EXPECT_EQ(a, b);
  }
  EXPECT_TRUE(SameBytes(Weights(*model), Weights(*second_model)));
}

// Dynamic sampling leaves batches of any size, so a step makes any number of updates.
TEST(TrainerTest, ADecayEndsWithTheJobWhateverIsLeftOfItsBatches) {
  OptimizerSpec spec = Learning(0.08);
  spec.lr_schedule = "linear";
  spec.total_steps = 4;
  auto model = MakeModel(TinyConfig(), torch::kFloat32);
  auto trainer = MakeTrainer(*model, spec);
  const int sizes[] = {16, 5, 1, 9};
  const double updates[] = {8, 4, 2, 6};  // two epochs of mini-batches of 4
  // 0.08 * (1 - (step + (n - 1) / n) / 4), the rate of the step's last update.
  const double last[] = {0.08 * 25 / 32, 0.08 * 9 / 16, 0.08 * 3 / 8, 0.08 / 24};
  UpdateOptions options;
  options.ppo_epochs = 2;
  options.ppo_mini_batch_size = 4;
  for (options.step = 0; options.step < 4; ++options.step) {
    std::vector<TrainSequence> batch = RandomBatch(5, 20, 11);
    batch.erase(batch.begin(), batch.begin() + 4);  // all that are left have something to learn
    batch.resize(sizes[options.step]);
    for (TrainSequence& s : batch) s.loss_mask.clear();
    const Metrics metrics = Update(*trainer, batch, Ppo(), options);
    EXPECT_EQ(metrics.at("actor/optimizer_steps"), updates[options.step]);
    EXPECT_NEAR(metrics.at("actor/lr"), last[options.step], 1e-12) << options.step;
  }
}

TEST(TrainerTest, MemorisesFourSequences) {
  std::vector<TrainSequence> batch(4);
  for (int i = 0; i < 4; ++i) {
    batch[i].tokens = {1, i + 2, 3, 3 - i % 2, 9 - i, 7, (5 * i) % 11, 0};
    batch[i].prompt_length = 2;
  }
  ModelConfig config = TinyConfig();
  config.hidden_size = 32;
  config.intermediate_size = 64;
  config.head_dim = 16;
  config.initializer_range = 0.1;
  auto model = MakeModel(config, torch::kFloat32);
  OptimizerSpec spec = Learning(0.01);
  spec.weight_decay = 0;
  auto trainer = MakeTrainer(*model, spec);
  const double before = *trainer->Loss(batch);
  EXPECT_GT(before, 1.5);
  for (int step = 0; step < 150; ++step) Update(*trainer, batch, LossSpec());
  EXPECT_LT(*trainer->Loss(batch), 0.02);
  const auto log_probs = trainer->LogProbs(batch, 1);
  ASSERT_TRUE(log_probs.ok());
  for (const auto& row : *log_probs) {
    ASSERT_EQ(row.size(), 6);
    for (float log_prob : row) EXPECT_GT(log_prob, std::log(0.8f));
  }
}

TEST(TrainerTest, APositiveAdvantageRaisesTheProbability) {
  std::vector<TrainSequence> batch(2);
  for (int i = 0; i < 2; ++i) {
    batch[i].tokens = {1, 2, 3 + i, 5};
    batch[i].prompt_length = 2;
    batch[i].advantages = {i == 0 ? 1.0f : -1.0f};
  }
  auto model = MakeModel(TinyConfig(), torch::kFloat32);
  auto trainer = MakeTrainer(*model, Learning());
  const auto before = *trainer->LogProbs(batch, 1);
  for (int i = 0; i < 2; ++i) batch[i].behaviour_log_probs = before[i];
  LossSpec loss = Ppo();
  loss.use_kl_loss = false;
  const Metrics metrics = Update(*trainer, batch, loss);
  // On policy the ratio is one: nothing is clipped, and the loss is minus the mean advantage.
  EXPECT_NEAR(metrics.at("actor/ppo_kl"), 0, 1e-6);
  EXPECT_EQ(metrics.at("actor/pg_clipfrac"), 0);
  EXPECT_NEAR(metrics.at("actor/pg_loss"), 0, 1e-6);
  EXPECT_GT(metrics.at("actor/entropy"), 0);
  EXPECT_EQ(metrics.at("actor/lr"), 0.01);
  EXPECT_EQ(metrics.at("perf/total_num_tokens"), 8);
  EXPECT_EQ(metrics.count("actor/kl_loss"), 0);
  const auto after = *trainer->LogProbs(batch, 1);
  EXPECT_GT(after[0][0], before[0][0]);
  EXPECT_LT(after[1][0], before[1][0]);
}

TEST(TrainerTest, MaskedTokensDoNotAffectTheUpdate) {
  std::vector<TrainSequence> batch = RandomBatch(4, 8, 11);
  auto model = MakeModel(TinyConfig(), torch::kFloat32);
  auto trainer = MakeTrainer(*model, Measuring());
  const Metrics before = Update(*trainer, batch, Ppo());
  const auto expected = Gradients(*model);
  for (TrainSequence& s : batch) {
    if (s.advantages.size() == 1) continue;
    for (int64_t r = 0; r < s.response_length(); ++r) {
      if (s.loss_mask.empty() || s.loss_mask[r] != 0) continue;
      s.behaviour_log_probs[r] = s.ref_log_probs[r] = s.advantages[r] = std::nanf("");
    }
  }
  EXPECT_EQ(Update(*trainer, batch, Ppo()), before);
  const auto gradients = Gradients(*model);
  for (size_t i = 0; i < gradients.size(); ++i) {
    EXPECT_TRUE(torch::equal(gradients[i].second, expected[i].second));
  }
}

TEST(TrainerTest, LogProbsAndLossDoNotDependOnMicroBatches) {
  const std::vector<TrainSequence> batch = RandomBatch(5, 12, 11);
  auto model = MakeModel(TinyConfig(), torch::kFloat64);
  auto trainer = MakeTrainer(*model, Measuring());
  const auto whole = trainer->LogProbs(batch, 0.7);
  const auto split = trainer->LogProbs(batch, 0.7, 12);
  ASSERT_TRUE(whole.ok() && split.ok());
  for (size_t i = 0; i < batch.size(); ++i) {
    ASSERT_EQ((*whole)[i].size(), batch[i].response_length());
    for (size_t r = 0; r < (*whole)[i].size(); ++r) {
      EXPECT_NEAR((*whole)[i][r], (*split)[i][r], 1e-6);
    }
  }
  const auto at_one = *trainer->LogProbs(batch, 1);
  double sum = 0, tokens = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    for (size_t r = 0; r < at_one[i].size(); ++r) {
      if (!batch[i].loss_mask.empty() && batch[i].loss_mask[r] == 0) continue;
      sum -= at_one[i][r];
      tokens += 1;
    }
  }
  EXPECT_NEAR(*trainer->Loss(batch), sum / tokens, 1e-6);
  EXPECT_NEAR(*trainer->Loss(batch, 12), sum / tokens, 1e-6);
  EXPECT_NEAR(Update(*trainer, batch, LossSpec()).at("train/loss"), sum / tokens, 1e-6);
}

// A token is the likeliest if no other in its place has a higher log-prob: each is tried.
TEST(TrainerTest, WithoutAnOptimizerItScoresAlikeAndHasNoGradients) {
  const std::vector<TrainSequence> batch = RandomBatch(1, 4, 11);
  auto model = MakeModel(TinyConfig(), torch::kFloat32);
  auto other = MakeModel(TinyConfig(), torch::kFloat32);
  auto trainer = MakeTrainer(*model, Learning());
  const auto scorer = Trainer::CreateWithoutOptimizer(other.get());
  EXPECT_EQ(*scorer->LogProbs(batch, 1), *trainer->LogProbs(batch, 1));
  EXPECT_EQ(*scorer->Loss(batch), *trainer->Loss(batch));
  for (const auto& [name, parameter] : other->parameters()) {
    EXPECT_FALSE(parameter.requires_grad() || parameter.grad().defined()) << name;
  }
  EXPECT_EQ(scorer->Update(batch, Ppo(), {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(scorer->SaveOptimizer("x").code(), absl::StatusCode::kFailedPrecondition);
}

TEST(TrainerTest, AccuracyCountsTheLikeliestTokens) {
  auto model = MakeModel(TinyConfig(), torch::kFloat64);
  auto trainer = MakeTrainer(*model, Measuring());
  std::vector<TrainSequence> batch = RandomBatch(5, 12, 11);
  const auto likeliest = [&](const TrainSequence& sequence, size_t r) {
    int32_t best = 0;
    float most = -1e30F;
    for (int32_t token = 0; token < 11; ++token) {
      TrainSequence other;
      other.prompt_length = sequence.prompt_length;
      const auto end = sequence.tokens.begin() + sequence.prompt_length + static_cast<int64_t>(r);
      other.tokens.assign(sequence.tokens.begin(), end);
      other.tokens.push_back(token);
      const float log_prob = (*trainer->LogProbs({&other, 1}, 1))[0][r];
      if (log_prob > most) {
        most = log_prob;
        best = token;
      }
    }
    return best;
  };
  // Random tokens are hardly ever the likeliest: the first of a response is made so.
  for (TrainSequence& sequence : batch) {
    if (sequence.response_length() == 0) continue;
    sequence.tokens[static_cast<size_t>(sequence.prompt_length)] = likeliest(sequence, 0);
  }
  double right = 0, tokens = 0;
  for (const TrainSequence& sequence : batch) {
    for (size_t r = 0; r < static_cast<size_t>(sequence.response_length()); ++r) {
      if (!sequence.loss_mask.empty() && sequence.loss_mask[r] == 0) continue;
      tokens += 1;
      const auto place = static_cast<size_t>(sequence.prompt_length) + r;
      right += sequence.tokens[place] == likeliest(sequence, r) ? 1 : 0;
    }
  }
  ASSERT_GT(right, 0);
  ASSERT_LT(right, tokens);
  for (const int64_t max_token_len : {0, 12}) {
    const auto report = trainer->Evaluate(batch, max_token_len);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_NEAR(report->accuracy, right / tokens, 1e-12);
    EXPECT_NEAR(report->loss, *trainer->Loss(batch), 1e-9);
  }
}

TEST(TrainerTest, DeterministicModeScoresManyAsOneByOne) {
  const std::vector<TrainSequence> batch = RandomBatch(6, 9, 11);
  auto model = MakeModel(TinyConfig(), torch::kFloat32);
  model->SetDeterministic(true);
  auto trainer = MakeTrainer(*model, Measuring());
  const auto together = *trainer->LogProbs(batch, 1);
  for (size_t i = 0; i < batch.size(); ++i) {
    EXPECT_EQ((*trainer->LogProbs({&batch[i], 1}, 1))[0], together[i]);
  }
}

TEST(TrainerTest, TrainsAModelThatGeneratedBefore) {
  // Generation runs in inference mode; what the model caches then must not reach autograd.
  const std::vector<TrainSequence> batch = RandomBatch(10, 6, 11);
  auto model = MakeModel(TinyConfig(), torch::kFloat32);
  {
    const c10::InferenceMode inference;
    PackedCausalAttention attention({3});
    model->Hidden(torch::tensor({1, 2, 3}, torch::kInt64), attention.Positions(), attention);
  }
  auto trainer = MakeTrainer(*model, Learning());
  EXPECT_EQ(Update(*trainer, batch, LossSpec()).at("train/optimizer_steps"), 1);
}

// --- What must never poison the weights ----------------------------------------------------------

TEST(TrainerTest, RefusesToUpdateAModelWithNanWeights) {
  const std::vector<TrainSequence> batch = RandomBatch(7, 8, 11);
  auto model = MakeModel(TinyConfig(), torch::kFloat32);
  auto trainer = MakeTrainer(*model, Learning());
  {
    torch::NoGradGuard no_grad;
    torch::Tensor norm = model->parameters().back().second;
    norm.fill_(std::numeric_limits<float>::quiet_NaN());
  }
  const auto weights = Weights(*model);
  const auto result = trainer->Update(batch, LossSpec(), UpdateOptions());
  ASSERT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(result.status().message()),
      AllOf(HasSubstr("weights unchanged"), HasSubstr("sequence "), HasSubstr("the loss is nan")));
  EXPECT_EQ(trainer->optimizer_steps(), 0);
  for (size_t i = 0; i + 1 < weights.size(); ++i) {
    EXPECT_TRUE(torch::equal(weights[i], model->parameters()[i].second));
  }
}

TEST(TrainerTest, ANanInAnyParameterIsNoticed) {
  const std::vector<TrainSequence> batch = RandomBatch(11, 8, 11);
  for (const auto family : {ModelConfig::Family::kLlama, ModelConfig::Family::kQwen2}) {
    auto model = MakeModel(TinyConfig(family), torch::kFloat32);
    auto trainer = MakeTrainer(*model, Learning());
    for (const auto& [name, parameter] : model->parameters()) {
      const auto weights = Weights(*model);
      {
        torch::NoGradGuard no_grad;
        torch::Tensor(parameter).fill_(std::numeric_limits<float>::quiet_NaN());
      }
      EXPECT_EQ(trainer->Update(batch, LossSpec(), UpdateOptions()).status().code(),
                absl::StatusCode::kFailedPrecondition)
          << name;
      EXPECT_EQ(trainer->optimizer_steps(), 0) << name;
      SetWeights(*model, weights);
    }
    Update(*trainer, batch, LossSpec());  // No trace of it is left.
  }
}

// The weights are those of the other mini-batches alone; moments and decay move nothing either.
TEST(TrainerTest, AMaskedMiniBatchMakesNoStep) {
  std::vector<TrainSequence> batch = RandomBatch(4, 8, 11);
  for (size_t i : {2, 3}) batch[i].loss_mask.assign(batch[i].response_length(), 0);
  auto model = MakeModel(TinyConfig(), torch::kFloat32);
  auto trainer = MakeTrainer(*model, Learning());
  UpdateOptions options = {1, 2, 0};
  Done told;
  options.progress = [&](int64_t done, int64_t total) { told.emplace_back(done, total); };
  const Metrics metrics = Update(*trainer, batch, Ppo(), options);
  EXPECT_EQ(told, (Done{{1, 3}, {2, 3}, {3, 3}}));
  EXPECT_EQ(metrics.at("actor/optimizer_steps"), 3);
  EXPECT_EQ(metrics.at("actor/skipped_steps"), 0);
  EXPECT_EQ(trainer->optimizer_steps(), 3);
}

TEST(TrainerTest, ABadMiniBatchIsSkippedAndTheOthersApplied) {
  std::vector<TrainSequence> batch = RandomBatch(8, 12, 11);
  batch[5].advantages.assign(batch[5].response_length(), 3e38f);
  batch[5].behaviour_log_probs.assign(batch[5].response_length(), -40.0f);
  batch[5].loss_mask.clear();
  LossSpec loss = Ppo();
  loss.use_kl_loss = false;
  auto model = MakeModel(TinyConfig(), torch::kFloat32);
  auto trainer = MakeTrainer(*model, Learning());
  UpdateOptions options = {1, 4, 0};
  Done told;
  options.progress = [&](int64_t done, int64_t total) { told.emplace_back(done, total); };
  const Metrics metrics = Update(*trainer, batch, loss, options);
  EXPECT_EQ(told, (Done{{1, 3}, {3, 3}}));  // the skipped one counts
  EXPECT_EQ(metrics.at("actor/skipped_steps"), 1);
  EXPECT_EQ(metrics.at("actor/optimizer_steps"), 2);
  ASSERT_EQ(trainer->skip_reasons().size(), 1);
  EXPECT_THAT(trainer->skip_reasons()[0],
              AllOf(HasSubstr("mini-batch from sequence 4"), HasSubstr("sequence 5, response")));
  // The result is as if the model had never seen the sequence.
  auto other = MakeModel(TinyConfig(), torch::kFloat32);
  auto without = MakeTrainer(*other, Learning());
  Update(*without, {batch.begin(), batch.begin() + 4}, loss);
  Update(*without, {batch.begin() + 8, batch.end()}, loss);
  EXPECT_TRUE(SameBytes(Weights(*model), Weights(*other)));
}

TEST(TrainerTest, AGradientThatOverflowsIsRefusedWithItsParameter) {
  // Weights of zero make finite logits whose gradient is scaled beyond float32 by the advantage.
  std::vector<TrainSequence> batch(1);
  batch[0].tokens = {1, 2, 3};
  batch[0].prompt_length = 1;
  batch[0].advantages = {1e38f};
  ModelConfig config = TinyConfig();
  config.initializer_range = 100;
  auto model = MakeModel(config, torch::kFloat32);
  auto trainer = MakeTrainer(*model, Learning());
  batch[0].behaviour_log_probs = (*trainer->LogProbs(batch, 1))[0];
  const auto weights = Weights(*model);
  LossSpec loss = Ppo();
  loss.use_kl_loss = false;
  loss.entropy_coeff = 0;
  const auto result = trainer->Update(batch, loss, UpdateOptions());
  ASSERT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition) << result.status();
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("gradient"));
  EXPECT_TRUE(SameBytes(weights, Weights(*model)));
  EXPECT_EQ(trainer->optimizer_steps(), 0);
}

// libtorch fails (as it does when memory is short) in the backward pass of the nth step.
TEST(TrainerTest, RefusesUpdatesAfterAFailureBetweenSteps) {
  const std::vector<TrainSequence> batch = RandomBatch(8, 12, 11);
  LossSpec loss = Ppo();
  loss.use_kl_loss = false;
  for (int failing : {1, 2}) {
    auto model = MakeModel(TinyConfig(), torch::kFloat32);
    auto trainer = MakeTrainer(*model, Learning());
    const auto weights = Weights(*model);
    int passes = 0;
    torch::Tensor parameter = model->parameters().back().second;
    parameter.register_hook([&](torch::Tensor gradient) -> torch::Tensor {
      TORCH_CHECK(++passes != failing, "out of memory");
      return gradient;
    });
    const auto result = trainer->Update(batch, loss, {1, 4, 0, {}});
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInternal) << result.status();
    EXPECT_THAT(std::string(result.status().message()),
                AllOf(HasSubstr("out of memory"),
                      HasSubstr(failing == 1 ? "weights unchanged" : "after 1 optimizer steps")));
    EXPECT_EQ(passes, failing) << "no other mini-batch is tried";
    EXPECT_EQ(SameBytes(weights, Weights(*model)), failing == 1);
    const auto again = trainer->Update(batch, loss, {1, 4, 0, {}});
    EXPECT_EQ(again.ok(), failing == 1) << again.status();
  }
}

TEST(TrainerTest, TellsHowManyOfItsMicroBatchesAreDone) {
  std::vector<TrainSequence> batch = RandomBatch(8, 12, 11);
  auto model = MakeModel(TinyConfig(), torch::kFloat32);
  auto trainer = MakeTrainer(*model, Learning());
  UpdateOptions options;
  options.ppo_epochs = 2;
  options.ppo_mini_batch_size = 4;
  Done told;
  options.progress = [&](int64_t done, int64_t total) { told.emplace_back(done, total); };
  Update(*trainer, batch, LossSpec(), options);
  // Three mini-batches, twice; each fits into one micro-batch.
  EXPECT_EQ(told, (Done{{1, 6}, {2, 6}, {3, 6}, {4, 6}, {5, 6}, {6, 6}}));

  told.clear();
  options.ppo_epochs = 1;
  for (TrainSequence& s : batch) s = batch[0];
  options.max_token_len = InputLength(batch[0]);  // one sequence at a time
  Update(*trainer, batch, LossSpec(), options);
  ASSERT_EQ(told.size(), 12u);
  for (size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i], std::pair(static_cast<int64_t>(i) + 1, int64_t{12}));
  }
}

TEST(TrainerTest, CancelledBetweenItsSteps) {
  const std::vector<TrainSequence> batch = RandomBatch(8, 12, 11);
  auto model = MakeModel(TinyConfig(), torch::kFloat32);
  auto trainer = MakeTrainer(*model, Learning());
  const auto weights = Weights(*model);
  UpdateOptions options;
  options.ppo_mini_batch_size = 4;
  int asked = 0;
  options.cancelled = [&] { return ++asked == 1; };
  EXPECT_EQ(trainer->Update(batch, LossSpec(), options).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_TRUE(SameBytes(weights, Weights(*model)));
  options.cancelled = [&] { return ++asked == 3; };
  EXPECT_EQ(trainer->Update(batch, LossSpec(), options).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(trainer->optimizer_steps(), 1);
  EXPECT_EQ(trainer->Update(batch, LossSpec(), {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(TrainerTest, BadInputIsNamed) {
  auto model = MakeModel(TinyConfig(), torch::kFloat32);
  auto trainer = MakeTrainer(*model, Learning());
  const auto weights = Weights(*model);
  const auto message = [&](const std::vector<TrainSequence>& batch, const LossSpec& loss,
                           const UpdateOptions& options) {
    const auto result = trainer->Update(batch, loss, options);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
    return std::string(result.status().message());
  };
  const std::vector<TrainSequence> good = RandomBatch(9, 8, 11);
  std::vector<TrainSequence> bad = good;
  bad[4].advantages[0] = std::nanf("");
  EXPECT_THAT(message(bad, Ppo(), {}),
              HasSubstr("sequence 4, response token 0: advantages is nan"));
  bad = good;
  bad[4].behaviour_log_probs.push_back(0);
  EXPECT_THAT(message(bad, Ppo(), {}), HasSubstr("sequence 4: behaviour_log_probs has"));
  bad = good;
  bad[4].ref_log_probs.clear();
  EXPECT_THAT(message(bad, Ppo(), {}), HasSubstr("sequence 4: ref_log_probs has 0 values"));
  bad = good;
  bad[5].tokens[0] = 11;
  EXPECT_THAT(message(bad, Ppo(), {}), HasSubstr("sequence 5, position 0: token 11"));
  EXPECT_THAT(message(good, Ppo(), {0, 0, 0}), HasSubstr("ppo_epochs"));
  EXPECT_THAT(message(good, Ppo(), {1, 0, 2}), HasSubstr("max_token_len: 2 cannot hold"));
  LossSpec loss = Ppo();
  loss.kl_loss_type = "k9";
  EXPECT_THAT(message(good, loss, {}), HasSubstr("'k9'"));
  EXPECT_THAT(message({good[1], good[2]}, Ppo(), {}), HasSubstr("no unmasked response token"));
  EXPECT_THAT(message({}, Ppo(), {}), HasSubstr("no unmasked response token"));
  EXPECT_TRUE(SameBytes(weights, Weights(*model)));
  EXPECT_FALSE(trainer->LogProbs(good, 0).ok());
  EXPECT_FALSE(trainer->Loss({&good[1], 1}).ok());
  EXPECT_TRUE((*trainer->LogProbs({&good[1], 1}, 1))[0].empty());

  auto half = MakeModel(TinyConfig(), torch::kBFloat16);
  EXPECT_EQ(Trainer::Create(half.get(), Learning()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::engine
