// What publishing and loading a version cost on one host, beside a copy in memory.
#ifndef BATON_BENCH_RELAY_LOCAL_ROWS_H_
#define BATON_BENCH_RELAY_LOCAL_ROWS_H_

#include <cstdint>

#include "bench/support/report.h"

namespace baton::bench {

/// Versions of `bytes` in tensors of at most 64 MiB. Times are medians of `repeats`.
void AddLocalRows(int64_t bytes, int repeats, Report* report);

}  // namespace baton::bench

#endif  // BATON_BENCH_RELAY_LOCAL_ROWS_H_
