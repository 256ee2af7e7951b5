// Rollouts with older weights than they could have: do newer ones make their unfinished responses
// again?
//
// Owns what was measured (Refresh), and for which load of each replica it was last asked.
#ifndef BATON_CONTROLLER_CORE_WEIGHTS_OUTDATED_REPLICAS_H_
#define BATON_CONTROLLER_CORE_WEIGHTS_OUTDATED_REPLICAS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "baton/v1/job_spec.pb.h"
#include "controller/core/weights/refresh.h"
#include "controller/spec/schedule.h"

namespace baton::controller {

struct OutdatedReplicas {
  explicit OutdatedReplicas(const v1::JobSpec& effective)
      : refreshes(ScheduleOf(effective).refresh),
        refresh(static_cast<uint32_t>(std::max(0, effective.data().max_response_length()))) {}

  /// The replica of that slot, with so many responses, was not asked yet about that version. It is
  /// asked again when a response ends, or a still newer version comes.
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
