#include "sdk/placement/model_cost.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace baton::placement {
namespace {

int64_t LayerMatrices(const ModelConfig& m) {
  const int64_t q = m.heads * m.HeadSize(), kv = m.kv_heads * m.HeadSize();
  return m.hidden * (q + 2 * kv) + q * m.hidden + 3 * m.hidden * m.intermediate;
}

int64_t HeadParameters(const ModelConfig& m) {
  return m.hidden * (m.scalar_head ? 1 : m.vocabulary);
}

std::vector<ModelConfig> MakeKnownModels() {
  std::vector<ModelConfig> out;
  const auto llama = [&](const char* name, int64_t hidden, int64_t layers, int64_t heads,
                         int64_t kv_heads, int64_t intermediate) {
    ModelConfig m;
    m.name = name;
    m.hidden = hidden;
    m.layers = layers;
    m.heads = heads;
    m.kv_heads = kv_heads;
    m.intermediate = intermediate;
    m.vocabulary = 32000;
    out.push_back(std::move(m));
  };
  llama("llama-7b", 4096, 32, 32, 32, 11008);  // 2302.13971, 2307.09288
  llama("llama-13b", 5120, 40, 40, 40, 13824);
  llama("llama-33b", 6656, 60, 52, 52, 17920);
  llama("llama-34b", 8192, 48, 64, 8, 22016);  // 2308.12950 (Code Llama 34B)
  llama("llama-70b", 8192, 80, 64, 8, 28672);
  const auto qwen = [&](const char* name, int64_t hidden, int64_t layers, int64_t heads,
                        int64_t kv_heads, int64_t intermediate, int64_t vocabulary, bool tied) {
    llama(name, hidden, layers, heads, kv_heads, intermediate);
    out.back().vocabulary = vocabulary;
    out.back().tied = tied;
    out.back().qkv_bias = true;
  };
  qwen("qwen2.5-0.5b", 896, 24, 14, 2, 4864, 151936, true);  // 2412.15115
  qwen("qwen2.5-1.5b", 1536, 28, 12, 2, 8960, 151936, true);
  qwen("qwen2.5-3b", 2048, 36, 16, 2, 11008, 151936, true);
  qwen("qwen2.5-7b", 3584, 28, 28, 4, 18944, 152064, false);
  qwen("qwen2.5-14b", 5120, 48, 40, 8, 13824, 152064, false);
  qwen("qwen2.5-32b", 5120, 64, 40, 8, 27648, 152064, false);
  qwen("qwen2.5-72b", 8192, 80, 64, 8, 29568, 152064, false);
  return out;
}

}  // namespace

std::string Fault(const ModelConfig& m) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"hidden", m.hidden},     {"layers", m.layers},         {"heads", m.heads},
      {"kv_heads", m.kv_heads}, {"vocabulary", m.vocabulary}, {"intermediate", m.intermediate}};
  for (const auto& [name, value] : sizes) {
    if (value < 1) return absl::StrCat(name, ": ", value, " is below 1");
    if (value > int64_t{1} << 24) return absl::StrCat(name, ": ", value, " is above 2^24");
  }
  if (m.heads % m.kv_heads != 0) {
    return absl::StrCat("kv_heads: ", m.kv_heads, " does not divide heads (", m.heads, ")");
  }
  if (m.HeadSize() < 1) return "head_size: hidden is smaller than heads";
  return "";
}

int64_t ParameterCount(const ModelConfig& m) {
  const int64_t bias = m.qkv_bias ? (m.heads + 2 * m.kv_heads) * m.HeadSize() : 0;
  const int64_t layer = LayerMatrices(m) + 2 * m.hidden + bias;
  const bool own_head = m.scalar_head || !m.tied;
  return m.vocabulary * m.hidden + m.layers * layer + m.hidden + (own_head ? HeadParameters(m) : 0);
}

int64_t MatrixParameters(const ModelConfig& m) {
  return m.layers * LayerMatrices(m) + HeadParameters(m);
}

double ForwardFlops(const ModelConfig& m, double tokens) {
  const double attention = static_cast<double>(m.layers * m.heads * m.HeadSize());
  return 2 * static_cast<double>(MatrixParameters(m)) * tokens + 2 * attention * tokens * tokens;
}

double HeadFlops(const ModelConfig& m, double tokens) {
  return 2 * static_cast<double>(HeadParameters(m)) * tokens;
}

double DecodeFlops(const ModelConfig& m, double context) {
  const double attention = static_cast<double>(m.layers * m.heads * m.HeadSize());
  return 2 * static_cast<double>(MatrixParameters(m)) + 4 * attention * context;
}

double KvBytes(const ModelConfig& m, double bytes) {
  return 2 * static_cast<double>(m.layers * m.kv_heads * m.HeadSize()) * bytes;
}

const std::vector<ModelConfig>& KnownModels() {
  static const auto* const models = new std::vector<ModelConfig>(MakeKnownModels());
  return *models;
}

const ModelConfig* FindModel(const std::string& name) {
  for (const ModelConfig& model : KnownModels()) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

}  // namespace baton::placement
