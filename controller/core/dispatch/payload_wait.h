// A job's wait for the experience log: payloads that it has not taken yet fill their budget.
//
// Owns whether they do, since when, and how much that was. Meanwhile the job begins no generation;
// what runs goes on. The runtime looks again at every tick and after every write of the log.
//
//   no wait --they are more than the budget--> waits --they are not any more--> no wait
#ifndef BATON_CONTROLLER_CORE_DISPATCH_PAYLOAD_WAIT_H_
#define BATON_CONTROLLER_CORE_DISPATCH_PAYLOAD_WAIT_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "controller/core/job/events.h"
#include "controller/spec/wait_list.h"

namespace baton::controller {

class PayloadWait {
 public:
  void Heard(const PayloadsWait& event, absl::Time now);
  bool waits() const { return wait_.has_value(); }
  /// `work`: what waits, as a step's or an evaluation's name.
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
