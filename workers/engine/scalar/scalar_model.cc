#include "workers/engine/scalar/scalar_model.h"

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/loss/log_probs.h"
#include "workers/engine/model/attention.h"
#include "workers/engine/model/exceptions.h"

namespace baton::engine {
namespace {

/// Calls `take` with every scalar, its sequence and its response index.
absl::Status ForEachScalar(ScalarModel& model, const PackedRows& packed,
                           absl::FunctionRef<void(int64_t, float)> take) {
  torch::NoGradGuard no_grad;
  const torch::Tensor scalars = model.Forward(packed).to(torch::kCPU, torch::kFloat32);
  const float* values = scalars.data_ptr<float>();
  for (size_t m = 0; m < packed.sequence_index.size(); ++m) {
    if (!std::isfinite(values[m])) {
      return absl::FailedPreconditionError(absl::StrCat("sequence ", packed.sequence_index[m],
                                                        ": the scalar head says ", values[m],
                                                        " (diverged weights)"));
    }
    take(packed.sequence_index[m], values[m]);
  }
  return absl::OkStatus();
}

}  // namespace

ScalarModel::ScalarModel(const ModelConfig& config, std::unique_ptr<CausalLM> trunk,
                         FusedLinear head)
    : config_(config), trunk_(std::move(trunk)), head_(std::move(head)) {
  parameters_ = trunk_->parameters();
  if (has_head_bias()) parameters_.emplace_back("score.bias", head_.biases[0]);
  parameters_.emplace_back("score.weight", head_.weights[0]);
}

absl::StatusOr<std::unique_ptr<ScalarModel>> ScalarModel::Create(const ModelConfig& config,
                                                                 torch::Dtype dtype,
                                                                 torch::Device device,
                                                                 bool head_bias,
                                                                 Communicator* tensor_group) {
  ModelConfig without_head = config;
  without_head.tie_word_embeddings = true;
  BATON_ASSIGN_OR_RETURN(auto trunk, CausalLM::Create(without_head, dtype, device, tensor_group));
  try {
    FusedLinear head =
        FusedLinear::Create({1}, config.hidden_size, head_bias,
                            torch::TensorOptions().dtype(dtype).device(trunk->device()));
    return std::unique_ptr<ScalarModel>(new ScalarModel(config, std::move(trunk), std::move(head)));
  } catch (const std::exception& e) {
    return FromException(e);
  }
}

absl::StatusOr<std::unique_ptr<ScalarModel>> ScalarModel::FromCausalLM(const CausalLM& model,
                                                                       torch::Dtype dtype,
                                                                       torch::Device device) {
  BATON_ASSIGN_OR_RETURN(auto scalar,
                         Create(model.config(), dtype, device, false, model.tensor_group()));
  const std::map<std::string, torch::Tensor> from(model.parameters().begin(),
                                                  model.parameters().end());
  try {
    torch::NoGradGuard no_grad;
    for (const auto& [name, parameter] : scalar->trunk_->parameters()) {
      torch::Tensor into = parameter;
      into.copy_(from.at(name));
    }
  } catch (const std::exception& e) {
    return FromException(e);
  }
  return scalar;
}

torch::Tensor ScalarModel::States(const PackedRows& packed) {
  return PredictionStates(*trunk_, packed);
}

torch::Tensor ScalarModel::Scalars(const torch::Tensor& states) {
  return head_.Forward(states).flatten();
}

std::vector<TensorPart> ScalarModel::parts() const {
  std::vector<TensorPart> parts = ModelParts(*trunk_);
  const NamedTensors head(parameters_.begin() + static_cast<int64_t>(parts.size()),
                          parameters_.end());
  for (TensorPart& part : WholeParts(head)) parts.push_back(std::move(part));
  return parts;
}

absl::StatusOr<NamedTensors> ScalarModel::WholeParameters() const {
  BATON_ASSIGN_OR_RETURN(NamedTensors whole, engine::WholeParameters(*trunk_));
  whole.insert(whole.end(), parameters_.begin() + static_cast<int64_t>(whole.size()),
               parameters_.end());
  return whole;
}

PackedRows PackLastRows(absl::Span<const TrainSequence> batch, absl::Span<const int64_t> indices) {
  PackedRows packed;
  std::vector<int64_t> tokens, rows;
  for (const int64_t index : indices) {
    const TrainSequence& s = batch[index];
    tokens.insert(tokens.end(), s.tokens.begin(), s.tokens.end());
    packed.lengths.push_back(static_cast<int64_t>(s.tokens.size()));
    rows.push_back(static_cast<int64_t>(tokens.size()) - 1);
    packed.sequence_index.push_back(index);
    packed.response_index.push_back(s.response_length() - 1);
  }
  packed.tokens = ToTensor(tokens);
  packed.prediction_rows = ToTensor(rows);
  packed.targets = ToTensor({});
  return packed;
}

absl::Status ValidateForScores(absl::Span<const TrainSequence> batch, const ModelConfig& config) {
  BATON_RETURN_IF_ERROR(ValidateSequences(batch, config));
  for (size_t i = 0; i < batch.size(); ++i) {
    if (static_cast<int64_t>(batch[i].tokens.size()) > config.positions()) {
      return absl::InvalidArgumentError(
          absl::StrCat("sequence ", i, ": prompt and response of ", batch[i].tokens.size(),
                       " tokens exceed the model's ", config.positions(), " positions"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<float>>> ComputeValues(ScalarModel& model,
                                                              absl::Span<const TrainSequence> batch,
                                                              int64_t max_token_len) {
  BATON_RETURN_IF_ERROR(ValidateSequences(batch, model.config()));
  std::vector<int64_t> lengths;
  for (const TrainSequence& s : batch) {
    lengths.push_back(s.response_length() > 0 ? InputLength(s) : 0);
  }
  BATON_ASSIGN_OR_RETURN(const auto plan,
                         PlanMicroBatches(lengths, TokenBudget(max_token_len, lengths)));
  std::vector<std::vector<float>> values(batch.size());
  try {
    for (const auto& indices : plan) {
      BATON_RETURN_IF_ERROR(
          ForEachScalar(model, PackRows(batch, indices, ResponseRows::kAll),
                        [&](int64_t sequence, float v) { values[sequence].push_back(v); }));
    }
  } catch (const std::exception& e) {
    return FromException(e);
  }
  return values;
}

absl::StatusOr<std::vector<float>> ComputeScores(ScalarModel& model,
                                                 absl::Span<const TrainSequence> batch,
                                                 int64_t max_token_len) {
  BATON_RETURN_IF_ERROR(ValidateForScores(batch, model.config()));
  std::vector<int64_t> lengths;
  for (const TrainSequence& s : batch) lengths.push_back(static_cast<int64_t>(s.tokens.size()));
  BATON_ASSIGN_OR_RETURN(const auto plan,
                         PlanMicroBatches(lengths, TokenBudget(max_token_len, lengths)));
  std::vector<float> scores(batch.size());
  try {
    for (const auto& indices : plan) {
      BATON_RETURN_IF_ERROR(
          ForEachScalar(model, PackLastRows(batch, indices),
                        [&](int64_t sequence, float score) { scores[sequence] = score; }));
    }
  } catch (const std::exception& e) {
    return FromException(e);
  }
  return scores;
}

}  // namespace baton::engine
