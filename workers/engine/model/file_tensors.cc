#include "workers/engine/model/file_tensors.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace baton::engine {
namespace {

using torch::Tensor;

/// Where a parameter lies in a tensor of the files.
struct Place {
  std::string name;  ///< The tensor's name.
  int64_t begin;     ///< Its first row there.
  int64_t rows;      ///< Rows of the whole tensor.
};

struct FusedPart {
  const char* own;    ///< End of the parameter's name.
  const char* fused;  ///< End of the tensor's name.
  int64_t begin, rows;
};

/// The pieces that tensors of the files are made of, each tensor's in order; empty: none is.
std::vector<FusedPart> PiecesOf(const ModelConfig& c) {
  if (c.family != ModelFamily::kPhi3) return {};
  const int64_t q = c.num_attention_heads * c.head_dim, kv = c.num_key_value_heads * c.head_dim;
  const int64_t qkv = q + 2 * kv, mlp = c.intermediate_size;
  return {{".self_attn.q_proj.weight", ".self_attn.qkv_proj.weight", 0, qkv},
          {".self_attn.k_proj.weight", ".self_attn.qkv_proj.weight", q, qkv},
          {".self_attn.v_proj.weight", ".self_attn.qkv_proj.weight", q + kv, qkv},
          {".mlp.gate_proj.weight", ".mlp.gate_up_proj.weight", 0, 2 * mlp},
          {".mlp.up_proj.weight", ".mlp.gate_up_proj.weight", mlp, 2 * mlp}};
}

/// A parameter that no tensor is made of has a place of its own, with 0 rows.
Place PlaceOf(const std::vector<FusedPart>& pieces, const std::string& name) {
  for (const FusedPart& piece : pieces) {
    absl::string_view layer = name;
    if (absl::ConsumeSuffix(&layer, piece.own)) {
      return {absl::StrCat(layer, piece.fused), piece.begin, piece.rows};
    }
  }
  return {name, 0, 0};
}

/// `below` under `above`, both [rows, columns].
Tensor Stack(const Tensor& above, const Tensor& below) {
  const bool adjacent = above.is_contiguous() && below.is_contiguous() &&
                        above.scalar_type() == below.scalar_type() && above.is_alias_of(below) &&
                        below.storage_offset() == above.storage_offset() + above.numel();
  if (!adjacent) return torch::cat({above, below}, 0);
  return above.as_strided({above.size(0) + below.size(0), above.size(1)}, {above.size(1), 1});
}

}  // namespace

std::vector<TensorPart> PartsInFiles(const ModelConfig& config, std::vector<TensorPart> parts) {
  const std::vector<FusedPart> pieces = PiecesOf(config);
  for (TensorPart& part : parts) {
    Place place = PlaceOf(pieces, part.shard.name);
    if (place.rows == 0) continue;
    part.shard.name = std::move(place.name);
    part.shard.shape[0] = place.rows;
    part.shard.box.begin[0] += place.begin;
    part.shard.box.end[0] += place.begin;
  }
  return parts;
}

NamedTensors TensorsInFiles(const ModelConfig& config, const NamedTensors& tensors) {
  const std::vector<FusedPart> pieces = PiecesOf(config);
  if (pieces.empty()) return tensors;
  torch::NoGradGuard no_grad;
  std::map<std::string, std::map<int64_t, Tensor>> rows;  // of each tensor, by their first row
  for (const auto& [name, tensor] : tensors) {
    const Place place = PlaceOf(pieces, name);
    rows[place.name][place.begin] = tensor.detach();
  }
  NamedTensors out;
  for (const auto& [name, parts] : rows) {
    Tensor whole;
    for (const auto& [begin, part] : parts) whole = whole.defined() ? Stack(whole, part) : part;
    out.emplace_back(name, whole);
  }
  return out;
}

}  // namespace baton::engine
