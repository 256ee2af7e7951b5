// Verdicts on replays (GetReplay), made by reading and comparing the files of both checkpoints.
#ifndef BATON_CONTROLLER_RUNTIME_CONTROLLER_REPLAY_VERDICTS_H_
#define BATON_CONTROLLER_RUNTIME_CONTROLLER_REPLAY_VERDICTS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "baton/v1/replay_service.pb.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/calls/data_readers.h"
#include "controller/runtime/calls/gate.h"
#include "controller/runtime/job/job_runtime.h"

namespace baton::controller {

/// Reads on the threads that read data, once for all calls that ask meanwhile. Thread-safe.
class ReplayVerdicts {
 public:
  /// `readers` and `gate` outlive it; no verdict is begun after the gate is closed.
  ReplayVerdicts(std::string data_root, DataReaders* readers, const Gate* gate)
      : data_root_(std::move(data_root)), readers_(readers), gate_(gate) {}

  /// FAILED_PRECONDITION (NOT_A_REPLAY).
  void Ask(const std::shared_ptr<JobRuntime>& job, Callback<v1::Replay> done);

 private:
  absl::StatusOr<v1::Replay> Judge(const JobRuntime& job);

  const std::string data_root_;
  DataReaders* const readers_;
  const Gate* const gate_;
  absl::Mutex mu_;
  // By job: calls whose files are being read, and verdicts with the state of the files that were
  // read.
  std::map<std::string, std::vector<Callback<v1::Replay>>> judging_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::pair<std::string, v1::Replay>> judged_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CONTROLLER_REPLAY_VERDICTS_H_
