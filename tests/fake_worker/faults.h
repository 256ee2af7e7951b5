// The planned faults of a fake worker.
#ifndef BATON_TESTS_FAKE_WORKER_FAULTS_H_
#define BATON_TESTS_FAKE_WORKER_FAULTS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace baton::fake {

struct Fault {
  enum class Kind {
    kNone,
    kFail,   ///< The task ends with INTERNAL.
    kHang,   ///< The task never ends, unless it is cancelled.
    kCrash,  ///< The worker is gone, without a word.
  };
  Kind kind = Kind::kFail;
  std::string method;  ///< E.g. "generate".
  int nth = 1;         ///< Ordinal of the method's task on this worker, from 1.
};

/// "generate:3". INVALID_ARGUMENT for anything else.
absl::StatusOr<Fault> ParseFault(Fault::Kind kind, absl::string_view text);

/// Counts tasks per method and says which of them go wrong. Thread-safe.
class FaultPlan {
 public:
  explicit FaultPlan(std::vector<Fault> faults) : faults_(std::move(faults)) {}
  Fault::Kind Count(const std::string& method);
  int count(const std::string& method) const;

 private:
  const std::vector<Fault> faults_;
  mutable absl::Mutex mu_;
  std::map<std::string, int> counts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::fake

#endif  // BATON_TESTS_FAKE_WORKER_FAULTS_H_
