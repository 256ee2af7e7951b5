// The worker processes of control_plane_bench: they answer every task at once.
#ifndef BATON_BENCH_BENCH_WORKER_H_
#define BATON_BENCH_BENCH_WORKER_H_

#include <string>

namespace baton::bench {

/// On sdk/worker, as a worker of a user's own is. Serves until it is killed; answers an exit code.
int RunSdkWorker(const std::string& address, const std::string& id);
/// On the generated stub, without the SDK: what gRPC itself costs.
int RunBareWorker(const std::string& address, const std::string& id);

}  // namespace baton::bench

#endif  // BATON_BENCH_BENCH_WORKER_H_
