// The most that this machine can do on one thread: the limits that engine_bench compares the
// engine's figures with.
#ifndef BATON_BENCH_ENGINE_ENGINE_LIMITS_H_
#define BATON_BENCH_ENGINE_ENGINE_LIMITS_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace baton::bench {

/// 10^9 floating-point operations a second (a multiplication and an addition are two) of the
/// fastest float32 product of square matrices among a few sizes.
double MatmulGflops(double seconds);

/// As above, for x [rows, in] times weight^T [in, out], one after the other for all `shapes` (out,
/// in): a model's products and nothing else.
double ShapesGflops(int64_t rows, const std::vector<std::pair<int64_t, int64_t>>& shapes,
                    double seconds);

/// 10^9 bytes a second, read and written together, of copying buffers larger than the caches.
double MemcpyGbPerSecond(double seconds);

}  // namespace baton::bench

#endif  // BATON_BENCH_ENGINE_ENGINE_LIMITS_H_
