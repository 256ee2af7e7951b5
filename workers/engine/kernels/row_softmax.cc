#include "workers/engine/kernels/row_softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "workers/engine/kernels/vector_math.h"

namespace baton::engine {
namespace {

using simd::Floats;
using simd::kLanes;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Runs `body(lanes, offset)` over the row; the last lanes are filled up with `filler`.
template <typename Body>
BATON_ALWAYS_INLINE void ForRowLanes(const float* row, int64_t n, float filler, Body body) {
  int64_t i = 0;
  Floats x;
  for (; i + kLanes <= n; i += kLanes) {
    simd::Load(row + i, x);
    body(x, i);
  }
  if (i == n) return;
  float tail[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) tail[lane] = i + lane < n ? row[i + lane] : filler;
  simd::Load(tail, x);
  body(x, i);
}

BATON_ALWAYS_INLINE void FindMaximumBody(const float* row, int64_t n, float* maximum, bool* nan) {
  Floats highest;
  simd::Fill(kMinusInfinity, highest);
  simd::Ints unordered{};
  ForRowLanes(
      row, n, kMinusInfinity, [&](const Floats& x, int64_t) __attribute__((always_inline)) {
        highest = x > highest ? x : highest;
        unordered |= x != x;
      });
  *maximum = simd::Max(highest);
  *nan = false;
  for (int lane = 0; lane < kLanes; ++lane) *nan |= unordered[lane] != 0;
}
BATON_SIMD(FindMaximum, (const float* row, int64_t n, float* maximum, bool* nan),
           (row, n, maximum, nan))

// weights[i] = exp((row[i] - maximum) * scale); `weights` has room for whole lanes.
BATON_ALWAYS_INLINE void RowWeightsBody(const float* row, int64_t n, float maximum, float scale,
                                        float* weights) {
  ForRowLanes(
      row, n, kMinusInfinity, [&](Floats x, int64_t offset) __attribute__((always_inline)) {
        x = (x - maximum) * scale;
        simd::Exp(x);
        simd::Store(x, weights + offset);
      });
}
BATON_SIMD(RowWeights, (const float* row, int64_t n, float maximum, float scale, float* weights),
           (row, n, maximum, scale, weights))

}  // namespace

RowMaximum MaximumOf(absl::Span<const float> logits) {
  RowMaximum out;
  FindMaximum(logits.data(), static_cast<int64_t>(logits.size()), &out.value, &out.nan);
  return out;
}

double LogitScale(double temperature) {
  // A tiny temperature may overflow the scale; any finite one this large is already greedy.
  return temperature == 0 ? 1.0 : std::min(1.0 / temperature, 1e30);
}

void SoftmaxWeights(absl::Span<const float> logits, float maximum, double scale,
                    std::vector<float>* weights) {
  const size_t n = logits.size();
  weights->resize((n + kLanes - 1) / kLanes * kLanes);
  RowWeights(logits.data(), static_cast<int64_t>(n), maximum, static_cast<float>(scale),
             weights->data());
  weights->resize(n);
}

double SumWeights(absl::Span<const float> weights, std::vector<double>* block_sums) {
  if (block_sums != nullptr) block_sums->clear();
  double total = 0;
  for (size_t begin = 0; begin < weights.size(); begin += kSummedIds) {
    const size_t end = std::min(weights.size(), begin + kSummedIds);
    double sum = 0;
    for (size_t id = begin; id < end; ++id) sum += weights[id];
    if (block_sums != nullptr) block_sums->push_back(sum);
    total += sum;
  }
  return total;
}

double LogProbOf(float logit, float maximum, double scale, double total) {
  return (static_cast<double>(logit) - maximum) * scale - std::log(total);
}

float LogProb(absl::Span<const float> logits, int64_t token, double temperature,
              std::vector<float>* weights) {
  const RowMaximum maximum = MaximumOf(logits);
  if (maximum.nan || !std::isfinite(maximum.value)) return std::numeric_limits<float>::quiet_NaN();
  const double scale = LogitScale(temperature);
  SoftmaxWeights(logits, maximum.value, scale, weights);
  return static_cast<float>(
      LogProbOf(logits[static_cast<size_t>(token)], maximum.value, scale, SumWeights(*weights)));
}

}  // namespace baton::engine
