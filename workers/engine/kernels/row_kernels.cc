#include "workers/engine/kernels/row_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "workers/engine/kernels/vector_math.h"

namespace baton::engine::kernels {
namespace {

using simd::Floats;
using simd::kLanes;

/// Sum of f(i) over 0 <= i < dim in kLanes partial sums: one order for every row.
template <typename T, typename F>
BATON_ALWAYS_INLINE T LaneSum(int64_t dim, const F& f) {
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += f(i + lane);
  }
  for (int lane = 0; i < dim; ++i, ++lane) lanes[lane] += f(i);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

template <typename T>
BATON_ALWAYS_INLINE void RmsNormOf(const T* __restrict x, const T* __restrict weight,
                                   T* __restrict y, T* __restrict scale, int64_t rows, int64_t dim,
                                   double eps) {
  for (int64_t n = 0; n < rows; ++n, x += dim, y += dim) {
    const T squares = LaneSum<T>(dim, [x](int64_t i) { return x[i] * x[i]; });
    const T s = static_cast<T>(1.0 / std::sqrt(static_cast<double>(squares) / dim + eps));
    scale[n] = s;
    for (int64_t i = 0; i < dim; ++i) y[i] = x[i] * s * weight[i];
  }
}

template <typename T>
BATON_ALWAYS_INLINE void RmsNormBackwardOf(const T* __restrict dy, const T* __restrict x,
                                           const T* __restrict weight, const T* __restrict scale,
                                           T* __restrict dx, T* __restrict dweight, int64_t rows,
                                           int64_t dim) {
  for (int64_t n = 0; n < rows; ++n, x += dim, dy += dim, dx += dim) {
    const T s = scale[n];
    const T dot = LaneSum<T>(dim, [=](int64_t i) { return dy[i] * weight[i] * x[i]; });
    const T shrink = dot / static_cast<T>(dim) * s * s * s;
    for (int64_t i = 0; i < dim; ++i) {
      dx[i] = s * dy[i] * weight[i] - x[i] * shrink;
      dweight[i] += dy[i] * x[i] * s;
    }
  }
}

/// One head; `sign` is -1 to rotate back.
template <typename T>
BATON_ALWAYS_INLINE void RotateHead(const T* from, T* to, const T* cos, const T* sin, int64_t half,
                                    T sign) {
  constexpr int kChunk = 8;
  T a[kChunk], b[kChunk];  // Copies, since `from` may be `to`.
  int64_t i = 0;
  for (; i + kChunk <= half; i += kChunk) {
    std::memcpy(a, from + i, sizeof(a));
    std::memcpy(b, from + half + i, sizeof(b));
    for (int j = 0; j < kChunk; ++j) {
      to[i + j] = a[j] * cos[i + j] - b[j] * (sign * sin[i + j]);
    }
    for (int j = 0; j < kChunk; ++j) {
      to[half + i + j] = b[j] * cos[i + j] + a[j] * (sign * sin[i + j]);
    }
  }
  for (; i < half; ++i) {
    const T first = from[i], second = from[half + i];
    to[i] = first * cos[i] - second * (sign * sin[i]);
    to[half + i] = second * cos[i] + first * (sign * sin[i]);
  }
}

template <typename T>
BATON_ALWAYS_INLINE void RotateOf(const T* from, T* to, const T* table, const int64_t* positions,
                                  const HeadLayout& layout, bool inverse) {
  const int64_t dim = layout.head_dim, half = layout.rotary_dim / 2;
  const T sign = inverse ? T{-1} : T{1};
  for (int64_t n = 0; n < layout.rows; ++n) {
    const T* cos = table + positions[n] * layout.rotary_dim;
    for (int64_t h = 0; h < layout.heads; ++h) {
      const T* head = from + n * layout.from_stride + h * dim;
      T* rotated = to + n * layout.to_stride + h * dim;
      RotateHead(head, rotated, cos, cos + half, half, sign);
      if (from != to) std::copy(head + layout.rotary_dim, head + dim, rotated + layout.rotary_dim);
    }
  }
}

BATON_ALWAYS_INLINE void Sigmoid(const Floats& gate, Floats& out) {
  const simd::Ints in_range = gate >= -87.0f;
  Floats x = in_range ? -gate : Floats{} + 87.0f;
  simd::Exp(x);
  out = 1.0f / (1.0f + x);
}

/// GELU with tanh is g sigmoid(a(g)) with a(g) = g (kSlope + kCube g^2), since
/// (1 + tanh(x)) / 2 = sigmoid(2x).
constexpr double kSlope = 1.5957691216057308;  // 2 sqrt(2 / pi)
constexpr double kCube = kSlope * 0.044715;

/// sigmoid(a(g)), and the derivative of a at g.
template <Gate kind>
BATON_ALWAYS_INLINE void GateOf(const Floats& g, Floats& sigmoid, Floats& derivative) {
  if constexpr (kind == Gate::kSilu) {
    Sigmoid(g, sigmoid);
    derivative = Floats{} + 1.0f;
  } else {
    constexpr auto slope = static_cast<float>(kSlope), cube = static_cast<float>(kCube);
    Sigmoid(g * (slope + cube * g * g), sigmoid);
    derivative = slope + 3.0f * cube * g * g;
  }
}

template <Gate kind>
void GateOf(double g, double& sigmoid, double& derivative) {
  const bool silu = kind == Gate::kSilu;
  sigmoid = 1.0 / (1.0 + std::exp(-(silu ? g : g * (kSlope + kCube * g * g))));
  derivative = silu ? 1.0 : kSlope + 3.0 * kCube * g * g;
}

/// Runs f(offset, count) over [0, width) in steps of kLanes; only the last count is smaller.
template <typename F>
BATON_ALWAYS_INLINE void ForLanes(int64_t width, const F& f) {
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) f(i, int64_t{kLanes});
  if (i < width) f(i, width - i);
}

BATON_ALWAYS_INLINE void LoadSome(const float* from, int64_t count, Floats& to) {
  if (count == kLanes) {
    simd::Load(from, to);
  } else {
    to = Floats{};
    std::memcpy(&to, from, static_cast<size_t>(count) * sizeof(float));
  }
}

BATON_ALWAYS_INLINE void StoreSome(const Floats& from, int64_t count, float* to) {
  if (count == kLanes) {
    simd::Store(from, to);
  } else {
    std::memcpy(to, &from, static_cast<size_t>(count) * sizeof(float));
  }
}

template <Gate kind>
BATON_ALWAYS_INLINE void GatedUnitOf(const float* gate_up, float* y, int64_t rows, int64_t width) {
  for (int64_t n = 0; n < rows; ++n, gate_up += 2 * width, y += width) {
    ForLanes(width, [&](int64_t i, int64_t count) {
      Floats gate, up, sigmoid, derivative;
      LoadSome(gate_up + i, count, gate);
      LoadSome(gate_up + width + i, count, up);
      GateOf<kind>(gate, sigmoid, derivative);
      StoreSome(gate * sigmoid * up, count, y + i);
    });
  }
}

/// d f(g) = sigmoid + g sigmoid (1 - sigmoid) a'(g).
template <Gate kind>
BATON_ALWAYS_INLINE void GatedUnitBackwardOf(const float* dy, const float* gate_up, float* dgate_up,
                                             int64_t rows, int64_t width) {
  for (int64_t n = 0; n < rows; ++n, dy += width, gate_up += 2 * width, dgate_up += 2 * width) {
    ForLanes(width, [&](int64_t i, int64_t count) {
      Floats gate, up, sigmoid, derivative, grad;
      LoadSome(gate_up + i, count, gate);
      LoadSome(gate_up + width + i, count, up);
      LoadSome(dy + i, count, grad);
      GateOf<kind>(gate, sigmoid, derivative);
      StoreSome(grad * up * sigmoid * (1.0f + gate * derivative * (1.0f - sigmoid)), count,
                dgate_up + i);
      StoreSome(grad * gate * sigmoid, count, dgate_up + width + i);
    });
  }
}

template <Gate kind>
void GatedUnitOf(const double* gate_up, double* y, int64_t rows, int64_t width) {
  for (int64_t n = 0; n < rows; ++n, gate_up += 2 * width, y += width) {
    for (int64_t i = 0; i < width; ++i) {
      double sigmoid, derivative;
      GateOf<kind>(gate_up[i], sigmoid, derivative);
      y[i] = gate_up[i] * sigmoid * gate_up[width + i];
    }
  }
}

template <Gate kind>
void GatedUnitBackwardOf(const double* dy, const double* gate_up, double* dgate_up, int64_t rows,
                         int64_t width) {
  for (int64_t n = 0; n < rows; ++n, dy += width, gate_up += 2 * width, dgate_up += 2 * width) {
    for (int64_t i = 0; i < width; ++i) {
      const double gate = gate_up[i], up = gate_up[width + i];
      double sigmoid, derivative;
      GateOf<kind>(gate, sigmoid, derivative);
      dgate_up[i] = dy[i] * up * sigmoid * (1.0 + gate * derivative * (1.0 - sigmoid));
      dgate_up[width + i] = dy[i] * gate * sigmoid;
    }
  }
}

BATON_ALWAYS_INLINE void SwiGluFloatBody(const float* gate_up, float* y, int64_t rows,
                                         int64_t width) {
  GatedUnitOf<Gate::kSilu>(gate_up, y, rows, width);
}
BATON_ALWAYS_INLINE void GeGluFloatBody(const float* gate_up, float* y, int64_t rows,
                                        int64_t width) {
  GatedUnitOf<Gate::kGeluTanh>(gate_up, y, rows, width);
}
BATON_ALWAYS_INLINE void SwiGluBackwardFloatBody(const float* dy, const float* gate_up,
                                                 float* dgate_up, int64_t rows, int64_t width) {
  GatedUnitBackwardOf<Gate::kSilu>(dy, gate_up, dgate_up, rows, width);
}
BATON_ALWAYS_INLINE void GeGluBackwardFloatBody(const float* dy, const float* gate_up,
                                                float* dgate_up, int64_t rows, int64_t width) {
  GatedUnitBackwardOf<Gate::kGeluTanh>(dy, gate_up, dgate_up, rows, width);
}

BATON_ALWAYS_INLINE void RmsNormFloatBody(const float* x, const float* weight, float* y,
                                          float* scale, int64_t rows, int64_t dim, double eps) {
  RmsNormOf(x, weight, y, scale, rows, dim, eps);
}
BATON_ALWAYS_INLINE void RmsNormBackwardFloatBody(const float* dy, const float* x,
                                                  const float* weight, const float* scale,
                                                  float* dx, float* dweight, int64_t rows,
                                                  int64_t dim) {
  RmsNormBackwardOf(dy, x, weight, scale, dx, dweight, rows, dim);
}
BATON_ALWAYS_INLINE void RotateFloatBody(const float* from, float* to, const float* table,
                                         const int64_t* positions, const HeadLayout& layout,
                                         bool inverse) {
  RotateOf(from, to, table, positions, layout, inverse);
}

// clang-format off
BATON_SIMD(RmsNormFloat,
           (const float* x, const float* weight, float* y, float* scale, int64_t rows, int64_t dim,
            double eps),
           (x, weight, y, scale, rows, dim, eps))
BATON_SIMD(RmsNormBackwardFloat,
           (const float* dy, const float* x, const float* weight, const float* scale, float* dx,
            float* dweight, int64_t rows, int64_t dim),
           (dy, x, weight, scale, dx, dweight, rows, dim))
BATON_SIMD(RotateFloat,
           (const float* from, float* to, const float* table, const int64_t* positions,
            const HeadLayout& layout, bool inverse),
           (from, to, table, positions, layout, inverse))
BATON_SIMD(SwiGluFloat, (const float* gate_up, float* y, int64_t rows, int64_t width),
           (gate_up, y, rows, width))
BATON_SIMD(SwiGluBackwardFloat,
           (const float* dy, const float* gate_up, float* dgate_up, int64_t rows, int64_t width),
           (dy, gate_up, dgate_up, rows, width))
BATON_SIMD(GeGluFloat, (const float* gate_up, float* y, int64_t rows, int64_t width),
           (gate_up, y, rows, width))
BATON_SIMD(GeGluBackwardFloat,
           (const float* dy, const float* gate_up, float* dgate_up, int64_t rows, int64_t width),
           (dy, gate_up, dgate_up, rows, width))
// clang-format on

}  // namespace

