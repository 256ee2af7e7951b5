// The tensors of a model as its files hold them. Phi-3's files have one tensor for q, k and v, and
// one for gate and up, where the model has parameters of their own: they are taken apart when files
// are read and put together when files are written. In all other families files and model agree.
#ifndef BATON_WORKERS_ENGINE_MODEL_FILE_TENSORS_H_
#define BATON_WORKERS_ENGINE_MODEL_FILE_TENSORS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sdk/common/schema/model_config.h"
#include "workers/engine/model/weights_io.h"

namespace baton::engine {

/// The parts of the files' tensors that fill `parts`, which are parts of the model's: the same
/// memory, under the files' names, shapes and boxes. Several may be of one tensor.
std::vector<TensorPart> PartsInFiles(const ModelConfig& config, std::vector<TensorPart> parts);

/// Whole tensors of a model as its files hold them. Tensors that lie one behind the other in
/// memory, as a model's own do, are put together without a copy. Other tensors stay as they are.
NamedTensors TensorsInFiles(const ModelConfig& config, const NamedTensors& tensors);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_MODEL_FILE_TENSORS_H_
