// One rank of the parity test: 20 updates in float64, then as many in float32. Or, with UPDATES, so
// many in float64 alone; rank 0 makes FOLDER/began after the first.
//
//   parity_rank STORE RANK TP DP FOLDER [UPDATES]
//
// Rank 0 writes FOLDER/float64.safetensors and float32.safetensors: the whole model's weights,
// "losses" and "gradient_norms" [20], "imbalance" [1] and "first" (all weights before, flat).
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "sdk/common/base/status_macros.h"
#include "workers/engine/model/weights_io.h"
#include "workers/engine/training/trainer.h"
#include "workers/parallel/rank_groups.h"

namespace baton::parallel {
namespace {

ModelConfig Config() {
  ModelConfig config;
  config.family = ModelConfig::Family::kQwen2;
  config.vocab_size = 61;
  config.hidden_size = 32;
  config.intermediate_size = 44;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.max_position_embeddings = 128;
  config.attention_bias = true;
  config.tie_word_embeddings = true;
  config.initializer_range = 0.1;
  return config;
}

/// Twelve ragged sequences with masks, the same for the same step.
std::vector<engine::TrainSequence> Batch(int step) {
  std::mt19937 rng(100 + step);
  const auto uniform = [&] { return static_cast<float>(rng() % 10000) / 10000; };
  std::vector<engine::TrainSequence> batch(12);
  for (engine::TrainSequence& s : batch) {
    s.prompt_length = 1 + static_cast<int64_t>(rng() % 6);
    const int64_t response = 1 + static_cast<int64_t>(rng() % (rng() % 4 == 0 ? 40 : 12));
    for (int64_t t = 0; t < s.prompt_length + response; ++t) {
      // Tokens that follow each other, so that there is something to learn.
      s.tokens.push_back(
          static_cast<int32_t>(t == 0 ? rng() % 61 : (s.tokens.back() * 3 + rng() % 3) % 61));
    }
    for (int64_t r = 0; r < response; ++r) {
      s.behaviour_log_probs.push_back(-4.5f + uniform());
      s.ref_log_probs.push_back(-4.5f + uniform());
      s.advantages.push_back(2 * uniform() - 0.8f);
      s.loss_mask.push_back(rng() % 5 != 0 ? 1 : 0);
    }
    s.loss_mask[0] = 1;
  }
  return batch;
}

/// Odd updates imitate, even ones follow the policy gradient with every term of its loss.
LossSpec Loss(int update) {
  LossSpec loss;
  if (update % 2 == 1) return loss;
  loss.kind = LossSpec::kPpoClip;
  loss.entropy_coeff = 0.01;
  loss.use_kl_loss = true;
  loss.kl_loss_coef = 0.05;
  loss.clip_ratio_c = 3;
  return loss;
}

absl::Status Train(const GroupAddress& address, RankGroups& groups, torch::Dtype dtype, int updates,
                   const std::string& folder) {
  BATON_ASSIGN_OR_RETURN(
      auto model, engine::CausalLM::Create(Config(), dtype, torch::kCPU, groups.tensor_group()));
  model->InitializeRandom(17);
  BATON_ASSIGN_OR_RETURN(engine::NamedTensors before, engine::WholeParameters(*model));
  std::vector<torch::Tensor> first;
  for (const auto& named : before) first.push_back(named.second.detach().flatten().clone());
  OptimizerSpec optimizer;
  optimizer.lr = 0.03;
  optimizer.weight_decay = 0.05;
  BATON_ASSIGN_OR_RETURN(auto trainer,
                         engine::Trainer::Create(model.get(), optimizer, groups.data_group()));
  engine::UpdateOptions options;
  options.max_token_len = 60;
  std::vector<double> losses, norms;
  double imbalance = 0;
  for (int update = 0; update < updates; ++update) {
    // Five batches, so that imitation pays off.
    BATON_ASSIGN_OR_RETURN(auto metrics, trainer->Update(Batch(update % 5), Loss(update), options));
    const std::string prefix = update % 2 == 1 ? "train/" : "actor/";
    losses.push_back(metrics.at(prefix + (update % 2 == 1 ? "loss" : "pg_loss")));
    norms.push_back(metrics.at(prefix + "grad_norm"));
    imbalance += metrics.count("perf/imbalance") > 0 ? metrics["perf/imbalance"] / updates : 0;
    if (update == 0 && address.rank == 0) std::ofstream(folder + "/began").put('\n');
  }
  BATON_ASSIGN_OR_RETURN(engine::NamedTensors result, engine::WholeParameters(*model));
  if (address.rank != 0) return absl::OkStatus();
  for (auto& named : result) named.second = named.second.detach();
  result.emplace_back("losses", torch::tensor(losses, torch::kFloat64));
  result.emplace_back("gradient_norms", torch::tensor(norms, torch::kFloat64));
  result.emplace_back("imbalance", torch::tensor({imbalance}, torch::kFloat64));
  result.emplace_back("first", torch::cat(first));
  BATON_ASSIGN_OR_RETURN(const auto image, engine::WeightsImage::Create(result));
  return image.WriteFile(folder + (dtype == torch::kFloat64 ? "/float64" : "/float32") +
                         ".safetensors");
}

absl::Status Run(const GroupAddress& address, const std::string& folder, int updates) {
  BATON_ASSIGN_OR_RETURN(const auto groups, RankGroups::Join(address));
  if (updates > 0) return Train(address, *groups, torch::kFloat64, updates, folder);
  BATON_RETURN_IF_ERROR(Train(address, *groups, torch::kFloat64, 20, folder));
  return Train(address, *groups, torch::kFloat32, 20, folder);
}

}  // namespace
}  // namespace baton::parallel

int main(int argc, char** argv) {
  if (argc != 6 && argc != 7) {
    std::fprintf(stderr, "usage: parity_rank STORE RANK TP DP FOLDER [UPDATES]\n");
    return 2;
  }
  torch::set_num_threads(1);
  baton::parallel::GroupAddress address;
  address.store = argv[1];
  address.rank = std::atoi(argv[2]);
  address.tp = std::atoi(argv[3]);
  address.dp = std::atoi(argv[4]);
  const absl::Status status =
      baton::parallel::Run(address, argv[5], argc == 7 ? std::atoi(argv[6]) : 0);
  if (status.ok()) return 0;
  std::fprintf(stderr, "parity_rank %s: %s\n", argv[2], status.ToString().c_str());
  return 1;
}
