// What a version costs as a delta of the one before: bytes, and time beside a copy in memory.
#ifndef BATON_BENCH_RELAY_DELTA_ROWS_H_
#define BATON_BENCH_RELAY_DELTA_ROWS_H_

#include <cstdint>

#include "bench/support/report.h"

namespace baton::bench {

/// Rows of versions of `values` weights in bfloat16. Times are medians of `repeats`.
void AddDeltaRows(int64_t values, int repeats, Report* report);

}  // namespace baton::bench

#endif  // BATON_BENCH_RELAY_DELTA_ROWS_H_