void RmsNorm(const float* x, const float* weight, float* y, float* scale, int64_t rows, int64_t dim,
             double eps) {
  RmsNormFloat(x, weight, y, scale, rows, dim, eps);
}
void RmsNorm(const double* x, const double* weight, double* y, double* scale, int64_t rows,
             int64_t dim, double eps) {
  RmsNormOf(x, weight, y, scale, rows, dim, eps);
}

void RmsNormBackward(const float* dy, const float* x, const float* weight, const float* scale,
                     float* dx, float* dweight, int64_t rows, int64_t dim) {
  RmsNormBackwardFloat(dy, x, weight, scale, dx, dweight, rows, dim);
}
void RmsNormBackward(const double* dy, const double* x, const double* weight, const double* scale,
                     double* dx, double* dweight, int64_t rows, int64_t dim) {
  RmsNormBackwardOf(dy, x, weight, scale, dx, dweight, rows, dim);
}

void Rotate(const float* from, float* to, const float* table, const int64_t* positions,
            const HeadLayout& layout, bool inverse) {
  RotateFloat(from, to, table, positions, layout, inverse);
}
void Rotate(const double* from, double* to, const double* table, const int64_t* positions,
            const HeadLayout& layout, bool inverse) {
  RotateOf(from, to, table, positions, layout, inverse);
}

