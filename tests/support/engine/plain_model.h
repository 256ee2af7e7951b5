// A slow decoder for tests: nested loops in double precision, no libtorch operators, written from
// the papers' formulas and transformers' conventions, one sequence at a time.
#ifndef BATON_TESTS_SUPPORT_ENGINE_PLAIN_MODEL_H_
#define BATON_TESTS_SUPPORT_ENGINE_PLAIN_MODEL_H_

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "workers/engine/model/model.h"

namespace baton::engine::testing {

class PlainModel {
 public:
  using Vec = std::vector<double>;
  using Mat = std::vector<Vec>;

  explicit PlainModel(const CausalLM& model) : config_(model.config()) {
    for (const auto& [name, parameter] : model.parameters()) {
      const torch::Tensor wide = parameter.detach().to(torch::kFloat64).contiguous();
      const double* data = wide.data_ptr<double>();
      values_[name] = Vec(data, data + wide.numel());
    }
  }

  /// Logits of every token of one sequence, which starts at `first_position`.
  Mat Logits(const std::vector<int64_t>& tokens, int64_t first_position = 0) const {
    const size_t hidden = static_cast<size_t>(config_.hidden_size);
    Mat h;
    for (int64_t token : tokens) {
      const Vec& table = values_.at("model.embed_tokens.weight");
      h.emplace_back(table.begin() + token * config_.hidden_size,
                     table.begin() + (token + 1) * config_.hidden_size);
    }
    for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
      const std::string prefix = "model.layers." + std::to_string(i) + ".";
      const Mat mixed = Attention(prefix + "self_attn.", Norm(h, prefix + "input_layernorm.weight"),
                                  first_position);
      for (size_t n = 0; n < h.size(); ++n) {
        for (size_t d = 0; d < hidden; ++d) h[n][d] += mixed[n][d];
      }
      const Mat x = Norm(h, prefix + "post_attention_layernorm.weight");
      for (size_t n = 0; n < h.size(); ++n) {
        Vec gate = Linear(prefix + "mlp.gate_proj", x[n]);
        const Vec up = Linear(prefix + "mlp.up_proj", x[n]);
        for (size_t j = 0; j < gate.size(); ++j) gate[j] *= up[j] / (1 + std::exp(-gate[j]));
        const Vec out = Linear(prefix + "mlp.down_proj", gate);
        for (size_t d = 0; d < hidden; ++d) h[n][d] += out[d];
      }
    }
    const Mat last = Norm(h, "model.norm.weight");
    Mat logits;
    for (const Vec& row : last) {
      logits.push_back(Linear(config_.tie_word_embeddings ? "model.embed_tokens" : "lm_head", row));
    }
    return logits;
  }

 private:
  /// weight [out, in] times x, plus the bias if there is one.
  Vec Linear(const std::string& name, const Vec& x) const {
    const Vec& weight = values_.at(name + ".weight");
    const auto bias = values_.find(name + ".bias");
    Vec out(weight.size() / x.size());
    for (size_t o = 0; o < out.size(); ++o) {
      out[o] = bias == values_.end() ? 0.0 : bias->second[o];
      for (size_t i = 0; i < x.size(); ++i) out[o] += weight[o * x.size() + i] * x[i];
    }
    return out;
  }

  Mat Norm(const Mat& x, const std::string& name) const {
    const Vec& weight = values_.at(name);
    Mat out = x;
    for (Vec& row : out) {
      double squares = 0;
      for (double value : row) squares += value * value;
      const double scale =
          1 / std::sqrt(squares / static_cast<double>(row.size()) + config_.rms_norm_eps);
      for (size_t d = 0; d < row.size(); ++d) row[d] *= scale * weight[d];
    }
    return out;
  }

  /// Turns a pair of channels per token by theta^(-2i/d), slowed as the config says.
  double Angle(int64_t pair, double position) const {
    constexpr double kTau = 6.283185307179586;
    const double exponent = 2.0 * static_cast<double>(pair) / static_cast<double>(config_.head_dim);
    double turn = 1 / std::pow(config_.rope.theta, exponent);
    const RopeScaling& s = config_.rope.scaling;
    if (s.type == RopeScaling::Type::kLinear) return position * turn / s.factor;
    if (s.type == RopeScaling::Type::kNone) return position * turn;
    const double context = static_cast<double>(s.original_max_position_embeddings);
    const double turns = context * turn / kTau;  // Full turns within the original context.
    if (turns < s.low_freq_factor) return position * turn / s.factor;
    if (turns > s.high_freq_factor) return position * turn;
    const double keep = (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
    return position * turn * (keep + (1 - keep) / s.factor);
  }

  /// Rotates the head that starts at `at`; channel i is paired with channel i + head_dim / 2.
  void Rotate(Vec& row, size_t at, double position) const {
    const size_t half = static_cast<size_t>(config_.head_dim / 2);
    for (size_t i = 0; i < half; ++i) {
      const double angle = Angle(static_cast<int64_t>(i), position);
      const double a = row[at + i], b = row[at + half + i];
      row[at + i] = a * std::cos(angle) - b * std::sin(angle);
      row[at + half + i] = b * std::cos(angle) + a * std::sin(angle);
    }
  }

  Mat Attention(const std::string& prefix, const Mat& x, int64_t first_position) const {
    const size_t dim = static_cast<size_t>(config_.head_dim);
    const size_t heads = static_cast<size_t>(config_.num_attention_heads);
    const size_t kv_heads = static_cast<size_t>(config_.num_key_value_heads);
    Mat q, k, v, out;
    for (size_t n = 0; n < x.size(); ++n) {
      q.push_back(Linear(prefix + "q_proj", x[n]));
      k.push_back(Linear(prefix + "k_proj", x[n]));
      v.push_back(Linear(prefix + "v_proj", x[n]));
      const double position = static_cast<double>(first_position) + static_cast<double>(n);
      for (size_t head = 0; head < heads; ++head) Rotate(q[n], head * dim, position);
      for (size_t head = 0; head < kv_heads; ++head) Rotate(k[n], head * dim, position);
    }
    for (size_t n = 0; n < x.size(); ++n) {
      Vec mixed(heads * dim, 0.0);
      for (size_t head = 0; head < heads; ++head) {
        const size_t from = head / (heads / kv_heads) * dim;
        Vec weight(n + 1);
        double sum = 0;
        for (size_t m = 0; m <= n; ++m) {
          double dot = 0;
          for (size_t d = 0; d < dim; ++d) dot += q[n][head * dim + d] * k[m][from + d];
          sum += weight[m] = std::exp(dot / std::sqrt(static_cast<double>(dim)));
        }
        for (size_t m = 0; m <= n; ++m) {
          for (size_t d = 0; d < dim; ++d) {
            mixed[head * dim + d] += weight[m] / sum * v[m][from + d];
          }
        }
      }
      out.push_back(Linear(prefix + "o_proj", mixed));
    }
    return out;
  }

  ModelConfig config_;
  std::map<std::string, Vec> values_;
};

}  // namespace baton::engine::testing

#endif  // BATON_TESTS_SUPPORT_ENGINE_PLAIN_MODEL_H_
