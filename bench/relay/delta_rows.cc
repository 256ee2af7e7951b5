#include "bench/relay/delta_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "relay/delta/delta.h"
#include "relay/weights/safetensors_writer.h"

namespace baton::bench {
namespace {

using Bytes = std::vector<uint8_t>;

/// Weights as AdamW trains them (Loshchilov and Hutter, "Decoupled Weight Decay Regularization").
/// They are kept in float32; a version holds each of them rounded to bfloat16.
class TrainedWeights {
 public:
  explicit TrainedWeights(int64_t values) : steps_(static_cast<size_t>(values)) {
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    weights_.resize(steps_.size());
    // Gradients are mostly noise. The first steps give the second moment its size.
    std::vector<float> first(steps_.size()), second(steps_.size());
    for (float& weight : weights_) weight = 0.02f * normal(random);
    for (int step = 1; step <= kSteps; ++step) {
      for (size_t i = 0; i < steps_.size(); ++i) {
        const float gradient = normal(random);
        first[i] = kBeta1 * first[i] + (1 - kBeta1) * gradient;
        second[i] = kBeta2 * second[i] + (1 - kBeta2) * gradient * gradient;
        const float mean = first[i] / (1 - std::pow(kBeta1, step));
        const float square = second[i] / (1 - std::pow(kBeta2, step));
        steps_[i] = mean / (std::sqrt(square) + 1e-8f);
      }
    }
  }

  uint16_t Before(size_t i) const { return Round(weights_[i]); }
  /// After one more step.
  uint16_t After(size_t i, float lr) const {
    return Round(weights_[i] - lr * (steps_[i] + kDecay * weights_[i]));
  }
  /// The learning rate with which a step changes this share of the values.
  float LearningRate(double share) const {
    float low = 1e-9f, high = 1e-2f;
    for (int i = 0; i < 30; ++i) {
      const float middle = std::sqrt(low * high);
      (Changed(middle) < share ? low : high) = middle;
    }
    return high;
  }
  size_t size() const { return steps_.size(); }

 private:
  static constexpr float kBeta1 = 0.9f, kBeta2 = 0.95f, kDecay = 0.01f;
  static constexpr int kSteps = 5;

  /// To the nearest, ties to even; there is no NaN.
  static uint16_t Round(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  double Changed(float lr) const {
    const size_t looked = std::min<size_t>(size(), 1 << 18);
    size_t changed = 0;
    for (size_t i = 0; i < looked; ++i) changed += Before(i) != After(i, lr) ? 1 : 0;
    return static_cast<double>(changed) / static_cast<double>(looked);
  }

  std::vector<float> weights_, steps_;
};

/// A version of bfloat16 values.
class Versions {
 public:
  explicit Versions(size_t values)
      : layout_(relay::SafetensorsLayout::Create(
                    {{"w", relay::DType::kBF16, {static_cast<int64_t>(values)}}})
                    .value()) {}
  template <typename Value>
  Bytes Make(const Value& value) const {
    Bytes file = Empty();
    uint8_t* data = file.data() + layout_.data_offset();
    const size_t values = (file.size() - static_cast<size_t>(layout_.data_offset())) / 2;
    for (size_t i = 0; i < values; ++i) {
      const uint16_t bits = value(i);
      std::memcpy(data + 2 * i, &bits, 2);
    }
    return file;
  }
  Bytes Empty() const {
    Bytes file(static_cast<size_t>(layout_.file_size()));
    layout_.WriteHeader(absl::MakeSpan(file));
    return file;
  }

 private:
  const relay::SafetensorsLayout layout_;
};

double Over(const Bytes& delta, const Bytes& version) {
  return static_cast<double>(delta.size()) / static_cast<double>(version.size());
}

}  // namespace

void AddDeltaRows(int64_t values, int repeats, Report* report) {
  const TrainedWeights weights(values);
  const Versions versions(weights.size());
  const Bytes base = versions.Make([&](size_t i) { return weights.Before(i); });
  Bytes made = versions.Empty();
  const double memcpy_seconds =
      MedianSeconds(repeats, [&] { std::memcpy(made.data(), base.data(), base.size()); });
  const uint64_t no_limit = 2 * base.size();
  for (const auto& [percent, note] :
       {std::pair(1, ""), std::pair(3, "aim: at most 0.05"), std::pair(10, "")}) {
    const float lr = weights.LearningRate(percent / 100.0);
    const Bytes next = versions.Make([&](size_t i) { return weights.After(i, lr); });
    Bytes delta;
    const double encode =
        MedianSeconds(repeats, [&] { delta = relay::EncodeDelta(base, next, no_limit).value(); });
    made = versions.Empty();
    const double apply = MedianSeconds(repeats, [&] {
      if (!relay::ApplyDelta(base, delta, absl::MakeSpan(made)).ok()) std::abort();
    });
    if (made != next) std::abort();
    const std::string at = absl::StrCat("/", percent, "%");
    report->Add("delta_bytes_over_full" + at, Over(delta, next), "ratio", note);
    report->Add("delta_encode_over_memcpy" + at, encode / memcpy_seconds, "ratio", "");
    report->Add("delta_apply_over_memcpy" + at, apply / memcpy_seconds, "ratio",
                percent == 3 ? "aim: at most 3" : "");
    report->Add("delta_encode_gb_s" + at, static_cast<double>(base.size()) / encode * 1e-9, "GB/s",
                "");
  }
  std::mt19937_64 random(2);
  const Bytes other = versions.Make([&](size_t i) {
    const bool replaced = random() % 100 < 3;
    return replaced ? static_cast<uint16_t>(random()) : weights.Before(i);
  });
  report->Add("delta_bytes_over_full/3%_random",
              Over(relay::EncodeDelta(base, other, no_limit).value(), other), "ratio",
              "values replaced by random ones");
}

}  // namespace baton::bench
