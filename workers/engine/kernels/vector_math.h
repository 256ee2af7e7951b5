// Sixteen float lanes and their exponential, for the kernels that libtorch has no single operator
// for. Plain C++ vector extensions: a function compiled for AVX2 or AVX-512 (see BATON_SIMD) uses
// those instructions, one compiled for the baseline the same lanes in smaller registers.
//
// Every lane is independent and reductions have one fixed order, so that a result depends on the
// row alone and never on its place in a batch. (With and without fused multiply-add results differ
// in the last bit: replicas agree bitwise on equal processors, as with any BLAS.)
#ifndef BATON_WORKERS_ENGINE_KERNELS_VECTOR_MATH_H_
#define BATON_WORKERS_ENGINE_KERNELS_VECTOR_MATH_H_

#include <cstdint>
#include <cstring>

#define BATON_ALWAYS_INLINE inline __attribute__((always_inline))

// BATON_SIMD(name, (parameters), (arguments)) defines `name`, which runs the always-inline
// function `name##Body` compiled for the best instruction set of this processor.
#if defined(__x86_64__)
#define BATON_SIMD(name, parameters, arguments)                                                   \
  static __attribute__((                                                                          \
      target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma"))) void name##Avx512 parameters {      \
    name##Body arguments;                                                                         \
  }                                                                                               \
  static __attribute__((target("avx2,fma"))) void name##Avx2 parameters { name##Body arguments; } \
  static void name##Baseline parameters { name##Body arguments; }                                 \
  void name parameters {                                                                          \
    static const auto best = [] {                                                                 \
      __builtin_cpu_init();                                                                       \
      if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&             \
          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("fma"))                    \
        return &name##Avx512;                                                                     \
      if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &name##Avx2;    \
      return &name##Baseline;                                                                     \
    }();                                                                                          \
    best arguments;                                                                               \
  }
#else
#define BATON_SIMD(name, parameters, arguments) \
  void name parameters { name##Body arguments; }
#endif

namespace baton::engine::simd {

inline constexpr int kLanes = 16;
using Floats = float __attribute__((vector_size(4 * kLanes)));
using Ints = int32_t __attribute__((vector_size(4 * kLanes)));

// Vectors travel by reference: passing 64-byte values depends on the instruction set.

BATON_ALWAYS_INLINE void Load(const float* from, Floats& to) { std::memcpy(&to, from, sizeof(to)); }
BATON_ALWAYS_INLINE void Store(const Floats& from, float* to) {
  std::memcpy(to, &from, sizeof(from));
}
BATON_ALWAYS_INLINE void Fill(float value, Floats& to) { to = value - Floats{}; }

/// x := exp(x) for x <= 88; 0 below -87. Relative error under 2e-7. NaN is not kept.
/// Cephes' expf: exp(x) = 2^n exp(r), |r| <= ln(2)/2, a polynomial for exp(r).
BATON_ALWAYS_INLINE void Exp(Floats& x) {
  const Ints in_range = x >= -87.0f;
  x = in_range ? x : Floats{} - 87.0f;
  constexpr float kToNearest = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const Floats n = (x * 1.44269504088896341f + kToNearest) - kToNearest;
  const Floats r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * r) * r + r + 1.0f;
  const Ints exponent = (__builtin_convertvector(n, Ints) + 127) << 23;
  Floats scale;
  std::memcpy(&scale, &exponent, sizeof(scale));
  x = in_range ? p * scale : Floats{};
}

BATON_ALWAYS_INLINE float Max(const Floats& x) {
  float lanes[kLanes];
  Store(x, lanes);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) {
      lanes[i] = lanes[i] > lanes[i + half] ? lanes[i] : lanes[i + half];
    }
  }
  return lanes[0];
}

/// Sum in double precision, lane by lane.
BATON_ALWAYS_INLINE double Sum(const Floats& x) {
  double sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += static_cast<double>(x[i]);
  return sum;
}

}  // namespace baton::engine::simd

#endif  // BATON_WORKERS_ENGINE_KERNELS_VECTOR_MATH_H_
