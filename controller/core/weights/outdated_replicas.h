// Decision, for rollouts with outdated weights, whether newer weights make their unfinished
// responses again.
//
// Owns the measurements (Refresh), and the load of each replica at the last decision.
#ifndef BATON_CONTROLLER_CORE_WEIGHTS_OUTDATED_REPLICAS_H_
#define BATON_CONTROLLER_CORE_WEIGHTS_OUTDATED_REPLICAS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "baton/v1/job_spec.pb.h"
#include "controller/core/weights/refresh.h"
#include "controller/spec/settings/schedule.h"

namespace baton::controller {

struct OutdatedReplicas {
  explicit OutdatedReplicas(const v1::JobSpec& effective)
      : refreshes(ScheduleOf(effective).refresh),
        refresh(static_cast<uint32_t>(std::max(0, effective.data().max_response_length()))) {}

  /// True if no decision was made yet for the replica of that slot with that version and that many
  /// responses. It is made again when a response ends, or a still newer version comes.
  bool Asks(uint64_t slot, uint64_t version, int responses) {
    const std::pair<uint64_t, int> now(version, responses);
    return std::exchange(asked_[slot], now) != now;
  }

  const bool refreshes;  ///< spec.schedule.refresh
  Refresh refresh;

 private:
  std::map<uint64_t, std::pair<uint64_t, int>> asked_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_WEIGHTS_OUTDATED_REPLICAS_H_
