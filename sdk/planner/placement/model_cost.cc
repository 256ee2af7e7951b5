#include "sdk/planner/placement/model_cost.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace baton::placement {
namespace {

int64_t LayerMatrices(const PlannedModel& m) {
  const int64_t q = m.num_attention_heads * m.head_dim, kv = m.num_key_value_heads * m.head_dim;
  return m.hidden_size * (q + 2 * kv) + q * m.hidden_size + 3 * m.hidden_size * m.intermediate_size;
}

int64_t HeadParameters(const PlannedModel& m) {
  return m.hidden_size * (m.scalar_head ? 1 : m.vocab_size);
}

std::vector<PlannedModel> MakeKnownModels() {
  std::vector<PlannedModel> out;
  const auto llama = [&](const char* name, int64_t hidden, int64_t layers, int64_t heads,
                         int64_t kv_heads, int64_t intermediate) {
    PlannedModel m;
    m.name = name;
    m.hidden_size = hidden;
    m.num_hidden_layers = layers;
    m.num_attention_heads = heads;
    m.num_key_value_heads = kv_heads;
    m.head_dim = hidden / heads;
    m.intermediate_size = intermediate;
    m.vocab_size = 32000;
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
    out.back().family = ModelConfig::Family::kQwen2;
    out.back().vocab_size = vocabulary;
    out.back().tie_word_embeddings = tied;
    out.back().attention_bias = true;
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

std::string Fault(const PlannedModel& m) {
  const std::pair<const char*, int64_t> sizes[] = {{"hidden_size", m.hidden_size},
                                                   {"num_hidden_layers", m.num_hidden_layers},
                                                   {"num_attention_heads", m.num_attention_heads},
                                                   {"num_key_value_heads", m.num_key_value_heads},
                                                   {"vocab_size", m.vocab_size},
                                                   {"intermediate_size", m.intermediate_size}};
  for (const auto& [name, value] : sizes) {
    if (value < 1) return absl::StrCat(name, ": ", value, " is below 1");
    if (value > int64_t{1} << 24) return absl::StrCat(name, ": ", value, " is above 2^24");
  }
  if (m.num_attention_heads % m.num_key_value_heads != 0) {
    return absl::StrCat("num_key_value_heads: ", m.num_key_value_heads,
                        " does not divide num_attention_heads (", m.num_attention_heads, ")");
  }
  if (m.head_dim < 1) return "head_dim: hidden_size is smaller than num_attention_heads";
  return "";
}

int64_t ParameterCount(const PlannedModel& m) {
  const int64_t lm_head = m.tie_word_embeddings ? 0 : m.hidden_size * m.vocab_size;
  return m.NumParameters() - lm_head + (m.scalar_head ? m.hidden_size : lm_head);
}

int64_t MatrixParameters(const PlannedModel& m) {
  return m.num_hidden_layers * LayerMatrices(m) + HeadParameters(m);
}

double ForwardFlops(const PlannedModel& m, double tokens) {
  const double attention =
      static_cast<double>(m.num_hidden_layers * m.num_attention_heads * m.head_dim);
  return 2 * static_cast<double>(MatrixParameters(m)) * tokens + 2 * attention * tokens * tokens;
}

double HeadFlops(const PlannedModel& m, double tokens) {
  return 2 * static_cast<double>(HeadParameters(m)) * tokens;
}

double DecodeFlops(const PlannedModel& m, double context) {
  const double attention =
      static_cast<double>(m.num_hidden_layers * m.num_attention_heads * m.head_dim);
  return 2 * static_cast<double>(MatrixParameters(m)) + 4 * attention * context;
}

double KvBytes(const PlannedModel& m, double bytes) {
  return 2 * static_cast<double>(m.num_hidden_layers * m.num_key_value_heads * m.head_dim) * bytes;
}

const std::vector<PlannedModel>& KnownModels() {
  static const auto* const models = new std::vector<PlannedModel>(MakeKnownModels());
  return *models;
}

const PlannedModel* FindModel(const std::string& name) {
  for (const PlannedModel& model : KnownModels()) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

}  // namespace baton::placement
