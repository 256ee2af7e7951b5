// Which responses the work in progress consists of, when each is made, and under which name.
//
// Owns the draws of the work (StepDraws), the numbers that name its trajectories (BirthNumbers),
// and whether the work is a step or an evaluation.
//
//   Begin --> draws that are not made yet --MakeNext--> the trajectories of a draw: new, or as an
//               ^                                       earlier controller stored them
//               +-- a round or a replacement is added (StepDraws)
//
// Trajectories are made as rollouts take those that wait, so that no turn makes a whole step.
#ifndef BATON_CONTROLLER_CORE_TRAJECTORIES_ADMISSION_H_
#define BATON_CONTROLLER_CORE_TRAJECTORIES_ADMISSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "baton/v1/job_service.pb.h"
#include "controller/core/prompts/birth_numbers.h"
#include "controller/core/prompts/step_draws.h"
#include "controller/core/trajectories/trajectory_table.h"
#include "controller/core/trajectories/work_context.h"

namespace baton::controller {

class Admission {
 public:
  explicit Admission(std::shared_ptr<const v1::Job> submitted) : submitted_(std::move(submitted)) {}

  /// A step begins, or an evaluation.
  void Begin(bool evaluates, const WorkContext& context);
  /// The work ends: what is not made yet is not made.
  void End();
  /// Takes the numbers of all draws so far. Call it before MakeNext, and when draws were added.
  void TakeNumbers(const TrajectoryTable& table, EffectSink& out);
  /// The trajectories of the next draw; draws().done() is false. An example of kind sft is READY.
  std::vector<TrajectoryInfo> MakeNext(const TrajectoryTable& table, const WorkContext& context);
  /// The trajectories of a draw whose numbers begin with `birth`: training responses with their
  /// baseline, or those of a prompt of an evaluation.
  std::vector<TrajectoryInfo> MakeDraw(v1::Purpose purpose, uint64_t draw, uint64_t prompt,
                                       uint64_t birth, const TrajectoryTable& table,
                                       const WorkContext& context) const;

  /// Trajectories of the work that are not made yet.
  uint64_t Left(const TrajectoryTable& table) const { return draws_.left() * PerDraw(table); }
  /// The number that reward.max_error_rate is a share of: all responses of the work. In an async
  /// job it is at least the number of responses in a batch.
  uint64_t Judged(const TrajectoryTable& table) const;
  /// "step 3" or "the evaluation of step 2".
  std::string WorkName(const EffectSink& out) const;

  StepDraws& draws() { return draws_; }
  const StepDraws& draws() const { return draws_; }
  BirthNumbers& births() { return births_; }
  const BirthNumbers& births() const { return births_; }

 private:
  bool is_rl() const { return submitted_->effective_spec().kind() == v1::JOB_KIND_RL; }
  uint64_t PerDraw(const TrajectoryTable& table) const;
  TrajectoryInfo Make(v1::Purpose purpose, uint64_t draw, uint32_t sample, uint64_t prompt,
                      uint64_t birth, const TrajectoryTable& table,
                      const WorkContext& context) const;

  std::shared_ptr<const v1::Job> submitted_;
  StepDraws draws_;
  BirthNumbers births_;
  bool evaluates_ = false;  // the work is an evaluation
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORIES_ADMISSION_H_
