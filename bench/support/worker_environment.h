// The environment of a worker, for benches of what a worker computes.
#ifndef BATON_BENCH_SUPPORT_WORKER_ENVIRONMENT_H_
#define BATON_BENCH_SUPPORT_WORKER_ENVIRONMENT_H_

namespace baton::bench {

/// Starts this program again with the environment of a worker (workers/main/compute_environment.h)
/// and one BLAS thread, unless that has been done. Libraries read their settings before main, so it
/// is the first call of main. An error ends the program.
void RestartAsWorker(char** argv);

}  // namespace baton::bench

#endif  // BATON_BENCH_SUPPORT_WORKER_ENVIRONMENT_H_
