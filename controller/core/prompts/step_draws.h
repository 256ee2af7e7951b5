// Which prompts a step or an evaluation draws.
//
// Owns the cursor (prompts drawn by finished steps), the draws of the work in progress, how often
// more of them were needed, and which draws no step has made yet.
//
//   draws:  ... | cursor ... next ... end |
//                 made        to be made
//
// The cursor moves only when a step is done. So a step that is begun again, after a restart or a
// rollback, draws the same prompts.
#ifndef BATON_CONTROLLER_CORE_PROMPTS_STEP_DRAWS_H_
#define BATON_CONTROLLER_CORE_PROMPTS_STEP_DRAWS_H_

#include <cstddef>
#include <cstdint>

namespace baton::controller {

class StepDraws {
 public:
  /// A step begins with a first round of `groups` prompts.
  void BeginStep(uint64_t groups) {
    rounds_ = 1;
    redraws_ = 0;
    replaced_ = 0;
    first_ = next_ = upcoming_ = cursor_;
    end_ = next_ + groups;
    of_step_ = true;
  }
  /// An evaluation asks its `prompts` prompts, each once.
  void BeginEvaluation(uint64_t prompts) {
    first_ = next_ = 0;
    end_ = prompts;
    of_step_ = false;
  }
  /// One more round: the batch was too small.
  void AddRound(uint64_t groups) {
    ++rounds_;
    end_ = next_ + groups;
  }
  /// The next prompts replace groups without enough rewards. `lost`: those of the step so far.
  void Replace(size_t lost) {
    ++redraws_;
    end_ = next_ + (lost - replaced_);
    replaced_ = lost;
  }
  /// What is not made yet is not made.
  void Stop() { end_ = next_; }
  /// The step is done.
  void Consume() { cursor_ = next_; }
  /// The job went back to where `cursor` prompts were drawn.
  void RollBack(uint64_t cursor) { cursor_ = upcoming_ = cursor; }

  bool done() const { return next_ >= end_; }
  /// The draw that the work in progress began with, and the one after the last that it needs.
  uint64_t first() const { return first_; }
  uint64_t end() const { return end_; }
  /// The next draw; not done().
  uint64_t next() const { return next_; }
  void Made() {
    ++next_;
    if (of_step_) upcoming_ = next_;
  }

  uint64_t cursor() const { return cursor_; }
  /// The draw after those that steps have made: the first of the next step, as far as is known.
  uint64_t upcoming() const { return upcoming_; }
  uint64_t left() const { return end_ - next_; }
  uint64_t drawn() const { return next_ - cursor_; }  ///< By the step in progress.
  uint32_t rounds() const { return rounds_; }         ///< Batches of prompts.
  uint32_t redraws() const { return redraws_; }       ///< Times that groups were replaced.
  size_t replaced() const { return replaced_; }       ///< Groups that were replaced.

 private:
  uint64_t cursor_ = 0;
  uint64_t first_ = 0;
  uint64_t next_ = 0;
  uint64_t end_ = 0;
  uint64_t upcoming_ = 0;
  bool of_step_ = false;  // the work in progress, or the last one
  uint32_t rounds_ = 0;
  uint32_t redraws_ = 0;
  size_t replaced_ = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_PROMPTS_STEP_DRAWS_H_
