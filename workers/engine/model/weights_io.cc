#include "workers/engine/model/weights_io.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/model/exceptions.h"

namespace baton::engine {
namespace {

using relay::DType;
using torch::Tensor;

constexpr int64_t kPartBytes = 256 << 10;  // stays in a core's cache until it is read once more

struct DtypePair {
  DType stored;
  torch::Dtype torch;
};

constexpr DtypePair kDtypes[] = {
    {DType::kF32, torch::kFloat32},   {DType::kF16, torch::kFloat16},
    {DType::kBF16, torch::kBFloat16}, {DType::kF64, torch::kFloat64},
    {DType::kI64, torch::kInt64},     {DType::kI32, torch::kInt32},
    {DType::kI16, torch::kInt16},     {DType::kI8, torch::kInt8},
    {DType::kU8, torch::kUInt8},      {DType::kBool, torch::kBool},
};

struct DtypeName {
  absl::string_view name;
  torch::Dtype dtype;
};

constexpr DtypeName kNames[] = {{"float32", torch::kFloat32},
                                {"float16", torch::kFloat16},
                                {"bfloat16", torch::kBFloat16},
                                {"float64", torch::kFloat64}};

std::string ShapeText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::Status CheckTensor(const relay::SafetensorsView& view, const TensorPart& part) {
  const std::string& name = part.shard.name;
  const Tensor& into = part.tensor;
  const relay::TensorEntry* entry = view.Find(name);
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrCat("tensor ", name, " is missing"));
  }
  if (part.shard.shape != entry->shape) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", name, " has shape ",
                                                   ShapeText(entry->shape), ", ",
                                                   ShapeText(part.shard.shape), " is needed"));
  }
  absl::StatusOr<torch::Dtype> dtype = ToTorchDtype(entry->dtype);
  if (!dtype.ok()) return Annotate(dtype.status(), absl::StrCat("tensor ", name));
  if (torch::isFloatingType(*dtype) != into.is_floating_point()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", name, " has dtype ", relay::DTypeName(entry->dtype),
                     into.is_floating_point() ? ", one of F32, F16, BF16 or F64 is needed"
                                              : ", an integer type is needed"));
  }
  return absl::OkStatus();
}

absl::Status CopyTensor(const relay::SafetensorsView& view, const TensorPart& part) {
  BATON_ASSIGN_OR_RETURN(const Tensor stored, BorrowTensor(view, *view.Find(part.shard.name)));
  part.tensor.detach().copy_(SliceOf(stored, part.shard.box));
  return absl::OkStatus();
}

/// Writes `tensor` as `entry` says into `out`.
absl::Status WriteTensor(const Tensor& tensor, const relay::TensorEntry& entry,
                         absl::Span<uint8_t> out) {
  if (out.empty()) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const torch::Dtype dtype, ToTorchDtype(entry.dtype));
  try {
    torch::NoGradGuard no_grad;
    if (reinterpret_cast<uintptr_t>(out.data()) % relay::SizeBytes(entry.dtype) == 0) {
      torch::from_blob(out.data(), entry.shape, dtype).copy_(tensor.detach());
    } else {
      const Tensor host = tensor.detach().to(torch::kCPU, dtype).contiguous();
      std::memcpy(out.data(), host.data_ptr(), out.size());
    }
  } catch (const c10::Error& error) {
    return absl::InternalError(
        absl::StrCat("tensor ", entry.name, ": ", error.what_without_backtrace()));
  }
  return absl::OkStatus();
}

/// Copies the part of a parameter into `out`, which has its shape.
absl::Status CopyInParts(const TensorPart& part, const Tensor& out, const PartWritten& written) {
  const relay::TensorBox box = {part.shard.name, part.shard.box};
  const Tensor from = part.tensor.detach();
  if (from.dim() == 0 || from.numel() == 0) {
    out.copy_(from);
    return written(box, box.box);
  }
  const int64_t rows = from.size(0), row_bytes = from.numel() / rows * out.element_size();
  const int64_t step = std::max<int64_t>(1, kPartBytes / std::max<int64_t>(1, row_bytes));
  for (int64_t row = 0; row < rows; row += step) {
    const int64_t count = std::min(step, rows - row);
    out.narrow(0, row, count).copy_(from.narrow(0, row, count));
    relay::Box slice = box.box;
    slice.begin[0] += row;
    slice.end[0] = slice.begin[0] + count;
    BATON_RETURN_IF_ERROR(written(box, slice));
  }
  return absl::OkStatus();
}

/// Whether this rank writes its part of a parameter to an image that all ranks fill.
bool WritesShard(const CausalLM& model, const ParameterShard& shard) {
  return !shard.whole() || model.tensor_group() == nullptr || model.tensor_group()->rank() == 0;
}

