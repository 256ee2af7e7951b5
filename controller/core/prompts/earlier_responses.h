// The responses whose rows are kept, by trajectory: READY ones, those that a batch consumed, and
// those that were dropped.
//
// A draw may be made again: the job went back to a checkpoint, its group was dropped, or an
// evaluation asks the same prompts. The random numbers of a response follow from its draw and its
// sample, so the earlier response is a good guess at the new one: the controller sends it along as
// Generate.draft_tokens. As far as the weights agree, the response is made at the speed of a
// prefill. No token depends on the guess.
//
// Derived: a restarted controller fills it from the rows that it finds.
#ifndef BATON_CONTROLLER_CORE_PROMPTS_EARLIER_RESPONSES_H_
#define BATON_CONTROLLER_CORE_PROMPTS_EARLIER_RESPONSES_H_

#include <cstdint>
#include <iterator>
#include <map>

#include "controller/core/job/trajectory.h"

namespace baton::controller {

class EarlierResponses {
 public:
  /// The response has a row, and its payload is in the log.
  void Note(const TrajectoryInfo& trajectory) {
    responses_[trajectory.id] = {
        trajectory.serial, trajectory.prompt_id, {trajectory.location, trajectory.tokens}};
  }
  /// Rows below `serial` are not kept any more, nor are the files that held their payloads.
  void Retire(uint64_t serial) {
    for (auto it = responses_.begin(); it != responses_.end();) {
      it = it->second.serial < serial ? responses_.erase(it) : std::next(it);
    }
  }
  /// What was drawn for that draw and sample before; of no tokens: nothing that is kept.
  EarlierResponse Of(const TrajectoryInfo& drawn) const {
    const auto found = responses_.find(drawn.id);
    // The data may have changed while the controller was away.
    const bool same = found != responses_.end() && found->second.prompt_id == drawn.prompt_id &&
                      found->second.response.location.file != 0;
    return same ? found->second.response : EarlierResponse();
  }

 private:
  struct Kept {
    uint64_t serial = 0;
    uint64_t prompt_id = 0;
    EarlierResponse response;
  };
  std::map<uint64_t, Kept> responses_;  // by id
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_PROMPTS_EARLIER_RESPONSES_H_
