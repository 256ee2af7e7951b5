// What a job asks of each prompt: how many responses, whether a greedy one stands beside them, and
// which scores make a response READY. Constant: it follows from the spec and the dataflow.
#ifndef BATON_CONTROLLER_CORE_TRAJECTORIES_RESPONSE_PLAN_H_
#define BATON_CONTROLLER_CORE_TRAJECTORIES_RESPONSE_PLAN_H_

#include <cstdint>
#include <memory>

#include "baton/v1/job_service.pb.h"
#include "controller/core/job/trajectory.h"
#include "controller/spec/score_graph.h"

namespace baton::controller {

class ResponsePlan {
 public:
  /// `submitted` has effective_spec and dataflow.
  explicit ResponsePlan(std::shared_ptr<const v1::Job> submitted);

  const ScoreGraph& graph() const { return graph_; }
  /// Score nodes without which the trajectory is not READY.
  uint64_t Wanted(const TrajectoryInfo& trajectory) const {
    return graph_.Wanted(trajectory.purpose) & ~(trajectory.drawn ? 0 : graph_.at_draw());
  }
  /// Responses to one prompt.
  uint32_t Samples(v1::Purpose purpose) const;
  /// A greedy response to each training prompt stands beside its samples (ReMax).
  bool has_baseline() const { return has_baseline_; }
  /// Trajectories that a draw has: samples, and a baseline.
  uint32_t PerDraw() const { return Samples(v1::PURPOSE_TRAIN) + (has_baseline_ ? 1 : 0); }

 private:
  std::shared_ptr<const v1::Job> submitted_;
  ScoreGraph graph_;
  bool has_baseline_ = false;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORIES_RESPONSE_PLAN_H_