/// InvalidArgument: the layout is of another model.
absl::StatusOr<const relay::TensorEntry*> EntryOf(const ParameterShard& shard,
                                                  const relay::SafetensorsLayout& layout) {
  const relay::TensorEntry* entry = layout.Find(shard.name);
  if (entry != nullptr && entry->shape == shard.shape) return entry;
  return absl::InvalidArgumentError(
      absl::StrCat("the layout is of another model: tensor ", shard.name));
}

}  // namespace

absl::StatusOr<torch::Dtype> ToTorchDtype(DType dtype) {
  for (const DtypePair& pair : kDtypes) {
    if (pair.stored == dtype) return pair.torch;
  }
  return absl::UnimplementedError(
      absl::StrCat("dtype ", relay::DTypeName(dtype), " is not supported by the engine"));
}

absl::StatusOr<DType> FromTorchDtype(torch::Dtype dtype) {
  for (const DtypePair& pair : kDtypes) {
    if (pair.torch == dtype) return pair.stored;
  }
  return absl::UnimplementedError(
      absl::StrCat("dtype ", c10::toString(dtype), " has no safetensors form"));
}

absl::StatusOr<torch::Dtype> TorchDtypeFromName(absl::string_view name) {
  for (const DtypeName& pair : kNames) {
    if (pair.name == name) return pair.dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("dtype \"", name, "\" is not one of: float32, float16, bfloat16, float64"));
}

absl::StatusOr<std::string> TorchDtypeName(torch::Dtype dtype) {
  for (const DtypeName& pair : kNames) {
    if (pair.dtype == dtype) return std::string(pair.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("dtype ", c10::toString(dtype), " is not one a model can have"));
}

absl::StatusOr<WeightsImage> WeightsImage::Create(
    const NamedTensors& tensors, std::optional<torch::Dtype> dtype,
    const std::map<std::string, std::string>& metadata) {
  std::vector<relay::TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) {
    const torch::Dtype stored = dtype && tensor.is_floating_point() ? *dtype : tensor.scalar_type();
    BATON_ASSIGN_OR_RETURN(const DType type, FromTorchDtype(stored));
    specs.push_back({name, type, tensor.sizes().vec()});
  }
  WeightsImage image;
  BATON_ASSIGN_OR_RETURN(image.layout_,
                         relay::SafetensorsLayout::Create(std::move(specs), metadata));
  std::map<absl::string_view, const Tensor*> by_name;
  for (const auto& [name, tensor] : tensors) by_name[name] = &tensor;
  for (const relay::TensorEntry& entry : image.layout_.entries()) {
    image.tensors_.emplace_back(entry.name, *by_name[entry.name]);
  }
  return image;
}

absl::Status WeightsImage::CopyTo(absl::Span<uint8_t> out) const {
  if (static_cast<int64_t>(out.size()) != size_bytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a buffer of ", out.size(), " bytes for an image of ", size_bytes()));
  }
  layout_.WriteHeader(out);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const relay::TensorEntry& entry = layout_.entries()[i];
    BATON_RETURN_IF_ERROR(WriteTensor(tensors_[i].second, entry, layout_.Slot(out, entry)));
  }
  return absl::OkStatus();
}

absl::Status WeightsImage::WriteFile(const std::string& path) const {
  size_t next = 0;
  return relay::WriteSafetensorsFile(path, layout_,
                                     [&](const relay::TensorEntry& entry, absl::Span<uint8_t> out) {
                                       return WriteTensor(tensors_[next++].second, entry, out);
                                     });
}

absl::Status LoadTensors(const relay::SafetensorsView& view, const NamedTensors& into,
                         bool ignore_extra) {
  return LoadParts(view, WholeParts(into), ignore_extra);
}

std::vector<TensorPart> WholeParts(const NamedTensors& tensors) {
  std::vector<TensorPart> parts;
  for (const auto& [name, tensor] : tensors) {
    const std::vector<int64_t> shape = tensor.sizes().vec();
    parts.push_back({{name, shape, relay::Box::Full(shape)}, tensor});
  }
  return parts;
}

std::vector<TensorPart> ModelParts(const CausalLM& model) {
  std::vector<TensorPart> parts;
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    parts.push_back({model.shards()[i], model.parameters()[i].second});
  }
  return parts;
}

absl::Status LoadParts(const relay::SafetensorsView& view, const std::vector<TensorPart>& into,
                       bool ignore_extra) {
  for (const TensorPart& part : into) {
    BATON_RETURN_IF_ERROR(CheckTensor(view, part));
  }
  if (!ignore_extra && view.entries().size() != into.size()) {
    std::map<absl::string_view, int> wanted;
    for (const TensorPart& part : into) wanted[part.shard.name] = 1;
    for (const relay::TensorEntry& entry : view.entries()) {
      if (wanted.count(entry.name) == 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("tensor ", entry.name, " is not a tensor of this model"));
      }
    }
  }
  try {
    torch::NoGradGuard no_grad;
    for (const TensorPart& part : into) {
      BATON_RETURN_IF_ERROR(CopyTensor(view, part));
    }
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat("loading weights: ", error.what_without_backtrace()));
  }
  return absl::OkStatus();
}

