// The parameters of one slice of a model (tensor_parallel.h), as its layers use them. Internal to
// the model.
#ifndef BATON_WORKERS_ENGINE_MODEL_DECODER_WEIGHTS_H_
#define BATON_WORKERS_ENGINE_MODEL_DECODER_WEIGHTS_H_

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sdk/common/schema/model_config.h"
#include "workers/engine/model/layers.h"
#include "workers/engine/model/tensor_parallel.h"

namespace baton::engine {

/// Norms are undefined where the family has none at that place.
struct DecoderLayer {
  torch::Tensor attention_input_norm;  ///< [hidden]
  FusedLinear qkv;                     ///< q, k, v
  torch::Tensor q_norm;  ///< [head_dim], or [slice's heads * head_dim] (NormalizeHeads)
  torch::Tensor k_norm;  ///< likewise
  FusedLinear output;    ///< o
  torch::Tensor attention_output_norm;  ///< [hidden]
  torch::Tensor mlp_input_norm;         ///< [hidden]
  FusedLinear gate_up;                  ///< gate, up
  FusedLinear down;
  torch::Tensor mlp_output_norm;  ///< [hidden]
};

struct DecoderWeights {
  ModelConfig local;             ///< With the sizes of this slice.
  torch::Tensor embedding;       ///< [vocab, hidden]
  int64_t vocabulary_begin = 0;  ///< Token id of the embedding's first row.
  std::vector<DecoderLayer> layers;
  torch::Tensor norm;   ///< [hidden]
  FusedLinear lm_head;  ///< Empty when tied.
  /// Hugging Face names, sorted, and what part of the whole tensor each is.
  std::vector<std::pair<std::string, torch::Tensor>> parameters;
  std::vector<ParameterShard> shards;

  /// Slice `rank` of `ranks` of a model of `config`: zeros, norms ones (Gemma 3's, which are 1 + w,
  /// zeros). `beside`: a slice of the
  /// same model, whose tensors that all slices have whole this one takes for its own.
  static std::shared_ptr<DecoderWeights> Create(const ModelConfig& config, int rank, int ranks,
                                                const torch::TensorOptions& options,
                                                const DecoderWeights* beside = nullptr);

  /// The tensors that hold this slice's own parameters, fused ones as one. Contiguous.
  std::vector<torch::Tensor> SliceStorages() const;

 private:
  void NameLinear(const std::string& prefix, const std::vector<std::string>& names,
                  const FusedLinear& linear);
  void NameNorm(const std::string& name, const torch::Tensor& norm);
  void NameLayer(const std::string& prefix, const DecoderLayer& layer);
  void NameParameters();
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_MODEL_DECODER_WEIGHTS_H_
