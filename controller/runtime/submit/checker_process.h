// A process of `baton-worker check` on the controller's machine. It reads models and data and finds
// the problems that a job's workers would find.
#ifndef BATON_CONTROLLER_RUNTIME_SUBMIT_CHECKER_PROCESS_H_
#define BATON_CONTROLLER_RUNTIME_SUBMIT_CHECKER_PROCESS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "baton/v1/job_service.pb.h"
#include "baton/v1/job_spec.pb.h"
#include "sdk/common/process/memory_file.h"
#include "sdk/common/process/process_group.h"

namespace baton::controller {

/// A process of `program check`, which answers one request after another
/// (sdk/common/contracts/check_protocol.h). The first Check starts it, and so does the first Check
/// after its end. Used by one thread at a time. The process dies with the thread that started it.
class CheckerProcess {
 public:
  explicit CheckerProcess(std::string program);
  /// Ends the process.
  ~CheckerProcess();
  CheckerProcess(const CheckerProcess&) = delete;
  CheckerProcess& operator=(const CheckerProcess&) = delete;

  struct Request {
    v1::JobSpec spec;  ///< An effective spec with absolute paths.
    /// The folder for filtered data files, and how many bytes they may have together.
    std::string filtered_folder;
    uint64_t filtered_bytes = 0;
  };
  /// Blocks until the answer has arrived, at most for `limit`, or until `stopped` answers true
  /// (asked every 100 ms). The check may use a little more processor time than `limit`, so that a
  /// slow check always ends by `limit`. UNAVAILABLE: the program cannot be started, or the machine
  /// has too little memory, or too few processes or files, to begin. DEADLINE_EXCEEDED: `limit` has
  /// passed. CANCELLED: `stopped` answered true. INTERNAL: the process says why it has no answer,
  /// or it ended, or its answer is malformed or has more than 16 MiB; the message has the last KiB
  /// of its standard error since the request. A process without a complete answer is killed, so
  /// that nothing of it reaches the next Check. If a process has answered earlier checks and ends
  /// before it answers anything to this one, a new process is asked once.
  absl::StatusOr<v1::ValidateJobResponse> Check(const Request& request, absl::Duration limit,
                                                const std::function<bool()>& stopped);

  bool running() const { return process_ != nullptr; }
  /// Ends the process with SIGTERM; after at most a second kills it and its whole group.
  void End();

 private:
  absl::Status Start();
  absl::Status Send(absl::string_view bytes, absl::Time deadline,
                    const std::function<bool()>& stopped);
  absl::Status Receive(char* to, size_t bytes, absl::Time deadline,
                       const std::function<bool()>& stopped);
  absl::StatusOr<v1::ValidateJobResponse> Exchange(const Request& request, absl::Duration limit,
                                                   absl::Time deadline,
                                                   const std::function<bool()>& stopped);
  std::string Said() const;
  absl::Status Ended();

  const std::string program_;
  MemoryFile errors_;                      // its standard error
  std::unique_ptr<ProcessGroup> process_;  // null: none
  int socket_ = -1;                        // its standard input and output
  bool served_ = false;                    // it has answered a request before
  bool silent_ = true;                     // it has sent nothing for the current request
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_SUBMIT_CHECKER_PROCESS_H_