void GatedUnit(const float* gate_up, float* y, int64_t rows, int64_t width, Gate kind) {
  (kind == Gate::kSilu ? SwiGluFloat : GeGluFloat)(gate_up, y, rows, width);
}
void GatedUnit(const double* gate_up, double* y, int64_t rows, int64_t width, Gate kind) {
  if (kind == Gate::kSilu) return GatedUnitOf<Gate::kSilu>(gate_up, y, rows, width);
  GatedUnitOf<Gate::kGeluTanh>(gate_up, y, rows, width);
}

void GatedUnitBackward(const float* dy, const float* gate_up, float* dgate_up, int64_t rows,
                       int64_t width, Gate kind) {
  (kind == Gate::kSilu ? SwiGluBackwardFloat : GeGluBackwardFloat)(dy, gate_up, dgate_up, rows,
                                                                   width);
}
void GatedUnitBackward(const double* dy, const double* gate_up, double* dgate_up, int64_t rows,
                       int64_t width, Gate kind) {
  if (kind == Gate::kSilu) {
    return GatedUnitBackwardOf<Gate::kSilu>(dy, gate_up, dgate_up, rows, width);
  }
  GatedUnitBackwardOf<Gate::kGeluTanh>(dy, gate_up, dgate_up, rows, width);
}

}  // namespace baton::engine::kernels
