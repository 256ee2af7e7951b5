// Construction of a group's trajectories: new, or as an earlier controller stored them.
//
// Owns whether the responses in progress are counted as a step's, or as those of an evaluation that
// the trainer waits for.
#ifndef BATON_CONTROLLER_CORE_TRAJECTORIES_ADMISSION_H_
#define BATON_CONTROLLER_CORE_TRAJECTORIES_ADMISSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "baton/v1/job_service.pb.h"
#include "controller/core/trajectories/trajectory_table.h"
#include "controller/core/trajectories/work_context.h"

namespace baton::controller {

class Admission {
 public:
  explicit Admission(std::shared_ptr<const v1::Job> submitted) : submitted_(std::move(submitted)) {}

  /// A step begins, or an evaluation, of at least so many responses.
  void BeginWork(bool evaluates, uint64_t responses) {
    evaluates_ = evaluates;
    responses_ = responses;
  }
  /// The trajectories of a prompt index, with uids from `trajectory_uid` on: training responses
  /// with their baseline, responses to an evaluation prompt, or an example of kind sft, which is
  /// READY.
  std::vector<TrajectoryInfo> MakeGroup(v1::Purpose purpose, uint64_t prompt_index, uint64_t prompt,
                                        uint64_t trajectory_uid, const TrajectoryTable& table,
                                        const WorkContext& context) const;

  /// The number that reward.max_error_rate is a share of: all responses of the step or the
  /// evaluation. Not only the begun ones: at first these are few, and one failure would be a large
  /// share.
  uint64_t Judged(const TrajectoryTable& table) const;
  /// "step 3" or "the evaluation of step 2".
  std::string WorkName(const EffectSink& out) const;

 private:
  bool is_rl() const { return submitted_->effective_spec().kind() == v1::JOB_KIND_RL; }
  TrajectoryInfo Make(v1::Purpose purpose, uint64_t prompt_index, uint32_t sample, uint64_t prompt,
                      uint64_t trajectory_uid, const TrajectoryTable& table,
                      const WorkContext& context) const;

  std::shared_ptr<const v1::Job> submitted_;
  bool evaluates_ = false;
  uint64_t responses_ = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORIES_ADMISSION_H_
