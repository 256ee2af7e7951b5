// A trainer scores what a generator samples: the ratio to the old policy is 1 before anything was
// learned, however the sampling distribution is cut.
#include <cmath>
#include <limits>
#include <random>

#include "tests/support/engine/generator.h"
#include "workers/engine/training/trainer.h"

namespace baton::engine {
namespace {

struct Sampled {
  std::vector<TrainSequence> batch;
  std::vector<Response> responses;
};

// Logits of a few units, as a model's are: float32 tells their log-probs apart to 1e-6.
std::unique_ptr<CausalLM> MakeSoberModel() {
  auto model = MakeModel();
  const torch::NoGradGuard no_grad;
  for (const auto& [name, parameter] : model->parameters()) {
    if (name == "lm_head.weight") torch::Tensor(parameter).mul_(0.3);
  }
  return model;
}

// Eight responses, advantages of both signs.
Sampled SampleBatch(CausalLM* model, double temperature, int64_t top_k, double top_p) {
  std::mt19937 random(11);
  std::vector<GenerateRequest> requests;
  for (uint64_t id = 1; id <= 8; ++id) {
    std::vector<int32_t> prompt;
    for (uint64_t i = 0; i < 3 + id; ++i) prompt.push_back(static_cast<int32_t>(random() % kVocab));
    requests.push_back(Request(id, std::move(prompt), 20, temperature));
    requests.back().params.top_k = top_k;
    requests.back().params.top_p = top_p;
  }
  Responses responses = RunAll(model, requests, Deterministic());
  Sampled out;
  for (const GenerateRequest& request : requests) {
    const Response& response = responses[request.id];
    out.batch.push_back(ToTrainOn(request, response, request.id % 2 == 0 ? 1.5F : -0.5F));
    out.responses.push_back(response);
  }
  return out;
}

std::unique_ptr<Trainer> StillTrainer(CausalLM* model) {
  OptimizerSpec still;
  still.lr = 0;
  still.weight_decay = 0;
  auto trainer = Trainer::Create(model, still);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return *std::move(trainer);
}

TEST(SamplingRatioTest, TheTrainerScoresWhatTheGeneratorSaid) {
  const auto model = MakeSoberModel();
  for (const double temperature : {0.7, 1.0}) {
    const Sampled sampled = SampleBatch(model.get(), temperature, 10, 0.8);
    const auto scored = StillTrainer(model.get())->LogProbs(sampled.batch, temperature);
    ASSERT_TRUE(scored.ok()) << scored.status();
    double cut = 0;
    for (size_t i = 0; i < sampled.batch.size(); ++i) {
      const Response& response = sampled.responses[i];
      for (size_t t = 0; t < response.tokens.size(); ++t) {
        EXPECT_NEAR(std::exp((*scored)[i][t] - response.log_probs[t]), 1, 1e-5);
        EXPECT_GE(response.sampling_log_probs[t], response.log_probs[t] - 1e-6F);
        cut = std::max<double>(cut, response.sampling_log_probs[t] - response.log_probs[t]);
      }
    }
    EXPECT_GT(cut, 0.1);  // the two are not the same here
  }
}

TEST(SamplingRatioTest, NothingIsClippedBeforeTheFirstUpdate) {
  const auto model = MakeSoberModel();
  for (const auto& [top_k, top_p] : {std::pair<int64_t, double>{0, 1.0}, {10, 0.8}}) {
    const Sampled sampled = SampleBatch(model.get(), 0.7, top_k, top_p);
    const auto trainer = StillTrainer(model.get());
    for (const auto kind :
         {LossSpec::kPpoClip, LossSpec::kGspo, LossSpec::kCispo, LossSpec::kReinforce}) {
      LossSpec loss;
      loss.kind = kind;
      loss.clip_ratio_low = loss.clip_ratio_high = 1e-5;  // so a ratio outside of 1 ± 1e-5 is seen
      loss.temperature = 0.7;
      const auto metrics = trainer->Update(sampled.batch, loss, {});
      ASSERT_TRUE(metrics.ok()) << metrics.status();
      EXPECT_EQ(metrics->at("actor/pg_clipfrac"), 0) << kind << " top_p " << top_p;
      EXPECT_NEAR(metrics->at("actor/ppo_kl"), 0, 1e-5) << kind << " top_p " << top_p;
    }
  }
}

// The weights are those of the distribution sampled from: old / behaviour, token by token.
TEST(SamplingRatioTest, ImportanceWeightsSeeTheCut) {
  const auto model = MakeSoberModel();
  const Sampled sampled = SampleBatch(model.get(), 0.7, 10, 0.8);
  double sum = 0, tokens = 0;
  for (const Response& response : sampled.responses) {
    for (size_t t = 0; t < response.tokens.size(); ++t, ++tokens) {
      sum += std::exp(double{response.log_probs[t]} - response.sampling_log_probs[t]);
    }
  }
  LossSpec loss;
  loss.kind = LossSpec::kPpoClip;
  loss.temperature = 0.7;
  loss.rollout_is = "token";
  const auto metrics = StillTrainer(model.get())->Update(sampled.batch, loss, {});
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  EXPECT_NEAR(metrics->at("rollout_corr/rollout_is_mean"), sum / tokens, 1e-5);
  EXPECT_LT(sum / tokens, 0.98);
}

}  // namespace
}  // namespace baton::engine
