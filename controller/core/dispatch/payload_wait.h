// A job's wait for the experience log: payloads that the log has not taken yet fill their budget.
//
// Owns whether the job waits, since when, and the bytes that were waiting. Meanwhile the job begins
// no generation; running ones go on. The runtime checks again at every tick and after every write
// of the log.
//
//   no wait --more bytes than the budget--> waits --no more than the budget--> no wait
#ifndef BATON_CONTROLLER_CORE_DISPATCH_PAYLOAD_WAIT_H_
#define BATON_CONTROLLER_CORE_DISPATCH_PAYLOAD_WAIT_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "controller/core/job/events.h"
#include "controller/core/job/wait_list.h"

namespace baton::controller {

class PayloadWait {
 public:
  void Heard(const PayloadsWait& event, absl::Time now);
  bool waits() const { return wait_.has_value(); }
  /// `work`: the name of the step or the evaluation that waits.
  void Explain(const std::string& work, WaitList& waits) const;

 private:
  struct Wait {
    PayloadsWait event;
    absl::Time since;
  };
  std::optional<Wait> wait_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_DISPATCH_PAYLOAD_WAIT_H_
