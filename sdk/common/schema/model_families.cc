#include "sdk/common/schema/model_families.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton {
namespace {

using Family = ModelFamily;
constexpr FamilyTraits kFamilies[] = {
    {Family::kLlama, "llama", "Llama", "Llama", 0, 0, 2048, 1e-6, 1e4, false},
    {Family::kMistral, "mistral", "Mistral", "Mistral", 8, 0, 131072, 1e-6, 1e4, false},
    {Family::kQwen2, "qwen2", "Qwen2", "Qwen2", 32, 0, 32768, 1e-6, 1e4, false},
    {Family::kQwen3, "qwen3", "Qwen3", "Qwen3", 32, 128, 32768, 1e-6, 1e4, false},
    {Family::kSmolLm3, "smollm3", "SmolLM3", "SmolLM3", 4, 0, 32768, 1e-6, 2e6, true},
    {Family::kPhi3, "phi3", "Phi3", "Phi3", 0, 0, 4096, 1e-5, 1e4, false},
    {Family::kOlmo2, "olmo2", "Olmo2", "Olmo2", 0, 0, 2048, 1e-5, 1e4, false},
    {Family::kGranite, "granite", "Granite", "Granite", 0, 0, 2048, 1e-6, 1e4, false},
    {Family::kGemma3, "gemma3_text", "Gemma3", "Gemma3Text", 4, 256, 131072, 1e-6, 1e6, true}};

/// Families that people bring and that the engine does not compute, and what it lacks.
struct MissingFamily {
  const char* model_type;
  const char* lacks;
};
constexpr MissingFamily kMissingFamilies[] = {
    {"gemma", "a reader of its files"},
    {"gemma2", "soft caps of logits and of attention's scores"},
    {"gemma3", "images; the text model alone (model_type gemma3_text) is supported"},
    {"gemma3n", "layers with embeddings of their own"},
    {"olmo", "LayerNorm without weights"},
    {"olmo3", "a reader of its files"},
    {"phi", "LayerNorm, and attention and feed-forward side by side"},
    {"gpt2", "LayerNorm and learned positions"},
    {"gpt_neox", "LayerNorm, and attention and feed-forward side by side"},
    {"gpt_oss", "experts"},
    {"mixtral", "experts"},
    {"qwen2_moe", "experts"},
    {"qwen3_moe", "experts"},
    {"granitemoe", "experts"},
    {"phimoe", "experts"},
    {"deepseek_v3", "experts and latent attention"},
    {"qwen3_next", "linear attention and experts"},
    {"mamba", "state spaces"}};

}  // namespace

const FamilyTraits& TraitsOf(ModelFamily family) {
  return *std::find_if(std::begin(kFamilies), std::end(kFamilies),
                       [&](const FamilyTraits& traits) { return traits.family == family; });
}

bool IsOneOf(ModelFamily family, std::initializer_list<ModelFamily> families) {
  return std::find(families.begin(), families.end(), family) != families.end();
}

absl::StatusOr<ModelFamily> FamilyOfModelType(absl::string_view model_type) {
  std::vector<absl::string_view> known;
  for (const FamilyTraits& traits : kFamilies) {
    if (model_type == traits.model_type) return traits.family;
    known.push_back(traits.model_type);
  }
  std::string lacks;
  for (const MissingFamily& family : kMissingFamilies) {
    if (model_type == family.model_type) lacks = absl::StrCat(" (it needs ", family.lacks, ")");
  }
  return absl::UnimplementedError(absl::StrCat("model_type: \"", model_type, "\" is not supported",
                                               lacks, "; supported are ",
                                               absl::StrJoin(known, ", ")));
}

}  // namespace baton
