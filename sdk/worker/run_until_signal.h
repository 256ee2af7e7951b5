// main() of a worker program.
#ifndef BATON_SDK_WORKER_RUN_UNTIL_SIGNAL_H_
#define BATON_SDK_WORKER_RUN_UNTIL_SIGNAL_H_

#include "absl/status/status.h"
#include "sdk/worker/worker.h"

namespace baton {

/// Runs Worker::Run until SIGINT or SIGTERM stops it. Call it once, from main(); a second signal
/// ends the process at once. SIGHUP reopens the log file (ReopensOnHangup).
absl::Status RunUntilSignal(Worker& worker);

}  // namespace baton

#endif  // BATON_SDK_WORKER_RUN_UNTIL_SIGNAL_H_