absl::StatusOr<NamedTensors> WholeParameters(const CausalLM& model) {
  if (model.tensor_group() == nullptr) return model.parameters();
  NamedTensors whole;
  try {
    for (const TensorPart& part : ModelParts(model)) {
      whole.emplace_back(part.shard.name, GatherWhole(part.tensor, part.shard, model.config(),
                                                      *model.tensor_group()));
    }
  } catch (const CollectiveError& error) {
    return Annotate(error.status(), "gathering the weights");
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("gathering the weights: ", error.what()));
  }
  return whole;
}

absl::Status LoadModelFrom(absl::Span<const uint8_t> safetensors, CausalLM& model) {
  BATON_ASSIGN_OR_RETURN(const relay::SafetensorsView view,
                         relay::SafetensorsView::Parse(safetensors));
  return LoadParts(view, ModelParts(model));
}

absl::StatusOr<relay::SafetensorsLayout> ModelLayout(const CausalLM& model,
                                                     std::optional<torch::Dtype> dtype) {
  BATON_ASSIGN_OR_RETURN(const DType stored, FromTorchDtype(dtype.value_or(model.dtype())));
  std::vector<relay::TensorSpec> specs;
  for (const ParameterShard& shard : model.shards()) {
    specs.push_back({shard.name, stored, shard.shape});
  }
  return relay::SafetensorsLayout::Create(std::move(specs), {{"format", "pt"}});
}

std::vector<relay::TensorBox> ModelBoxes(const CausalLM& model) {
  std::vector<relay::TensorBox> boxes;
  for (const ParameterShard& shard : model.shards()) {
    if (WritesShard(model, shard)) boxes.push_back({shard.name, shard.box});
  }
  return boxes;
}

absl::Status WriteModelBoxes(const CausalLM& model, const relay::SafetensorsLayout& layout,
                             absl::Span<uint8_t> out, const PartWritten& written) {
  if (static_cast<int64_t>(out.size()) != layout.file_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a buffer of ", out.size(), " bytes for an image of ", layout.file_size()));
  }
  try {
    torch::NoGradGuard no_grad;
    for (const TensorPart& part : ModelParts(model)) {
      if (!WritesShard(model, part.shard)) continue;
      BATON_ASSIGN_OR_RETURN(const relay::TensorEntry* entry, EntryOf(part.shard, layout));
      const absl::Span<uint8_t> slot = layout.Slot(out, *entry);
      if (reinterpret_cast<uintptr_t>(slot.data()) % relay::SizeBytes(entry->dtype) != 0) {
        return absl::InvalidArgumentError("the buffer is not aligned to 8 bytes");
      }
      BATON_ASSIGN_OR_RETURN(const torch::Dtype dtype, ToTorchDtype(entry->dtype));
      const Tensor whole = torch::from_blob(slot.data(), part.shard.shape, dtype);
      BATON_RETURN_IF_ERROR(CopyInParts(part, SliceOf(whole, part.shard.box), written));
    }
    return absl::OkStatus();
  } catch (const std::exception& e) {
    return FromException(e);
  }
}

absl::Status WriteGatheredModel(const CausalLM& model, const relay::SafetensorsLayout& layout,
                                absl::Span<uint8_t> out) {
  absl::Status written;  // a rank that cannot write goes on: the others wait for it
  for (const TensorPart& part : ModelParts(model)) {
    Tensor whole;
    try {
      whole = GatherWhole(part.tensor, part.shard, model.config(), *model.tensor_group());
    } catch (const CollectiveError& error) {
      return Annotate(error.status(), absl::StrCat("gathering ", part.shard.name));
    } catch (const std::exception& e) {  // the others go on without this rank
      return absl::UnavailableError(absl::StrCat("gathering ", part.shard.name, ": ", e.what()));
    }
    if (out.empty() || !written.ok()) continue;
    const auto entry = EntryOf(part.shard, layout);
    written = entry.ok() ? WriteTensor(whole, **entry, layout.Slot(out, **entry)) : entry.status();
  }
  return written;
}

absl::StatusOr<Tensor> BorrowTensor(const relay::SafetensorsView& view,
                                    const relay::TensorEntry& entry) {
  BATON_ASSIGN_OR_RETURN(const torch::Dtype dtype, ToTorchDtype(entry.dtype));
  const absl::Span<const uint8_t> data = view.Data(entry);
  if (data.empty()) return torch::empty(entry.shape, dtype);
  auto* bytes = const_cast<uint8_t*>(data.data());
  if (reinterpret_cast<uintptr_t>(bytes) % relay::SizeBytes(entry.dtype) == 0) {
    return torch::from_blob(bytes, entry.shape, dtype);
  }
  // A file may put its tensors at any byte; libtorch needs elements aligned.
  Tensor copy = torch::empty(entry.shape, dtype);
  std::memcpy(copy.data_ptr(), bytes, data.size());
  return copy;
}

}  // namespace baton::engine
