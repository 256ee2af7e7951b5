// The cost of generating by slices.
#ifndef BATON_BENCH_ENGINE_HYBRID_GENERATION_H_
#define BATON_BENCH_ENGINE_HYBRID_GENERATION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "bench/support/report.h"
#include "sdk/common/schema/model_config.h"

namespace baton::bench {

/// Decoding by one process with one compute thread, of the model in one piece and put together of
/// 2, 4 and 8 slices: rows generation/hidden_H/slices_S/tokens_per_second and, beyond 1,
/// over_whole, the medians of `repeats` in which they take turns. `tokens`: of each of 16
/// sequences.
absl::Status MeasureGeneration(const ModelConfig& config, int64_t tokens, int repeats,
                               Report& report);

}  // namespace baton::bench

#endif  // BATON_BENCH_ENGINE_HYBRID_GENERATION_H_
