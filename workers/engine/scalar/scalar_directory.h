// Hugging Face directories of models with a scalar head (scalar_model.h).
//
//   config.json         architectures: …ForSequenceClassification (…ForTokenClassification when the
//                       head has a bias), num_labels 1
//   model.safetensors   the decoder and score.weight (or shards with an index)
//   tokenizer.json, …   as in hf_directory.h
//
// transformers' AutoModelForSequenceClassification loads what SaveScalarModel writes and computes
// the same scores.
#ifndef BATON_WORKERS_ENGINE_SCALAR_SCALAR_DIRECTORY_H_
#define BATON_WORKERS_ENGINE_SCALAR_SCALAR_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "workers/engine/model/hf_directory.h"
#include "workers/engine/scalar/scalar_model.h"

namespace baton::engine {

enum class HeadWanted {
  kRequired,       ///< A reward model: without score.weight it has nothing to say.
  kZeroIfMissing,  ///< A critic may start from a causal language model, under a head of zeros.
};

/// NotFound names `score.weight` and the remedy when the head is required and missing, and also
/// when a directory that calls itself a classifier lacks it. InvalidArgument for more than one
/// label. Otherwise as LoadModel.
absl::StatusOr<std::unique_ptr<ScalarModel>> LoadScalarModel(const std::string& dir,
                                                             torch::Dtype dtype,
                                                             torch::Device device, HeadWanted head,
                                                             Communicator* tensor_group = nullptr);

/// As SaveModel.
[[nodiscard]] absl::Status SaveScalarModel(const ScalarModel& model, const std::string& dir,
                                           const SaveOptions& options = {});
/// As SaveWhole.
[[nodiscard]] absl::Status SaveWholeScalar(const ScalarModel& model, const NamedTensors& whole,
                                           const std::string& dir, const SaveOptions& options = {});

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_SCALAR_SCALAR_DIRECTORY_H_
