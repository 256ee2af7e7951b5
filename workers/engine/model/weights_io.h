// A model's parameters as the bytes of a safetensors file, as a relay segment and a checkpoint hold
// them. The layout (names, shapes, offsets) is fixed by the config and the dtype alone.
#ifndef BATON_WORKERS_ENGINE_MODEL_WEIGHTS_IO_H_
#define BATON_WORKERS_ENGINE_MODEL_WEIGHTS_IO_H_

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "relay/weights/dtype.h"
#include "relay/weights/safetensors_reader.h"
#include "relay/weights/safetensors_writer.h"
#include "workers/engine/model/model.h"

namespace baton::engine {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

/// float32 <-> F32 and so on. Unimplemented for a dtype that only one side has.
absl::StatusOr<torch::Dtype> ToTorchDtype(relay::DType dtype);
absl::StatusOr<relay::DType> FromTorchDtype(torch::Dtype dtype);
/// "float32", "float16", "bfloat16", "float64" (config.json's torch_dtype).
absl::StatusOr<torch::Dtype> TorchDtypeFromName(absl::string_view name);
absl::StatusOr<std::string> TorchDtypeName(torch::Dtype dtype);

/// Named tensors as one safetensors image. Keeps references to the tensors, not copies: CopyTo
/// writes what they hold when it is called.
class WeightsImage {
 public:
  /// `dtype`: what the bytes hold; floating tensors are converted. Absent: each tensor's own.
  static absl::StatusOr<WeightsImage> Create(const NamedTensors& tensors,
                                             std::optional<torch::Dtype> dtype = {},
                                             const std::map<std::string, std::string>& metadata = {
                                                 {"format", "pt"}});

  /// Header and data together: the size of the file or segment.
  int64_t size_bytes() const { return layout_.file_size(); }
  const relay::SafetensorsLayout& layout() const { return layout_; }

  /// Writes header and data. `out` has exactly size_bytes(); it may be shared memory. With CUDA
  /// tensors this waits for the device.
  [[nodiscard]] absl::Status CopyTo(absl::Span<uint8_t> out) const;

  /// CopyTo into a file: temporary name, fsync, rename, fsync of the directory.
  [[nodiscard]] absl::Status WriteFile(const std::string& path) const;

 private:
  NamedTensors tensors_;
  relay::SafetensorsLayout layout_;
};

/// Copies every named tensor from `view` into the tensor of that name, in place, converting dtype
/// and device. All are checked before the first is written. InvalidArgument or NotFound name the
/// tensor (missing, other shape, dtype that is not floating where one is needed). Tensors of
/// `view` that are not asked for are an error too unless `ignore_extra`.
[[nodiscard]] absl::Status LoadTensors(const relay::SafetensorsView& view, const NamedTensors& into,
                                       bool ignore_extra = false);

/// A part of a named tensor, to be filled from the whole.
struct TensorPart {
  ParameterShard shard;  ///< Name, whole shape and box.
  torch::Tensor tensor;  ///< Has the box's shape.
};

/// Whole tensors as parts of themselves; a model's parameters as what a rank holds of them.
std::vector<TensorPart> WholeParts(const NamedTensors& tensors);
std::vector<TensorPart> ModelParts(const CausalLM& model);

/// LoadTensors for parts: `view` holds the whole tensors.
[[nodiscard]] absl::Status LoadParts(const relay::SafetensorsView& view,
                                     const std::vector<TensorPart>& into,
                                     bool ignore_extra = false);

/// The parameters of the whole model, on every rank: parameters() themselves without a tensor
/// group, else copies gathered from its ranks, which all call this together.
absl::StatusOr<NamedTensors> WholeParameters(const CausalLM& model);

/// Loads this rank's slice of each parameter from an image of the whole model.
[[nodiscard]] absl::Status LoadModelFrom(absl::Span<const uint8_t> safetensors, CausalLM& model);

/// The image of the whole model, the same on every rank of a tensor group. `dtype`: what the bytes
/// hold; absent: that of the model.
absl::StatusOr<relay::SafetensorsLayout> ModelLayout(const CausalLM& model,
                                                     std::optional<torch::Dtype> dtype = {});
/// The boxes of the image that this rank writes: those it holds, and of what every rank of the
/// group holds whole those of the first rank alone. No two ranks write one element.
std::vector<relay::TensorBox> ModelBoxes(const CausalLM& model);
/// Hears that a part of one of ModelBoxes was written: a slice of its first dimension, some 100 kB,
/// which the processor's caches still have. The parts of a box come in a row and in order.
using PartWritten =
    std::function<absl::Status(const relay::TensorBox& box, const relay::Box& part)>;
/// Writes ModelBoxes, and no other byte. `layout` is ModelLayout's; `out` its file_size() bytes,
/// aligned to 8. Nothing is asked of other ranks: together they write everything but the header
/// (SafetensorsLayout::WriteHeader). An error of `written` ends it.
[[nodiscard]] absl::Status WriteModelBoxes(const CausalLM& model,
                                           const relay::SafetensorsLayout& layout,
                                           absl::Span<uint8_t> out, const PartWritten& written);
/// The first rank writes everything but the header, tensor by tensor, and gets each from the ranks
/// that hold it: all ranks of the tensor group call this together. `out` is empty on the others.
[[nodiscard]] absl::Status WriteGatheredModel(const CausalLM& model,
                                              const relay::SafetensorsLayout& layout,
                                              absl::Span<uint8_t> out);

/// A tensor over the bytes of `view`, read only, living no longer than they do; a copy only where
/// the file does not align its elements.
absl::StatusOr<torch::Tensor> BorrowTensor(const relay::SafetensorsView& view,
                                           const relay::TensorEntry& entry);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_MODEL_WEIGHTS_IO_H_
